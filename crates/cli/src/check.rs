//! `tieline check`: holds agents, clients and recordings against the rules of the protocol.

mod offline;

use crate::shared::{Failed, USAGE, WRONG, block_on_until_told, failed, note, open, print};
use clap::{Args, Subcommand, ValueHint};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tieline_check::agent::{Plan, check_agent};
use tieline_check::table::{self, Check, REVISIONS};
use tieline_check::{Baseline, Prompts, Report, Settings, client};
use tieline_client::sanitize;
use tieline_schema::Dialect;
use tieline_trace::{Frames, Kept, Side};

/// How long a scripted agent waits for the client.
const PLAY_PATIENCE: Duration = Duration::from_secs(20);

/// Hold an agent, a client or a recording against the protocol
///
/// Exit code 0: nothing is broken; 1: something is (or is new against the baseline); 2: nothing could be judged.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Agent(AgentArguments),
    Client(ClientArguments),
    Trace(TraceArguments),
    #[command(hide = true)]
    Play(PlayArguments),
    #[command(long_flag = "list", long_flag_alias = "explain")]
    List(ListArguments),
    Matrix(MatrixArguments),
}

/// Start an agent and judge it
#[derive(Args)]
struct AgentArguments {
    /// Which versions of the protocol: 1, 2-seed (the draft of June 2026), 2, or all
    #[arg(long, default_value = "all", value_parser = ["1", "2-seed", "2", "all"])]
    dialect: String,

    /// What makes the agent do things: a JSON file, or `directives` for a scripted model
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    prompts: Option<PathBuf>,

    /// Give the agent a scripted model on this machine, in an environment of its own: no key, no network, the same each time. PROFILE
    /// says how it is told where its model is
    #[arg(long, value_name = "PROFILE", value_parser = offline::profiles())]
    model_server: Option<String>,

    /// How long an answer may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,

    /// How many agents are started at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,

    #[command(flatten)]
    choice: Choice,

    #[command(flatten)]
    output: Output,

    /// The agent: a program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Start a client with scripted agents and judge it
///
/// In COMMAND `{agent}` stands for the agent: the path of a program that the client has to start. The client must send a prompt by itself and then
/// end: `tieline check client -- tieline exec hello -- {agent}`.
#[derive(Args)]
struct ClientArguments {
    /// Which version of the protocol the agents speak: 1, 2-seed (the draft of June 2026), 2, or all
    #[arg(long, default_value = "1", value_parser = ["1", "2-seed", "2", "all"])]
    dialect: String,

    /// Run the client in a terminal, for one that needs it
    #[arg(long)]
    terminal: bool,

    /// What is typed there once a session is open, to send a prompt; `\r` is Enter, `\e` Escape, `\x03` Ctrl-C
    #[arg(long = "type", value_name = "KEYS", requires = "terminal", default_value = "", hide_default_value = true)]
    keys: String,

    /// What is typed there when the agent asks something
    #[arg(long, value_name = "KEYS", requires = "terminal", default_value = "", hide_default_value = true)]
    answer: String,

    /// What is typed there when the turn is over, to leave
    #[arg(long, value_name = "KEYS", requires = "terminal", default_value = "", hide_default_value = true)]
    quit: String,

    /// How long one scenario may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,

    #[command(flatten)]
    choice: Choice,

    #[command(flatten)]
    output: Output,

    /// The client: a program and its arguments, after `--`, with `{agent}` among them
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Play an agent of `check client`
#[derive(Args)]
struct PlayArguments {
    part: String,
    dialect: Dialect,
    found: PathBuf,
}

/// Which checks.
#[derive(Args, Clone)]
struct Choice {
    /// Only these checks: names, or the start of names; may be given more than once
    #[arg(long, value_name = "CHECK")]
    only: Vec<String>,

    /// The revision of the rules; what a revision has never changes
    #[arg(long, value_name = "REVISION", default_value = REVISIONS[0], value_parser = REVISIONS)]
    rules: String,
}

impl Choice {
    fn wants(&self, check: &Check) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| check.id.starts_with(name.as_str()))
    }

    /// Every name must be that of some check of this side, and some must be of these dialects.
    fn known(&self, side: Option<Side>, dialects: &[Dialect]) -> Result<(), Failed> {
        for name in &self.only {
            let named = |check: &&Check| check.id.starts_with(name.as_str());
            let judges = |check: &&Check| side.is_none() || check.side.is_none() || check.side == side;
            let Some(first) = table::all().find(named) else {
                return Err((USAGE, format!("no check is called `{name}…`; `tieline check list` has all of them")));
            };
            let all: Vec<&Check> = table::all().filter(named).filter(judges).collect();
            if all.is_empty() {
                let whom = first.side.map_or("agent".to_owned(), |side| side.to_string());
                return Err((USAGE, format!("`{name}` judges the {whom}: `tieline check {whom}`")));
            }
            let of = |dialect: &Dialect| all.iter().any(|check| check.dialects.has(*dialect));
            if !dialects.iter().any(of) {
                let others: Vec<&str> = Dialect::ALL.iter().filter(|dialect| of(dialect)).map(|it| it.name()).collect();
                return Err((USAGE, format!("`{name}` is for dialect {}", others.join(", "))));
            }
        }
        Ok(())
    }
}

/// What is printed.
#[derive(Args)]
#[allow(clippy::struct_excessive_bools)]
struct Output {
    /// Also tell what holds and what was not looked at, check by check
    #[arg(long)]
    all: bool,

    /// Print the report as JSON
    #[arg(long, group = "format")]
    json: bool,

    /// Print the report as `JUnit` XML
    #[arg(long, group = "format")]
    junit: bool,

    /// Print the report as Markdown; in GitHub's CI it is also added to the summary of the job
    #[arg(long, group = "format")]
    markdown: bool,

    /// Print the report as one page, in which each cell opens its frames
    #[arg(long, group = "format")]
    html: bool,

    /// Print what a badge service shows
    #[arg(long, group = "format")]
    badge: bool,

    /// What is known to be broken: only what is new fails, and so does an entry that holds now
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    baseline: Option<PathBuf>,

    /// Write a baseline of what is broken now
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "baseline")]
    write_baseline: Option<PathBuf>,

    /// What the peer is called in reports; without it, its program
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Judge a recording of `tieline record`, `exec --trace` and others by the laws
#[derive(Args)]
struct TraceArguments {
    /// The recording; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,

    #[command(flatten)]
    choice: Choice,

    #[command(flatten)]
    output: Output,
}

/// List the checks, or explain one
#[derive(Args)]
struct ListArguments {
    /// The check to explain
    #[arg(value_name = "CHECK")]
    explain: Option<String>,

    /// As a table in Markdown
    #[arg(long)]
    markdown: bool,
}

/// Put several reports (`--json`) side by side
#[derive(Args)]
struct MatrixArguments {
    /// The reports
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// As Markdown, not as a page
    #[arg(long)]
    markdown: bool,
}

/// Checks.
pub fn run(arguments: Arguments) -> ExitCode {
    let done = match arguments.command {
        Command::Agent(arguments) => block_on_until_told(agent(arguments)),
        Command::Client(arguments) => block_on_until_told(client(arguments)),
        Command::Play(arguments) => play(&arguments),
        Command::Trace(arguments) => trace(&arguments),
        Command::List(arguments) => list(&arguments),
        Command::Matrix(arguments) => matrix(&arguments),
    };
    done.unwrap_or_else(|(code, why)| failed("check", &(code, sanitize::line(&why))))
}

async fn agent(arguments: AgentArguments) -> Result<ExitCode, Failed> {
    let dialects = dialects(&arguments.dialect);
    arguments.choice.known(Some(Side::Agent), &dialects)?;
    let known = arguments.output.known()?;
    let offline = match &arguments.model_server {
        None => None,
        Some(profile) => Some(offline::Offline::start(profile).await?),
    };
    let prompts = match &arguments.prompts {
        None => offline.is_some().then(|| Prompts::of("directives")),
        Some(path) if path.as_os_str() == "directives" => Some(Prompts::of("directives")),
        Some(path) => Some(Prompts::parse(&read(path)?).map_err(|why| (USAGE, format!("{}: {why}", path.display())))?),
    };
    let choice = arguments.choice.clone();
    let only = table::scenarios(Side::Agent, &|check| choice.wants(check));
    let (done, all) = (Arc::new(AtomicUsize::new(0)), dialects.len() * only.len());
    let shown = std::io::stderr().is_terminal();
    let plan = Plan {
        settings: Settings {
            command: arguments.command.clone(),
            env: offline.as_ref().map(|offline| offline.environment().to_vec()),
            prompts,
            patience: Duration::from_secs(arguments.timeout),
            edit: None,
        },
        wanted: Arc::new(move |check: &Check| choice.wants(check)),
        parallel: arguments.jobs.into(),
        only,
        progress: Arc::new(move |dialect, part| {
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if shown {
                note(format_args!("{done}/{all} protocol {dialect}: {part}"));
            }
        }),
    };
    let mut sheets = Vec::new();
    for dialect in dialects {
        sheets.push(check_agent(&plan, dialect).await);
    }
    let name = arguments.output.name.clone().unwrap_or_else(|| program(&arguments.command));
    arguments.output.finish(&Report { name, sheets }, known.as_ref())
}

async fn client(arguments: ClientArguments) -> Result<ExitCode, Failed> {
    let dialects = dialects(&arguments.dialect);
    arguments.choice.known(Some(Side::Client), &dialects)?;
    let known = arguments.output.known()?;
    if !arguments.command.iter().any(|word| word.to_string_lossy().contains("{agent}")) {
        return Err((USAGE, "no `{agent}` in the command: say where the client is told which agent to start".into()));
    }
    let typed = |text: &str| {
        keys(text).ok_or_else(|| (USAGE, format!("`{text}`: only \\r, \\n, \\t, \\e, \\\\ and \\xHH are known")))
    };
    let (prompt, answer, quit) = (typed(&arguments.keys)?, typed(&arguments.answer)?, typed(&arguments.quit)?);
    let keys = client::Keys { prompt, answer, quit };
    let own = std::env::current_exe().map_err(|error| (WRONG, error.to_string()))?;
    let plan = client::Plan {
        command: arguments.command.clone(),
        player: vec![own.into(), "check".into(), "play".into()],
        patience: Duration::from_secs(arguments.timeout),
        only: table::scenarios(Side::Client, &|check| arguments.choice.wants(check)),
        keys: arguments.terminal.then_some(keys),
    };
    let shown = std::io::stderr().is_terminal();
    let mut sheets = Vec::new();
    for dialect in dialects {
        let progress = |dialect: Dialect, part: &str| {
            if shown {
                note(format_args!("protocol {dialect}: {part}"));
            }
        };
        let checked = client::check_client(&plan, dialect, &progress).await;
        let mut sheet = checked.map_err(|error| (USAGE, error.to_string()))?;
        sheet.complete(&|check| arguments.choice.wants(check));
        sheets.push(sheet);
    }
    let name = arguments.output.name.clone().unwrap_or_else(|| program(&arguments.command));
    arguments.output.finish(&Report { name, sheets }, known.as_ref())
}

fn dialects(name: &str) -> Vec<Dialect> {
    name.parse().map_or_else(|_| Dialect::ALL.to_vec(), |dialect| vec![dialect])
}

/// What is typed, with `\r` and the like for what can't be written.
fn keys(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((plain, code)) = rest.split_once('\\') {
        out.extend_from_slice(plain.as_bytes());
        let (byte, length) = match code.chars().next()? {
            'r' => (b'\r', 1),
            'n' => (b'\n', 1),
            't' => (b'\t', 1),
            'e' => (0x1b, 1),
            '\\' => (b'\\', 1),
            'x' => (u8::from_str_radix(code.get(1..3)?, 16).ok()?, 3),
            _ => return None,
        };
        out.push(byte);
        rest = &code[length..];
    }
    out.extend_from_slice(rest.as_bytes());
    Some(out)
}

/// The agent that a client was told to start.
fn play(arguments: &PlayArguments) -> Result<ExitCode, Failed> {
    let (send, input) = std::sync::mpsc::sync_channel(1000);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let mut output = std::io::stdout();
    let mut told = File::create(arguments.found.with_extension("told")).map_err(|error| (WRONG, error.to_string()))?;
    let mut tell = |what: &str| drop(std::io::Write::write_all(&mut told, format!("{what}\n").as_bytes()));
    let sheet = client::play(&arguments.part, arguments.dialect, input, &mut output, PLAY_PATIENCE, &mut tell);
    let text = client::to_line(&sheet);
    std::fs::write(&arguments.found, text).map_err(|error| (WRONG, error.to_string()))?;
    Ok(ExitCode::from(if arguments.part == "crash" { 70 } else { 0 }))
}

fn program(command: &[OsString]) -> String {
    let words = command.iter().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.map(|word| word.rsplit('/').next().unwrap_or_default().to_owned()).collect();
    words.join(" ")
}

impl Output {
    /// What is known to be broken, read before anything is judged.
    fn known(&self) -> Result<Option<Baseline>, Failed> {
        let Some(path) = &self.baseline else { return Ok(None) };
        Baseline::parse(&read(path)?).map(Some).map_err(|why| (USAGE, format!("{}: {why}", path.display())))
    }

    fn finish(&self, report: &Report, known: Option<&Baseline>) -> Result<ExitCode, Failed> {
        let markdown = report.markdown();
        let text = match () {
            () if self.json => report.json().to_string() + "\n",
            () if self.junit => report.junit(),
            () if self.markdown => markdown.clone(),
            () if self.html => tieline_check::page(&[report.json()]),
            () if self.badge => report.badge().to_string() + "\n",
            () => report
                .text(self.all)
                .lines()
                .fold(String::new(), |text, line| text + &sanitize::exact_line(line) + "\n"),
        };
        if print(&text) != ExitCode::SUCCESS {
            return Ok(ExitCode::from(USAGE));
        }
        if self.markdown
            && let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY")
        {
            let written = File::options().append(true).create(true).open(&path);
            let written = written.and_then(|mut file| std::io::Write::write_all(&mut file, markdown.as_bytes()));
            written.map_err(|error| (WRONG, format!("{}: {error}", Path::new(&path).display())))?;
        }
        if !report.is_judged() {
            return Err((USAGE, "nothing could be judged".into()));
        }
        if let Some(path) = &self.write_baseline {
            std::fs::write(path, Baseline::of(report))
                .map_err(|error| (USAGE, format!("{}: {error}", path.display())))?;
            return Ok(ExitCode::SUCCESS);
        }
        let fails = report.findings().any(|(_, finding)| finding.fails());
        if let Some(why) = report.barred().filter(|_| !fails) {
            return Err((USAGE, format!("only what needs no session could be judged: {why}")));
        }
        let Some(known) = known else { return Ok(ExitCode::from(u8::from(fails))) };
        let [old, new, stale] = known.compare(report);
        for (names, why) in [
            (&old, "is broken, as the baseline says"),
            (&new, "is broken and not in the baseline"),
            (&stale, "holds: take it out of the baseline"),
        ] {
            for name in names {
                note(format_args!("{name} {why}"));
            }
        }
        let counts = format!("{} known, {} new, {} to be taken out", old.len(), new.len(), stale.len());
        note(format_args!("against the baseline: {counts}"));
        Ok(ExitCode::from(u8::from(!new.is_empty() || !stale.is_empty())))
    }
}

fn read(path: &Path) -> Result<String, Failed> {
    std::fs::read_to_string(path).map_err(|error| (USAGE, format!("{}: {error}", path.display())))
}

fn trace(arguments: &TraceArguments) -> Result<ExitCode, Failed> {
    arguments.choice.known(None, &Dialect::ALL)?;
    let known = arguments.output.known()?;
    let named = |error: &dyn std::fmt::Display| (USAGE, format!("{}: {error}", arguments.file.display()));
    let mut frames = Frames::new(BufReader::new(open(&arguments.file)?), Kept::Exact);
    let sheets = tieline_check::trace::judge(&mut frames, &|check| arguments.choice.wants(check))
        .map_err(|error| named(&error))?;
    let name = match arguments.file.file_name().map(|name| name.to_string_lossy()).as_deref() {
        Some("-") | None => "standard input".to_owned(),
        Some(name) => name.to_owned(),
    };
    let name = format!("of {}", arguments.output.name.as_ref().unwrap_or(&name));
    arguments.output.finish(&Report { name, sheets }, known.as_ref())
}

fn list(arguments: &ListArguments) -> Result<ExitCode, Failed> {
    let mut text = String::new();
    if let Some(id) = &arguments.explain {
        let check = table::find(id)
            .ok_or_else(|| (USAGE, format!("there is no check `{id}`; `tieline check list` has all of them")))?;
        let dialects: Vec<&str> =
            Dialect::ALL.into_iter().filter(|dialect| check.dialects.has(*dialect)).map(Dialect::name).collect();
        let _ = writeln!(text, "{}: {}\n", check.id, check.says);
        let _ =
            writeln!(text, "who:       {}", check.side.map_or("agent and client".to_owned(), |side| side.to_string()));
        let _ = writeln!(text, "level:     {}", check.level.name());
        let _ = writeln!(text, "dialects:  {}", dialects.join(", "));
        let _ = writeln!(text, "found by:  {}", check.kind.name());
        let _ = writeln!(text, "rules:     {}", check.rules);
        let _ = writeln!(text, "written:   {}", check.source);
        let _ = writeln!(text, "to change: {}", check.fix);
        return Ok(print(&text));
    }
    if arguments.markdown {
        return Ok(print(&markdown_table()));
    }
    for check in table::all() {
        let who = check.side.map_or("both".to_owned(), |side| side.to_string());
        let _ =
            writeln!(text, "{:28} {:6} {:6} {:8} {}", check.id, who, check.level.name(), check.kind.name(), check.says);
    }
    Ok(print(&text))
}

fn markdown_table() -> String {
    let mut text = String::new();
    for (kind, title) in [("law", "Laws"), ("probe", "Probes"), ("scenario", "Scenarios")] {
        let _ = writeln!(
            text,
            "### {title}\n\n| check | who | level | dialects | says | rules |\n|---|---|---|---|---|---|"
        );
        for check in table::all().filter(|check| check.kind.name() == kind) {
            let dialects: BTreeSet<&str> =
                Dialect::ALL.into_iter().filter(|dialect| check.dialects.has(*dialect)).map(Dialect::name).collect();
            let dialects = dialects.into_iter().collect::<Vec<_>>().join(" ");
            let who = check.side.map_or("both".to_owned(), |side| side.to_string());
            let _ = writeln!(
                text,
                "| `{}` | {who} | {} | {dialects} | {} | {} |",
                check.id,
                check.level.name(),
                check.says,
                check.rules
            );
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

fn matrix(arguments: &MatrixArguments) -> Result<ExitCode, Failed> {
    let mut reports = Vec::new();
    for path in &arguments.files {
        let value: serde_json::Value =
            serde_json::from_str(&read(path)?).map_err(|error| (USAGE, format!("{}: {error}", path.display())))?;
        if value["tieline-check"] != 1 {
            return Err((USAGE, format!("{} is no report of `tieline check --json`", path.display())));
        }
        reports.push(value);
    }
    Ok(print(&if arguments.markdown { tieline_check::matrix(&reports) } else { tieline_check::page(&reports) }))
}
