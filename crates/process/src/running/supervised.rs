//! A command with a supervisor: asked for its end, and for what it left.

use super::{Job, OUTPUT_LINGER, Shared, Stopped, at};
use crate::setup::Setup;
use crate::supervisor::{Launched, Message, Streams, Supervisor, Trouble, hear, launch};
use crate::temp::Temp;
use crate::tree::Tree;
use crate::tty;
use crate::{Status, locked};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::net::{UnixStream, unix::OwnedReadHalf, unix::OwnedWriteHalf};
use tokio::sync::watch;

/// A supervisor that does not do what it is told is left to die when we stop talking to it.
const OBEY_TIMEOUT: Duration = Duration::from_secs(2);

/// So often what a command needs is looked at before it is given up because something there moves all the time.
const MAX_LOOKS: u32 = 8;

/// Starts a command, and a task that goes with it to its end.
pub(super) async fn start(
    job: Job,
    setup: impl Fn() -> io::Result<Setup> + Send + 'static,
    shared: Arc<Shared>,
    owner: watch::Receiver<()>,
) -> io::Result<()> {
    let (output, writer) = tty::open(job.tty)?;
    let launched = tokio::task::spawn_blocking(move || try_to_launch(setup, &writer)).await;
    let launched = launched.map_err(io::Error::other)??.map_err(|trouble| {
        let kind = trouble.kind();
        let what = if trouble.program { trouble.text } else { format!("its sandbox: {}", trouble.text) };
        io::Error::new(kind, format!("can't run `{}`: {what}", job.line))
    })?;
    let Launched { talk, supervisor, program } = launched;
    talk.set_nonblocking(true)?;
    let (talk, wishes) = UnixStream::from_std(talk)?.into_split();
    if job.tty.is_some() {
        *locked(&shared.keyboard) = Some(output.try_clone()?.into());
    }
    // Not checked to be a pipe, because a terminal is as good.
    let output = Receiver::from_owned_fd_unchecked(output)?;
    let attendant = Attendant {
        shared,
        wishes: Some(wishes),
        supervisor,
        tree: program.and_then(Tree::of_program),
        owner,
        time: job.time,
        grace: job.grace,
        temp: job.temp,
    };
    tokio::spawn(attendant.attend(talk, output));
    Ok(())
}

/// The task that goes with a command to its end.
struct Attendant {
    shared: Arc<Shared>,
    /// Dropped, it ends everything.
    wishes: Option<OwnedWriteHalf>,
    supervisor: Supervisor,
    /// What is below the supervisor, if that is in our namespace.
    tree: Option<Tree>,
    owner: watch::Receiver<()>,
    time: Option<Duration>,
    grace: Duration,
    temp: Option<Arc<Temp>>,
}

impl Attendant {
    async fn attend(mut self, mut talk: OwnedReadHalf, mut output: Receiver) {
        let shared = Arc::clone(&self.shared);
        let mut stop = shared.stop.subscribe();
        let mut stopped = None;
        let deadline = self.time.and_then(|time| tokio::time::Instant::now().checked_add(time));
        let mut killed = None;
        let mut buffer = vec![0; 64 << 10];
        let mut open = true;
        let exit = last_word(&mut talk);
        tokio::pin!(exit);
        let exit = loop {
            tokio::select! {
                exit = &mut exit => break exit,
                read = output.read(&mut buffer), if open => open = shared.take(read, &buffer),
                _ = stop.wait_for(|stop| *stop), if stopped.is_none() => {
                    stopped = Some(Stopped::Cancelled);
                    killed = self.wish_the_end();
                }
                () = at(deadline), if stopped.is_none() => {
                    stopped = Some(Stopped::TimedOut);
                    killed = self.wish_the_end();
                }
                // Nobody sends anything there: this is the end of the owner.
                _ = self.owner.changed(), if self.wishes.is_some() => {
                    stopped.get_or_insert(Stopped::Cancelled);
                    self.wishes = None;
                }
                () = at(killed), if self.wishes.is_some() => self.wishes = None,
            }
        };
        self.wishes = None;
        // When the supervisor is gone, so is everything else; unless it was killed. Then what it held together is loose, but the
        // first of them is known.
        let (supervisor, loose) = (self.supervisor, self.tree.filter(|_| exit.is_none()));
        let gone = tokio::task::spawn_blocking(move || {
            if let Some(mut tree) = loose {
                tree.kill();
            }
            supervisor.wait();
        });
        tokio::pin!(gone);
        let mut linger = None;
        while open {
            tokio::select! {
                read = output.read(&mut buffer) => open = shared.take(read, &buffer),
                _ = &mut gone, if linger.is_none() => linger = Some(tokio::time::Instant::now() + OUTPUT_LINGER),
                () = at(linger) => open = false,
            }
        }
        if linger.is_none() {
            let _ = gone.await;
        }
        drop(self.temp);
        let (end, leftovers, full) = exit.unwrap_or((Status::Unknown, 0, false));
        let stopped = stopped.or(full.then_some(Stopped::Full));
        let leftovers = if stopped.is_some() { 0 } else { leftovers };
        shared.close(end, stopped, leftovers);
    }

    /// Gives the time by which it must have happened.
    fn wish_the_end(&self) -> Option<tokio::time::Instant> {
        let grace = u32::try_from(self.grace.as_millis()).unwrap_or(u32::MAX);
        if let (Some(wishes), Ok(bytes)) = (&self.wishes, Message::Stop(grace).encode()) {
            // There is room: it is the first that we say.
            let _ = wishes.try_write(&bytes);
        }
        Some(tokio::time::Instant::now() + self.grace + OBEY_TIMEOUT)
    }
}

/// Starts a command, whose output goes there. What it names may move in between; then it is looked at again.
fn try_to_launch(setup: impl Fn() -> io::Result<Setup>, output: &OwnedFd) -> io::Result<Result<Launched, Trouble>> {
    let mut looks = 1;
    loop {
        let streams = Streams { input: None, output: output.try_clone()?, errors: output.try_clone()? };
        match launch(&setup()?, streams) {
            Err(trouble) if trouble.is_stale() && looks < MAX_LOOKS => looks += 1,
            launched => return Ok(launched),
        }
    }
}

/// Waits until the supervisor tells how the command ended, how many outlived it, and whether it took too much memory. `None` if it
/// is gone without a word.
async fn last_word(talk: &mut OwnedReadHalf) -> Option<(Status, u32, bool)> {
    let mut full = false;
    let mut status = None;
    loop {
        match hear(talk).await {
            Ok(Message::Full) => full = true,
            Ok(Message::Exited(end)) => status = Some(end),
            Ok(Message::Left(left)) => return status.map(|status| (status, left, full)),
            _ => return status.map(|status| (status, 0, full)),
        }
    }
}
