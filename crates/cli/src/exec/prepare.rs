//! From the command line to a plan: configuration, agent, prompt, rules, journal. What is wrong is found before an agent starts.

use super::arguments::{Arguments, Format};
use super::ask::{Person, columns, terminal_size};
use super::frames;
use super::input::Given;
use super::lines::rows;
use super::printer::Printer;
use super::style::Style;
use crate::setup::{Answers, Found, Permission, Result, config_error, services, unheld_limits, usage, warn};
use clap::Args as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tieline_client::agents::AgentSpec;
use tieline_client::answer::Schema;
use tieline_client::config::{Config, Value};
use tieline_client::live::{Ending, Failure, Frames, Notes, OnLine, Parts, Phase};
use tieline_client::login::Chooser;
use tieline_client::permission::{Facts, OnAsk};
use tieline_client::run::Plan;
use tieline_client::sanitize;
use tieline_host::roots::Roots;
use tieline_host::rules::{Because, Decision};

/// All that a run needs.
pub struct Prepared {
    pub plan: Plan,
    pub parts: Parts,
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
    let wanted = arguments.wanted();
    let mut found = Found::of(&wanted, config, notes).await?;
    for words in unheld_limits(&found.agent) {
        notes.warn(words);
    }
    // What these files say is started outside a sandbox: the agent keeps its commands from files that variables name.
    let files = arguments.mcp_config.iter().filter_map(|file| std::path::absolute(file).ok());
    let files: Vec<_> = files.inspect(|file| tieline_host::sandbox::reads(file)).collect();
    if let Some(files) = std::env::join_paths(files).ok().and_then(|files| files.into_string().ok()) {
        found.agent.env.insert("TIELINE_READS".into(), Value::Plain(files));
    }
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
    let recording = found.recording().await?;
    let person = if format.is_for_people() { Person::find(printer.clone(), style) } else { None };
    let permission = Permission::of(&wanted, config, &found.cwd, found.agent.is_built_in())?;
    check_files(arguments, &permission, &found.cwd, &found.roots)?;
    let answers = match person.clone() {
        Some(person) => Answers::Person(person.clone(), person),
        None => Answers::Nobody(if arguments.on_ask == "fail" { OnAsk::Fail } else { OnAsk::Deny }),
    };
    let size = terminal_size().unwrap_or_default();
    let services = services(&wanted, &permission, (&found.cwd, &found.roots), answers, size, notes)?;
    let lines = printer.clone();
    let on_stderr = arguments.verbose.then(|| -> OnLine {
        Arc::new(move |line| {
            let line = rows("· agent: ", &sanitize::line(line), columns());
            lines.line_if_room(line.trim_end_matches('\n'), style.same_screen);
        })
    });
    let setup = found.setup(&wanted, &permission, &services, on_stderr, person.is_some());
    let ours = ours(arguments, &found.agent, &found.cwd);
    let opening = found.opening(&wanted, mcp, ours, recording);
    let (limit, idle_limit) = (arguments.timeout, arguments.idle_timeout);
    let plan = Plan { setup, opening, prompt, limit, idle_limit, schema };
    let chooser = person.map(|person| person as Arc<dyn Chooser>);
    Ok(Prepared { plan, parts: Parts { services, notes: notes.clone(), frames: Arc::new(trace), chooser } })
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
