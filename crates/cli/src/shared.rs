//! What the sub-commands share: printing lists, to a pipe that may close, failing with a code, the runtime, the journal.

use crate::exec::lines;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fmt::Display;
use std::future::Future;
use std::io::{IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline_client::config::{self, Config, Flags, Sources};
use tieline_client::export::json_text;
use tieline_client::journal::{self, Entry, Journal};
use tieline_client::undo;
use tieline_coder::model::choose;
pub use tieline_host::text::{counted, cut};
use tokio::signal::unix::{SignalKind, signal};

/// Why a command ends badly: the exit code, and what to say.
pub type Failed = (u8, String);

/// Something went wrong.
pub const WRONG: u8 = 1;
/// The command line makes no sense.
pub const USAGE: u8 = 2;
/// There is no such session.
pub const NO_SESSION: u8 = 4;
/// The configuration can't be used.
pub const CONFIG: u8 = 14;

/// Prints the answer of a command, or says why there is none.
pub fn finish(name: &str, done: Result<String, Failed>) -> ExitCode {
    match done {
        Ok(text) => print(&text),
        Err(why) => failed(name, &why),
    }
}

/// Says why a command ends badly.
pub fn failed(name: &str, (code, why): &Failed) -> ExitCode {
    note(format_args!("tieline {name}: {why}"));
    ExitCode::from(*code)
}

/// Opens a file to be read; `-` is standard input.
pub fn open(path: &Path) -> Result<Box<dyn Read>, Failed> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(std::io::stdin()));
    }
    let file = std::fs::File::open(path).map_err(|error| (USAGE, format!("{}: {error}", path.display())))?;
    Ok(Box::new(file))
}

/// Prints a text. Whoever closes the pipe has read enough.
pub fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "tieline: can't write the output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Says something beside the answer.
pub fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Runs to the end.
pub fn block_on<T>(work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    on(&mut tokio::runtime::Builder::new_current_thread(), work)
}

/// Runs to the end, and what it starts in another thread: a screen does not wait for what its agents say.
pub fn block_on_beside<T>(work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    on(tokio::runtime::Builder::new_multi_thread().worker_threads(1), work)
}

fn on<T>(runtime: &mut tokio::runtime::Builder, work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    let runtime = runtime.enable_all().build();
    let runtime = runtime.map_err(|error| (WRONG, error.to_string()))?;
    let done = runtime.block_on(work);
    // Work that blocks must not keep us here.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    done
}

/// The same for work that has things to put away, such as folders and children, also at Ctrl-C or when we are told to end.
pub fn block_on_until_told<T>(work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    block_on(async {
        tokio::select! {
            done = work => done,
            code = told_to_end() => Err((code?, "interrupted".into())),
        }
    })
}

/// Waits for Ctrl-C, or until we are told to end; gives the exit code.
pub async fn told_to_end() -> Result<u8, Failed> {
    let listen = |kind| signal(kind).map_err(|error| (WRONG, error.to_string()));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    Ok(tokio::select! {
        _ = interrupt.recv() => 130,
        _ = terminate.recv() => 143,
    })
}

/// The current folder.
pub fn here() -> Result<PathBuf, Failed> {
    std::env::current_dir().map_err(|error| (WRONG, format!("the current folder can't be used: {error}")))
}

/// Loads a configuration and looks for mistakes in every part of it, also in what only the built-in agent uses.
pub fn load(sources: &Sources, flags: &Flags) -> Result<Config, config::Error> {
    let config = Config::load(sources, flags)?;
    choose::check(&config)?;
    Ok(config)
}

/// The configuration that counts here. What does not count yet is said.
pub fn load_config() -> Result<(Sources, Config), Failed> {
    load_from(Sources::of(&here()?))
}

/// The same for a file that may be about to be made.
pub fn load_or_make_config() -> Result<(Sources, Config), Failed> {
    load_from(Sources { named: false, ..Sources::of(&here()?) })
}

fn load_from(sources: Sources) -> Result<(Sources, Config), Failed> {
    let config = load(&sources, &Flags::default()).map_err(bad_config)?;
    config.held_back.iter().for_each(note);
    Ok((sources, config))
}

/// A mistake in the configuration.
pub fn bad_config(error: config::Error) -> Failed {
    (CONFIG, error.to_string())
}

/// A mistake in the configuration or, if no file is to blame, on the command line.
pub fn bad_choice(error: config::Error) -> Failed {
    (if error.path.is_some() { CONFIG } else { USAGE }, error.to_string())
}

/// Something the journal could not do.
pub fn bad_journal(error: journal::Error) -> Failed {
    let code = if error.is_no_session() { NO_SESSION } else { WRONG };
    match (&error, Journal::default_path()) {
        (journal::Error::Store(tieline_host::store::Error::Damaged(_)), Ok(file)) => {
            (code, format!("{}: {error}", file.display()))
        }
        _ => (code, error.to_string()),
    }
}

/// The journal of the user.
pub fn open_journal() -> Result<Journal, Failed> {
    let (journal, mended) = Journal::open_to_read().map_err(bad_journal)?;
    mended.into_iter().for_each(note);
    Ok(journal)
}

/// The same for those who want to know what changed: turns that were cut off are finished first.
pub async fn settled_journal() -> Result<Journal, Failed> {
    let journal = open_journal()?;
    undo::settle(&journal).await.into_iter().for_each(note);
    Ok(journal)
}

/// A session by its id or name, or the last one of the current folder.
pub async fn find_session(journal: &Journal, text: Option<&str>) -> Result<Entry, Failed> {
    let here = here()?;
    let found = match text {
        Some(text) => journal.find(text, &here).await.map(Some),
        None => journal.last(None, Some(&here)).await,
    };
    let why = "there is no session of this folder; name one, see `tieline sessions list`";
    found.map_err(bad_journal)?.ok_or_else(|| (NO_SESSION, why.to_owned()))
}

/// A name for a session.
pub fn session_name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a name has at least one character".into()),
        journal::LAST => Err("`last` stands for the session used last".into()),
        _ => Ok(text.to_owned()),
    }
}

/// `NAME=VALUE`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".into()),
    }
}

/// True if standard output may be coloured.
pub fn colours() -> bool {
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The flag that every list has.
#[derive(Args, Clone, Copy)]
pub struct ListFormat {
    /// How to print: for people, or an array of objects for programs
    #[arg(long, short = 'F', value_enum, default_value = "table")]
    format: ListForm,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListForm {
    Table,
    Json,
}

impl ListFormat {
    /// A list as it was asked for: JSON, or what `people` makes of its rows. Keys are in `snake_case`; docs/lists.md names them.
    pub fn print<T: Serialize>(self, rows: &[T], people: impl FnOnce(&[T]) -> String) -> String {
        match self.format {
            ListForm::Table => people(rows),
            ListForm::Json => json_text(&serde_json::to_value(rows).unwrap_or_default()) + "\n",
        }
    }

    /// As [`finish`]; without a session there is nothing to list, and that is a list, too.
    pub fn finish(self, name: &str, done: Result<String, Failed>) -> ExitCode {
        if matches!(done, Err((NO_SESSION, _))) {
            print(&self.print::<()>(&[], |_| String::new()));
        }
        finish(name, done)
    }
}

/// So narrow a column may become on a narrow screen.
const MIN_COLUMN: usize = 8;

/// Rows in columns; the last column is as long as it is, but on a screen everything stays within its width.
pub fn table(rows: &[Vec<String>]) -> String {
    table_within(rows, screen())
}

/// So many columns the screen has that is printed to; [`usize::MAX`] if it is none, and nothing breaks a line.
pub fn columns() -> usize {
    screen().unwrap_or(usize::MAX)
}

/// The width of the screen that is printed to, if it is one.
fn screen() -> Option<usize> {
    let size = if std::io::stdout().is_terminal() { crate::exec::ask::terminal_size() } else { None };
    size.map(|size| usize::from(size.columns))
}

/// A text behind what begins its line; on a screen it stays within its width, and goes on below where it began.
pub fn hanging(first: &str, text: &str) -> String {
    hanging_within(first, text, screen())
}

fn hanging_within(first: &str, text: &str, screen: Option<usize>) -> String {
    let begins = first.chars().count();
    // Where the beginning takes most of the screen, the text has its own lines.
    let below = screen.is_some_and(|screen| begins * 2 > screen);
    let indent = if below { 4 } else { begins };
    let width = screen.map_or(usize::MAX, |screen| screen.saturating_sub(indent).max(MIN_COLUMN));
    let fits = |line: &str| lines::width(line) <= width;
    let rows = |line: &str| if fits(line) { vec![line.to_owned()] } else { folded(line, width) };
    let rows: Vec<String> = text.lines().flat_map(rows).collect();
    let gap = format!("\n{}", " ".repeat(indent));
    let start = if below { format!("{}{gap}", first.trim_end()) } else { first.to_owned() };
    let text = format!("{start}{}", rows.join(&gap));
    text.trim_end().to_owned() + "\n"
}

fn table_within(rows: &[Vec<String>], screen: Option<usize>) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    // What is no screen has no columns: letters are counted there, as programs that read it do.
    let measure = |cell: &str| if screen.is_some() { lines::width(cell) } else { cell.chars().count() };
    let wide = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| measure(cell)).max();
    let mut widths: Vec<usize> = (0..columns).map(|column| wide(column).unwrap_or(0)).collect();
    let taken = |widths: &[usize]| widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
    while let Some(screen) = screen.filter(|screen| taken(&widths) > *screen) {
        // The widest gives way, as far as all fit.
        let over = taken(&widths) - screen;
        let Some(widest) = widths.iter_mut().max().filter(|width| **width > MIN_COLUMN) else { break };
        *widest -= over.min((*widest / 8).max(1)).min(*widest - MIN_COLUMN);
    }
    let line = |row: &Vec<String>| {
        let cells: Vec<Vec<String>> =
            row.iter().zip(&widths).map(|(cell, width)| folded(cell, screen.map_or(usize::MAX, |_| *width))).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let row = |at: usize| {
            let cells = cells.iter().zip(&widths);
            let cells = cells.map(|(cell, width)| {
                let cell = cell.get(at).map_or("", String::as_str);
                cell.to_owned() + &" ".repeat(width.saturating_sub(measure(cell)))
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        (0..height).map(row).collect::<String>()
    };
    rows.iter().map(line).collect()
}

/// So many letters fit, if not all of them do.
fn fitting(letters: &[char], width: usize) -> Option<usize> {
    let mut taken = 0;
    let over = letters.iter().position(|letter| {
        taken += lines::wide(*letter);
        taken > width
    });
    over.map(|at| at.max(1)).filter(|at| width > 0 && *at < letters.len())
}

/// A cell in rows of at most so many columns, broken between words where that is possible.
fn folded(cell: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in cell.split(' ') {
        let mut letters: Vec<char> = word.chars().collect();
        let used = rows.last().map_or(0, |row| lines::width(row));
        let gap = usize::from(used > 0);
        if used + gap + lines::width(word) > width && used > 0 {
            rows.push(String::new());
        }
        while let Some(fits) = fitting(&letters, width) {
            // A path is broken behind one of its folders.
            let at = letters[..fits].iter().rposition(|letter| *letter == '/').map_or(fits, |at| at + 1);
            let rest = letters.split_off(at);
            if let Some(row) = rows.last_mut() {
                row.extend(letters);
            }
            rows.push(String::new());
            letters = rest;
        }
        if let Some(row) = rows.last_mut() {
            if !row.is_empty() {
                row.push(' ');
            }
            row.extend(letters);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_on_below_where_it_began() {
        let (first, text) =
            ("  ok    initialize       12 ms  ", "the agent says that it is an agent of version 2\n  and more");
        let indent = " ".repeat(first.len());
        let whole = format!("{first}{}\n", text.replace('\n', &format!("\n{indent}")));
        assert_eq!(hanging_within(first, text, None), whole);
        assert_eq!(hanging_within(first, text, Some(100)), whole);
        for width in [50, 70, 80] {
            let told = hanging_within(first, text, Some(width));
            assert!(told.lines().all(|line| line.chars().count() <= width), "{told}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&told), words(&whole), "{width}");
        }
        assert_eq!(hanging_within("", "", Some(50)), "\n");
        // Each letter is taken at its widest, so that the terminal has no row to break.
        for name in ["日".repeat(40), format!("{} # turn 7: added x", "日本 ".repeat(30)), "\u{fdfd}/".repeat(30)] {
            let told = hanging_within("# turn 1: ", &name, Some(50));
            assert!(told.lines().all(|line| lines::width(line) <= 50), "{told}");
            assert!(told.lines().skip(1).all(|line| line.starts_with("          ")), "{told}");
        }
    }

    #[test]
    fn a_table_stays_on_the_screen() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows =
            [row(["1nfry16-7g6zb", "say hello to everybody here", "/home/me/src/project"]), row(["2", "x", "/a"])];
        let wide = "1nfry16-7g6zb  say hello to everybody here  /home/me/src/project\n\
                    2              x                            /a\n";
        assert_eq!(table_within(&rows, None), wide);
        assert_eq!(table_within(&rows, Some(80)), wide);
        for width in [30, 40, 50, 60] {
            let text = table_within(&rows, Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(["everybody", "hello", "/home/"].iter().all(|word| text.contains(word)), "{width}:\n{text}");
        }
    }
}
