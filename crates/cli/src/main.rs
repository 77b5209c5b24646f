//! The `tieline` command: each sub-command is one file that joins parts of the libraries.

mod agent;
mod agents;
mod bridge;
mod chat;
mod check;
mod completions;
mod config;
mod diff;
mod doctor;
mod exec;
mod log;
mod login;
mod man;
mod models;
mod pager;
mod permissions;
mod plain;
mod record;
mod replay;
mod serve;
mod sessions;
mod setup;
mod shared;
mod show;
mod undo;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tieline_client::config::nearest;

const EXAMPLES: &str = "Examples:
  tieline exec list the files             ask the built-in agent
  tieline doctor                          does the built-in agent work?
  tieline agents add mine -- my-agent     give an agent a name
  tieline sessions search panic           find what was said
  tieline diff                            what did an agent change here last?
  tieline undo --dry-run                  what would be put back?
  tieline show trace.jsonl                what was said between a client and an agent?

Settings: ~/.config/tieline/config.toml and .tieline/config.toml; see `tieline config path`.
A log of what happens inside: TIELINE_LOG=debug, and TIELINE_LOG_FILE=FILE to have it in a file.";

/// What is said where nothing is typed.
const START: &str = "Tieline asks coding agents, and keeps what they say and do.

  tieline exec list the files    ask the built-in agent: no key, no network
  tieline exec -c show a.txt     go on with that
  tieline models                 how it gets a language model
  tieline sessions list          what was said; `show`, `search` and `export` read it
  tieline diff                   what an agent changed here last; `tieline undo` puts it back
  tieline doctor                 does everything work?
  tieline --help                 all the rest
";

/// Tieline speaks the Agent Client Protocol (ACP): any client, any agent, any version.
#[derive(Parser)]
#[command(name = "tieline", version, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Chat(Box<chat::Arguments>),
    Exec(Box<exec::Arguments>),
    Agent(agent::Arguments),
    Models(models::Arguments),
    Sessions(sessions::Arguments),
    Diff(diff::Arguments),
    Undo(undo::Arguments),
    Agents(agents::Arguments),
    Doctor(doctor::Arguments),
    Serve(serve::Arguments),
    Bridge(bridge::Arguments),
    Check(check::Arguments),
    Record(record::Arguments),
    Show(show::Arguments),
    Replay(replay::Arguments),
    Config(config::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

fn main() -> ExitCode {
    // We may have been started to guard a child process or to hold a command in its sandbox.
    tieline_process::init();
    // What a shell or a script left open is for nobody whom we start: no wall of a sandbox stands before an open file.
    close_fds::set_fds_cloexec(3, &[]);
    let arguments = match Arguments::try_parse().map_err(helpful) {
        Ok(arguments) => arguments,
        // Programs that read our output get an object also for this.
        Err(error) => exec::refuse(&error).map_or_else(|| error.exit(), |code| std::process::exit(code.into())),
    };
    let command = arguments.command.or_else(piped).or_else(on_screen);
    let Some(command) = command else { return shared::print(START) };
    let command = match command {
        Command::Chat(arguments) if arguments.is_plain() => Command::Chat(arguments),
        Command::Chat(_) if !chat::has_screen() => match without_screen() {
            Ok(command) => command,
            Err(error) => error.exit(),
        },
        command => command,
    };
    // `exec` listens itself, too.
    let quiet = matches!(command, Command::Exec(_)) || (matches!(command, Command::Chat(_)) && log::on_screen());
    if !quiet && let Err(why) = log::start(None) {
        shared::note(format_args!("tieline: {why}"));
        return ExitCode::from(shared::USAGE);
    }
    match command {
        Command::Chat(arguments) => chat::run(&arguments),
        Command::Exec(arguments) => exec::run(*arguments),
        Command::Agent(arguments) => agent::run(arguments),
        Command::Models(arguments) => models::run(arguments),
        Command::Sessions(arguments) => sessions::run(arguments),
        Command::Diff(arguments) => diff::run(arguments),
        Command::Undo(arguments) => undo::run(arguments),
        Command::Agents(arguments) => agents::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Serve(arguments) => serve::run(arguments),
        Command::Bridge(arguments) => bridge::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Record(arguments) => record::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Config(arguments) => config::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man(arguments) => man::run(arguments),
    }
}

/// What is meant where nothing is typed but something is piped.
fn piped() -> Option<Command> {
    if std::io::stdin().is_terminal() { None } else { Arguments::try_parse_from(["tieline", "exec"]).ok()?.command }
}

/// What is meant where nothing is typed on a terminal.
fn on_screen() -> Option<Command> {
    let arguments = Box::<chat::Arguments>::default();
    (chat::has_screen() || arguments.is_plain()).then_some(Command::Chat(arguments))
}

/// A chat where nobody sees a screen is one turn: the same line, as `exec` reads it.
fn without_screen() -> Result<Command, clap::Error> {
    let line = std::env::args_os().enumerate().map(|(at, word)| if at == 1 { "exec".into() } else { word });
    let parsed = Arguments::try_parse_from(line).map_err(helpful)?;
    parsed.command.ok_or_else(|| Arguments::command().error(ErrorKind::MissingSubcommand, "there is no screen here"))
}

/// A mistake in the command line. A flag is suggested only if it is nearly what was typed.
fn helpful(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::InvalidSubcommand && error.get(ContextKind::SuggestedSubcommand).is_none() {
        let tip = "what is said to an agent stands behind `tieline exec`";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        return error;
    }
    let typed = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(typed)) => typed.clone(),
        _ => return error,
    };
    let mut command = typed_command();
    // `tieline` alone is the chat, but its options are those of `tieline chat`.
    if command.find_subcommand("chat").is_some_and(|chat| has_flag(chat, &typed)) {
        let tip = format!("the chat's options stand behind its name: `tieline chat {typed}`");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        return error;
    }
    let path = SPOKEN.into_iter().find(|path| path.ends_with(command.get_name()));
    if error.kind() != ErrorKind::UnknownArgument {
        // An option that is one, but does not fit, may have been said, too.
        if let Some(tip) = path.and_then(|path| exec::words::tip(&command, path, None)) {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
        return error;
    }
    let tip = path.and_then(|path| exec::words::tip(&command, path, Some(&typed)));
    if !typed.starts_with("--") && tip.is_none() {
        return error;
    }
    let flags: Vec<String> =
        command.get_arguments().filter_map(|flag| Some(format!("--{}", flag.get_long()?))).collect();
    // That everything behind `--` is taken as it is helps nobody here: there the agent's command stands.
    for far in [ContextKind::Suggested, ContextKind::SuggestedArg] {
        error.remove(far);
    }
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
    if let Some(near) =
        renamed(command.get_name(), &typed).or_else(|| nearest(&typed, flags.iter().map(String::as_str)))
    {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(near.to_owned()));
    } else if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn has_flag(command: &clap::Command, typed: &str) -> bool {
    let is_it = |flag: &clap::Arg| {
        let (short, long) = (flag.get_short().map(|short| format!("-{short}")), flag.get_long());
        short.as_deref() == Some(typed) || typed.strip_prefix("--").is_some_and(|typed| long == Some(typed))
    };
    command.get_arguments().any(is_it)
}

/// The flag that is meant by a name that others have for it.
fn renamed(command: &str, typed: &str) -> Option<&'static str> {
    let meant = [("serve", "--port", "--listen"), ("serve", "--host", "--listen"), ("serve", "--bind", "--listen")];
    meant.into_iter().find(|(of, name, _)| *of == command && *name == typed).map(|(.., meant)| meant)
}

/// The commands that take words which may look like flags.
const SPOKEN: [&str; 2] = ["exec", "config permissions test"];

/// The sub-command that was typed.
fn typed_command() -> clap::Command {
    let mut command = Arguments::command();
    command.build();
    for word in std::env::args().skip(1) {
        match command.find_subcommand(&word) {
            Some(inner) => command = inner.clone(),
            None => break,
        }
    }
    command
}
