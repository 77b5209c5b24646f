//! Commands in the background: started, polled, listed, stopped.

use super::{Outcome, Output, Request, Running, View};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;
use tieline_rpc::sync::Lock;

/// How many can run at once.
const MOST: usize = 32;
/// How many of those that ended are remembered.
const ENDED: usize = 16;

/// The commands that run in the background, by number. Dropping it kills them all.
#[derive(Debug, Default)]
pub struct Background {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    last: u32,
    commands: BTreeMap<u32, Running>,
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The number that [`Background::start`] gave.
    pub id: u32,
    /// The command in one line.
    pub line: String,
    /// When it was started.
    pub started: Instant,
    /// What became of it, if it has ended.
    pub outcome: Option<Outcome>,
}

impl Background {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts one. Gives its number.
    pub async fn start(&self, request: Request) -> io::Result<u32> {
        if self.table().commands.values().filter(|command| command.ended().is_none()).count() >= MOST {
            let why = format!("{MOST} commands run in the background already");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, why));
        }
        let running = request.start().await?;
        let mut table = self.table();
        table.last += 1;
        let id = table.last;
        table.commands.insert(id, running);
        let ended: Vec<u32> =
            table.commands.iter().filter(|(_, command)| command.ended().is_some()).map(|(id, _)| *id).collect();
        for old in ended.iter().take(ended.len().saturating_sub(ENDED)) {
            table.commands.remove(old);
        }
        Ok(id)
    }

    /// One of them, to be watched.
    pub fn get(&self, id: u32) -> Option<View> {
        self.table().commands.get(&id).map(Running::view)
    }

    /// Its output from a position on, and what became of it, if it has ended.
    pub fn poll(&self, id: u32, from: u64) -> Option<(Output, Option<Outcome>)> {
        let view = self.get(id)?;
        // In this order: what has ended says nothing more.
        let outcome = view.ended();
        Some((view.output(from), outcome))
    }

    /// Stops one, and waits for its end. It stays on the list.
    pub async fn stop(&self, id: u32) -> Option<Outcome> {
        let view = self.get(id)?;
        view.stop();
        Some(view.outcome().await)
    }

    /// Takes one off the list. If it still runs, it is killed.
    pub fn remove(&self, id: u32) -> bool {
        self.table().commands.remove(&id).is_some()
    }

    /// All of them, the oldest one first.
    pub fn list(&self) -> Vec<Entry> {
        let table = self.table();
        let entry = |(id, command): (&u32, &Running)| Entry {
            id: *id,
            line: command.line().to_owned(),
            started: command.started(),
            outcome: command.ended(),
        };
        table.commands.iter().map(entry).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.locked()
    }
}
