//! One session of a bridge: the client's prompts, put to the agent.

use super::line::{Reading, has_other};
use super::{either, loss, noted, told};
use crate::agent::{Opened, Session, Turn};
use crate::error::Result;
use crate::{client, meta};
use std::sync::Arc;
use std::time::Duration;
use tieline_schema::{ConfigOption, ConfigValue, ContentBlock, Dialect, StopReason};
use tokio::time::{sleep, timeout};

/// What a cancelled turn gets to end, once the client is gone.
const GRACE_FOR_NOBODY: Duration = Duration::from_secs(1);
/// A cancel that shows nothing is said again.
const CANCEL_AGAIN: Duration = Duration::from_secs(1);

/// A session of the agent, as the client's.
pub(super) struct Conversation {
    reading: Reading,
    theirs: client::Session,
}

impl Conversation {
    pub(super) fn begin(reading: Reading, theirs: client::Session) -> Result<Opened<Self>> {
        let line = &reading.line;
        line.swallow(false);
        let (options, commands, meta) = (theirs.options(), theirs.commands(), theirs.meta().cloned());
        if line.session.dialect() == Dialect::V1 && has_other(&options) {
            line.shared.lose(loss::OPTION)?;
        }
        Ok(Opened { session: Arc::new(Self { reading, theirs }), options, commands, meta, more: None })
    }

    /// The agent's session, with the `_meta` of what is handled.
    fn theirs(&self) -> client::Session {
        meta::received().map_or_else(|| self.theirs.share(), |meta| self.theirs.with_meta(meta))
    }

    /// Puts a prompt to the agent and waits for its end. The line passes on what comes meanwhile, and has passed it on by then.
    async fn ask(&self, turn: &Turn, prompt: Vec<ContentBlock>, stop: &tieline_rpc::Cancel) -> Result<StopReason> {
        let asked = self.theirs().prompt(prompt).await?;
        tokio::select! {
            biased;
            () = asked.ended() => {}
            () = either(turn.cancelled(), stop.cancelled()) => {
                let theirs = turn.cancel_meta().map_or_else(|| self.theirs.share(), |meta| self.theirs.with_meta(meta));
                tokio::select! {
                    done = cancel(&theirs, &asked) => done?,
                    () = patience(turn, self.reading.line.shared.settings.cancel_grace) => return Ok(StopReason::Cancelled),
                }
            }
        }
        asked.meta().into_iter().for_each(meta::answer);
        asked.stop()
    }
}

/// As long as the end of a cancelled turn is waited for: much shorter if nobody will hear of it.
async fn patience(turn: &Turn, grace: Duration) {
    let nobody = async {
        turn.client().closed().await;
        sleep(GRACE_FOR_NOBODY).await;
    };
    either(sleep(grace), nobody).await;
}

/// Cancels a turn. Again and again, until it ends: an agent on the official TypeScript SDK does not hear a cancel that comes right
/// behind the prompt.
async fn cancel(theirs: &client::Session, asked: &client::Turn) -> Result<()> {
    loop {
        theirs.cancel().await?;
        if timeout(CANCEL_AGAIN, asked.ended()).await.is_ok() {
            return Ok(());
        }
    }
}

impl Session for Conversation {
    async fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        let line = &self.reading.line;
        let stop = line.begin(turn.clone());
        let result = self.ask(&turn, prompt, &stop).await;
        if let (Dialect::V1, Ok(StopReason::Other(_))) = (turn.dialect(), &result) {
            // In a lossless bridge the turn is over all the same, but not in good order.
            let _ = line.lose(loss::STOP).await;
        }
        let refused = line.end(turn.is_cancelled()).await;
        refused.map_or_else(|| result.map_err(told), Err)
    }

    async fn set_option(&self, id: String, value: ConfigValue) -> Result<Option<Vec<ConfigOption>>> {
        let theirs = self.theirs();
        noted(theirs.set_option(&id, value).await.map(Some), theirs.answer_meta())
    }

    async fn close(&self) {
        let theirs = self.theirs();
        // An agent that can't close has been told to stop, and is asked no more.
        let _ = noted(theirs.close().await, theirs.answer_meta());
    }

    async fn leave(&self) {
        // What is told when it is taken up again goes to another queue.
        self.theirs.release();
    }
}
