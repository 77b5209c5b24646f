//! A turn that is under way, as it is remembered in case we are killed, so that whoever comes next can finish it.

use super::index::Name;
use super::{Base, Snapshots, is_under_way};
use crate::roots::{Result, shown};
use crate::whole::{read_own, write_own};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The file that says which turn is under way.
const MARKER: &str = "open.json";

/// A turn that is under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Open {
    /// Its name.
    pub turn: String,
    /// The folders, and the files in which the looks at them are held.
    looks: Vec<(Name, Option<String>)>,
    /// What is never looked at.
    skip: Vec<Name>,
    /// Since when the agent waits for the answer to a question and does nothing else.
    pub asking: Option<SystemTime>,
}

impl Open {
    /// A turn that begins with these looks. From now on they are held until the turn is [closed](Self::close).
    pub fn new<'a>(turn: impl Into<String>, bases: impl IntoIterator<Item = &'a Base>) -> Self {
        let (mut looks, mut skip) = (Vec::new(), Vec::new());
        for base in bases {
            looks.push((Name(base.root.clone()), base.hold(true)));
            skip = base.skip.iter().cloned().map(Name).collect();
        }
        Self { turn: turn.into(), looks, skip, asking: None }
    }

    /// What stands in a folder of snapshots, if a turn of it is open.
    pub fn read(folder: &Path) -> io::Result<Option<Self>> {
        match read_own(&folder.join(MARKER)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// True if a turn is open in a folder of snapshots.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(MARKER).exists()
    }

    /// Writes it down.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        write_own(&folder.join(MARKER), &serde_json::to_vec(self)?, true)
    }

    /// The turn is over: what was remembered of it goes, also if it can't be read.
    pub fn close<'a>(folder: &Path, bases: impl IntoIterator<Item = &'a Base>) {
        let _ = std::fs::remove_file(folder.join(MARKER));
        bases.into_iter().for_each(|base| drop(base.hold(false)));
    }

    /// True if it works in this folder, in one around it or in one below.
    pub fn works_in(&self, root: &Path) -> bool {
        self.looks.iter().any(|(name, _)| name.0.starts_with(root) || root.starts_with(&name.0))
    }

    /// The folders as they were when it began, and what is not known of them any more, in words.
    pub fn bases(&self, state: &Path) -> (Vec<Base>, Vec<String>) {
        let (mut bases, mut lost) = (Vec::new(), Vec::new());
        for (Name(root), held) in &self.looks {
            let skip = self.skip.iter().map(|name| name.0.clone()).collect();
            let held = held.as_ref().ok_or_else(|| io::Error::other("what was there could not be kept"));
            match held.and_then(|held| Base::held(state, root, held, skip)) {
                Ok(base) => bases.push(base),
                Err(error) => lost.push(format!("{}: {error}", shown(root))),
            }
        }
        (bases, lost)
    }
}

/// The folders of snapshots, one for each session, in which a turn was begun and whoever worked on it is gone.
pub fn cut_off(state: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(state.join("undo")).into_iter().flatten().flatten().map(|entry| entry.path());
    folders.filter(|folder| Open::is_in(folder) && !is_under_way(folder)).collect()
}

impl Snapshots {
    /// Finishes a turn that was cut off, where nobody else knows of it: what is different since it began was its doing.
    pub fn settle(self: &Arc<Self>) -> Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let Ok(Some(open)) = Open::read(disk.dir()) else { return Ok(()) };
        let (bases, _) = open.bases(disk.state());
        let recorder = self.begin(&*open.turn);
        // The oldest comes last: what it knows counts.
        for base in bases.iter().rev() {
            recorder.made(base.differences().0.iter().map(|one| one.made(base)).collect())?;
        }
        Open::close(disk.dir(), &bases);
        Ok(())
    }
}
