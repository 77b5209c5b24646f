//! `tieline diff`: which files a session changed, and how.

use crate::shared::{Failed, ListFormat, WRONG, bad_journal, block_on, colours, find_session, note, open_journal};
use crate::undo::{bad_undo, last_change, open_undo, turn_of, undo_words, whole_path};
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline_client::export::changed_text;
use tieline_client::journal::{Changed, Entry, HowAsked, HowChanged, Journal, TurnStory};
use tieline_client::sanitize;
use tieline_client::undo::{HowUndone, Undo, is_undo};
use tieline_host::roots::shown;
use tieline_host::store::State;

/// What a session changed, turn by turn, or what is different now: by turn or file
///
/// Works for every agent, with or without git. Changes that nobody was asked about are marked.
#[derive(Args)]
pub struct Arguments {
    /// The session; without it the one that changed something last in this folder
    session: Option<String>,

    /// Only this file
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// Only this turn, or what an undo changed, by its name such as 1~undo1
    #[arg(long, value_name = "N")]
    turn: Option<String>,

    /// The files as they are now, compared with before the session, whoever changed them since
    #[arg(long, conflicts_with_all = ["turn", "hunks"])]
    now: bool,

    /// Number the places in the file, for `tieline undo --hunk N`
    #[arg(long)]
    hunks: bool,

    /// Only the names of the files
    #[arg(long, conflicts_with = "hunks")]
    names: bool,

    #[command(flatten)]
    format: ListFormat,
}

/// Shows the differences.
pub fn run(arguments: Arguments) -> ExitCode {
    let format = arguments.format;
    format.finish("diff", block_on(work(arguments)))
}

async fn work(mut arguments: Arguments) -> Result<String, Failed> {
    let journal = open_journal()?;
    let mut named = match &arguments.session {
        Some(name) => Some(find_session(&journal, Some(name)).await),
        None => None,
    };
    // One name may also be that of a file.
    if let (Some(name), None, Some(Err(_))) = (&arguments.session, &arguments.file, &named)
        && (Path::new(name).exists() || name.contains(['/', '.']))
    {
        (arguments.file, named) = (Some(name.into()), None);
    }
    let file = arguments.file.as_deref().map(whole_path).transpose()?;
    let entry = match named {
        Some(named) => named?,
        None => {
            // The places are those that an undo takes back.
            let in_effect = arguments.hunks && arguments.turn.is_none();
            let fits = async |entry: &Entry| {
                if in_effect {
                    Ok(open_undo(&journal, entry).await?.1.last_turn(file.as_deref()).is_some())
                } else {
                    changed(&journal, entry, file.as_deref()).await
                }
            };
            match last_change(&journal, "diff", fits).await? {
                Some(entry) => entry,
                None => find_session(&journal, None).await?,
            }
        }
    };
    if arguments.hunks {
        let file =
            file.ok_or((crate::shared::USAGE, "--hunks needs a file: tieline diff SESSION FILE --hunks".to_owned()))?;
        return hunks(&journal, &entry, arguments.turn, &file).await;
    }
    if arguments.now {
        let (_held, undo) = open_undo(&journal, &entry).await?;
        return Ok(now(&undo, &entry, file.as_deref(), &arguments));
    }
    // What a turn changed that was cut off is found first, unless it is still at work.
    if Undo::is_open(&journal, &entry) && entry.state == State::Interrupted {
        open_undo(&journal, &entry).await?;
    }
    if let Some(turn) = arguments.turn.as_deref().filter(|turn| is_undo(turn)) {
        let (_held, undo) = open_undo(&journal, &entry).await?;
        return of_undo(&undo, &entry, turn, file.as_deref(), &arguments);
    }
    let story = journal.story(&entry.id).await.map_err(bad_journal)?;
    let is = |turn: &TurnStory, wanted: &str| turn.number.to_string() == wanted;
    if let Some(turn) = arguments.turn.as_ref().filter(|turn| !story.turns.iter().any(|known| is(known, turn))) {
        return Err((WRONG, format!("session {} has no turn {turn}; it has {}", entry.id, entry.turns)));
    }
    let mut rows = Vec::new();
    for turn in story.turns.iter().filter(|turn| arguments.turn.as_ref().is_none_or(|wanted| is(turn, wanted))) {
        let fits = |changed: &&Changed| file.as_ref().is_none_or(|file| Path::new(&changed.path) == file);
        let row = |changed| (turn.number.to_string(), changed);
        rows.extend(turn.changes.iter().filter(fits).map(row));
    }
    if rows.is_empty() {
        nothing(&entry, "changed", file.as_deref());
    }
    let undo = journal.undo_folder(&entry.id).exists().then(|| Undo::open(&journal, &entry).ok()).flatten();
    let how_undone = |turn: &str, changed: &Changed| {
        undo.as_ref().map_or(HowUndone::Not, |undo| undo.how_undone(turn, Path::new(&changed.path)))
    };
    let value = |(turn, changed): &(String, &Changed)| {
        let mut value = json!(changed);
        (value["session"], value["turn"]) = (json!(&*entry.id), json!(turn));
        value["undone"] = json!(how_undone(turn, changed) == HowUndone::Whole);
        value
    };
    let values: Vec<Value> = rows.iter().map(value).collect();
    Ok(arguments.format.print(&values, |_| {
        let mut out = String::new();
        for (turn, changed) in &rows {
            let undone = match how_undone(turn, changed) {
                HowUndone::Not => "",
                HowUndone::Partly => ", partly undone since",
                HowUndone::Whole => ", undone since",
            };
            let _ = writeln!(out, "# turn {turn}: {}{undone}", changed_text(changed, &entry.cwd));
            if !arguments.names {
                show(&mut out, changed.diff.as_deref());
            }
        }
        out
    }))
}

/// Whether a session changed a file, or this one if it is given.
async fn changed(journal: &Journal, entry: &Entry, file: Option<&Path>) -> Result<bool, Failed> {
    let Some(file) = file else { return Ok(true) };
    let story = journal.story(&entry.id).await.map_err(bad_journal)?;
    Ok(story.turns.iter().flat_map(|turn| &turn.changes).any(|changed| Path::new(&changed.path) == file))
}

/// What an undo changed, as an undo of it would take it back: the files now, compared with before it.
fn of_undo(
    undo: &Undo,
    entry: &Entry,
    turn: &str,
    file: Option<&Path>,
    arguments: &Arguments,
) -> Result<String, Failed> {
    turn_of(undo, entry, Some(turn.to_owned()), None)?;
    let rows = undo.since(turn).into_iter().filter(|(path, ..)| file.is_none_or(|file| path == file));
    let change = |(path, how, diff): (PathBuf, HowChanged, Option<String>)| Changed {
        path: path.to_string_lossy().into_owned(),
        how,
        asked: HowAsked::Asked,
        tool: None,
        kept: true,
        diff,
    };
    let rows: Vec<Changed> = rows.map(change).collect();
    if rows.is_empty() {
        nothing(entry, "changed", file);
    }
    let value = |changed: &Changed| {
        let mut value = json!(changed);
        (value["session"], value["turn"]) = (json!(&*entry.id), json!(turn));
        value["undone"] = json!(false);
        value
    };
    let words = undo_words(turn).unwrap_or_default();
    Ok(arguments.format.print(&rows.iter().map(value).collect::<Vec<_>>(), |_| {
        let mut out = String::new();
        for changed in &rows {
            let _ = writeln!(out, "# turn {turn}: {}, {words}", changed_text(changed, &entry.cwd));
            if !arguments.names {
                show(&mut out, changed.diff.as_deref());
            }
        }
        out
    }))
}

/// The files now, compared with before the session.
fn now(undo: &Undo, entry: &Entry, file: Option<&Path>, arguments: &Arguments) -> String {
    let found = undo.now().into_iter().filter(|(path, _)| file.is_none_or(|file| path == file)).collect::<Vec<_>>();
    if found.is_empty() {
        nothing(entry, "left a change in", file);
    }
    let value = |(path, diff): &(PathBuf, Option<String>)| json!({"session": &*entry.id, "path": path, "diff": diff});
    arguments.format.print(&found.iter().map(value).collect::<Vec<_>>(), |_| {
        let mut out = String::new();
        for (path, diff) in &found {
            let _ = writeln!(out, "# now: {}", shown(path.strip_prefix(&entry.cwd).unwrap_or(path)));
            if !arguments.names {
                show(&mut out, diff.as_deref());
            }
        }
        out
    })
}

fn nothing(entry: &Entry, verb: &str, file: Option<&Path>) {
    match file {
        Some(file) => note(format_args!("session {} {verb} no file {}", entry.id, shown(file))),
        None => note(format_args!("session {} {verb} no file", entry.id)),
    }
}

/// A diff, or the word that there is none.
fn show(out: &mut String, diff: Option<&str>) {
    match diff {
        Some(diff) => paint(out, &sanitize::exact(diff)),
        None => out.push_str("(nothing to show: no text, too long, or not kept)\n"),
    }
}

fn paint(out: &mut String, diff: &str) {
    let colours = colours();
    for line in diff.lines() {
        let colour = match line.as_bytes().first().filter(|_| colours) {
            Some(b'+') => "32",
            Some(b'-') => "31",
            Some(b'@') => "36",
            _ => "",
        };
        let _ =
            if colour.is_empty() { writeln!(out, "{line}") } else { writeln!(out, "\u{1b}[{colour}m{line}\u{1b}[0m") };
    }
}

async fn hunks(journal: &Journal, entry: &Entry, turn: Option<String>, file: &Path) -> Result<String, Failed> {
    let (_held, undo) = open_undo(journal, entry).await?;
    let turn = turn_of(&undo, entry, turn, Some(file))?;
    let mut out = String::new();
    for (at, hunk) in undo.hunks(&turn, file).map_err(bad_undo)?.iter().enumerate() {
        let (old, new) = (&hunk.old_lines, &hunk.new_lines);
        let _ = writeln!(
            out,
            "# hunk {} of turn {turn}: lines {}-{} were {}-{}",
            at + 1,
            new.start + 1,
            new.end,
            old.start + 1,
            old.end
        );
        let old = hunk.old.lines().map(|line| format!("-{line}"));
        let lines: Vec<String> = old.chain(hunk.new.lines().map(|line| format!("+{line}"))).collect();
        paint(&mut out, &sanitize::exact(&lines.join("\n")));
    }
    Ok(out)
}
