//! The owner's end: starts a launcher and goes with it until the command runs.

use super::wire::{Message, Setup, Trouble, receive, send};
use super::{launcher, namespaces};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A launcher that has not answered by then is taken for dead.
const PATIENCE: Duration = Duration::from_secs(10);

/// A command that runs. Dropping it ends everything.
#[derive(Debug)]
pub(crate) struct Launched {
    /// Carries news of the command, and our wishes.
    pub(crate) talk: UnixStream,
    pub(crate) launcher: Launcher,
    /// Its process group, if it is in our namespace.
    pub(crate) group: Option<i32>,
}

/// What there is to say in the end.
enum Answer {
    Started(Option<i32>),
    Probed(u32),
}

/// The launcher's process. It ends by itself when nobody talks to it any more, and is reaped then.
#[derive(Debug)]
pub(crate) struct Launcher(Option<Child>);

impl Launcher {
    /// Waits until it is gone, which means that nothing is left below it.
    pub(crate) fn wait(mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.wait();
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = std::thread::Builder::new().name("reaper".into()).spawn(move || child.wait());
        }
    }
}

/// Starts a command, whose output goes to `output`. Blocks until it runs.
pub(crate) fn launch(setup: &Setup, output: OwnedFd) -> Result<Launched, Trouble> {
    let (talk, launcher, answer) = go(setup, output)?;
    match answer {
        Answer::Started(group) => Ok(Launched { talk, launcher, group }),
        Answer::Probed(_) => Err(trouble(&io::ErrorKind::InvalidInput.into())),
    }
}

/// Goes all the way with a plan, but starts nothing. Gives what the last stage says.
pub(super) fn probe(setup: &Setup) -> Result<u32, Trouble> {
    let null = std::fs::File::options().write(true).open("/dev/null").map_err(|error| trouble(&error))?;
    let (talk, launcher, answer) = go(setup, null.into())?;
    drop(talk);
    launcher.wait();
    match answer {
        Answer::Probed(version) => Ok(version),
        Answer::Started(_) => Err(trouble(&io::ErrorKind::InvalidData.into())),
    }
}

fn go(setup: &Setup, output: OwnedFd) -> Result<(UnixStream, Launcher, Answer), Trouble> {
    if !launcher::is_ready() {
        let why = "`sandbox::init()` was not called at the start of `main`";
        return Err(trouble(&io::Error::new(io::ErrorKind::Unsupported, why)));
    }
    let start = || {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let mut command = launcher::stage("first", theirs.into());
        command.stdout(Stdio::from(output.try_clone()?)).stderr(Stdio::from(output)).current_dir("/");
        // A key pressed at our terminal is for us.
        let child = command.process_group(0).spawn()?;
        Ok((ours, child))
    };
    let (talk, child) = start().map_err(|error| trouble(&error))?;
    let id = child.id();
    let launcher = Launcher(Some(child));
    match hello(&talk, setup, id) {
        Ok(Ok(answer)) => {
            let _ = talk.set_read_timeout(None);
            Ok((talk, launcher, answer))
        }
        Ok(Err(trouble)) => Err(trouble),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(trouble(&io::Error::other("it ended before the command was started")))
        }
        Err(error) => Err(trouble(&error)),
    }
}

fn hello(talk: &UnixStream, setup: &Setup, id: u32) -> io::Result<Result<Answer, Trouble>> {
    let mut asked = false;
    loop {
        match receive(talk)? {
            Message::Ask => {
                let setup = if asked { setup.inside() } else { setup.clone() };
                asked = true;
                send(talk, &Message::Setup(Box::new(setup)))?;
            }
            Message::Map => {
                if let Err(error) = namespaces::map(id) {
                    return Ok(Err(Trouble { text: format!("the ids of users: {error}"), ..trouble(&error) }));
                }
                send(talk, &Message::Map)?;
            }
            Message::Started(pid) => {
                return Ok(Ok(Answer::Started((!setup.plan.namespaces).then_some(pid))));
            }
            Message::Probed(version) => return Ok(Ok(Answer::Probed(version))),
            Message::Failed(trouble) => return Ok(Err(trouble)),
            Message::Setup(_) | Message::Stop(_) | Message::Ended(_) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

fn trouble(error: &io::Error) -> Trouble {
    Trouble { program: false, errno: error.raw_os_error().unwrap_or(0), text: error.to_string() }
}
