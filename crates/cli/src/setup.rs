//! From what is wanted to an agent and a session: agent, folder, roots, rules, journal. `exec` and the chat both stand on it; what
//! is wrong is found before an agent starts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline::Protocol;
use tieline::process::unheld;
use tieline_client::agents::{self, AgentSpec, BUILT_IN};
use tieline_client::config::Config;
use tieline_client::elicit::Asker;
use tieline_client::journal::{Entry, Journal, Recording};
use tieline_client::live::{self, Budget, Ending, Failure, Notes, OnLine, OnLost, Opening, Phase, Setup};
use tieline_client::permission::{Decider, Engine, Headless, OnAsk, Preset};
use tieline_client::services::Services;
use tieline_client::{terminal, undo};
use tieline_coder::model::addresses::Kept;
use tieline_coder::model::choose;
use tieline_host::rules::{Decision, Keep, Limits, Rule, Settings};
use tieline_host::run::Size;
use tieline_host::store::Claim;
use tieline_rpc::framing::Framing;
use tieline_schema::{ClientCapabilities, McpServer};

/// What is wanted on a command line, of `exec` and of the chat alike.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Wanted {
    /// The agent by its name or as one line.
    pub agent: Option<String>,
    /// The agent as a command.
    pub command: Vec<String>,
    /// Variables for it.
    pub env: Vec<(String, String)>,
    /// The way to log in.
    pub login: Option<String>,
    /// The version of the protocol.
    pub protocol: Option<Protocol>,
    /// How messages are framed.
    pub framing: Option<Framing>,
    /// The folder to work in.
    pub cwd: Option<PathBuf>,
    /// More folders.
    pub add_dir: Vec<PathBuf>,
    /// A session by its name.
    pub session: Option<String>,
    /// The last session of the agent here.
    pub go_on: bool,
    /// A session by its id.
    pub resume: Option<String>,
    /// What to do if the agent has lost it.
    pub on_lost: OnLost,
    /// The mode to switch to.
    pub mode: Option<String>,
    /// The model to switch to.
    pub model: Option<String>,
    /// Where the provider of the model is.
    pub base_url: Option<String>,
    /// Options to set.
    pub options: Vec<(String, String)>,
    /// What happens where no rule says anything.
    pub preset: Option<Preset>,
    /// Rules that allow.
    pub allow: Vec<String>,
    /// Rules that forbid.
    pub deny: Vec<String>,
    /// Files are not offered.
    pub no_fs: bool,
    /// Terminals are not offered.
    pub no_terminal: bool,
    /// How long the agent may take until it has a prompt.
    pub start_timeout: Duration,
    /// What a turn may cost.
    pub budget: Budget,
    /// Nothing is kept.
    pub no_record: bool,
    /// Where sessions are kept, if not in the user's own journal.
    pub journal: Option<Journal>,
}

/// What was found for it.
pub struct Found {
    /// Where sessions are kept.
    pub journal: Option<Journal>,
    /// The session to go on with.
    pub entry: Option<Entry>,
    /// The folder to work in.
    pub cwd: PathBuf,
    /// The agent.
    pub agent: AgentSpec,
    /// It is known by its command only.
    pub by_command: bool,
    /// What the journal calls it.
    pub key: String,
    /// More folders.
    pub roots: Vec<PathBuf>,
    /// Where the providers of its models are, as far as that was named.
    pub addresses: BTreeMap<String, String>,
}

/// A result whose error says what to do.
pub type Result<T> = std::result::Result<T, Box<Failure>>;

impl Found {
    /// Finds the agent, the session and the folders.
    pub async fn of(wanted: &Wanted, config: &Config, notes: &Notes) -> Result<Self> {
        let journal = journal(wanted, notes).await?;
        let mut entry = entry(wanted, config, journal.as_ref()).await?;
        // In a database that others share anybody may have written it: no key of this machine goes there.
        if let Some(entry) = entry.as_mut().filter(|_| wanted.journal.is_some()) {
            entry.addresses.clear();
        }
        if let (Some(journal), None) = (journal.clone(), &entry) {
            let (keep, notes) = (config.retention, notes.clone());
            // Beside the run: what is not removed when it ends is removed by the next.
            tokio::spawn(async move {
                if let Err(error) = journal.tidy(keep).await {
                    notes.warn(format!("old sessions were not removed: {error}"));
                }
            });
        }
        let cwd = folder(wanted, entry.as_ref())?;
        let (mut agent, by_command) = agent(wanted, config, entry.as_ref())?;
        let key = key(&agent, by_command);
        if let Some(entry) = entry.as_ref().filter(|entry| entry.agent != key) {
            let why = format!("the session {} is one with `{}`, not with `{key}`", entry.id, entry.agent);
            return Err(usage(why).hint("leave the agent out to go on with the session's own"));
        }
        if agent.is_built_in() && journal.is_none() {
            agent.command.push("--no-store".to_owned()); // Where we find no place to keep something, it would find none either.
        }
        let addresses = model(wanted, config, entry.as_ref(), &mut agent).await?;
        let roots = roots(wanted, entry.as_ref())?;
        Ok(Self { journal, entry, cwd, agent, by_command, key, roots, addresses })
    }

    /// The record of the session to go on with.
    pub async fn recording(&self) -> Result<Option<Recording>> {
        match (&self.journal, &self.entry) {
            (Some(journal), Some(entry)) => reopen(journal, entry).await.map(Some),
            _ => Ok(None),
        }
    }

    /// How the agent is started and greeted.
    pub fn setup(
        &self,
        wanted: &Wanted,
        permission: &Permission,
        services: &Services,
        on_stderr: Option<OnLine>,
        terminal_login: bool,
    ) -> Setup {
        let mut offer = ClientCapabilities::default();
        services.offer(&mut offer);
        Setup {
            protocol: wanted.protocol.unwrap_or_else(|| self.agent.protocol_or_default()),
            framing: wanted.framing.unwrap_or(self.agent.framing),
            agent: self.agent.clone(),
            cwd: self.cwd.clone(),
            env: wanted.env.iter().cloned().chain([permission.hand_over()]).collect(),
            on_stderr,
            login: wanted.login.clone(),
            offer,
            start_limit: wanted.start_timeout,
            terminal_login,
        }
    }

    /// How the session is opened.
    pub fn opening(
        self,
        wanted: &Wanted,
        mcp: Vec<McpServer>,
        ours: Vec<PathBuf>,
        recording: Option<Recording>,
    ) -> Opening {
        Opening {
            cwd: self.cwd,
            roots: self.roots,
            ours,
            mcp,
            mode: wanted.mode.clone(),
            model: wanted.model.clone(),
            options: wanted.options.clone(),
            budget: wanted.budget,
            journal: self.journal,
            recording,
            name: wanted.session.clone(),
            on_lost: wanted.on_lost,
            by_command: self.by_command,
            key: self.key,
            addresses: self.addresses,
            ..Opening::default()
        }
    }
}

pub fn config_error(error: &impl std::fmt::Display) -> Box<Failure> {
    Failure::new(Ending::Config, Phase::Find, error.to_string())
}

/// A journal that can't be used.
fn journal_error(error: &impl std::fmt::Display) -> Box<Failure> {
    Failure::new(Ending::Failed, Phase::Find, error.to_string())
}

/// What the configuration has to say itself.
pub fn warn(config: &Config, notes: &Notes) {
    let moved = config.permissions.notes.iter().cloned();
    config.held_back.iter().map(ToString::to_string).chain(moved).for_each(|note| notes.warn(note));
}

/// What of an agent's limits can't be held here.
pub fn unheld_limits(agent: &AgentSpec) -> Vec<String> {
    let elsewhere = agent.address().is_some() && agent.limits != tieline::process::Limits::default();
    let words = if elsewhere {
        vec!["it runs elsewhere, where its processes, memory and CPU are not limited from here".to_owned()]
    } else {
        unheld(&agent.limits)
    };
    words.iter().map(|words| format!("The limits of the agent {}: {words}.", agent.name)).collect()
}

/// Where sessions are kept. Without a place for them there is no record, unless one is needed.
pub async fn journal(wanted: &Wanted, notes: &Notes) -> Result<Option<Journal>> {
    if wanted.no_record {
        return Ok(None);
    }
    if let Some(journal) = &wanted.journal {
        return Ok(Some(journal.clone()));
    }
    match Journal::open_default() {
        Ok((journal, mended)) => {
            // Turns that were cut off: before a session goes on that it may be about, and before the folder is looked at anew.
            mended.into_iter().chain(undo::settle(&journal).await).for_each(|told| notes.warn(told));
            Ok(Some(journal))
        }
        Err(error) if wanted.resume.is_some() || wanted.go_on || wanted.session.is_some() => {
            Err(journal_error(&error).hint("set XDG_STATE_HOME to a folder that you can write to"))
        }
        Err(error) => {
            notes.warn(format!("the session is not recorded: {error}"));
            Ok(None)
        }
    }
}

/// The session to go on with.
async fn entry(wanted: &Wanted, config: &Config, journal: Option<&Journal>) -> Result<Option<Entry>> {
    let Some(journal) = journal else { return Ok(None) };
    let missing = |why: String| {
        let failure = Failure::new(Ending::NoSuchSession, Phase::Session, why);
        // The journal says it itself, where it says which.
        let told = failure.message.contains("tieline sessions list");
        if told { failure } else { failure.hint("`tieline sessions list` shows those there are") }
    };
    let journal_error = |error: tieline_client::journal::Error| {
        if error.is_no_session() { missing(error.to_string()) } else { journal_error(&error) }
    };
    if let Some(id) = &wanted.resume {
        return journal.find(id, &folder(wanted, None)?).await.map(Some).map_err(journal_error);
    }
    if !wanted.go_on && wanted.session.is_none() {
        return Ok(None);
    }
    let cwd = folder(wanted, None)?;
    let (agent, by_command) = agent(wanted, config, None)?;
    let key = key(&agent, by_command);
    if let Some(name) = &wanted.session {
        return journal.named_or_free(&key, &cwd, name).await.map_err(journal_error);
    }
    if let Some(entry) = journal.last(Some(&key), Some(&cwd)).await.map_err(journal_error)? {
        return Ok(Some(entry));
    }
    let why = format!("there is no session with `{key}` in {} yet", cwd.display());
    for above in cwd.ancestors().skip(1) {
        if let Some(near) = journal.last(Some(&key), Some(above)).await.map_err(journal_error)? {
            let why = format!("{why}, but one of {}", tieline_host::roots::shown(above));
            return Err(missing(why).hint(format!("type: {}", typed_with(&near.id))));
        }
    }
    // One with another agent is not what was asked for.
    match journal.last(None, Some(&cwd)).await.map_err(journal_error)? {
        Some(other) => Err(missing(format!("{why}; the last one there, {}, is one with `{}`", other.id, other.agent))),
        None => Err(missing(why)),
    }
}

/// What was typed, with a session that is named instead of the last one.
fn typed_with(id: &str) -> String {
    let typed = std::env::args().skip(1).filter(|word| word != "-c" && word != "--continue");
    let mut words: Vec<String> = std::iter::once("tieline".to_owned()).chain(typed).collect();
    let at = words.len().min(2);
    words.splice(at..at, ["-r".to_owned(), id.to_owned()]);
    agents::join_line(&words)
}

/// Looks for the agent of a new session: what is wrong with it is known before it is started.
pub fn find_agent(wanted: &Wanted, config: &Config) -> Result<()> {
    let (agent, _) = agent(wanted, config, None)?;
    if agent.address().is_some() { Ok(()) } else { live::find(&agent).map(drop) }
}

/// What the agent of a new session will be called.
pub fn agent_key(wanted: &Wanted, config: &Config) -> Option<String> {
    agent(wanted, config, None).ok().map(|(agent, by_command)| key(&agent, by_command))
}

/// What the journal calls an agent: its name, or its whole command line.
fn key(agent: &AgentSpec, by_command: bool) -> String {
    if by_command { agents::join_line(&agent.command) } else { agent.name.clone() }
}

/// Hands over to the built-in agent who answers, because it can only switch to those that it knows from its start, and who answered
/// in the session that goes on, because it may have lost it. Gives the addresses that were named for the session so far.
async fn model(
    wanted: &Wanted,
    config: &Config,
    entry: Option<&Entry>,
    agent: &mut AgentSpec,
) -> Result<BTreeMap<String, String>> {
    let (model, base_url) = (&wanted.model, &wanted.base_url);
    if !agent.is_built_in() {
        return match base_url {
            Some(_) => Err(usage("--base-url is about the models of the built-in agent".to_owned())),
            None => Ok(BTreeMap::new()),
        };
    }
    let mut kept = Kept::default();
    if let Some(entry) = entry {
        kept = Kept { model: entry.model.clone(), addresses: entry.addresses.clone() };
        // Somebody else may have gone on with it; and versions before this one did not write it down.
        let own = Kept::of_session(entry.agent_session.as_deref().unwrap_or(&entry.id)).await.unwrap_or_default();
        kept.model = own.model.or(kept.model);
        kept.addresses.extend(own.addresses);
    }
    kept.model = kept.model.filter(|_| model.is_none());
    if kept != Kept::default() {
        let told = serde_json::to_string(&kept).map_err(|error| config_error(&error))?;
        agent.command.extend(["--kept".to_owned(), told]);
    }
    if model.is_some() || base_url.is_some() {
        let named = model.iter().fold(config.clone(), |config, model| config.with_model(model));
        let found = choose::choose(base_url.as_deref(), &named, &choose::http(&named));
        let found = found.map_err(|error| usage(error.to_string()))?;
        if let Some(provider) = found.first().and_then(|model| model.provider()) {
            kept.addresses.extend(provider.named_url().map(|url| (provider.name.clone(), url)));
        }
        for (flag, value) in [("--model", model), ("--base-url", base_url)] {
            agent.command.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
        }
    }
    Ok(kept.addresses)
}

/// An agent by its command. A path is meant from here, also when the session goes on elsewhere.
fn by_words(mut words: Vec<String>) -> std::result::Result<(AgentSpec, bool), tieline_client::config::Error> {
    if let Some(program) = words.first_mut()
        && let Some(path) = whole(program)
    {
        *program = path;
    }
    AgentSpec::from_words(words).map(|spec| (spec, true))
}

/// The whole path of a program that was given as one.
fn whole(program: &str) -> Option<String> {
    let path = Path::new(program);
    let folder = path.parent().filter(|_| program.contains(std::path::is_separator))?;
    folder.canonicalize().ok()?.join(path.file_name()?).into_os_string().into_string().ok()
}

pub async fn reopen(journal: &Journal, entry: &Entry) -> Result<Recording> {
    let opened = journal.reopen(&entry.id, Claim::IfFree).await;
    opened.map_err(|error| Failure::new(Ending::Failed, Phase::Session, error.to_string()))
}

/// The folder to work in.
fn folder(wanted: &Wanted, entry: Option<&Entry>) -> Result<PathBuf> {
    match (&wanted.cwd, entry) {
        (Some(cwd), Some(entry)) if real(cwd)? != Path::new(&entry.cwd) => {
            let why = format!("the session {} works in `{}`, not in `{}`", entry.id, entry.cwd, cwd.display());
            Err(usage(why).hint("leave --cwd out to go on there"))
        }
        (Some(cwd), _) => real(cwd),
        (None, Some(entry)) => real(Path::new(&entry.cwd)),
        (None, None) => {
            std::env::current_dir().map_err(|error| usage(format!("the current folder can't be found: {error}")))
        }
    }
}

/// The folders besides that one: those of the session, and those that were named.
fn roots(wanted: &Wanted, entry: Option<&Entry>) -> Result<Vec<PathBuf>> {
    let known = entry.iter().flat_map(|entry| &entry.directories).map(Path::new);
    let mut roots = Vec::new();
    for folder in known.chain(wanted.add_dir.iter().map(PathBuf::as_path)) {
        let folder = real(folder)?;
        if !roots.contains(&folder) {
            roots.push(folder);
        }
    }
    Ok(roots)
}

fn real(folder: &Path) -> Result<PathBuf> {
    match folder.canonicalize() {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(usage(format!("`{}` is not a folder", folder.display()))),
        Err(error) => Err(usage(format!("the folder `{}` can't be used: {error}", folder.display()))),
    }
}

/// The agent, and whether it is known by its command only.
fn agent(wanted: &Wanted, config: &Config, entry: Option<&Entry>) -> Result<(AgentSpec, bool)> {
    let not_found =
        |error: tieline_client::config::Error| Failure::new(Ending::NotStarted, Phase::Find, error.to_string());
    if !wanted.command.is_empty() {
        return by_words(wanted.command.clone()).map_err(|error| usage(error.to_string()));
    }
    let name = match (&wanted.agent, entry) {
        (Some(name), _) => name.as_str(),
        (None, Some(entry)) if !entry.command.is_empty() => {
            return by_words(entry.command.clone()).map_err(not_found);
        }
        (None, Some(entry)) => &entry.agent,
        (None, None) => config.agent.as_deref().unwrap_or(BUILT_IN),
    };
    if agents::is_address(name) {
        return by_words(vec![name.to_owned()]).map_err(|error| usage(error.to_string()));
    }
    if !tieline_client::config::is_agent_name(name.strip_prefix('@').unwrap_or(name)) {
        let words = agents::split_line(name).map_err(|error| usage(error.to_string()))?;
        return by_words(words).map_err(|error| usage(error.to_string()));
    }
    match agents::resolve(config, name) {
        Ok(spec) => Ok((spec, false)),
        // A program that nobody gave a name.
        Err(_) if agents::find_program(name.as_ref(), None).is_ok() => {
            by_words(vec![name.to_owned()]).map_err(not_found)
        }
        // Nobody named it here, so that there is another one to go on with.
        Err(error) if wanted.agent.is_none() && entry.is_none() => {
            Err(not_found(error).hint(format!("-a {BUILT_IN} takes the built-in agent for now")))
        }
        Err(error) => Err(not_found(error)),
    }
}

/// What counts in this run: the configuration, what was handed over to us, and the flags.
pub struct Permission {
    preset: Preset,
    settings: Settings,
    limits: Limits,
    built_in: bool,
    /// A mode was named.
    keeps_mode: bool,
}

impl Permission {
    /// What counts for an agent in a folder.
    pub fn of(wanted: &Wanted, config: &Config, cwd: &Path, built_in: bool) -> Result<Self> {
        let mut settings = config.permissions.clone();
        settings.learned = settings.learned.map(|learned| learned.elsewhere(cwd));
        for (texts, decision, flag) in
            [(&wanted.allow, Decision::Allow, "--allow"), (&wanted.deny, Decision::Deny, "--deny")]
        {
            for text in texts {
                let rule: Rule = text.parse().map_err(|error| usage(format!("{flag} {text}: {error}")))?;
                settings.rules.add(decision, rule.from(flag));
            }
        }
        let (preset, said) = preset(wanted, config, built_in);
        let limits = Limits::handed_over().map_err(usage)?.and(&settings.rules, said);
        let keeps_mode = wanted.mode.is_some() || wanted.options.iter().any(|(id, _)| id == "mode");
        Ok(Self { preset, settings, limits, built_in, keeps_mode })
    }

    /// The engine that judges by it.
    pub fn engine(&self) -> Result<Engine> {
        let engine = Engine::load(self.preset, &self.settings, &self.limits).map_err(|error| config_error(&error))?;
        let engine = engine.keeping_mode(self.keeps_mode);
        // What is allowed on the command line is the answer to what a rule would ask: there may be nobody else to give one. A pattern
        // is none: who writes `write **` does not think of hooks.
        let exact = |rule: &&Rule| rule.origin() == Some("--allow") && !rule.to_string().contains(['*', '?', '[', '{']);
        let said = self.settings.rules.allow.iter().filter(exact).cloned();
        engine.learn(Keep::Run, Decision::Allow, &said.collect::<Vec<_>>()).map_err(|error| config_error(&error))?;
        Ok(engine)
    }

    /// The same for the agent that is started. It reads the configuration itself; this can only hold it back.
    fn hand_over(&self) -> (String, String) {
        (Limits::VARIABLE.to_owned(), self.limits.to_json())
    }
}

/// The preset that counts, and what of it was said and not only usual. A mode of the built-in agent is one, too.
fn preset(wanted: &Wanted, config: &Config, built_in: bool) -> (Preset, Option<Preset>) {
    let configured = config.permissions.default;
    let by_option = wanted.options.iter().find(|(id, _)| id == "mode").map(|(_, mode)| mode);
    let mode = wanted.mode.as_ref().or(by_option).filter(|_| built_in).and_then(|mode| Preset::of_mode(mode));
    match (wanted.preset, configured, mode) {
        (Some(flag), ..) => (flag, Some(flag)),
        (None, Some(Preset::DenyAll), _) => (Preset::DenyAll, Some(Preset::DenyAll)),
        (None, _, Some(mode)) => (mode, None),
        (None, configured, None) => (configured.unwrap_or_default(), configured),
    }
}

/// Who answers for the user.
pub enum Answers {
    /// A person: by lines or on a screen.
    Person(Arc<dyn Decider>, Arc<dyn Asker>),
    /// Nobody.
    Nobody(OnAsk),
}

/// What answers the agent's requests.
pub fn services(
    wanted: &Wanted,
    permission: &Permission,
    (cwd, roots): (&Path, &[PathBuf]),
    answers: Answers,
    size: Size,
    notes: &Notes,
) -> Result<Services> {
    let engine = permission.engine()?;
    let builder = Services::builder(cwd, roots).map_err(|error| usage(error.to_string()))?;
    let builder = builder
        .engine(engine)
        .ours(permission.built_in)
        .files(!wanted.no_fs)
        .terminals(!wanted.no_terminal)
        .terminal_settings(terminal::Settings { size, ..terminal::Settings::default() })
        .terminal_login(matches!(answers, Answers::Person(..)))
        .observer(Arc::new(notes.clone()));
    let builder = match answers {
        Answers::Person(decider, asker) => builder.decider(decider).asker(asker),
        Answers::Nobody(on_ask) => builder.decider(Arc::new(Headless { on_ask })),
    };
    Ok(builder.build())
}

/// The command line makes no sense.
pub fn usage(why: impl Into<String>) -> Box<Failure> {
    Failure::new(Ending::Usage, Phase::Find, why)
}
