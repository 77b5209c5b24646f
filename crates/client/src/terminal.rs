//! Terminals that the client runs for an agent: real ones, bounded in number and in what they keep.

mod shell;

pub(crate) use shell::{Line, check};
use tieline::rpc::sync::Lock;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tieline::schema::{CreateTerminalRequest, ExitStatus, SessionId, TerminalOutputResponse};
use tieline::{Error, Result, WireError};
use tieline_host::run::{KEEP, KEEP_MOST, Request, Running, Size, View, exit_status};
use tieline_host::sandbox::{Level, Policy};

/// How long a command has to end after it was asked to.
const GRACE: Duration = Duration::from_millis(300);

/// Bounds on terminals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many can be open at once, over all sessions.
    pub open: usize,
    /// How many that were released are still kept to be shown.
    pub released: usize,
    /// How many bytes of output are kept, unless the agent says how many; never more than 16 MiB.
    pub keep: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { open: 32, released: 16, keep: KEEP }
    }
}

/// How terminals are made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Their size, until [`Terminals::resize`] gives them another.
    pub size: Size,
    /// What they say they are, in `TERM`.
    pub name: String,
    /// Bounds.
    pub limits: Limits,
    /// How far their commands can reach.
    pub sandbox: Level,
    /// More variables of our environment for their commands, by name or by the start of a name and `*`. Never secrets.
    pub pass: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            size: Size::default(),
            name: "xterm-256color".into(),
            limits: Limits::default(),
            sandbox: Level::Off,
            pass: Vec::new(),
        }
    }
}

/// The terminals of all sessions. Dropping it kills their commands, with everything they started.
#[derive(Debug)]
pub struct Terminals {
    settings: Settings,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    size: Size,
    last: u64,
    /// How many are being started.
    starting: usize,
    open: HashMap<String, Open>,
    released: VecDeque<(String, View)>,
}

#[derive(Debug)]
struct Open {
    session: SessionId,
    running: Running,
    limit: usize,
}

/// Holds a place for a terminal that is being started.
struct Starting<'t>(&'t Terminals);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.table().starting -= 1;
    }
}

impl Terminals {
    /// None yet.
    pub fn new(settings: Settings) -> Self {
        let table = Mutex::new(Table { size: settings.size, ..Table::default() });
        Self { settings, table }
    }

    /// How they are made.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.locked()
    }

    /// Starts a command in a folder that was checked. Gives the id of its terminal and a handle that watches it.
    pub(crate) async fn start(
        &self,
        request: &CreateTerminalRequest,
        line: &Line,
        folder: PathBuf,
        roots: &[PathBuf],
    ) -> Result<(String, View)> {
        let place = self.take_place()?;
        let policy = Policy::new(self.settings.sandbox, roots).map_err(|error| refused(&error.to_string()))?;
        let limit = request
            .output_byte_limit
            .map_or(self.settings.limits.keep, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let limit = limit.min(KEEP_MOST);
        let mut command = match line {
            Line::Words(words) => Request::words(words, folder, &policy),
            Line::Shell(line) => Request::shell(line, folder, &policy),
        };
        let size = self.table().size;
        command = command.pass(&self.settings.pass).tty(size).keep(limit).grace(GRACE);
        command = command.env("TERM", &self.settings.name);
        for variable in &request.env {
            command = command.env(&variable.name, &variable.value);
        }
        let running = command.start().await.map_err(|error| refused(&error.to_string()))?;
        let view = running.view();
        let mut table = self.table();
        // It may have changed while the command was started.
        view.resize(table.size);
        table.last += 1;
        let id = format!("terminal-{}", table.last);
        table.open.insert(id.clone(), Open { session: request.session_id.clone(), running, limit });
        drop(table);
        drop(place);
        Ok((id, view))
    }

    /// Gives all that are open, and those that are opened from now on, another size.
    pub fn resize(&self, size: Size) {
        let mut table = self.table();
        table.size = size;
        table.open.values().for_each(|open| open.running.resize(size));
    }

    fn take_place(&self) -> Result<Starting<'_>> {
        let mut table = self.table();
        let most = self.settings.limits.open;
        if table.open.len() + table.starting >= most {
            let why = format!("{most} terminals are open already; release one first");
            return Err(Error::Wire(WireError::new(-32001, "Too many terminals").with("reason", &why)));
        }
        table.starting += 1;
        drop(table);
        Ok(Starting(self))
    }

    fn find(&self, session: &SessionId, id: &str) -> Result<(View, usize)> {
        let table = self.table();
        let open = table.open.get(id).filter(|open| open.session == *session);
        open.map(|open| (open.running.view(), open.limit)).ok_or_else(|| Error::not_found(id))
    }

    /// How long what it shows so far may be, in bytes.
    pub(crate) fn output_bytes(&self, session: &SessionId, id: &str) -> Result<u64> {
        self.find(session, id).map(|(_, limit)| limit as u64)
    }

    /// What it shows so far.
    pub fn output(&self, session: &SessionId, id: &str) -> Result<TerminalOutputResponse> {
        let (view, limit) = self.find(session, id)?;
        // In this order: what has ended says nothing more.
        let exit_status = view.ended().map(|outcome| exit_status(outcome.end));
        let shown = view.output(0);
        let mut text = shown.text.replace("\r\n", "\n");
        // Bytes that are no text take more room as text.
        let from = text.ceil_char_boundary(text.len().saturating_sub(limit));
        text.drain(..from);
        let truncated = shown.dropped > 0 || from > 0;
        Ok(TerminalOutputResponse { output: text, truncated, exit_status, ..Default::default() })
    }

    /// Waits until its command has ended. Any number can wait.
    pub async fn wait(&self, session: &SessionId, id: &str) -> Result<ExitStatus> {
        let (view, _) = self.find(session, id)?;
        Ok(exit_status(view.outcome().await.end))
    }

    /// Ends its command and waits for that; the terminal stays.
    pub async fn kill(&self, session: &SessionId, id: &str) -> Result<()> {
        let (view, _) = self.find(session, id)?;
        view.stop();
        // Bounded: what does not stop in its time of grace is killed.
        view.outcome().await;
        Ok(())
    }

    /// Ends its command if need be, and forgets the terminal; what it showed can still be watched for a while.
    pub fn release(&self, session: &SessionId, id: &str) -> Result<()> {
        let mut table = self.table();
        if table.open.get(id).is_none_or(|open| open.session != *session) {
            return Err(Error::not_found(id));
        }
        self.retire(&mut table, id);
        Ok(())
    }

    fn retire(&self, table: &mut Table, id: &str) {
        if let Some(open) = table.open.remove(id) {
            table.released.push_back((id.to_owned(), open.running.view()));
            while table.released.len() > self.settings.limits.released {
                table.released.pop_front();
            }
        }
    }

    /// Releases all terminals of a session.
    pub fn end_session(&self, session: &SessionId) {
        let mut table = self.table();
        let ids: Vec<String> =
            table.open.iter().filter(|(_, open)| open.session == *session).map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.retire(&mut table, &id);
        }
    }

    /// Releases all terminals.
    pub fn end(&self) {
        let mut table = self.table();
        let ids: Vec<String> = table.open.keys().cloned().collect();
        for id in ids {
            self.retire(&mut table, &id);
        }
    }

    /// A handle that watches a terminal, to show it live; also one that was released a short while ago. Its output is not
    /// safe to show as it is.
    pub fn watch(&self, id: &str) -> Option<View> {
        let table = self.table();
        let open = table.open.get(id).map(|open| open.running.view());
        open.or_else(|| table.released.iter().find(|(other, _)| other == id).map(|(_, view)| view.clone()))
    }
}

fn refused(why: &str) -> Error {
    Error::Wire(WireError::new(-32603, "The command can't be started").with("reason", why))
}

/// Shared by the services and who watches.
pub(crate) type Shared = Arc<Terminals>;
