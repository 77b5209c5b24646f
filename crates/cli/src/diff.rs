//! `tieline diff`: which files a session changed, and how.

use crate::exec::lines::{diff_rows, rows as rows_of};
use crate::sessions::story_of;
use crate::shared::{
    Failed, ListFormat, WRONG, bad_journal, block_on, colours, columns, find_session, hanging, note, settled_journal,
};
use crate::undo::{bad_undo, last_change, open_undo, tell_damage, turn_of, under_way, undo_words, whole_path};
use clap::{Args, ValueHint};
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline_client::export::changed_text;
use tieline_client::journal::{Changed, Entry, HowUndone, Journal, TurnStory};
use tieline_client::sanitize;
use tieline_client::undo::{Hunk, Undo, is_undo};
use tieline_host::roots::shown;

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
    let journal = settled_journal().await?;
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
        let file = file.ok_or((crate::shared::USAGE, "--hunks needs a file: tieline diff FILE --hunks".to_owned()))?;
        return hunks(&journal, &entry, arguments.turn, &file, arguments.format).await;
    }
    if arguments.now {
        let (_held, undo) = open_undo(&journal, &entry).await?;
        tell_damage(&undo);
        return Ok(now(&undo, &entry, file.as_deref(), &arguments));
    }
    if let Some(turn) = arguments.turn.as_deref().filter(|turn| is_undo(turn)) {
        let (_held, undo) = open_undo(&journal, &entry).await?;
        tell_damage(&undo);
        let changes = undo.of_undo(turn);
        let changes = changes.ok_or_else(|| (WRONG, format!("session {} has no turn {turn}", entry.id)))?;
        let rows = changes.iter().map(|changed| (turn.to_owned(), changed)).collect();
        return Ok(show_changes(rows, &entry, file.as_deref(), &arguments));
    }
    let mut story = story_of(&journal, &entry).await?;
    // A turn that is at work has changed what it has changed.
    if Undo::is_open(&journal, &entry)
        && let Some((turn, changed)) = under_way(&journal, &entry).await?
        && let Some(known) = story.turns.iter_mut().find(|known| known.number.to_string() == turn)
    {
        note(format_args!("turn {turn} is under way: this is what it has changed so far"));
        known.changes = changed;
    }
    let is = |turn: &TurnStory, wanted: &str| turn.number.to_string() == wanted;
    if let Some(turn) = arguments.turn.as_ref().filter(|turn| !story.turns.iter().any(|known| is(known, turn))) {
        return Err((WRONG, format!("session {} has no turn {turn}; it has {}", entry.id, entry.turns)));
    }
    let mut rows = Vec::new();
    for turn in story.turns.iter().filter(|turn| arguments.turn.as_ref().is_none_or(|wanted| is(turn, wanted))) {
        rows.extend(turn.changes.iter().map(|changed| (turn.number.to_string(), changed)));
    }
    Ok(show_changes(rows, &entry, file.as_deref(), &arguments))
}

/// Changes, each with the turn that made it.
fn show_changes(
    mut rows: Vec<(String, &Changed)>,
    entry: &Entry,
    file: Option<&Path>,
    arguments: &Arguments,
) -> String {
    rows.retain(|(_, changed)| file.is_none_or(|file| Path::new(&changed.path) == file));
    if rows.is_empty() {
        nothing(entry, "changed", file);
    }
    let value = |(turn, changed): &(String, &Changed)| {
        let mut value = json!(changed);
        (value["session"], value["turn"]) = (json!(&*entry.id), json!(turn));
        value["undone"] = json!(changed.undone == HowUndone::Whole);
        (value["kept"], value["unkept"]) = (json!(changed.unkept.is_none()), json!(changed.unkept));
        (value["tool"], value["diff"]) = (json!(changed.tool), json!(changed.diff));
        value
    };
    arguments.format.print(&rows.iter().map(value).collect::<Vec<_>>(), |_| {
        if arguments.names {
            return names(rows.iter().map(|(_, changed)| Path::new(&changed.path)), entry);
        }
        let mut out = String::new();
        for (turn, changed) in &rows {
            let words = undo_words(turn).map(|words| format!(", {words}")).unwrap_or_default();
            let what = format!("{}{words}", changed_text(changed, &entry.cwd));
            out += &hanging(&format!("# turn {turn}: "), &what);
            show(&mut out, changed.diff.as_deref());
        }
        out
    })
}

/// The names of files, each once, as seen from the folder of the session.
fn names<'a>(paths: impl Iterator<Item = &'a Path>, entry: &Entry) -> String {
    let names: BTreeSet<&Path> = paths.map(|path| path.strip_prefix(&entry.cwd).unwrap_or(path)).collect();
    names.into_iter().map(|name| rows_of("", &shown(name), columns())).collect()
}

/// Whether a session changed a file, or this one if it is given.
async fn changed(journal: &Journal, entry: &Entry, file: Option<&Path>) -> Result<bool, Failed> {
    let Some(file) = file else { return Ok(true) };
    let is = |changed: &Changed| Path::new(&changed.path) == file;
    if Undo::is_open(journal, entry)
        && let Some((_, changed)) = under_way(journal, entry).await?
        && changed.iter().any(is)
    {
        return Ok(true);
    }
    let story = journal.story(&entry.id).await.map_err(bad_journal)?;
    Ok(story.turns.iter().flat_map(|turn| &turn.changes).any(is))
}

/// The files now, compared with before the session.
fn now(undo: &Undo, entry: &Entry, file: Option<&Path>, arguments: &Arguments) -> String {
    let found = undo.now().into_iter().filter(|(path, _)| file.is_none_or(|file| path == file)).collect::<Vec<_>>();
    if found.is_empty() {
        nothing(entry, "left a change in", file);
    }
    let value = |(path, diff): &(PathBuf, Option<String>)| json!({"session": &*entry.id, "path": path.to_string_lossy(), "diff": diff});
    arguments.format.print(&found.iter().map(value).collect::<Vec<_>>(), |_| {
        if arguments.names {
            return names(found.iter().map(|(path, _)| &**path), entry);
        }
        let mut out = String::new();
        for (path, diff) in &found {
            out += &hanging("# now: ", &shown(path.strip_prefix(&entry.cwd).unwrap_or(path)));
            show(&mut out, diff.as_deref());
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
    let (colours, columns) = (colours(), columns());
    for line in diff.lines() {
        let colour = match line.as_bytes().first().filter(|_| colours) {
            Some(b'+') => "32",
            Some(b'-') => "31",
            Some(b'@') => "36",
            _ => "",
        };
        // We break the rows, not the terminal: none of a diff begins like a heading.
        for row in diff_rows("", line, columns).lines() {
            let _ = match colour {
                "" => writeln!(out, "{row}"),
                colour => writeln!(out, "\u{1b}[{colour}m{row}\u{1b}[0m"),
            };
        }
    }
}

async fn hunks(
    journal: &Journal,
    entry: &Entry,
    turn: Option<String>,
    file: &Path,
    format: ListFormat,
) -> Result<String, Failed> {
    let (_held, undo) = open_undo(journal, entry).await?;
    tell_damage(&undo);
    let turn = turn_of(&undo, entry, turn, Some(file))?;
    let hunks = undo.hunks(&turn, file).map_err(bad_undo)?;
    let value = |(at, hunk): (usize, &Hunk)| {
        json!({
            "session": &*entry.id, "turn": turn, "path": file, "hunk": at + 1,
            "old_line": hunk.old_lines.start + 1, "old": hunk.old, "new_line": hunk.new_lines.start + 1, "new": hunk.new,
        })
    };
    Ok(format.print(&hunks.iter().enumerate().map(value).collect::<Vec<_>>(), |_| {
        let mut out = String::new();
        for (at, hunk) in hunks.iter().enumerate() {
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
        out
    }))
}
