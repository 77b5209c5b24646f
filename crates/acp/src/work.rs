//! What handlers do: how it is started, and what becomes of a panic in it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::runtime::{Handle, RuntimeFlavor};

/// What a handler does. Boxed, so that it is never copied when it moves.
pub(crate) type Work<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Starts the work for a request, on the reader. What has to wait goes on in a task of its own: the reader never waits for it.
///
/// On a runtime of one thread it is tried here first, and mostly needs no task. Work that blocks holds up everything there,
/// wherever it runs. With more threads it must not hold up the reader, so there it has a task from the beginning.
pub(crate) fn start(mut work: Work<'static, ()>) {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread
        && Pin::new(&mut Caught(work.as_mut())).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    {
        return;
    }
    // A new task is looked at once more: nothing is missed because the first look has woken nobody.
    tokio::spawn(work);
}

/// A future that panicked; the panic itself was reported by the panic hook.
pub(crate) struct Panicked;

/// Turns a panic of a future into an error. Cheaper than a task of its own, and it ends when it is dropped.
pub(crate) struct Caught<'a, F: ?Sized>(pub(crate) Pin<&'a mut F>);

impl<F: Future + ?Sized> Future for Caught<'_, F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // What panicked is dropped and never looked at again.
        let inner = self.0.as_mut();
        match catch_unwind(AssertUnwindSafe(|| inner.poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test]
    async fn what_is_done_at_once_needs_no_task() {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let (done, is_done) = mpsc::channel();
        let again = done.clone();
        start(Box::pin(async move { done.send("at once").unwrap() }));
        assert_eq!((is_done.try_recv(), tasks()), (Ok("at once"), 0));
        start(Box::pin(async { panic!("a handler's own fault") }));
        assert_eq!(tasks(), 0);
        start(Box::pin(async move {
            tokio::task::yield_now().await;
            again.send("later").unwrap();
        }));
        assert_eq!(tasks(), 1);
        while tasks() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(is_done.try_recv(), Ok("later"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_blocks_holds_up_nobody_where_there_are_threads() {
        let (go, wait) = mpsc::channel();
        let (done, is_done) = tokio::sync::oneshot::channel();
        start(Box::pin(async move { done.send(wait.recv_timeout(Duration::from_secs(30))).unwrap() }));
        go.send("went on").unwrap();
        assert_eq!(is_done.await, Ok(Ok("went on")));
    }
}
