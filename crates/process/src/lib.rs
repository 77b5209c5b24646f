//! Child processes from start to end: their pipes, the tail of their standard error, and everything that they start.
//!
//! [`ChildProcess`] is a program that we talk to, [`Running`] a command whose output is kept. Both can have a supervisor, which ends
//! everything that they started also when we are killed, and holds commands in a sandbox. It is our own executable, started
//! again, so `main` has to let it be one:
//!
//! ```no_run
//! tieline_process::init();
//! // Only now the arguments, threads, the runtime, and the rest.
//! ```
//!
//! There are supervisors on Linux only, and with the feature `supervisor`. On other Unix systems a command is started directly: in no
//! sandbox, without a terminal, and ended as far as its process group reaches. On Windows there are no commands here, only children, of
//! which only the child itself is ended. Nothing but the compiler has seen macOS and Windows yet. This crate knows nothing of what is said through the pipes,
//! and decides nothing: what a command may reach comes from above.

mod child;
mod exit;
mod output;
#[cfg(all(unix, feature = "supervisor"))]
mod running;
#[cfg(all(unix, feature = "supervisor"))]
mod setup;
mod spec;
mod stderr;
#[cfg_attr(not(all(target_os = "linux", feature = "supervisor")), path = "supervisor_none.rs")]
mod supervisor;
#[cfg(all(unix, feature = "supervisor"))]
mod temp;
#[cfg_attr(not(unix), path = "tree_other.rs")]
mod tree;
#[cfg(all(target_os = "linux", feature = "supervisor"))]
mod tty;

pub use child::{ChildInput, ChildOutput, ChildProcess, Pipes};
pub use exit::{ExitReason, Status, plain, signal_name};
pub use output::Output;
#[cfg(all(unix, feature = "supervisor"))]
pub use running::{Job, Outcome, Running, Size, Stopped, View};
#[cfg(all(unix, feature = "supervisor"))]
pub use setup::{Pinned, Plan, Sandbox, Setup};
pub use spec::{Guard, Limits, ShutdownTimeouts, Spec, find_program};
#[cfg(all(unix, feature = "supervisor"))]
pub use supervisor::probe;
pub use supervisor::{init, is_ready, unheld};
#[cfg(all(unix, feature = "supervisor"))]
pub use temp::Temp;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is behind it, also after somebody panicked with it: the state here is whole after every statement.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
