//! One agent that can be started again, or reached again where it runs: found, greeted, ended; sessions are opened on it.

use super::hooks::{Hooked, Seats, Watched};
use super::limits::IdleTimer;
use super::open::login_needed;
use super::session::Seat;
use super::{
    AgentFacts, Ending, Event, Events, Failure, Frames, Notes, Opener, Opening, Part, Phase, Reached, Session,
};
use crate::agents::{AgentSpec, find_program};
use crate::login::{self, Launch, Login, Next, is_needed, words};
use crate::services::Services;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::client::{AgentHandle, Client};
use tieline::process::{ChildProcess, Guard, Limits, ShutdownTimeouts, Status};
use tieline::rpc::framing::Framing;
use tieline::rpc::sync::Lock;
use tieline::rpc::{Direction, Transport};
use tieline::schema::{ClientCapabilities, Protocol};
use tieline_http::Remote;
use tokio::time::{Instant, timeout, timeout_at};

/// How long an agent gets to end by itself, and to end when asked.
const LADDER: ShutdownTimeouts = ShutdownTimeouts { eof: Duration::from_secs(3), term: Duration::from_secs(2) };
/// A longer update is cut, in bytes: it is held several times while it is written down and shown.
const MAX_UPDATE_BYTES: usize = 8 << 20;
/// Updates that are not read yet take so many bytes; then the agent waits. Sessions read at once, so more of them would only be memory.
const MAX_UNREAD_BYTES: usize = 1 << 20;
/// Pieces of a message are joined if so many bytes are not read yet: we are behind.
const JOINED_BYTES: usize = 16 << 10;
/// An agent's process mostly ends a moment after its output does.
const EXIT_GRACE: Duration = Duration::from_millis(500);

pub(super) type Result<T> = std::result::Result<T, Box<Failure>>;

/// Takes a line of an agent's standard error.
pub type OnLine = Arc<dyn Fn(&str) + Send + Sync>;

/// Which agent, and how it is started and greeted.
#[derive(Default)]
pub struct Setup {
    /// The agent.
    pub agent: AgentSpec,
    /// Where it is started, unless it says so itself; an absolute path.
    pub cwd: PathBuf,
    /// Variables for the agent, on top of its own.
    pub env: Vec<(String, String)>,
    /// Gets each line of the agent's standard error.
    pub on_stderr: Option<OnLine>,
    /// The way to log in, if that is needed.
    pub login: Option<String>,
    /// Which protocol to ask for.
    pub protocol: Protocol,
    /// How messages are framed.
    pub framing: Framing,
    /// What the agent may ask of us.
    pub offer: ClientCapabilities,
    /// How long everything may take up to a prompt.
    pub start_limit: Duration,
    /// True if the agent's program may be started on the user's terminal, for a login.
    pub terminal_login: bool,
}

/// Who helps.
pub struct Parts {
    /// Answer the agent's requests.
    pub services: Services,
    /// Hears what was decided and done for the agent, and what is odd.
    pub notes: Notes,
    /// Sees the frames.
    pub frames: Arc<Frames>,
    /// Lets a person choose how to log in.
    pub chooser: Option<Arc<dyn login::Chooser>>,
}

/// One agent. It is started when its first session is opened, and again when a session wants it back after its end. Clones are
/// the same; when the last one and the last session are dropped, its process is killed with everything that it started.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    setup: Setup,
    parts: Parts,
    idle: IdleTimer,
    seats: Seats,
    opener: Opener,
    /// Held while it is started.
    starting: tokio::sync::Mutex<()>,
    up: Mutex<Up>,
}

/// What there is of a process.
#[derive(Default)]
struct Up {
    child: Option<Arc<ChildProcess>>,
    /// The way to one that runs elsewhere.
    remote: Option<Remote>,
    agent: Option<(AgentHandle, AgentFacts)>,
    launch: Option<Launch>,
}

impl Link {
    /// An agent that is not started yet.
    pub fn new(setup: Setup, parts: Parts) -> Self {
        let (idle, seats, opener, starting, up) = Default::default();
        Self(Arc::new(Inner { setup, parts, idle, seats, opener, starting, up }))
    }

    /// Opens a session, or takes one up again, and says something at once if `prompt` is not empty. Must be called in a tokio
    /// runtime: the session lives in a task of its own until it is closed or nobody reads its events.
    pub fn open(&self, opening: Opening, prompt: Vec<Part>) -> (Session, Events) {
        Session::start(self.clone(), opening, prompt)
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.0.setup
    }

    /// What the agent's requests are answered by; its terminals can be watched there.
    pub fn services(&self) -> &Services {
        &self.parts().services
    }

    /// Who opened its session from elsewhere, and serves its files and terminals from there.
    pub fn opener(&self) -> &Opener {
        &self.0.opener
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.0.parts
    }

    pub(crate) fn idle(&self) -> &IdleTimer {
        &self.0.idle
    }

    pub(super) fn seats(&self) -> &Seats {
        &self.0.seats
    }

    pub(super) fn child(&self) -> Option<Arc<ChildProcess>> {
        self.0.up.locked().child.clone()
    }

    /// The agent, if it is there.
    pub fn agent(&self) -> Option<AgentHandle> {
        self.0.up.locked().agent.as_ref().map(|(agent, _)| agent.clone())
    }

    /// The last lines of the agent's standard error.
    pub fn last_words(&self) -> Vec<String> {
        self.child().map(|child| child.last_lines()).unwrap_or_default()
    }

    /// Kills the agent's process and what it started. One that runs elsewhere is left.
    pub fn kill(&self) {
        if let Some(child) = self.child() {
            child.kill();
        } else if let Some(agent) = self.agent() {
            tokio::spawn(async move { agent.peer().close().await });
        }
    }

    /// Ends the agent in good order, or kills it after this time. Says how its process ended.
    pub async fn end(&self, grace: Duration) -> Option<Status> {
        let agent = self.agent();
        let Some(child) = self.child() else {
            if let Some(agent) = agent {
                let _ = timeout(grace, agent.peer().close()).await;
            }
            return None;
        };
        let close = async {
            if let Some(agent) = &agent {
                agent.peer().close().await;
            }
        };
        let gone = async { tokio::join!(close, child.shutdown()).1 };
        tokio::pin!(gone);
        let reason = match timeout(grace, &mut gone).await {
            Ok(reason) => reason,
            Err(_) => {
                child.kill();
                gone.await
            }
        };
        Some(reason.status)
    }

    /// The agent as it runs, or from nothing to one that has answered. Its session is told of the steps.
    pub(super) async fn reach(&self, seat: &Seat, deadline: Instant) -> Result<AgentHandle> {
        let Inner { setup, parts, .. } = &*self.0;
        let _one = self.0.starting.lock().await;
        let running = self.0.up.locked().agent.clone();
        if let Some((agent, about)) = running.filter(|(agent, _)| !agent.peer().is_closed()) {
            seat.tell(Event::Agent(about)).await?;
            return Ok(agent);
        }
        seat.enter(Phase::Find).await?;
        let transport = if let Some(address) = setup.agent.address() {
            seat.enter(Phase::Start).await?;
            match timeout_at(deadline, self.connect(address)).await {
                Ok(transport) => transport?,
                Err(_) => return Err(self.too_slow(seat.phase())),
            }
        } else {
            let program = find(&setup.agent)?;
            seat.enter(Phase::Start).await?;
            let launch = self.launch(program).await?;
            let (transport, child) = self.start(&launch).await?;
            let pid = child.id();
            let launch = setup.terminal_login.then_some(launch);
            // What is left of an earlier one is killed.
            *self.0.up.locked() = Up { child: Some(Arc::new(child)), launch, ..Up::default() };
            seat.tell(Event::Started(pid)).await?;
            transport
        };
        seat.enter(Phase::Initialize).await?;
        let agent = match timeout_at(deadline, self.greet(transport)).await {
            Ok(Ok(agent)) => agent,
            Ok(Err(error)) => return Err(self.failed(seat.phase(), error).await),
            Err(_) => return Err(self.too_slow(seat.phase())),
        };
        let about = AgentFacts {
            label: setup.agent.name.clone(),
            name: agent.info().map(|info| info.title.clone().unwrap_or_else(|| info.name.clone())),
            version: agent.info().map(|info| info.version.clone()),
            protocol: Some(agent.dialect().to_string()),
            logins: agent.auth_methods().len(),
        };
        parts.frames.speaks(agent.dialect());
        self.0.up.locked().agent = Some((agent.clone(), about.clone()));
        seat.tell(Event::Agent(about)).await?;
        Ok(agent)
    }

    /// How the program is started.
    async fn launch(&self, program: PathBuf) -> Result<Launch> {
        let setup = self.setup();
        let launch = setup.agent.launch(&setup.cwd).await;
        let mut launch = launch.map_err(|error| Failure::new(Ending::Config, Phase::Start, error.to_string()))?;
        launch.program = program.into();
        launch.env.extend(setup.env.iter().map(|(name, value)| (name.into(), value.into())));
        Ok(launch)
    }

    /// Connects to an agent that runs elsewhere.
    async fn connect(&self, address: &str) -> Result<Transport> {
        let wrong = |ending, why: String| Failure::new(ending, Phase::Start, why);
        let remote =
            self.setup().agent.remote(address).await.map_err(|error| wrong(Ending::Config, error.to_string()))?;
        let transport = remote.connect().await.map_err(|error| {
            let (ending, hint) = refused(&remote)
                .unwrap_or((Ending::NotStarted, "check the address, and whether the agent's server runs"));
            wrong(ending, error.to_string()).hint(hint)
        })?;
        *self.0.up.locked() = Up { remote: Some(remote), ..Up::default() };
        Ok(transport)
    }

    async fn start(&self, launch: &Launch) -> Result<(Transport, ChildProcess)> {
        let mut spec = launch.spec().guard(Guard::IfPossible).limits(self.setup().agent.limits).shutdown(LADDER);
        if let Some(on_stderr) = self.setup().on_stderr.clone() {
            spec = spec.on_stderr(move |line| on_stderr(line));
        }
        let (pipes, child) = ChildProcess::spawn(&spec).await.map_err(|error| {
            Failure::new(Ending::NotStarted, Phase::Start, error.to_string())
                .hint("run the command by hand to see what it says")
        })?;
        Ok((Transport::new(pipes.output, pipes.input), child))
    }

    /// Says hello.
    async fn greet(&self, transport: Transport) -> tieline::Result<AgentHandle> {
        let Inner { setup, parts, idle, seats, .. } = &*self.0;
        let (heard, frames) = (idle.clone(), Arc::clone(&parts.frames));
        let seats = Watched(Arc::clone(seats));
        let hooked = Hooked {
            services: parts.services.watched_by(Arc::new(seats.clone())),
            idle: idle.clone(),
            frames: Arc::clone(&frames),
            seats,
            opener: self.opener().clone(),
            started: AtomicU64::new(0),
        };
        Client::new("tieline", env!("CARGO_PKG_VERSION"))
            .handler(hooked)
            .offer(|capabilities| *capabilities = setup.offer.clone())
            .protocol(setup.protocol)
            .framing(setup.framing)
            .longest_update(MAX_UPDATE_BYTES)
            .budget(MAX_UNREAD_BYTES)
            .join_text_after(JOINED_BYTES)
            // There are deadlines of our own.
            .hello_deadline(setup.start_limit)
            .set_up_deadline(setup.start_limit)
            .tap(move |direction, frame| {
                if direction == Direction::In {
                    heard.seen();
                }
                frames.see(direction, frame);
            })
            .connect(transport)
            .await
    }

    /// Logs in, if the user said how or can be asked.
    pub(super) async fn log_in(&self, seat: &Seat, agent: &AgentHandle, error: &tieline::Error) -> Result<Next> {
        let launch = self.0.up.locked().launch.clone();
        let (method, chooser) = (self.setup().login.as_deref(), self.parts().chooser.as_deref());
        if method.is_none() && chooser.is_none() {
            return Err(login_needed(agent, seat.phase(), &words(error)));
        }
        seat.enter(Phase::Login).await?;
        let next = Login { method, chooser, launch: launch.as_ref() }.run(agent).await.map_err(|failed| {
            let mut failure = login_needed(agent, Phase::Login, &words(error));
            // The methods are told on their own.
            let why: String = failed.to_string().lines().take(1).collect();
            let said = words(error);
            // What to type, if the agent says that.
            failure.message = if said.contains("tieline agent login ") && !why.contains(&said) {
                format!("{why}. {said}")
            } else {
                why
            };
            failure
        })?;
        if next == Next::Reconnect {
            agent.close().await;
            if let Some(child) = self.child() {
                child.shutdown().await;
            }
            self.0.up.locked().agent = None;
        }
        Ok(next)
    }

    pub(super) fn too_slow(&self, phase: Phase) -> Box<Failure> {
        let reached = Reached::time("start-timeout", self.setup().start_limit);
        let limit = &reached.limit;
        let why = format!("{} took longer than {limit} s", phase.waits_for());
        let mut failure = Failure::new(Ending::TimedOut, phase, why);
        failure.stderr = self.last_words();
        failure.limit = Some(reached);
        failure.hint("give it more time with --start-timeout, or look closer with `tieline doctor`")
    }

    /// What an error means, told with the end of the agent's process if that has ended.
    pub(super) async fn failed(&self, phase: Phase, error: tieline::Error) -> Box<Failure> {
        if let (true, Some(agent)) = (is_needed(&error), self.agent()) {
            return login_needed(&agent, phase, &words(&error));
        }
        let mut failure = Failure::new(Ending::Failed, phase, error.to_string());
        failure.rpc_code = error.code();
        match (&error, self.child()) {
            (tieline::Error::Closed(_), Some(child)) => {
                if let Ok(reason) = timeout(EXIT_GRACE, child.exit()).await {
                    let limit = over(reason.status, self.setup().agent.limits).unwrap_or_default();
                    failure.message = format!("the agent {}{limit}", reason.status);
                    failure.exit = Some(reason.status.to_string());
                    failure.ending = if phase <= Phase::Initialize { Ending::NotStarted } else { Ending::Failed };
                    failure.hint = Some(hint(phase, reason.status).to_owned());
                }
            }
            (tieline::Error::Closed(_), None) => {
                let remote = self.0.up.locked().remote.clone();
                let trouble = remote.as_ref().and_then(Remote::trouble);
                failure.message = trouble.unwrap_or_else(|| "the agent closed the connection".to_owned());
                let (ending, hint) = remote.as_ref().and_then(refused).unwrap_or(match phase {
                    Phase::Initialize => (
                        Ending::NotStarted,
                        "check the address and the credential (its headers, or TIELINE_AGENT_TOKEN)",
                    ),
                    phase => (
                        if phase < Phase::Initialize { Ending::NotStarted } else { Ending::Failed },
                        "start again with the same command; what was said so far is in the journal",
                    ),
                });
                failure.ending = ending;
                failure.hint = Some(hint.to_owned());
            }
            (tieline::Error::Version(_), _) => {
                failure.hint = Some("ask for another version with --protocol, or put `tieline bridge --` in front of the agent's command"
                        .to_owned());
            }
            _ => {}
        }
        failure.stderr = self.last_words();
        failure
    }
}

/// What follows if the server of an agent wants a credential.
fn refused(remote: &Remote) -> Option<(Ending, &'static str)> {
    const HINT: &str = "TIELINE_AGENT_TOKEN=… before the command (`tieline serve token add` makes one there), or `headers` of the agent in the \
                        configuration";
    match remote.refusal()?.as_u16() {
        401 => Some((Ending::LoginNeeded, HINT)),
        403 => Some((Ending::NotStarted, HINT)),
        _ => None,
    }
}

/// Looks for the program of an agent. A path is meant from where the user is, not from the session's folder.
pub fn find(agent: &AgentSpec) -> Result<PathBuf> {
    let program = agent.command.first().map(String::as_str).unwrap_or_default();
    let found = find_program(OsStr::new(program), agent.cwd.as_deref()).map_err(|why| {
        let failure = Failure::new(Ending::NotStarted, Phase::Find, format!("can't start `{program}`: {why}"));
        failure.hint("check the spelling; `tieline agents list` shows the agents that are known here")
    })?;
    std::path::absolute(&found).map_err(|error| Failure::new(Ending::NotStarted, Phase::Find, error.to_string()))
}

/// Which limit an agent was ended for.
fn over(status: Status, limits: Limits) -> Option<String> {
    match status {
        Status::OutOfMemory => Some(format!(" ({} MiB, max_memory)", limits.memory? >> 20)),
        Status::TooMany => Some(format!(" ({}, max_processes)", limits.processes?)),
        _ => None,
    }
}

/// What to do about an agent that ended.
fn hint(phase: Phase, status: Status) -> &'static str {
    match (phase, status) {
        (Phase::Initialize, Status::Code(0)) => "is this program an ACP agent? Some need an argument such as --acp",
        (Phase::Initialize, _) => "run the command by hand to see what it wants",
        (_, Status::Signal(9)) => "it was killed; perhaps memory ran out",
        _ => "start it again with the same command; what was said so far is in the journal",
    }
}
