//! A command line that makes no sense: whoever asked for an output for programs gets its closing object.

use super::arguments::Format;
use super::printer::Printer;
use super::style::Style;
use super::{Ending, Failure, Flags, Out, Outcome, Phase, Sources};
use clap::ValueEnum;
use std::ffi::OsString;
use tieline_client::agents::BUILT_IN;
use tieline_client::config::Config;

/// The exit code if the error was told as a closing object, `None` if it is to be told in words.
pub fn refuse(error: &clap::Error) -> Option<u8> {
    let mut words = std::env::args_os().skip(1);
    if !error.use_stderr() || words.next()? != "exec" {
        return None;
    }
    let cwd = std::env::current_dir().unwrap_or_default();
    let configured = || Config::load(&Sources::of(&cwd), &Flags::default()).ok()?.format;
    let format = asked(words).or_else(|| configured().and_then(|name| Format::from_str(&name, false).ok()))?;
    if format.is_for_people() {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let printer = Printer::start().ok()?;
    let out = Out::new(format, printer.clone(), (Style::detect(), Vec::new()), BUILT_IN, &cwd.to_string_lossy());
    let text = error.to_string();
    let words = text.split("\n\nUsage:").next().unwrap_or_default().trim_start_matches("error: ");
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    // What is wrong, and behind it what may have been meant.
    let (why, tip) = words.split_once("\n\n  tip: ").unwrap_or((words, "see `tieline exec --help`"));
    let failure = Failure::new(Ending::Usage, Phase::Find, line(why)).hint(line(tip));
    out.end(&Outcome::not_begun(failure, BUILT_IN.to_owned(), cwd));
    let _ = runtime.block_on(printer.written());
    Some(Ending::Usage.code())
}

/// The format that these words ask for, as far as it can be told.
fn asked(words: impl Iterator<Item = OsString>) -> Option<Format> {
    let words = words.map(|word| word.to_string_lossy().into_owned()).take_while(|word| word != "--");
    let mut words = words.peekable();
    let mut format = None;
    while let Some(word) = words.next() {
        let value = match word.as_str() {
            "--json" => Some("stream-json".to_owned()),
            "-F" | "--format" | "--output-format" => words.next(),
            word => ["--format=", "--output-format=", "-F"]
                .iter()
                .find_map(|start| word.strip_prefix(start))
                .map(|value| value.trim_start_matches('=').to_owned()),
        };
        format = value.and_then(|name| Format::from_str(&name, false).ok()).or(format);
    }
    format
}
