//! A terminal that the client runs for the agent.

use super::client::ClientHandle;
use crate::error::{Error, Result};
use std::time::Duration;
use tieline_schema::{
    ClientCall, Done, ExitStatus, SessionId, TerminalOutputResponse, TerminalRequest, ToolCallContent,
    WaitForTerminalExitResponse,
};

/// A terminal of the client. It is released when this is dropped, so none is ever left behind.
#[derive(Debug)]
pub struct Terminal {
    client: ClientHandle,
    session_id: SessionId,
    id: String,
    released: bool,
}

/// How a command in a terminal ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Finished {
    /// What it showed.
    pub output: String,
    /// The beginning of the output was dropped.
    pub truncated: bool,
    /// How it ended; `None` if it did not say.
    pub exit: Option<ExitStatus>,
    /// It took too long and was killed.
    pub timed_out: bool,
}

impl Terminal {
    pub(crate) fn new(client: ClientHandle, session_id: SessionId, id: String) -> Self {
        Self { client, session_id, id, released: false }
    }

    /// The id that tool calls refer to.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Content for a tool call that shows this terminal. Add it before the terminal is released.
    pub fn as_content(&self) -> ToolCallContent {
        ToolCallContent::Terminal(tieline_schema::Terminal { terminal_id: self.id.clone(), ..Default::default() })
    }

    fn request(&self) -> TerminalRequest {
        TerminalRequest { session_id: self.session_id.clone(), terminal_id: self.id.clone(), ..Default::default() }
    }

    /// What was shown so far.
    pub async fn output(&self) -> Result<TerminalOutputResponse> {
        self.client.ask(ClientCall::TerminalOutput(self.request()), self.client.deadline()).await
    }

    /// Waits until the command ends.
    pub async fn wait(&self) -> Result<ExitStatus> {
        let answer: WaitForTerminalExitResponse =
            self.client.ask(ClientCall::WaitForTerminalExit(self.request()), None).await?;
        Ok(answer.0)
    }

    /// Stops the command; the output can still be read.
    pub async fn kill(&self) -> Result<()> {
        self.client.ask::<Done>(ClientCall::KillTerminal(self.request()), self.client.deadline()).await.map(drop)
    }

    /// Frees the terminal, and stops the command if it still runs.
    pub async fn release(mut self) -> Result<()> {
        self.released = true;
        self.client.ask::<Done>(ClientCall::ReleaseTerminal(self.request()), self.client.deadline()).await.map(drop)
    }

    /// Waits for the command, at most for `limit`; then kills it. Gives what it showed, and releases the terminal.
    pub async fn finish(self, limit: Duration) -> Result<Finished> {
        let (timed_out, waited) = match tokio::time::timeout(limit, self.wait()).await {
            Ok(exit) => (false, Some(exit?)),
            Err(_) => {
                self.kill().await?;
                (true, None)
            }
        };
        let shown = self.output().await?;
        self.release().await?;
        let exit = shown.exit_status.or(waited);
        Ok(Finished { output: shown.output, truncated: shown.truncated, exit, timed_out })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        let (client, call) = (self.client.clone(), ClientCall::ReleaseTerminal(self.request()));
        // Outside a runtime there is no connection left to release it on.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error @ Error::TimedOut { .. }) = client.ask::<Done>(call, client.deadline()).await {
                    tracing::warn!(%error, "a terminal could not be released");
                }
            });
        }
    }
}
