//! `tieline record`: stands between a client and an agent, and writes down every byte.

use crate::shared::{Failed, USAGE, WRONG, block_on, failed, note};
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use tieline_client::journal::Journal;
use tieline_host::whole::open_private;
use tieline_process::{Spec, Status};
use tieline_trace::{Kept, Writer};

/// What is kept of a recording.
#[derive(Args, Clone, Copy)]
pub struct Keep {
    /// Hide the values of headers, variables and keys
    #[arg(long, conflicts_with = "shape")]
    redact: bool,

    /// Keep keys, methods, kinds, types and lengths, and no value: a recording that can be given away
    #[arg(long)]
    shape: bool,
}

impl Keep {
    /// As the library has it.
    pub fn kept(self) -> Kept {
        match (self.redact, self.shape) {
            (_, true) => Kept::Shape,
            (true, _) => Kept::Redacted,
            _ => Kept::Exact,
        }
    }
}

/// Record what a client and an agent say to each other
///
/// Put `tieline record --` in front of the agent's command in the settings of any client. Everything goes through byte for byte; the
/// exit code is that of the agent (128 and the number of the signal that ended it). `tieline show FILE` reads a recording.
#[derive(Args)]
pub struct Arguments {
    /// The file, or a folder that gets a file for each run; without it a folder of tieline's own, see standard error
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    output: Option<PathBuf>,

    #[command(flatten)]
    keep: Keep,

    /// The agent: a program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Records.
pub fn run(arguments: Arguments) -> ExitCode {
    match block_on(work(arguments)) {
        Ok(Status::Code(code)) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(WRONG)),
        Ok(Status::Signal(number)) => ExitCode::from(u8::try_from(128 + (number & 0x7f)).unwrap_or(WRONG)),
        Ok(_) => ExitCode::from(WRONG),
        Err(why) => failed("record", &why),
    }
}

async fn work(arguments: Arguments) -> Result<Status, Failed> {
    let path = file(arguments.output)?;
    let wrong = |error: std::io::Error| (USAGE, format!("{}: {error}", path.display()));
    let out = open_private(File::options().write(true).truncate(true), &path).map_err(wrong)?;
    let written: Vec<String> = arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut words = arguments.command.into_iter();
    let spec = Spec::new(words.next().unwrap_or_default()).args(words);
    let trouble =
        |error: std::io::Error| note(format_args!("tieline record: the recording can't be written any more: {error}"));
    // A disk that is full from the start is none of the conversation's business, either.
    let writer = Writer::new(out, arguments.keep.kept(), "tieline record", &written).map_err(trouble).ok();
    // As a shell says it.
    tieline_trace::record(spec, writer, trouble).await.map_err(|error| (127, error.to_string()))
}

/// Where to write.
fn file(output: Option<PathBuf>) -> Result<PathBuf, Failed> {
    let (folder, tell) = match output {
        Some(path) if !path.is_dir() => return Ok(path),
        Some(folder) => (folder, false),
        None => {
            let journal =
                Journal::default_path().map_err(|error| (USAGE, format!("{error}; say where with -o FILE")))?;
            let folder = journal.with_file_name("traces");
            let made = std::fs::create_dir_all(&folder);
            made.map_err(|error| (WRONG, format!("{}: {error}", folder.display())))?;
            (folder, true)
        }
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let path = folder.join(format!("{now}-{}.jsonl", std::process::id()));
    if tell {
        note(format_args!("tieline record: {}", path.display()));
    }
    Ok(path)
}
