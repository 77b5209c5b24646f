//! `tieline sessions`: what was said with every agent, from the journal.

use crate::pager;
use crate::shared::{
    Failed, ListFormat, USAGE, WRONG, bad_journal, block_on, counted, cut, find_session, finish, here, load_config,
    note, open_journal, session_name, settled_journal, table,
};
use clap::{Args, Subcommand, ValueHint};
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use tieline_client::export::{self, Format, export};
use tieline_client::journal::{Entry, Journal, Story};
use tieline_client::sanitize;
use tieline_client::undo::Undo;
use tieline_host::store::{Hit, ListQuery, State, Store, repair};
use tieline_host::whole::open_private;

/// Sessions with every agent: list, read, search, export, delete
///
/// Every session is written down, whatever the agent: what you said, what it did, what was decided, which files changed.
/// A session is named by its id, by enough of the beginning or end of it, by the name that you gave it, or by `last`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Those used last, newest first
    List {
        /// Only those of this agent
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Only those of the current folder
        #[arg(long)]
        here: bool,
        /// At most N
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = limit)]
        limit: usize,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Read one
    Show {
        /// The session; without it the last one of this folder
        session: Option<String>,
        /// Only this turn
        #[arg(long, value_name = "N")]
        turn: Option<u64>,
        /// How to print
        #[arg(long, short = 'F', value_parser = FORMS, default_value = "markdown")]
        format: String,
    },
    /// Find words in what was said; all of them must be there
    Search {
        /// The words; the last one may be the beginning of one
        #[arg(required = true)]
        words: Vec<String>,
        /// At most N places
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = limit)]
        limit: usize,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Write one out: Markdown, JSON, or one HTML file that needs nothing else
    Export {
        /// The session; without it the last one of this folder
        session: Option<String>,
        /// The form; without it the ending of the file decides
        #[arg(long, short = 'F', value_parser = FORMS)]
        format: Option<String>,
        /// Where to write it, instead of standard output
        #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// Delete some, with what is kept to undo them
    Delete {
        /// The sessions
        #[arg(required = true)]
        sessions: Vec<String>,
    },
    /// Give one a name, as `tieline exec -s NAME` does
    Rename {
        /// The session
        session: String,
        /// Its new name
        #[arg(value_parser = session_name)]
        name: String,
    },
    /// Delete what `[sessions]` in the configuration says is too old or too much
    Prune,
    /// Bring stores that are damaged in order: what can be read is saved, the damaged file is kept beside
    ///
    /// Looks at the journal and at the store of the built-in agent. End other runs first.
    Repair,
}

/// The forms of an export.
const FORMS: [&str; 3] = ["markdown", "json", "html"];

fn form(name: &str) -> Format {
    match name {
        "json" => Format::Json,
        "html" => Format::Html,
        _ => Format::Markdown,
    }
}

fn limit(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| "write a number from 1 up".to_owned())
}

/// Does what was asked.
pub fn run(arguments: Arguments) -> ExitCode {
    let read = matches!(&arguments.command, Command::Show { format, .. } if format == "markdown");
    match block_on(work(arguments.command)) {
        Ok(text) if read && std::io::stdout().is_terminal() => pager::show(&text),
        done => finish("sessions", done),
    }
}

async fn work(command: Command) -> Result<String, Failed> {
    match command {
        Command::List { agent, here: only_here, limit, format } => list(agent, only_here, limit, format).await,
        Command::Show { session, turn, format } => {
            let journal = settled_journal().await?;
            let entry = find_session(&journal, session.as_deref()).await?;
            let mut story = story_of(&journal, &entry).await?;
            if let Some(turn) = turn {
                story.turns.retain(|known| known.number == turn);
                if story.turns.is_empty() {
                    return Err((WRONG, format!("session {} has no turn {turn}; it has {}", entry.id, entry.turns)));
                }
            }
            Ok(export(&story, form(&format)))
        }
        Command::Search { words, limit, format } => search(&words.join(" "), limit, format).await,
        Command::Export { session, format, output } => write_out(session, format, output).await,
        Command::Delete { sessions } => {
            let journal = open_journal()?;
            // All are found before one is deleted.
            let mut found = Vec::new();
            for session in &sessions {
                found.push(find_session(&journal, Some(session)).await?);
            }
            for entry in &found {
                journal.delete(&entry.id).await.map_err(bad_journal)?;
                note(format_args!("deleted {}", entry.id));
            }
            Ok(String::new())
        }
        Command::Rename { session, name } => {
            let journal = open_journal()?;
            let entry = find_session(&journal, Some(&session)).await?;
            journal.rename(&entry, &name).await.map_err(bad_journal)?;
            note(format_args!("{} is called {} now", entry.id, sanitize::exact_line(&name)));
            Ok(String::new())
        }
        Command::Repair => {
            let agents = Store::default_path().map_err(|error| (WRONG, error.to_string()))?;
            let (mut told, mut failed) = (String::new(), Vec::new());
            for path in [agents.with_file_name("journal.db"), agents] {
                match repair(&path) {
                    Ok(done) => {
                        told += &done.unwrap_or_else(|| format!("{}: nothing is wrong", path.display()));
                        told.push('\n');
                    }
                    // The other one is looked at all the same.
                    Err(error) => failed.push(error.to_string()),
                }
            }
            if failed.is_empty() {
                return Ok(told);
            }
            told.lines().for_each(note);
            Err((WRONG, failed.join("; ")))
        }
        Command::Prune => {
            let (_, config) = load_config()?;
            let gone = open_journal()?.retain(config.retention).await.map_err(bad_journal)?;
            note(format_args!("{} deleted", counted(gone.len(), "session")));
            Ok(gone.iter().flat_map(|id| [&**id, "\n"]).collect())
        }
    }
}

/// The story of a session; what was undone since is marked.
pub async fn story_of(journal: &Journal, entry: &Entry) -> Result<Story, Failed> {
    let mut story = journal.story(&entry.id).await.map_err(bad_journal)?;
    Undo::mark_undone(journal, &mut story);
    Ok(story)
}

async fn list(agent: Option<String>, only_here: bool, limit: usize, format: ListFormat) -> Result<String, Failed> {
    let filtered = only_here || agent.is_some();
    let cwd = if only_here { Some(here()?.to_string_lossy().into_owned()) } else { None };
    let query = ListQuery { cwd, agent, limit, ..ListQuery::default() };
    let (mut entries, next) = open_journal()?.list(query).await.map_err(bad_journal)?;
    // One to which nothing was ever said is of no use to anybody.
    entries.retain(|entry| entry.turns > 0 || entry.title.is_some());
    if entries.is_empty() {
        note(if filtered {
            "no session fits; without --agent and --here all are listed"
        } else {
            "no sessions yet; `tieline exec \"…\"` makes one"
        });
    }
    if next.is_some() {
        note("there are older ones, too: --limit N shows more of them");
    }
    let values: Vec<Value> = entries.iter().map(export::entry_to_json).collect();
    Ok(format.print(&values, |_| {
        let head = ["ID", "LAST USED", "AGENT", "TURNS", "FOLDER", "TITLE"].map(str::to_owned).to_vec();
        let mut rows: Vec<Vec<String>> = std::iter::once(head).chain(entries.iter().map(row)).collect();
        // Of one folder alone it says nothing.
        if entries.iter().all(|entry| entry.cwd == entries[0].cwd) {
            for row in &mut rows {
                row.remove(FOLDER);
            }
        }
        if entries.is_empty() { String::new() } else { table(&rows) }
    }))
}

/// The column of the folder.
const FOLDER: usize = 4;
fn row(entry: &Entry) -> Vec<String> {
    let time = entry.updated.to_string();
    let state = match entry.state {
        State::Idle => "",
        State::Running => " (running)",
        State::Interrupted => " (cut off)",
    };
    let title = entry.title.as_ref().map(|title| sanitize::line(title)).unwrap_or_default();
    vec![
        entry.id.to_string(),
        time.get(..16).unwrap_or(&time).replace('T', " "),
        cut(&sanitize::line(&entry.agent), 20),
        entry.turns.to_string(),
        sanitize::line(&entry.cwd),
        cut(&title, 60) + state,
    ]
}

async fn search(text: &str, limit: usize, format: ListFormat) -> Result<String, Failed> {
    let hits = open_journal()?.search(text, limit).await.map_err(bad_journal)?;
    if hits.is_empty() {
        note("nothing found");
    }
    let value = |hit: &Hit| {
        let session = export::entry_to_json(&hit.session.clone().into());
        json!({"session": session, "turn": hit.turn, "text": hit.snippet})
    };
    let row = |hit: &Hit| {
        let turn = if hit.turn == 0 { "title".to_owned() } else { format!("turn {}", hit.turn) };
        let agent = cut(&sanitize::line(&hit.session.agent), 20);
        vec![hit.session.id.to_string(), agent, turn, cut(&sanitize::line(hit.snippet.trim()), 100)]
    };
    let values: Vec<Value> = hits.iter().map(value).collect();
    Ok(format.print(&values, |_| table(&hits.iter().map(row).collect::<Vec<_>>())))
}

async fn write_out(session: Option<String>, format: Option<String>, output: Option<PathBuf>) -> Result<String, Failed> {
    let ending = output.as_ref().and_then(|path| path.extension()).and_then(|ending| ending.to_str());
    let format = match (format, ending) {
        (Some(format), _) => form(&format),
        (None, Some("html" | "htm")) => Format::Html,
        (None, Some("json")) => Format::Json,
        (None, Some("md" | "markdown" | "txt") | None) => Format::Markdown,
        (None, Some(other)) => {
            let why =
                format!("no form goes by the ending .{other}: name the file .md, .json or .html, or say -F FORMAT");
            return Err((USAGE, why));
        }
    };
    let journal = settled_journal().await?;
    let entry = find_session(&journal, session.as_deref()).await?;
    let story = story_of(&journal, &entry).await?;
    let text = export(&story, format);
    match output {
        None => Ok(text),
        Some(path) => {
            let instead = if path.exists() { ", in place of what it was" } else { "" };
            let file = open_private(std::fs::OpenOptions::new().write(true).truncate(true), &path);
            let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
            written.map_err(|error| (WRONG, format!("{}: {error}", path.display())))?;
            note(format_args!("session {} written to {}{instead}", entry.id, path.display()));
            Ok(String::new())
        }
    }
}
