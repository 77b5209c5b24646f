//! Child processes from start to end: their pipes, the tail of their standard error, and everything that they start.
//!
//! Knows nothing of what is said through the pipes.

mod child;
mod exit;
pub mod guardian;
mod spec;
mod stderr;
#[cfg_attr(not(unix), path = "tree_other.rs")]
mod tree;

pub use child::{ChildProcess, ExitWatch, Input, Output, Pipes};
pub use exit::{ExitReason, Status};
pub use spec::{Guard, Ladder, Spec};
#[cfg(target_os = "linux")]
pub use tree::Tree;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is behind it, also after somebody panicked with it: the state here is whole after every statement.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
