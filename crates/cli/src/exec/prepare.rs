//! From the command line to a plan: configuration, agent, prompt, rules, journal. What is wrong is found before an agent starts.

use super::arguments::{Arguments, Format};
use super::ask::{Person, columns};
use super::frames;
use super::input::Given;
use super::lines::rows;
use super::printer::Printer;
use super::style::Style;
use clap::Args as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tieline_client::agents::{self, AgentSpec, BUILT_IN};
use tieline_client::answer::Schema;
use tieline_client::config::Config;
use tieline_client::journal::{Entry, Journal, Recording};
use tieline_client::live::{Budget, Ending, Failure, Frames, Notes, OnLine, OnLost, Opening, Parts, Phase, Setup};
use tieline_client::login::Chooser;
use tieline_client::permission::{Engine, Facts, Headless, OnAsk, Preset};
use tieline_client::run::Plan;
use tieline_client::services::Services;
use tieline_client::{sanitize, terminal};
use tieline_coder::model::choose;
use tieline_host::roots::Roots;
use tieline_host::rules::{Because, Decision, Keep, Limits, Rule, Settings};
use tieline_host::store::Claim;
use tieline_schema::ClientCapabilities;

/// All that a run needs.
pub struct Prepared {
    pub plan: Plan,
    pub parts: Parts,
}

pub type Result<T> = std::result::Result<T, Box<Failure>>;

/// The command line makes no sense.
pub fn usage(why: impl Into<String>) -> Box<Failure> {
    Failure::new(Ending::Usage, Phase::Find, why)
}

fn config_error(error: &impl std::fmt::Display) -> Box<Failure> {
    Failure::new(Ending::Config, Phase::Find, error.to_string())
}

/// What the configuration has to say itself.
fn warn(config: &Config, notes: &Notes) {
    let moved = config.permissions.notes.iter().cloned();
    config.held_back.iter().map(ToString::to_string).chain(moved).for_each(|note| notes.warn(note));
}

/// Prepares a run.
pub async fn prepare(
    arguments: &Arguments,
    config: &Config,
    format: Format,
    printer: &Printer,
    style: Style,
    notes: &Notes,
) -> Result<Prepared> {
    warn(config, notes);
    let teller = format.is_for_people().then(|| printer.clone());
    let Given { prompt, servers } = Given::read(arguments, teller).await?;
    let journal = journal(arguments, notes)?;
    let entry = entry(arguments, config, journal.as_ref()).await?;
    if let (Some(journal), None) = (journal.clone(), &entry) {
        let (keep, notes) = (config.retention, notes.clone());
        // Beside the run: what is not removed when it ends is removed by the next.
        tokio::spawn(async move {
            if let Err(error) = journal.tidy(keep).await {
                notes.warn(format!("old sessions were not removed: {error}"));
            }
        });
    }
    let cwd = folder(arguments, entry.as_ref())?;
    let (mut agent, by_command) = agent(arguments, config, entry.as_ref())?;
    let key = key(&agent, by_command);
    if let Some(entry) = entry.as_ref().filter(|entry| entry.agent != key) {
        let why = format!("the session {} is one with `{}`, not with `{key}`", entry.id, entry.agent);
        return Err(usage(why).hint("leave the agent out to go on with the session's own"));
    }
    if agent.is_built_in() && journal.is_none() {
        agent.command.push("--no-store".to_owned()); // Where we find no place to keep something, it would find none either.
    }
    model(arguments, config, &mut agent)?;
    let roots = roots(arguments, entry.as_ref())?;
    let mut mcp = config.mcp_servers().await.map_err(|error| config_error(&error))?;
    mcp.extend(servers);
    let schema = schema(arguments, notes)?;
    if let Some(path) = &arguments.save_last {
        try_to_write(path).map_err(|why| usage(format!("--save-last {}: {why}", path.display())))?;
    }
    let mut trace = Frames::new(notes.clone());
    if arguments.strict {
        trace = trace.strict();
    }
    if let Some(path) = &arguments.trace {
        trace = trace.trace(path).map_err(|error| usage(format!("--trace {}: {error}", path.display())))?;
    }
    if format == Format::Acp {
        let printer = printer.clone();
        trace = trace.show(move |_, json| frames::frame(&printer, json));
    }
    let recording = match (&journal, &entry) {
        (Some(journal), Some(entry)) => Some(reopen(journal, entry).await?),
        _ => None,
    };
    let person = if format.is_for_people() { Person::find(printer.clone(), style) } else { None };
    let permission = Permission::of(arguments, config, &cwd, agent.is_built_in())?;
    check_files(arguments, &permission, &cwd, &roots)?;
    let services = services(arguments, &permission, &cwd, &roots, person.clone(), notes)?;
    let mut offer = ClientCapabilities::default();
    services.offer(&mut offer);
    let lines = printer.clone();
    let ours = ours(arguments, &agent, &cwd);
    let setup = Setup {
        protocol: arguments.protocol.unwrap_or_else(|| agent.protocol_or_default()),
        framing: arguments.framing.unwrap_or(agent.framing),
        agent,
        cwd: cwd.clone(),
        env: arguments.env.iter().cloned().chain([permission.hand_over()]).collect(),
        on_stderr: arguments.verbose.then(|| -> OnLine {
            Arc::new(move |line| {
                let line = rows("· agent: ", &sanitize::line(line), columns());
                lines.line_if_room(line.trim_end_matches('\n'), style.same_screen);
            })
        }),
        login: arguments.login.clone(),
        offer,
        start_limit: arguments.start_timeout,
        terminal_login: person.is_some(),
    };
    let opening = Opening {
        cwd,
        roots,
        ours,
        mcp,
        mode: arguments.mode.clone(),
        model: arguments.model.clone(),
        options: arguments.option.clone(),
        budget: Budget { cost: arguments.max_cost, tokens: arguments.max_tokens, tool_calls: arguments.max_tool_calls },
        journal,
        recording,
        name: arguments.session.clone(),
        on_lost: match &*arguments.on_lost {
            "new" => OnLost::New,
            "handover" => OnLost::HandOver,
            _ => OnLost::Fail,
        },
        by_command,
        key,
        ..Opening::default()
    };
    let (limit, idle_limit) = (arguments.timeout, arguments.idle_timeout);
    let plan = Plan { setup, opening, prompt, limit, idle_limit, schema };
    let chooser = person.map(|person| person as Arc<dyn Chooser>);
    Ok(Prepared { plan, parts: Parts { services, notes: notes.clone(), frames: Arc::new(trace), chooser } })
}

/// Where sessions are kept. Without a place for them there is no record, unless one is needed.
fn journal(arguments: &Arguments, notes: &Notes) -> Result<Option<Journal>> {
    if arguments.no_record {
        return Ok(None);
    }
    match Journal::open_default() {
        Ok((journal, mended)) => {
            if let Some(mended) = mended {
                notes.warn(mended);
            }
            Ok(Some(journal))
        }
        Err(error) if arguments.resume.is_some() || arguments.go_on || arguments.session.is_some() => {
            Err(config_error(&error).hint("set XDG_STATE_HOME to a folder that you can write to"))
        }
        Err(error) => {
            notes.warn(format!("the session is not recorded: {error}"));
            Ok(None)
        }
    }
}

/// The session to go on with.
async fn entry(arguments: &Arguments, config: &Config, journal: Option<&Journal>) -> Result<Option<Entry>> {
    let Some(journal) = journal else { return Ok(None) };
    let missing = |why: String| {
        Failure::new(Ending::NoSuchSession, Phase::Session, why).hint("`tieline sessions list` shows those there are")
    };
    let journal_error = |error: tieline_client::journal::Error| {
        if error.is_no_session() { missing(error.to_string()) } else { config_error(&error) }
    };
    if let Some(id) = &arguments.resume {
        return journal.find(id, &folder(arguments, None)?).await.map(Some).map_err(journal_error);
    }
    if !arguments.go_on && arguments.session.is_none() {
        return Ok(None);
    }
    let cwd = folder(arguments, None)?;
    let (agent, by_command) = agent(arguments, config, None)?;
    let key = key(&agent, by_command);
    if let Some(name) = &arguments.session {
        return journal.named_or_free(&key, &cwd, name).await.map_err(journal_error);
    }
    if let Some(entry) = journal.last(Some(&key), Some(&cwd)).await.map_err(journal_error)? {
        return Ok(Some(entry));
    }
    let why = format!("there is no session with `{key}` in {} yet", cwd.display());
    // One with another agent is not what was asked for.
    match journal.last(None, Some(&cwd)).await.map_err(journal_error)? {
        Some(other) => Err(missing(format!("{why}; the last one there, {}, is one with `{}`", other.id, other.agent))),
        None => Err(missing(why)),
    }
}

/// What the journal calls an agent: its name, or its whole command line.
fn key(agent: &AgentSpec, by_command: bool) -> String {
    if by_command { agents::join_line(&agent.command) } else { agent.name.clone() }
}

/// Hands the model over to the built-in agent, which can only switch to those that it knows from its start.
fn model(arguments: &Arguments, config: &Config, agent: &mut AgentSpec) -> Result<()> {
    let (model, base_url) = (&arguments.model, &arguments.base_url);
    if !agent.is_built_in() {
        return match base_url {
            Some(_) => Err(usage("--base-url is about the models of the built-in agent".to_owned())),
            None => Ok(()),
        };
    }
    if model.is_none() && base_url.is_none() {
        return Ok(());
    }
    let wanted = model.iter().fold(config.clone(), |config, model| config.with_model(model));
    choose::choose(base_url.as_deref(), &wanted, &choose::http(&wanted)).map_err(|error| usage(error.to_string()))?;
    for (flag, value) in [("--model", model), ("--base-url", base_url)] {
        agent.command.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
    }
    Ok(())
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

async fn reopen(journal: &Journal, entry: &Entry) -> Result<Recording> {
    let opened = journal.reopen(&entry.id, Claim::IfFree).await;
    opened.map_err(|error| Failure::new(Ending::Failed, Phase::Session, error.to_string()))
}

/// The folder to work in.
fn folder(arguments: &Arguments, entry: Option<&Entry>) -> Result<PathBuf> {
    match (&arguments.cwd, entry) {
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
fn roots(arguments: &Arguments, entry: Option<&Entry>) -> Result<Vec<PathBuf>> {
    let known = entry.iter().flat_map(|entry| &entry.directories).map(Path::new);
    let mut roots = Vec::new();
    for folder in known.chain(arguments.add_dir.iter().map(PathBuf::as_path)) {
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
fn agent(arguments: &Arguments, config: &Config, entry: Option<&Entry>) -> Result<(AgentSpec, bool)> {
    let not_found =
        |error: tieline_client::config::Error| Failure::new(Ending::NotStarted, Phase::Find, error.to_string());
    if !arguments.command.is_empty() {
        return by_words(arguments.command.clone()).map_err(|error| usage(error.to_string()));
    }
    let name = match (&arguments.agent, entry) {
        (Some(name), _) => name.as_str(),
        (None, Some(entry)) if !entry.command.is_empty() => {
            return by_words(entry.command.clone()).map_err(not_found);
        }
        (None, Some(entry)) => &entry.agent,
        (None, None) => config.agent.as_deref().unwrap_or(BUILT_IN),
    };
    if !tieline_client::config::is_agent_name(name.strip_prefix('@').unwrap_or(name)) {
        let words = agents::split_line(name).map_err(|error| usage(error.to_string()))?;
        return by_words(words).map_err(|error| usage(error.to_string()));
    }
    match agents::resolve(config, name) {
        Ok(spec) => Ok((spec, false)),
        // A program that nobody gave a name.
        Err(_) if agents::find_program(name.as_ref(), None).is_some() => {
            by_words(vec![name.to_owned()]).map_err(not_found)
        }
        // Nobody named it here, so that there is another one to go on with.
        Err(error) if arguments.agent.is_none() && entry.is_none() => {
            Err(not_found(error).hint(format!("-a {BUILT_IN} takes the built-in agent for now")))
        }
        Err(error) => Err(not_found(error)),
    }
}

/// What the answer must fit.
fn schema(arguments: &Arguments, notes: &Notes) -> Result<Option<Schema>> {
    let Some(path) = &arguments.output_schema else { return Ok(None) };
    let wrong = |why: &dyn std::fmt::Display| usage(format!("--output-schema {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let schema = Schema::parse(&text).map_err(|why| wrong(&why))?;
    for format in schema.formats() {
        notes.warn(format!("the format `{format}` in the schema is a word about the answer, and is not checked"));
    }
    Ok(Some(schema))
}

/// What a rule keeps from agents is not handed to one by mistake.
fn check_files(arguments: &Arguments, permission: &Permission, cwd: &Path, roots: &[PathBuf]) -> Result<()> {
    let engine = permission.engine()?;
    let roots = Roots::new(cwd, roots).map_err(|error| usage(error.to_string()))?;
    for (flag, path) in
        arguments.file.iter().map(|path| ("--file", path)).chain(arguments.image.iter().map(|path| ("--image", path)))
    {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let Ok(facts) = Facts::of_line(&format!("read {}", whole.display()), &roots) else { continue };
        let verdict = engine.judge(facts.subject());
        if let (Decision::Deny, Because::Rules(rules)) = (verdict.decision, &verdict.because) {
            let rule = rules.iter().map(|rule| format!("`deny {rule}` ({})", rule.origin().unwrap_or("built in")));
            let rule = rule.collect::<Vec<_>>().join(", ");
            let why = format!("{flag} {}: the rule {rule} forbids to read it; nothing was sent", path.display());
            return Err(
                Failure::new(Ending::Denied, Phase::Find, why).hint("take the rule back to hand this file over")
            );
        }
    }
    Ok(())
}

/// Tries a place for a file: better now than after a turn that cost something.
fn try_to_write(path: &Path) -> std::result::Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() || !folder.is_dir() {
        return Err("this is no place for a file".to_owned());
    }
    // What is no file, such as a FIFO, would wait for its reader.
    if !path.exists() || path.is_file() {
        std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What this run writes into files itself: the trace, standard output and error where they are files, and the file of a
/// `tieline record` in front of the agent.
fn ours(arguments: &Arguments, agent: &AgentSpec, cwd: &Path) -> Vec<PathBuf> {
    let streams = ["/proc/self/fd/1", "/proc/self/fd/2"].map(PathBuf::from).into_iter();
    let streams = streams.filter_map(|stream| stream.canonicalize().ok().filter(|path| path.is_file()));
    let files = arguments.trace.iter().chain(&arguments.save_last);
    let recording = || match &agent.command[..] {
        [program, record @ ..] if Path::new(program).ends_with("tieline") && record.first()? == "record" => {
            let known = crate::record::Arguments::augment_args(clap::Command::new("record"));
            let output = known.try_get_matches_from(record).ok()?.remove_one::<PathBuf>("output")?;
            Some(agent.cwd.as_deref().unwrap_or(cwd).join(output))
        }
        _ => None,
    };
    streams.chain(files.filter_map(|path| std::path::absolute(path).ok())).chain(recording()).collect()
}

/// What counts in this run: the configuration, what was handed over to us, and the flags.
struct Permission {
    preset: Preset,
    settings: Settings,
    limits: Limits,
    built_in: bool,
}

impl Permission {
    fn of(arguments: &Arguments, config: &Config, cwd: &Path, built_in: bool) -> Result<Self> {
        let mut settings = config.permissions.clone();
        settings.learned = settings.learned.map(|learned| learned.elsewhere(cwd));
        for (texts, decision, flag) in
            [(&arguments.allow, Decision::Allow, "--allow"), (&arguments.deny, Decision::Deny, "--deny")]
        {
            for text in texts {
                let rule: Rule = text.parse().map_err(|error| usage(format!("{flag} {text}: {error}")))?;
                settings.rules.add(decision, rule.from(flag));
            }
        }
        let (preset, said) = preset(arguments, config, built_in);
        let limits = Limits::handed_over().map_err(usage)?.and(&settings.rules, said);
        Ok(Self { preset, settings, limits, built_in })
    }

    fn engine(&self) -> Result<Engine> {
        let engine = Engine::load(self.preset, &self.settings, &self.limits).map_err(|error| config_error(&error))?;
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
fn preset(arguments: &Arguments, config: &Config, built_in: bool) -> (Preset, Option<Preset>) {
    let flags = [
        (arguments.ask, Preset::Ask),
        (arguments.allow_reads, Preset::AllowReads),
        (arguments.allow_edits, Preset::AllowEdits),
        (arguments.allow_all, Preset::AllowAll),
        (arguments.deny_all, Preset::DenyAll),
    ];
    let configured = config.permissions.default;
    let by_option = arguments.option.iter().find(|(id, _)| id == "mode").map(|(_, mode)| mode);
    let mode = arguments.mode.as_ref().or(by_option).filter(|_| built_in).and_then(|mode| Preset::of_mode(mode));
    match (flags.into_iter().find(|(on, _)| *on), configured, mode) {
        (Some((_, flag)), ..) => (flag, Some(flag)),
        (None, Some(Preset::DenyAll), _) => (Preset::DenyAll, Some(Preset::DenyAll)),
        (None, _, Some(mode)) => (mode, None),
        (None, configured, None) => (configured.unwrap_or_default(), configured),
    }
}

fn services(
    arguments: &Arguments,
    permission: &Permission,
    cwd: &Path,
    roots: &[PathBuf],
    person: Option<Arc<Person>>,
    notes: &Notes,
) -> Result<Services> {
    let engine = permission.engine()?;
    let builder = Services::builder(cwd, roots).map_err(|error| usage(error.to_string()))?;
    let size = super::ask::terminal_size().unwrap_or_default();
    let mut builder = builder
        .engine(engine)
        .ours(permission.built_in)
        .files(!arguments.no_fs)
        .terminals(!arguments.no_terminal)
        .terminal_settings(terminal::Settings { size, ..terminal::Settings::default() })
        .terminal_login(person.is_some())
        .observer(Arc::new(notes.clone()));
    builder = match person {
        Some(person) => builder.decider(person.clone()).asker(person),
        None => {
            let on_ask = if arguments.on_ask == "fail" { OnAsk::Fail } else { OnAsk::Deny };
            builder.decider(Arc::new(Headless { on_ask }))
        }
    };
    Ok(builder.build())
}
