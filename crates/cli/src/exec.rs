//! `tieline exec`: one turn without a screen, for scripts and for people in a hurry.

pub mod arguments;
pub(crate) mod ask;
mod frames;
mod input;
mod json;
pub(crate) mod lines;
mod log;
mod mcp;
mod prepare;
pub(crate) mod printer;
mod refuse;
pub(crate) mod signals;
pub(crate) mod style;
pub(crate) mod text;
pub(crate) mod words;

pub use arguments::Arguments;
pub use refuse::refuse;

use arguments::{Format, Show};
use clap::Args as _;
use prepare::{Prepared, prepare};
use printer::{Printer, To};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use style::Style;
use tieline_client::config::{Flags, Sources};
use tieline_client::live::{Ending, Event, Failure, Gone, Notes, Phase};
use tieline_client::run::{self, Outcome, Progress, Stop, Watch};
use tokio::sync::mpsc;

/// How long the last words may take when we were told to stop.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Said where somebody may wonder.
const NOT_ASKED: &str =
    "in the formats for programs nobody is asked, not even at a terminal: what is not allowed is refused";

/// How long they may take when we were told so again.
const CHANCE: Duration = Duration::from_millis(300);

/// One of the formats.
enum Out {
    Text(Box<text::Text>),
    Stream(json::Stream),
    /// One object at the end.
    Once(Printer),
    /// The frames, which come from the connection, and one more at the end.
    Acp(Printer),
}

impl Watch for Out {
    async fn see(&self, event: Event) -> Result<(), Gone> {
        match self {
            Self::Text(text) => text.see(event).await,
            Self::Stream(stream) => stream.see(event).await,
            Self::Once(printer) | Self::Acp(printer) => printer.room().await,
        }
    }

    fn hear(&self, progress: Progress) {
        match self {
            Self::Text(text) => text.hear(progress),
            Self::Stream(stream) => stream.hear(progress),
            Self::Once(_) | Self::Acp(_) => {}
        }
    }
}

impl Out {
    fn new(format: Format, printer: Printer, (style, shown): (Style, Vec<Show>), agent: &str, cwd: &str) -> Self {
        match format {
            Format::Text | Format::Quiet => {
                Self::Text(Box::new(text::Text::new(printer, style, format == Format::Quiet, shown)))
            }
            Format::Json => Self::Once(printer),
            Format::StreamJson => Self::Stream(json::Stream::new(printer, agent, cwd)),
            Format::Acp => Self::Acp(printer),
        }
    }

    /// The one closing object, event or word.
    fn end(&self, outcome: &Outcome) {
        match self {
            Self::Text(text) => text.end(outcome),
            Self::Once(printer) => json::object(printer, outcome),
            Self::Stream(stream) => stream.end(outcome),
            Self::Acp(printer) => frames::end(printer, outcome),
        }
    }
}

/// Runs one turn.
pub fn run(arguments: Arguments) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok((runtime, printer)) = runtime.and_then(|runtime| Ok((runtime, Printer::start()?))) else {
        return ExitCode::FAILURE;
    };
    let ending = runtime.block_on(turn(arguments, printer));
    // Work that blocks must not keep us here.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ExitCode::from(ending.code())
}

async fn turn(arguments: Arguments, printer: Printer) -> Ending {
    let mut stops = match signals::listen() {
        Ok(stops) => stops,
        Err(error) => {
            printer.push(To::Err, format!("tieline exec: signals can't be heard: {error}\n"));
            let _ = printer.written().await;
            return Ending::Failed;
        }
    };
    let style = Style::detect();
    let notes = Notes::default();
    if let Err(why) = log::listen(notes.clone()) {
        printer.push(To::Err, format!("tieline exec: {why}\n"));
        let _ = printer.written().await;
        return Ending::Usage;
    }
    let (label, cwd) = (arguments.label(), arguments.folder());
    let config = crate::shared::load(&Sources::of(&cwd), &Flags::default());
    let format = arguments.format(config.as_ref().ok().and_then(|config| config.format.as_deref()));
    let out = Out::new(format, printer.clone(), (style, arguments.shown()), &label, &cwd.to_string_lossy());
    let taken = words::taken(&Arguments::augment_args(clap::Command::new("exec")));
    if let Some((note, tip)) = &taken {
        notes.warn(format!("{note}; {tip}"));
    }
    let prepared = match &config {
        Ok(config) => {
            let limit = arguments.timeout;
            tokio::select! {
                prepared = prepare(&arguments, config, format, &printer, style, &notes) => prepared,
                Some(stop) = stops.recv() => Err(match stop {
                    Stop::Interrupt => Failure::new(Ending::Interrupted, Phase::Find, "interrupted before the agent was started"),
                    Stop::Terminate => Failure::new(Ending::Terminated, Phase::Find, "told to end before the agent was started"),
                }),
                () = tokio::time::sleep(limit.unwrap_or_default()), if limit.is_some() => {
                    Err(Failure::new(Ending::TimedOut, Phase::Find, "the prompt was not there in time (--timeout)"))
                }
            }
        }
        Err(error) => Err(Failure::new(Ending::Config, Phase::Find, error.to_string())),
    };
    let outcome = match prepared {
        Ok(Prepared { plan, parts }) => {
            let services = parts.services.clone();
            if let Out::Text(text) = &out {
                text.serve(&services);
            }
            let mut outcome = run::run(plan, parts, &out, &mut stops).await;
            services.end();
            if let Some(path) = &arguments.save_last {
                save_last(path, &mut outcome);
            }
            if !format.is_for_people() && outcome.permissions.denied > 0 && std::io::stderr().is_terminal() {
                outcome.warnings.push(NOT_ASKED.to_owned());
            }
            outcome
        }
        Err(mut failure) => {
            // A session or an agent of this name may have been meant as words.
            let may_be_said = match failure.ending {
                Ending::NoSuchSession | Ending::NotStarted => true,
                Ending::Usage => failure.hint.is_none(),
                _ => false,
            };
            if let Some((_, tip)) = taken.filter(|_| may_be_said) {
                failure.hint = Some(tip);
            }
            Outcome::not_begun(failure, label, cwd)
        }
    };
    out.end(&outcome);
    last_words(&printer, &outcome, &mut stops).await;
    match printer.trouble() {
        Some(error) => {
            // Somewhere else, perhaps, it can be read.
            let _ = writeln!(std::io::stderr(), "tieline exec: the output could not be written: {error}");
            Ending::Failed
        }
        // The formats that print only at the end notice it only then.
        None if outcome.ending == Ending::Done && printer.is_gone() => Ending::OutputClosed,
        None => outcome.ending,
    }
}

/// Keeps the last message in a file. That this failed is told like any other failure.
fn save_last(path: &Path, outcome: &mut Outcome) {
    let saved = std::fs::File::create(path).and_then(|file| {
        let mut file = std::io::BufWriter::new(file);
        outcome.said.last(|piece| file.write_all(piece.as_bytes()))?;
        file.flush()
    });
    let Err(error) = saved else { return };
    let why = format!("--save-last {}: {error}", path.display());
    if outcome.failure.is_some() {
        outcome.warnings.push(why);
    } else {
        outcome.ending = Ending::Failed;
        outcome.failure = Some(Failure::new(Ending::Failed, Phase::End, why));
    }
}

/// Waits until everything is written. Whoever was told to stop does not wait for ever for a reader.
async fn last_words(printer: &Printer, outcome: &Outcome, stops: &mut mpsc::Receiver<Stop>) {
    let stopped = matches!(outcome.ending, Ending::Interrupted | Ending::Terminated | Ending::TimedOut);
    tokio::select! {
        biased;
        _ = printer.written() => {}
        // It may be an old one, of somebody who pressed twice: the closing words still get a chance.
        _ = stops.recv() => drop(tokio::time::timeout(CHANCE, printer.written()).await),
        () = tokio::time::sleep(LAST_WORDS), if stopped => {}
    }
}
