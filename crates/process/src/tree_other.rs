//! A process alone, for systems where we can't find or signal what it started.

#![allow(clippy::unused_self)]

use crate::locked;
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

pub(crate) struct Tree {
    child: Child,
    ended: bool,
}

impl Tree {
    pub(crate) fn of(child: Child, _spare_root: bool) -> Self {
        Self { child, ended: false }
    }

    pub(crate) fn add(&mut self, _pid: i32) {}

    pub(crate) fn remember(&mut self) {}

    pub(crate) fn ask_to_end(&mut self) {
        self.kill();
    }

    pub(crate) fn kill(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
        }
    }

    pub(crate) fn lives(&mut self) -> bool {
        !self.ended
    }
}

/// Waits until the process has ended. It looks now and then, because a plain wait would keep others from killing it.
pub(crate) fn wait(tree: &Mutex<Tree>) -> io::Result<ExitStatus> {
    loop {
        {
            let mut tree = locked(tree);
            if let Some(status) = tree.child.try_wait()? {
                tree.ended = true;
                return Ok(status);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
