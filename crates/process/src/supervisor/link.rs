//! The owner's end: starts a supervisor and goes with it until the program runs.

use super::wire::{Message, Trouble, receive, send, send_with};
use super::{Group, is_ready, namespaces, stage};
use crate::child::Started;
use crate::setup::Setup;
use crate::{Guard, Spec, Status, locked};
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Child;
use std::sync::Mutex;
use std::time::Duration;

/// A supervisor that has not answered by then is taken for dead.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// What a guarded program leaves behind has so many milliseconds to end when it is asked to.
const GUARD_GRACE_MS: u32 = 1000;

/// What a program reads from, if there is anything, and what it writes to.
pub(crate) struct Streams {
    pub(crate) input: Option<OwnedFd>,
    pub(crate) output: OwnedFd,
    pub(crate) errors: OwnedFd,
}

/// A program that runs. Dropping it ends everything.
#[derive(Debug)]
pub(crate) struct Launched {
    /// Carries news of the program, and our wishes.
    pub(crate) talk: UnixStream,
    pub(crate) supervisor: Supervisor,
    /// Its number, if it is in our namespace.
    pub(crate) program: Option<i32>,
}

/// The supervisor's process. It ends by itself when nobody talks to it any more, and is reaped then.
#[derive(Debug)]
pub(crate) struct Supervisor(Option<Child>);

impl Supervisor {
    /// Waits until it is gone, which means that nothing is left below it.
    pub(crate) fn wait(mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.wait();
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = std::thread::Builder::new().name("reaper".into()).spawn(move || child.wait());
        }
    }
}

/// Starts a program. Blocks until it runs.
pub(crate) fn launch(setup: &Setup, streams: Streams) -> Result<Launched, Trouble> {
    match go(setup, streams)? {
        (talk, supervisor, Message::Started(pid)) => {
            let apart = setup.sandbox.as_ref().is_some_and(|sandbox| sandbox.plan.namespaces);
            Ok(Launched { talk, supervisor, program: (!apart).then_some(pid) })
        }
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput).into()),
    }
}

/// Goes all the way with a plan, but starts nothing. Gives the version of Landlock, if that is part of it, or says what is missing.
pub fn probe(setup: &Setup) -> Result<u32, String> {
    let null = || super::null().map(OwnedFd::from).map_err(|error| error.to_string());
    let streams = Streams { input: None, output: null()?, errors: null()? };
    let (talk, supervisor, answer) = go(setup, streams).map_err(|trouble| trouble.text)?;
    drop(talk);
    supervisor.wait();
    match answer {
        Message::Probed(version) => Ok(version),
        _ => Err("it answered something else".into()),
    }
}

fn go(setup: &Setup, streams: Streams) -> Result<(UnixStream, Supervisor, Message), Trouble> {
    if !is_ready() {
        let why = "`tieline_process::init()` was not called at the start of `main`";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why).into());
    }
    let (talk, theirs) = UnixStream::pair()?;
    talk.set_read_timeout(Some(START_TIMEOUT))?;
    let mut command = stage("first", theirs.into());
    command.stdout(streams.output).stderr(streams.errors).current_dir("/");
    // A key pressed at our terminal is for us.
    let child = command.process_group(0).spawn()?;
    // It has what is ours to give: our copies must not keep its streams open.
    drop(command);
    let id = child.id();
    let supervisor = Supervisor(Some(child));
    match hello(&talk, setup, streams.input.as_ref(), id) {
        Ok(Message::Failed(trouble)) => Err(trouble),
        Ok(answer) => {
            talk.set_read_timeout(None)?;
            Ok((talk, supervisor, answer))
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(io::Error::other("it ended before the program was started").into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Tells the stages what they ask for, until one of them has an answer.
fn hello(talk: &UnixStream, setup: &Setup, input: Option<&OwnedFd>, id: u32) -> io::Result<Message> {
    let mut asked = false;
    loop {
        match receive(talk)? {
            Message::Ask => {
                let setup = if asked { setup.inside() } else { setup.clone() };
                asked = true;
                send_with(talk, &Message::Setup(Box::new(setup)), input)?;
            }
            Message::Map => {
                if let Err(error) = namespaces::map(id) {
                    let text = format!("the ids of users: {error}");
                    return Ok(Message::Failed(Trouble::new(false, &error, text)));
                }
                send(talk, &Message::Map)?;
            }
            answer @ (Message::Started(_) | Message::Probed(_) | Message::Failed(_)) => return Ok(answer),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The supervisor of a child.
pub(crate) struct Link {
    talk: UnixStream,
    program: i32,
    group: Mutex<Option<Group>>,
}

impl Link {
    /// The number of the program's process.
    pub(crate) fn program(&self) -> i32 {
        self.program
    }

    /// Waits until the supervisor tells how the program ended. `None` if it is gone without a word.
    pub(crate) fn last_word(&self) -> Option<Status> {
        loop {
            if let Message::Exited(status) = receive(&self.talk).ok()? {
                return Some(status);
            }
        }
    }

    /// Nothing is left of the program, so its control group goes, too. Blocks for a moment.
    pub(crate) fn is_over(&self) {
        drop(locked(&self.group).take());
    }

    /// Lets the supervisor end everything. It may still speak.
    pub(crate) fn release(&self) {
        let _ = self.talk.shutdown(Shutdown::Write);
    }
}

/// Starts a child below a supervisor. `None` if that is impossible and nobody insists.
pub(crate) async fn guard(spec: &Spec) -> io::Result<Option<Started>> {
    let folder = match &spec.folder {
        Some(folder) => std::path::absolute(folder)?,
        None => std::env::current_dir().unwrap_or_else(|_| "/".into()),
    };
    let words = std::iter::once(&spec.program).chain(&spec.args).cloned().collect();
    let group = Group::make(&spec.limits);
    let setup = Setup {
        words,
        env: spec.environment(),
        folder,
        limits: [spec.limits.processes.unwrap_or(0), 0, spec.limits.memory.unwrap_or(0)],
        group: group.as_ref().map(|group| group.path().into()),
        grace: GUARD_GRACE_MS,
        ..Setup::default()
    };
    let (theirs, input) = io::pipe()?;
    let (output, writer) = io::pipe()?;
    let (errors, error_writer) = match &spec.stderr {
        Some(stderr) => (None, stderr.try_clone()?),
        None => io::pipe().map(|(ours, theirs)| (Some(OwnedFd::from(ours).into()), theirs.into()))?,
    };
    let streams = Streams { input: Some(theirs.into()), output: writer.into(), errors: error_writer };
    // If nobody waits for it any more, it is dropped, and ends.
    let launched = tokio::task::spawn_blocking(move || launch(&setup, streams)).await.map_err(io::Error::other)?;
    match launched {
        Ok(Launched { talk, mut supervisor, program: Some(program) }) => Ok(supervisor.0.take().map(|child| Started {
            child,
            link: Some(Link { talk, program, group: Mutex::new(group) }),
            input: OwnedFd::from(input).into(),
            output: OwnedFd::from(output).into(),
            errors,
        })),
        Err(trouble) if trouble.program => Err(spec.error(trouble.kind(), trouble.text)),
        Err(trouble) if spec.guard == Guard::Required => {
            Err(spec.error(trouble.kind(), format_args!("its guardian can't be started: {}", trouble.text)))
        }
        Ok(_) => Ok(None),
        Err(trouble) => {
            tracing::warn!(error = trouble.text, "the guardian can't be started, so the program runs without");
            Ok(None)
        }
    }
}
