//! The client that opened a session from elsewhere: while it is there, it serves the agent's files and terminals that it offers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tieline::agent::{ClientHandle, Terminal};
use tieline::rpc::sync::Lock;
use tieline::schema::{
    ClientCapabilities, CreateTerminalRequest, ReadTextFileRequest, TerminalRequest, WriteTextFileRequest,
};
use tieline::{Error, Result};

/// So many terminals are open there at once.
const MAX_TERMINALS: usize = 64;

/// Who opened a session from elsewhere; nobody at first. Clones are the same.
#[derive(Clone, Default)]
pub struct Opener(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    client: Option<ClientHandle>,
    /// By the names that it gave them: it shows them by these.
    terminals: HashMap<String, Arc<Terminal>>,
}

impl Opener {
    /// It is there.
    pub fn is(&self, client: ClientHandle) {
        self.0.locked().client = Some(client);
    }

    /// It is gone, with its terminals.
    pub fn left(&self) {
        let gone = std::mem::take(&mut *self.0.locked());
        drop(gone);
    }

    fn offers(&self, what: fn(&ClientCapabilities) -> bool) -> Option<ClientHandle> {
        self.0.locked().client.clone().filter(|client| what(client.capabilities()))
    }

    /// Reads a file there. `None` if this machine has to.
    pub(super) async fn read(&self, request: &ReadTextFileRequest) -> Option<Result<String>> {
        let client = self.offers(|can| can.fs_read)?;
        unless_gone(client.read_text_file(&request.path, request.line, request.limit).await)
    }

    /// Writes a file there. `None` if this machine has to; that it was written there before it went does no harm.
    pub(super) async fn write(&self, request: &WriteTextFileRequest) -> Option<Result<()>> {
        let client = self.offers(|can| can.fs_write)?;
        unless_gone(client.write_text_file(&request.path, request.content.clone()).await)
    }

    /// Starts a command there. `None` if this machine has to. One that may have been started is not started again.
    pub(super) async fn start(&self, request: &CreateTerminalRequest) -> Option<Result<String>> {
        let client = self.offers(|can| can.terminal)?;
        if self.0.locked().terminals.len() >= MAX_TERMINALS {
            let why = format!("{MAX_TERMINALS} terminals are open already; release one first");
            return Some(Err(Error::wire(-32603, why)));
        }
        Some(client.terminal(request.clone()).await.and_then(|terminal| {
            let id = terminal.id().to_owned();
            let inner = &mut *self.0.locked();
            if inner.client.is_none() || inner.terminals.contains_key(&id) {
                return Err(Error::wire(-32603, "the client has given this terminal no name of its own"));
            }
            inner.terminals.insert(id.clone(), Arc::new(terminal));
            Ok(id)
        }))
    }

    /// A terminal that is there.
    pub(super) fn terminal(&self, request: &TerminalRequest) -> Option<Arc<Terminal>> {
        self.0.locked().terminals.get(&request.terminal_id).cloned()
    }

    /// Frees a terminal there. `None` if there is none.
    pub(super) async fn release(&self, request: &TerminalRequest) -> Option<Result<()>> {
        let terminal = self.0.locked().terminals.remove(&request.terminal_id)?;
        Some(match Arc::try_unwrap(terminal) {
            Ok(terminal) => terminal.release().await,
            // Somebody waits for its end; then it is released.
            Err(terminal) => terminal.kill().await,
        })
    }
}

/// What came of it, unless the client went away meanwhile.
fn unless_gone<T>(done: Result<T>) -> Option<Result<T>> {
    Some(done).filter(|done| !matches!(done, Err(Error::Closed(_))))
}
