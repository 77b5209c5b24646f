//! `tieline serve`: agents behind one address, for clients of the protocol and, with a web page, for people.

use crate::setup::{self, Answers, Found, Permission, config_error, services, unheld_limits, warn};
use crate::shared::{self, Failed, ListFormat, USAGE, WRONG, here, table};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use qrcode::{Color, EcLevel, QrCode};
use serde::Serialize;
use std::io::IsTerminal as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tieline::Protocol;
use tieline::process::Limits;
use tieline_client::agents::{self, AgentSpec};
use tieline_client::config::{Config, Flags, Sources};
use tieline_client::journal::Journal;
use tieline_client::live::{Desk, Ending, Failure, Frames, Notes, OnLost, Parts, Phase};
use tieline_client::sanitize;
use tieline_host::run::Size;
use tieline_host::store::{NodeSettings, Postgres, Time};
use tieline_serve::{
    Codes, Door, Hub, Launched, Launcher, Listener, Role, Rules, Secure, Settings, Token, Tokens, Wanted, Watch,
};
use tieline_web::Trust;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// How long an agent may take until it has a prompt.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// A session that nobody is on is let go after this time.
const IDLE: Duration = Duration::from_mins(30);
/// The file with the tokens, in the state folder.
const TOKENS: &str = "serve-tokens.json";
/// The file with the answers to questions, in the state folder.
const ANSWERS: &str = "serve-answers.jsonl";

/// The light border of a picture that cameras read, in squares.
const QUIET: usize = 2;

const EXAMPLES: &str = "Examples:
  tieline serve                              the built-in agent in this folder; prints a link for a browser
  tieline serve --agent claude --agent codex several agents
  tieline serve -- my-agent --acp            any agent
  tieline serve token add laptop             a token for another client
  TIELINE_AGENT_TOKEN=tl-… tieline exec --agent ws://127.0.0.1:7717 list the files";

/// Serve agents to clients over HTTP and WebSocket, and to people on a web page
///
/// A session belongs to the server: a client that is lost cancels nothing, and several can be on one session at once.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    /// The address to listen at; port 0 picks one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7717")]
    listen: SocketAddr,

    /// An agent by its name (see `tieline agents list`); can be given again
    #[arg(long, short, value_name = "NAME", conflicts_with = "command")]
    agent: Vec<String>,

    /// The agent as a command with its arguments
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<String>,

    /// auto, 1, 2 or 2-seed [default: 1; auto for the built-in agent]
    ///
    /// The version of the protocol that the agent is spoken to in. Clients may speak any.
    #[arg(long, value_name = "VERSION")]
    protocol: Option<Protocol>,

    /// The folder to work in; sessions stay in it and below
    #[arg(long, short = 'C', value_name = "DIR", value_hint = ValueHint::DirPath)]
    cwd: Option<PathBuf>,

    /// Another folder that sessions may work in; can be given again
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    root: Vec<PathBuf>,

    /// A chain of certificates in PEM form, for TLS
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    tls_cert: Option<PathBuf>,

    /// The key of the first certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    tls_key: Option<PathBuf>,

    /// A name under which the server is asked for, besides its address; can be given again
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// A web page of this origin may ask, such as `https://example.org`; can be given again
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,

    /// Listens beyond this machine without TLS: everybody on the way can read and change everything
    #[arg(long)]
    without_tls: bool,

    /// Lets everybody in; only for an address of this machine
    #[arg(long)]
    no_auth: bool,

    /// Tells this address, by POST, when a question waits and when a turn ends
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    webhook: Option<String>,

    /// So many sessions of each agent are live at once
    #[arg(long, value_name = "COUNT", help_heading = "Limits on each agent")]
    max_sessions: Option<u64>,

    /// An agent with more processes, with all that it starts, is ended; each session has an agent process of its own
    #[arg(long, value_name = "COUNT", help_heading = "Limits on each agent")]
    max_processes: Option<u64>,

    /// An agent with more memory, with all that it starts, is ended; the next prompt starts it again
    #[arg(long, value_name = "MIB", help_heading = "Limits on each agent")]
    max_memory: Option<u64>,

    /// An agent gets no more CPU than this, in percent of one core; needs cgroup v2
    #[arg(long, value_name = "PERCENT", help_heading = "Limits on each agent")]
    max_cpu: Option<u64>,

    /// Keeps sessions in a database that several servers share, see docs/remote.md
    ///
    /// An address (`postgres://user@host/database`), or `@FILE` with the address in a file: others on this machine can see what is typed here,
    /// so an address with a password belongs into a file.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    store: Option<String>,

    /// How long a session stays with a server that has fallen silent, in seconds; with --store
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=600), requires = "store")]
    lease: u64,

    /// How long turns that run may take to end when the server is told to, in seconds; prompts are refused meanwhile
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    drain: u64,

    /// So many sessions are live at once; half of them can be of one token
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u16).range(2..))]
    sessions: u16,

    /// So many clients are connected at once; a quarter of them can have one token
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u16).range(4..))]
    clients: u16,

    /// Refuses what the draft of the transport refuses
    #[arg(long)]
    strict: bool,
}

#[derive(Subcommand)]
enum Action {
    /// Tokens of clients: add, list, revoke
    #[command(subcommand)]
    Token(TokenAction),
}

#[derive(Subcommand)]
enum TokenAction {
    /// Makes a token and prints it, once
    Add {
        /// What it is called
        name: String,
        /// What it may do
        #[arg(long, value_enum, default_value = "use")]
        role: RoleName,
        /// For how many days it is good; for ever without this
        #[arg(long, value_name = "DAYS")]
        days: Option<u32>,
    },
    /// Lists the tokens; only their names are kept, and hashes
    List {
        #[command(flatten)]
        format: ListFormat,
    },
    /// Takes a token back
    Revoke {
        /// What it is called
        name: String,
    },
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum RoleName {
    /// Looks on
    Read,
    /// Opens sessions, prompts, answers questions
    Use,
    /// Deletes sessions, too
    Admin,
}

impl From<RoleName> for Role {
    fn from(role: RoleName) -> Self {
        match role {
            RoleName::Read => Self::Read,
            RoleName::Use => Self::Use,
            RoleName::Admin => Self::Admin,
        }
    }
}

/// Serves until it is told to end.
pub fn run(arguments: Arguments) -> ExitCode {
    let done = match &arguments.action {
        Some(Action::Token(action)) => token(action),
        None => shared::block_on(serve(arguments)).map(|()| String::new()),
    };
    shared::finish("serve", done)
}

fn tokens() -> Result<Tokens, Failed> {
    let journal = Journal::default_path().map_err(|error| (WRONG, error.to_string()))?;
    Ok(Tokens::at(journal.with_file_name(TOKENS)))
}

fn token(action: &TokenAction) -> Result<String, Failed> {
    let (tokens, wrong) = (tokens()?, |error: tieline_serve::TokenError| (WRONG, error.to_string()));
    match action {
        TokenAction::Add { name, role, days } => {
            let life = days.map(|days| Duration::from_hours(24 * u64::from(days)));
            let secret = tokens.add(name, (*role).into(), life).map_err(wrong)?;
            shared::note("This is told once. A client sends it as `Authorization: Bearer TOKEN`.");
            Ok(format!("{secret}\n"))
        }
        TokenAction::List { format } => {
            let known = tokens.list().map_err(|error| (WRONG, error.to_string()))?;
            let rows: Vec<Row> = known.iter().map(Row::of).collect();
            Ok(format.print(&rows, |rows| {
                let cells = |row: &Row| {
                    let until = row.until.as_ref().map(|until| format!("until {until}")).unwrap_or_default();
                    vec![row.name.clone(), row.role.clone(), if row.ended { "ended".to_owned() } else { until }]
                };
                table(&rows.iter().map(cells).collect::<Vec<_>>())
            }))
        }
        TokenAction::Revoke { name } if tokens.revoke(name).map_err(wrong)? => Ok(String::new()),
        TokenAction::Revoke { name } => {
            Err((WRONG, format!("there is no token `{name}`; `tieline serve token list` shows them")))
        }
    }
}

/// A token in a list.
#[derive(Serialize)]
struct Row {
    name: String,
    role: String,
    until: Option<String>,
    ended: bool,
}

impl Row {
    fn of(token: &Token) -> Self {
        let until = token.until.map(|until| Time(i64::try_from(until).unwrap_or(i64::MAX / 1000) * 1000).to_string());
        Self {
            name: token.name.clone(),
            role: format!("{:?}", token.role).to_lowercase(),
            until,
            ended: !token.is_good(),
        }
    }
}

async fn serve(arguments: Arguments) -> Result<(), Failed> {
    let here = here()?;
    let real = |folder: &PathBuf| {
        let folder = here.join(folder);
        folder.canonicalize().map_err(|error| (USAGE, format!("the folder `{}`: {error}", folder.display())))
    };
    let folder = arguments.cwd.as_ref().map_or_else(|| real(&here), real)?;
    let mut roots = vec![folder.clone()];
    for root in &arguments.root {
        roots.push(real(root)?);
    }
    let own = arguments.listen.ip().is_loopback();
    let secure = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(chain), Some(key)) => {
            Some(Secure::from_files(chain, key).map_err(|error| (USAGE, format!("no TLS: {error}")))?)
        }
        _ => None,
    };
    if !own && arguments.no_auth {
        return Err((USAGE, "--no-auth is for an address of this machine only".to_owned()));
    }
    if !own && secure.is_none() && !arguments.without_tls {
        let why =
            "beyond this machine it needs TLS (--tls-cert, --tls-key), or --without-tls behind a proxy that has it";
        return Err((USAGE, why.to_owned()));
    }
    let config = shared::load(&Sources::of(&folder), &Flags::default()).map_err(shared::bad_config)?;
    let shared_journal = match &arguments.store {
        Some(store) => Some(connect(store, Duration::from_secs(arguments.lease)).await?),
        None => None,
    };
    let journal = match &shared_journal {
        Some(journal) => journal.clone(),
        None => {
            let (journal, mended) = Journal::open_default().map_err(|error| (WRONG, error.to_string()))?;
            if let Some(mended) = mended {
                shared::note(mended);
            }
            journal
        }
    };
    let mut launcher = Sessions {
        config,
        journal: shared_journal,
        command: arguments.command.clone(),
        agent: arguments.agent.first().cloned(),
        protocol: arguments.protocol,
        offered: Vec::new(),
        limits: agents::limits(arguments.max_processes, arguments.max_memory, arguments.max_cpu),
        live_each: arguments.max_sessions.filter(|most| *most > 0),
    };
    // What can't be started is said now, not to the first client.
    let names = arguments.agent.iter().skip(1).cloned().map(Some);
    for agent in std::iter::once(None).chain(names) {
        let wanted = Wanted { agent, cwd: folder.clone(), ..Wanted::default() };
        let found = Found::of(&launcher.wanted(&wanted), &launcher.config, &Notes::default()).await;
        let found = found.map_err(|failure| (WRONG, failure.message.clone()))?;
        launcher.tell_limits(&found.agent);
        launcher.offered.push(found.key);
    }
    // Where everybody is let in, everybody is one.
    let share = |all: u16, part: u16| usize::from(if arguments.no_auth { all } else { all / part });
    let settings = Settings {
        folder: folder.clone(),
        roots,
        agents: arguments.agent.clone(),
        max_sessions: arguments.sessions.into(),
        max_sessions_each: share(arguments.sessions, 2),
        idle: IDLE,
    };
    let tokens = tokens()?;
    let mut watch = Watch::default().log(tokens.path().with_file_name(ANSWERS));
    if let Some(address) = &arguments.webhook {
        // It may hold a secret, so it is not said again.
        let wrong = || (USAGE, "--webhook takes an address that begins with http:// or https://".to_owned());
        watch = watch.call(address).ok_or_else(wrong)?;
    }
    let hub = Hub::new(launcher, journal, settings).watched(watch);
    let listener = TcpListener::bind(arguments.listen)
        .await
        .map_err(|error| (WRONG, format!("can't listen at {}: {error}; --listen takes another", arguments.listen)))?;
    let bound = listener.local_addr().map_err(|error| (WRONG, error.to_string()))?;
    let codes = Arc::new(Codes::default());
    let door = Door::new(tokens, Arc::clone(&codes)).open(arguments.no_auth).secure(secure.is_some());
    tell(bound, secure.is_some(), arguments.no_auth, &codes)?;
    let listener = match secure {
        Some(secure) => Listener::Tls(listener, secure),
        None => Listener::Tcp(listener),
    };
    let mut rules = Rules {
        strict: arguments.strict,
        hosts: arguments.allow_host,
        origins: arguments.allow_origin,
        ..Rules::default()
    };
    let limits = &mut rules.limits;
    (limits.connections, limits.guest_connections) = (arguments.clients.into(), share(arguments.clients, 4));
    // A client over HTTP has several.
    (limits.sockets, limits.guest_sockets) = (4 * limits.connections, 4 * limits.guest_connections);
    let stop = (told_to_end(arguments.drain), Duration::from_secs(arguments.drain));
    tieline_serve::serve(hub, door, rules, vec![listener], stop).await;
    Ok(())
}

/// Waits until the server is told to end.
async fn told_to_end(drain: u64) {
    let mut ends = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    match &mut ends {
        [Ok(interrupt), Ok(terminate)] => tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        },
        _ => std::future::pending().await,
    }
    let turns = if drain > 0 { "running turns may end" } else { "running turns are stopped" };
    shared::note(format!("Ending: {turns}, sessions are kept."));
}

/// The sessions that several servers share.
async fn connect(store: &str, lease: Duration) -> Result<Journal, Failed> {
    let address = match store.strip_prefix('@') {
        Some(file) => {
            std::fs::read_to_string(file).map_err(|error| (USAGE, format!("--store: the file `{file}`: {error}")))?
        }
        None => store.to_owned(),
    };
    let address = address.trim();
    if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
        // It may hold a password, so it is not said again.
        return Err((USAGE, "--store takes an address that begins with postgres://, or @FILE".to_owned()));
    }
    let authorities = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let tls = Trust::new(authorities).connector().map_err(|error| (USAGE, error.to_string()))?;
    let home = Postgres::connect(address, NodeSettings { lease, tls }).await;
    let home = home.map_err(|error| (WRONG, format!("--store: {error}")))?;
    Journal::shared_in(Arc::new(home)).map_err(|error| (WRONG, error.to_string()))
}

/// Says where the server is, and how a person comes in.
fn tell(bound: SocketAddr, secure: bool, open: bool, codes: &Codes) -> Result<(), Failed> {
    let (web, socket) = if secure { ("https", "wss") } else { ("http", "ws") };
    let bound = reachable(bound);
    let link = if open {
        format!("{web}://{bound}/")
    } else {
        let code = codes.make().map_err(|error| (WRONG, error.to_string()))?;
        format!("{web}://{bound}/?code={code}")
    };
    let page = if open { "Page" } else { "Page (this link is good once, for ten minutes)" };
    let text =
        format!("{page}:\n  {link}\nClients of the protocol:\n  {socket}://{bound}/acp\n  {web}://{bound}/acp\n");
    let _ = shared::print(&text);
    // For the camera of a phone, which reaches no address of this machine's own.
    if std::io::stdout().is_terminal() && !bound.ip().is_loopback() {
        let _ = shared::print(&picture(&link).unwrap_or_default());
    }
    if !open {
        shared::note("They need a token: `tieline serve token add NAME`. Ctrl-C ends the server.");
    }
    Ok(())
}

/// An address that others can use: for one that stands for all of this machine, the one that it has in its network.
fn reachable(bound: SocketAddr) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    let (any, somewhere) = if bound.is_ipv4() { ("0.0.0.0:0", "192.0.2.1:9") } else { ("[::]:0", "[2001:db8::1]:9") };
    // Nothing is sent: it only asks which way would be taken.
    let way = UdpSocket::bind(any).and_then(|socket| socket.connect(somewhere).and_then(|()| socket.local_addr()));
    way.map_or(bound, |way| SocketAddr::new(way.ip(), bound.port()))
}

/// A link as a picture of half blocks, dark on light whatever the terminal's colours are.
fn picture(link: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(link, EcLevel::L).ok()?;
    let (width, colors) = (code.width(), code.to_colors());
    let dark = |x: usize, y: usize| {
        let inside = (QUIET..width + QUIET).contains(&x) && (QUIET..width + QUIET).contains(&y);
        inside && colors[(y - QUIET) * width + x - QUIET] == Color::Dark
    };
    let rows = (0..width + 2 * QUIET).step_by(2).map(|y| {
        let squares: String = (0..width + 2 * QUIET)
            .map(|x| match (dark(x, y), dark(x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            })
            .collect();
        format!("\x1b[30;107m{squares}\x1b[0m\n")
    });
    Some(rows.collect())
}

/// Starts sessions as the configuration says.
struct Sessions {
    config: Config,
    /// Where they are kept, if not in the user's own journal.
    journal: Option<Journal>,
    command: Vec<String>,
    agent: Option<String>,
    protocol: Option<Protocol>,
    /// What the journal calls the agents that are served.
    offered: Vec<String>,
    /// What each agent may take; its own limits count as well.
    limits: Limits,
    /// So many sessions of each agent are live.
    live_each: Option<u64>,
}

impl Sessions {
    fn limit(&self, agent: &mut AgentSpec) {
        let smaller = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        let Limits { processes, memory, cpu } = agent.limits;
        agent.limits = Limits {
            processes: smaller(processes, self.limits.processes),
            memory: smaller(memory, self.limits.memory),
            cpu: smaller(cpu, self.limits.cpu),
        };
        agent.max_sessions = smaller(agent.max_sessions, self.live_each);
    }

    /// Says what of an agent's limits can't be held here.
    fn tell_limits(&self, agent: &AgentSpec) {
        let mut agent = agent.clone();
        self.limit(&mut agent);
        unheld_limits(&agent).into_iter().for_each(shared::note);
    }

    fn wanted(&self, wanted: &Wanted) -> setup::Wanted {
        // A session that goes on has its own agent and folder.
        let new = wanted.resume.is_none();
        setup::Wanted {
            agent: wanted.agent.clone().or_else(|| self.agent.clone()).filter(|_| new),
            command: if new && wanted.agent.is_none() { self.command.clone() } else { Vec::new() },
            cwd: new.then(|| wanted.cwd.clone()),
            add_dir: wanted.roots.clone(),
            resume: wanted.resume.clone(),
            protocol: self.protocol,
            on_lost: OnLost::HandOver,
            start_timeout: START_TIMEOUT,
            journal: self.journal.clone(),
            ..setup::Wanted::default()
        }
    }

    async fn ready(&self, asked: Wanted) -> Result<Launched, Box<Failure>> {
        let (wanted, notes) = (self.wanted(&asked), Notes::default());
        warn(&self.config, &notes);
        let mut found = Found::of(&wanted, &self.config, &notes).await?;
        // Whoever wrote the session down need not be who may start programs here: a row of a database, or a run of another agent.
        if !self.offered.contains(&found.key) {
            let why = format!(
                "the session is one with `{}`, which this server does not offer",
                sanitize::exact_line(&found.key)
            );
            return Err(Failure::new(Ending::Usage, Phase::Session, why));
        }
        self.limit(&mut found.agent);
        let mcp = self.config.mcp_servers().await.map_err(|error| config_error(&error))?;
        let recording = found.recording().await?;
        let permission = Permission::of(&wanted, &self.config, &found.cwd, found.agent.is_built_in())?;
        let desk = Arc::new(Desk(notes.clone()));
        let answers = Answers::Person(desk.clone(), desk.clone());
        let services = services(&wanted, &permission, (&found.cwd, &found.roots), answers, Size::default(), &notes)?;
        let setup = found.setup(&wanted, &permission, &services, None, false);
        let opening = found.opening(&wanted, mcp, Vec::new(), recording);
        let frames = Arc::new(Frames::new(notes.clone()));
        Ok(Launched { setup, parts: Parts { services, notes, frames, chooser: Some(desk) }, opening })
    }
}

impl Launcher for Sessions {
    fn launch(&self, wanted: Wanted) -> Pin<Box<dyn Future<Output = Result<Launched, Box<Failure>>> + Send + '_>> {
        Box::pin(self.ready(wanted))
    }
}
