//! Where there is no supervisor: on other systems, or without the feature.

use crate::child::Started;
use crate::{Limits, Spec, Status};
use std::io;

/// Lets this executable be a supervisor, where there are any.
pub fn init() {}

/// True if programs can have a supervisor: never here.
pub fn is_ready() -> bool {
    false
}

pub(crate) enum Link {}

impl Link {
    pub(crate) fn program(&self) -> i32 {
        match *self {}
    }

    pub(crate) fn last_word(&self) -> Option<Status> {
        match *self {}
    }

    pub(crate) fn is_over(&self) {
        match *self {}
    }

    pub(crate) fn release(&self) {
        match *self {}
    }
}

#[allow(clippy::unused_async, reason = "where there are supervisors, it waits for one")]
pub(crate) async fn guard(_: &Spec) -> io::Result<Option<Started>> {
    Ok(None)
}

/// What can't be held here as it should, in words: nothing is, so a child with limits is not started.
pub fn unheld(limits: &Limits) -> Vec<String> {
    let none = *limits == Limits::default();
    if none { Vec::new() } else { vec!["only Linux has limits, with the feature `supervisor`".to_owned()] }
}

/// Goes all the way with a plan, where there are supervisors: not here.
#[cfg(all(unix, feature = "supervisor"))]
pub fn probe(_: &crate::Setup) -> Result<u32, String> {
    Err("only Linux has it".into())
}
