//! `tieline chat`, and `tieline` alone on a terminal: the chat on a whole screen.

use crate::exec::ask::{Person, terminal_size};
use crate::plain;
use crate::setup::{
    Answers, Found, Permission, Wanted, agent_key, config_error, find_agent, services, unheld_limits, warn,
};
use crate::shared::{self, WRONG, here, session_name};
use clap::{Args, ValueHint};
use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tieline::Protocol;
use tieline_chat::{AgentChoice, Go, Log, Opener, Ready, Which};
use tieline_client::Future;
use tieline_client::agents::{self, BUILT_IN, KNOWN, find_program};
use tieline_client::config::{Config, Flags, Sources};
use tieline_client::journal::Journal;
use tieline_client::live::{Desk, Failure, Frames, Link, Notes, OnLost, Part, Parts};
use tieline_client::login::Chooser;
use tieline_client::permission::Preset;

/// How long an agent may take until it has a prompt.
const START_TIMEOUT: Duration = Duration::from_mins(2);

const EXAMPLES: &str = "Examples:
  tieline                          the last agent used in this folder, else the built-in one
  tieline chat --agent codex       another agent
  tieline chat -c                  goes on with the last session here
  tieline chat -r 4f2 \"and now?\"   goes on with a session, and says something";

/// A conversation with an agent on the whole screen
///
/// Where nobody is at the terminal it is `tieline exec`.
#[derive(Args, Debug, Default)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Arguments {
    /// What to say first
    #[arg(value_name = "PROMPT")]
    prompt: Vec<String>,

    /// A name (see `tieline agents list`) or one quoted command line
    #[arg(long, short, value_name = "NAME|COMMAND", value_hint = ValueHint::CommandString, conflicts_with = "command")]
    agent: Option<String>,

    /// The agent as a command with its arguments
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<String>,

    /// auto, 1, 2 or 2-seed [default: 1; auto for the built-in agent]
    ///
    /// The version of the protocol.
    #[arg(long, value_name = "VERSION")]
    protocol: Option<Protocol>,

    /// The folder to work in
    #[arg(long, short = 'C', value_name = "DIR", value_hint = ValueHint::DirPath)]
    cwd: Option<PathBuf>,

    /// Another folder that the agent may use; can be given again
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    add_dir: Vec<PathBuf>,

    /// A session by a name of yours; begun if there is none
    #[arg(long, short, value_name = "NAME", value_parser = session_name, conflicts_with_all = ["resume", "go_on"])]
    session: Option<String>,

    /// Goes on with the last session in this folder; with an agent named, with its last one
    #[arg(long = "continue", short = 'c', conflicts_with = "resume")]
    go_on: bool,

    /// Goes on with a session: its id, enough of it, its name, or `last`
    #[arg(long, short, value_name = "SESSION")]
    resume: Option<String>,

    /// Switches to a mode first
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,

    /// Switches to a model first; the built-in agent takes any PROVIDER/MODEL, see `tieline models`
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,

    /// Reaches the provider of that model at this address instead; for the built-in agent
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,

    /// Asks about everything, reading too
    #[arg(long, conflicts_with_all = ["allow_edits", "allow_all"])]
    ask: bool,

    /// Allows changing files in the project without a question
    #[arg(long, conflicts_with = "allow_all")]
    allow_edits: bool,

    /// Allows everything that no rule forbids
    #[arg(long)]
    allow_all: bool,

    /// Allows what fits a rule, such as `run cargo test *`; can be given again
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,

    /// Forbids what fits a rule, such as `write **/.env`; can be given again
    #[arg(long, value_name = "RULE")]
    deny: Vec<String>,

    /// Lines instead of a screen: for screen readers, and for the terminal's own scrollback (also with ACCESSIBLE=1)
    #[arg(long)]
    plain: bool,

    /// Keeps no record of the session
    #[arg(long, conflicts_with_all = ["session", "go_on", "resume"])]
    no_record: bool,
}

impl Arguments {
    fn wanted(&self) -> Wanted {
        let flags =
            [(self.ask, Preset::Ask), (self.allow_edits, Preset::AllowEdits), (self.allow_all, Preset::AllowAll)];
        Wanted {
            agent: self.agent.clone(),
            command: self.command.clone(),
            protocol: self.protocol,
            cwd: self.cwd.clone(),
            add_dir: self.add_dir.clone(),
            session: self.session.clone(),
            go_on: self.go_on,
            resume: self.resume.clone(),
            on_lost: OnLost::HandOver,
            mode: self.mode.clone(),
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            preset: flags.into_iter().find(|(on, _)| *on).map(|(_, preset)| preset),
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            start_timeout: START_TIMEOUT,
            no_record: self.no_record,
            ..Wanted::default()
        }
    }
}

impl Arguments {
    /// True if lines are wanted instead of a screen, and somebody can type them.
    pub fn is_plain(&self) -> bool {
        (self.plain || plain::is_wanted()) && plain::has_person()
    }
}

/// True if a person can see and use a screen here.
pub fn has_screen() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !dumb
}

/// Runs the chat until the user leaves.
pub fn run(arguments: &Arguments) -> ExitCode {
    match shared::block_on_beside(chat(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => shared::failed("chat", &why),
    }
}

async fn chat(arguments: &Arguments) -> Result<(), shared::Failed> {
    let here = here()?;
    let folder = arguments.cwd.as_ref().map_or_else(|| here.clone(), |cwd| here.join(cwd));
    let config = shared::load(&Sources::of(&folder), &Flags::default()).map_err(shared::bad_config)?;
    let mut wanted = arguments.wanted();
    // One that is not there yet knows nothing, and takes a while to be made: the screen does not wait for it.
    let journal = OnceLock::new();
    let exists = Journal::default_path().is_ok_and(|path| path.exists());
    let free = wanted.agent.is_none() && wanted.command.is_empty() && wanted.resume.is_none();
    if exists && free && !wanted.no_record {
        let journal = journal.get_or_init(|| Journal::open_default().ok().map(|(journal, _)| journal));
        if let Some(journal) = journal {
            wanted.agent = last_agent(journal, &folder, &config).await;
        }
    }
    // What can't be gone on with, or started, is said here, not on a screen.
    let found = if wanted.resume.is_some() || wanted.go_on {
        Found::of(&wanted, &config, &Notes::default()).await.map(drop)
    } else {
        find_agent(&wanted, &config)
    };
    found.map_err(|failure| {
        let hint = failure.hint.as_ref().map(|hint| format!("\n  try: {hint}")).unwrap_or_default();
        (failure.ending.code(), format!("{}{hint}", failure.message))
    })?;
    let words = arguments.prompt.join(" ");
    let prompt = if words.is_empty() { Vec::new() } else { vec![Part::Text(words)] };
    let which = Which::default();
    let opener = Arc::new(Sessions { wanted, config, journal, folder });
    if arguments.is_plain() {
        return plain::chat(&opener, prompt).await;
    }
    tieline_chat::run(opener, which, prompt).await.map_err(|error| (WRONG, error.to_string()))
}

/// The agent that was used here last, if it can be had still.
async fn last_agent(journal: &Journal, folder: &std::path::Path, config: &Config) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let entry = journal.last(None, Some(&folder)).await.ok().flatten()?;
    if !entry.command.is_empty() {
        return Some(agents::join_line(&entry.command))
            .filter(|_| find_program(entry.command[0].as_ref(), None).is_ok());
    }
    let spec = agents::resolve(config, &entry.agent).ok()?;
    find_program(spec.command.first()?.as_ref(), spec.cwd.as_deref()).ok().map(|_| entry.agent.clone())
}

/// Prepares sessions for the chat, as the command line says.
pub struct Sessions {
    wanted: Wanted,
    config: Config,
    /// Opened when it is wanted.
    journal: OnceLock<Option<Journal>>,
    folder: PathBuf,
}

impl Sessions {
    fn wanted(&self, which: Which) -> Wanted {
        let mut wanted = self.wanted.clone();
        if which.agent.is_some() {
            (wanted.agent, wanted.command) = (which.agent, Vec::new());
        }
        if which.session != Go::Start {
            (wanted.session, wanted.go_on, wanted.resume) = (None, false, None);
        }
        if let Go::On(id) = which.session {
            // A session has an agent and a folder of its own.
            (wanted.agent, wanted.command, wanted.cwd, wanted.resume) = (None, Vec::new(), None, Some(id));
        }
        wanted
    }

    /// The configuration as it is now: agents may have been added since. One that is broken now counts as it was.
    fn config(&self) -> Config {
        shared::load(&Sources::of(&self.folder), &Flags::default()).unwrap_or_else(|_| self.config.clone())
    }

    /// True if they are written down.
    pub fn keeps(&self) -> bool {
        self.journal().is_some()
    }

    /// Prepares one. Who is asked is the person at the terminal, if there is one, else who reads the desk.
    pub async fn ready(&self, which: Which, person: Option<Arc<Person>>) -> Result<Ready, Box<Failure>> {
        let config = &if which.session == Go::Start { self.config.clone() } else { self.config() };
        let (wanted, notes) = (self.wanted(which), Notes::default());
        warn(config, &notes);
        let found = Found::of(&wanted, config, &notes).await?;
        for words in unheld_limits(&found.agent) {
            notes.warn(words);
        }
        let mcp = config.mcp_servers().await.map_err(|error| config_error(&error))?;
        let recording = found.recording().await?;
        let permission = Permission::of(&wanted, config, &found.cwd, found.agent.is_built_in())?;
        // The screen gives the terminal away for a login, and takes it back.
        let lends = person.is_none();
        let desk = Arc::new(Desk(notes.clone()));
        let answers = match &person {
            Some(person) => Answers::Person(person.clone(), person.clone()),
            None => Answers::Person(desk.clone(), desk.clone()),
        };
        let chooser: Arc<dyn Chooser> = match person {
            Some(person) => person,
            None => desk,
        };
        let size = terminal_size().map(|size| if lends { tieline_chat::shown_size(size) } else { size });
        let size = size.unwrap_or_default();
        let services = services(&wanted, &permission, (&found.cwd, &found.roots), answers, size, &notes)?;
        let log = Arc::new(Log::default());
        let frames = Frames::new(notes.clone()).show({
            let log = log.clone();
            move |direction, json| log.push(direction, json)
        });
        let setup = found.setup(&wanted, &permission, &services, None, lends);
        let opening = found.opening(&wanted, mcp, Vec::new(), recording);
        let parts = Parts { services, notes, frames: Arc::new(frames), chooser: Some(chooser) };
        Ok(Ready { link: Link::new(setup, parts), opening, frames: log, prompt: Vec::new() })
    }
}

impl Opener for Sessions {
    fn open(&self, which: Which) -> Future<'_, Result<Ready, Box<Failure>>> {
        Box::pin(self.ready(which, None))
    }

    fn first(&self) -> Option<String> {
        let Wanted { session, go_on, resume, .. } = &self.wanted;
        let new = session.is_none() && !go_on && resume.is_none();
        new.then(|| agent_key(&self.wanted, &self.config)).flatten()
    }

    fn agents(&self) -> Vec<AgentChoice> {
        let config = self.config();
        let is_there = |program: &str| find_program(OsStr::new(program), None).is_ok();
        let mut all = vec![AgentChoice { name: BUILT_IN.into(), about: "the built-in agent".into(), found: true }];
        for spec in config.agents.keys().filter_map(|name| agents::resolve(&config, name).ok()) {
            let (command, found) = (agents::join_line(&spec.command), is_there(&spec.command[0]));
            let mend = format!("{command} is not there; tieline agents add --replace {} -- COMMAND", spec.name);
            all.push(AgentChoice { name: spec.name, about: if found { command } else { mend }, found });
        }
        for known in KNOWN.iter().filter(|known| !config.agents.contains_key(known.name)) {
            let found = is_there(known.command[0]);
            let about = if found { known.title } else { known.install };
            all.push(AgentChoice { name: known.name.into(), about: about.into(), found });
        }
        all.sort_by_key(|choice| !choice.found);
        all
    }

    fn journal(&self) -> Option<Journal> {
        let open = || Journal::open_default().ok().map(|(journal, _)| journal);
        self.journal.get_or_init(|| if self.wanted.no_record { None } else { open() }).clone()
    }

    fn folder(&self) -> PathBuf {
        self.folder.clone()
    }
}
