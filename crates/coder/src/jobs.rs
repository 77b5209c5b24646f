//! What goes on beside the turns of a session: commands that run on, and work that starts by itself later.
//!
//! In current v2 a command in the background is a terminal. It is on the list that goes with every state while it runs, and
//! its output and its end are told when they come, also between turns. The older dialects have no words for that; there
//! only the model hears of it, by `output`.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::agent::SessionHandle;
use tieline::schema::{Background, Terminal, TerminalOutputChunk, TerminalUpdate, to_base64};
use tieline::{Dialect, Patch, Update};
use tieline_host::run::{View, exit_status};
use tieline_rpc::sync::Lock;
use tokio::task::JoinSet;

/// So often the client is told what is new.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(100);
/// So long the last words of commands that were stopped are waited for.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);
/// So much may wait to start by itself.
const MAX_LATER: usize = 16;

/// What goes on beside the turns.
pub struct Jobs {
    session: SessionHandle,
    /// The terminals of the commands that run. Held while the client is told, so that it hears the lists in order.
    running: tokio::sync::Mutex<Vec<String>>,
    watchers: Mutex<JoinSet<()>>,
    later: Mutex<JoinSet<()>>,
}

impl Jobs {
    /// Nothing yet; the client is told so with every state.
    pub async fn new(session: SessionHandle) -> Arc<Self> {
        let _ = session.background(Vec::new()).await;
        let (watchers, later) = (Mutex::default(), Mutex::default());
        Arc::new(Self { session, running: tokio::sync::Mutex::default(), watchers, later })
    }

    /// Puts a command on the list, and shows it until its end. Its terminal was announced before.
    pub async fn add(self: &Arc<Self>, terminal_id: String, command: View) {
        self.list(|running| running.push(terminal_id.clone())).await;
        let jobs = Arc::clone(self);
        let mut watchers = self.watchers.locked();
        while watchers.try_join_next().is_some() {}
        watchers.spawn(async move { jobs.watch(terminal_id, command).await });
    }

    async fn list(&self, change: impl FnOnce(&mut Vec<String>)) {
        let mut running = self.running.lock().await;
        change(&mut running);
        let item = |id: &String| Background::Terminal(Terminal { terminal_id: id.clone(), ..Default::default() });
        // A session that is closed needs no list.
        let _ = self.session.background(running.iter().map(item).collect()).await;
    }

    async fn watch(&self, terminal_id: String, command: View) {
        let mut seen = 0;
        while let Some(news) = command.more(seen).await {
            seen = news.next;
            let data = to_base64(news.text.as_bytes());
            let chunk = TerminalOutputChunk { terminal_id: terminal_id.clone(), data, ..Default::default() };
            self.tell(Update::TerminalOutput(chunk)).await;
            tokio::time::sleep(OUTPUT_INTERVAL).await;
        }
        let exit_status = Patch::Set(exit_status(command.outcome().await.end));
        let end = TerminalUpdate { terminal_id: terminal_id.clone(), exit_status, ..TerminalUpdate::default() };
        self.tell(Update::Terminal(Box::new(end))).await;
        self.list(|running| running.retain(|id| *id != terminal_id)).await;
    }

    async fn tell(&self, update: Update) {
        if let Err(error) = self.session.update(update).await {
            tracing::debug!(%error, "the output of a command in the background could not be told");
        }
    }

    /// Starts work by itself, a while from now. Says why it can't.
    pub fn later(&self, after: Duration, prompt: String) -> Result<(), &'static str> {
        if self.session.dialect() != Dialect::V2 {
            return Err("This client can't be told of work that it did not ask for.");
        }
        let mut later = self.later.locked();
        while later.try_join_next().is_some() {}
        if later.len() >= MAX_LATER {
            return Err("Too much waits to start by itself already.");
        }
        let session = self.session.clone();
        later.spawn(async move {
            tokio::time::sleep(after).await;
            if let Err(error) = session.start(vec![prompt.into()]) {
                tracing::debug!(%error, "work could not start by itself");
            }
        });
        Ok(())
    }

    /// The session is over: nothing starts any more, and the ends of commands that were stopped are told.
    pub async fn finish(&self) {
        self.later.locked().abort_all();
        let mut watchers = std::mem::take(&mut *self.watchers.locked());
        let all = async { while watchers.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_WORDS_TIMEOUT, all).await;
    }
}
