//! What the parts of one connection tell each other: that it is over, that an answer was lost, how far a call is.

use super::pages::Pages;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

/// How far a call is, as the server says; nothing before it did.
pub type Progress = Option<ProgressNotificationParam>;

/// As many messages as may wait to be taken by a server before nothing more is read from it.
const MAX_SENDING: usize = 64;

/// The state of one connection.
#[derive(Debug)]
pub struct Link {
    over: watch::Sender<Option<String>>,
    lost: watch::Sender<u64>,
    /// The calls under way.
    calls: watch::Sender<HashMap<ProgressToken, watch::Sender<Progress>>>,
    /// The server has other tools now.
    pub changed: Notify,
    /// The pages that the user was sent to.
    pub pages: Pages,
    sending: Arc<Semaphore>,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            over: watch::Sender::default(),
            lost: watch::Sender::default(),
            calls: watch::Sender::default(),
            changed: Notify::default(),
            pages: Pages::default(),
            sending: Arc::new(Semaphore::new(MAX_SENDING)),
        }
    }
}

impl Link {
    /// A place among the messages that wait to be taken; given back when it is dropped.
    pub fn place(&self) -> impl Future<Output = Option<OwnedSemaphorePermit>> + Send + 'static {
        let sending = Arc::clone(&self.sending);
        async move { sending.acquire_owned().await.ok() }
    }

    /// Waits until few enough messages wait. A server that asks and asks but takes no answers is not read from.
    pub async fn room(&self) {
        let _ = self.sending.acquire().await;
    }

    /// The server is gone, and this is why. The first reason counts.
    pub fn end(&self, why: impl Into<String>) {
        self.over.send_if_modified(|over| {
            let first = over.is_none();
            if first {
                *over = Some(why.into());
            }
            first
        });
    }

    /// Waits until the server is gone, and says why.
    pub async fn ended(&self) -> String {
        let mut over = self.over.subscribe();
        over.wait_for(Option::is_some).await.ok().and_then(|why| why.clone()).unwrap_or_default()
    }

    /// Something came that could not be read, or was too long: perhaps an answer that somebody waits for.
    pub fn lose(&self) {
        self.lost.send_modify(|count| *count += 1);
    }

    /// Sees what is lost from now on.
    pub fn losses(&self) -> watch::Receiver<u64> {
        self.lost.subscribe()
    }

    /// A call began; how far it is comes from the receiver.
    pub fn begin(&self, token: ProgressToken) -> watch::Receiver<Progress> {
        let (sender, receiver) = watch::channel(None);
        self.calls.send_modify(|calls| drop(calls.insert(token, sender)));
        receiver
    }

    /// A call ended.
    pub fn finish(&self, token: &ProgressToken) {
        self.calls.send_modify(|calls| drop(calls.remove(token)));
    }

    /// Whether a call is under way.
    pub fn is_busy(&self) -> bool {
        !self.calls.borrow().is_empty()
    }

    /// Waits until no call is under way.
    pub async fn idle(&self) {
        let _ = self.calls.subscribe().wait_for(HashMap::is_empty).await;
    }

    /// The server says how far a call is.
    pub fn advance(&self, progress: ProgressNotificationParam) {
        if let Some(sender) = self.calls.borrow().get(&progress.progress_token) {
            sender.send_replace(Some(progress));
        }
    }
}
