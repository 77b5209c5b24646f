//! Knows when the tools of a turn are at rest: a cancel is answered only then, so that nothing is written afterwards.

use std::convert::Infallible;
use tokio::sync::mpsc;

tokio::task_local! {
    static HOLD: Hold;
}

/// While there is one, the turn is not at rest.
#[derive(Clone)]
pub struct Hold(#[expect(dead_code, reason = "it counts by being there")] mpsc::Sender<Infallible>);

/// The work of one turn.
pub struct Busy {
    hold: Hold,
    all: mpsc::Receiver<Infallible>,
}

impl Busy {
    /// Nothing is under way yet.
    pub fn new() -> Self {
        let (hold, all) = mpsc::channel(1);
        Self { hold: Hold(hold), all }
    }

    /// Runs work that may leave something under way behind it when it is dropped.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        keep(Some(self.hold.clone()), work).await
    }

    /// Waits until nothing is under way.
    pub async fn rest(mut self) {
        drop(self.hold);
        self.all.recv().await;
    }
}

/// What holds the turn that this work belongs to, if it belongs to one.
pub fn hold() -> Option<Hold> {
    HOLD.try_with(Hold::clone).ok()
}

/// Runs a part of the work in a task of its own, say, for the same turn.
pub async fn keep<T>(hold: Option<Hold>, work: impl Future<Output = T>) -> T {
    match hold {
        Some(hold) => HOLD.scope(hold, work).await,
        None => work.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// What was dropped halfway is waited for where it goes on without us: in tasks, and in work that blocks.
    #[tokio::test]
    async fn rest_comes_after_all_that_was_left_behind() {
        for blocks in [true, false] {
            let busy = Busy::new();
            let done = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&done);
            let (go, wait) = std::sync::mpsc::channel::<()>();
            let work = busy.during(async {
                if blocks {
                    let work = crate::workspace::blocking(move || {
                        let _ = wait.recv();
                        flag.store(true, Ordering::SeqCst);
                        Ok(())
                    });
                    let _ = work.await;
                } else {
                    let left = async move {
                        while wait.try_recv().is_err() {
                            tokio::task::yield_now().await;
                        }
                        flag.store(true, Ordering::SeqCst);
                    };
                    let _ = tokio::spawn(keep(hold(), left)).await;
                }
            });
            let halfway = tokio::time::timeout(std::time::Duration::from_millis(1), work).await;
            assert!(halfway.is_err() && !done.load(Ordering::SeqCst));
            let rest = busy.rest();
            tokio::pin!(rest);
            for _ in 0..100 {
                tokio::select! {
                    biased;
                    () = &mut rest => panic!("at rest too early"),
                    () = tokio::task::yield_now() => {}
                }
            }
            go.send(()).unwrap();
            rest.await;
            assert!(done.load(Ordering::SeqCst));
        }
    }
}
