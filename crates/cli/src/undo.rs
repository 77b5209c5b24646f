//! `tieline undo`: puts files back as they were before a turn, by turn, file or place; git is not touched.

use crate::shared::{
    Failed, ListFormat, NO_SESSION, USAGE, WRONG, bad_journal, block_on, cut, find_session, finish, here, note,
    settled_journal,
};
use clap::{Args, ValueHint};
use serde_json::json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline_client::agents::join_line;
use tieline_client::journal::{Changed, Entry, HowAsked, Journal, Recording, Story};
use tieline_client::sanitize;
use tieline_client::undo::{Error, RememberedFile, Undo, Undone, Unkept, Why, is_unclear, is_undo, remembered_as};
use tieline_host::roots::shown;
use tieline_host::store::Claim;

/// So much of the names of files is told in one line, in characters.
const MAX_NAMES_CHARS: usize = 1000;

/// Put files back as they were before a turn, whatever the agent; git is not touched
///
/// A file that changed again since the turn is left alone and named, unless you say --force. An undo can itself be undone:
/// the line to type is printed.
#[derive(Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Arguments {
    /// The session; without it the one that changed something last in this folder
    session: Option<String>,

    /// The turn; without it the last one that changed something
    #[arg(long, value_name = "N")]
    turn: Option<String>,

    /// Only this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// Only this place in the file; `tieline diff SESSION FILE --hunks` numbers them
    #[arg(long, value_name = "N", requires = "file", value_parser = clap::value_parser!(u32).range(1..))]
    hunk: Option<u32>,

    /// Only list the turns that can be undone, and their files
    #[arg(long, conflicts_with_all = ["turn", "hunk", "dry_run", "force"])]
    list: bool,

    #[command(flatten)]
    format: ListFormat,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,

    /// Also files that changed since
    #[arg(long)]
    force: bool,

    /// Also what changed while a question stood or another run was at work here: by the agent or by somebody else
    #[arg(long, conflicts_with_all = ["hunk", "list"])]
    meanwhile: bool,
}

/// Undoes.
pub fn run(arguments: Arguments) -> ExitCode {
    let mut refused = false;
    let (list, format) = (arguments.list, arguments.format);
    let done = block_on(work(arguments, &mut refused));
    let code = if list { format.finish("undo", done) } else { finish("undo", done) };
    if refused { ExitCode::from(WRONG) } else { code }
}

async fn work(arguments: Arguments, refused: &mut bool) -> Result<String, Failed> {
    let journal = settled_journal().await?;
    let file = arguments.file.as_deref().map(whole_path).transpose()?;
    let entry = match &arguments.session {
        Some(name) => find_session(&journal, Some(name)).await?,
        None => match last_undoable(&journal, &arguments, file.as_deref()).await? {
            Ok(entry) => entry,
            Err(nothing) if arguments.list => {
                *refused = true;
                note(format_args!("tieline undo: {nothing}"));
                return Ok(arguments.format.print::<()>(&[], |_| String::new()));
            }
            Err(nothing) => return Err((WRONG, nothing)),
        },
    };
    let (recording, undo) = open_undo(&journal, &entry).await?;
    tell_damage(&undo);
    if arguments.list {
        let story = journal.story(&entry.id).await.map_err(bad_journal)?;
        return Ok(list(&undo, &story, file.as_deref(), arguments.format));
    }
    let unclear = undo.unclear(arguments.turn.as_deref()).filter(|_| arguments.meanwhile);
    let turn = match turn_of(&undo, &entry, arguments.turn.clone(), file.as_deref()) {
        Err(_) if let Some(unclear) = &unclear => unclear.clone(),
        turn => turn?,
    };
    let mut out = String::new();
    if let (Some(number), Some(file)) = (arguments.hunk, &file) {
        let hunks = undo.hunks(&turn, file).map_err(bad_undo)?;
        let hunk = hunks.get(number as usize - 1);
        let hunk =
            hunk.ok_or((USAGE, format!("{} has {} places that differ, no {number}", shown(file), hunks.len())))?;
        if arguments.dry_run {
            let _ = writeln!(out, "would take back place {number} in {}", shown(file));
            return Ok(out);
        }
        let again = undo.undo_hunk(&turn, file, hunk, arguments.force).map_err(bad_undo)?;
        let _ = writeln!(out, "took back place {number} in {}", shown(file));
        let _ = writeln!(out, "to have it again: tieline undo {} --turn {again}", entry.id);
        told(&recording, &out).await?;
        return Ok(out);
    }
    let unclear = undo.unclear(Some(&turn));
    let turns = [Some(turn.clone()), unclear.clone().filter(|_| arguments.meanwhile)];
    let mut done = Undone::default();
    for turn in turns.into_iter().flatten() {
        let added = undo.added(&turn);
        let one = if arguments.dry_run {
            undo.preview(&turn, file.as_deref(), arguments.force)
        } else {
            undo.undo(&turn, file.as_deref(), arguments.force)
        };
        for path in &one.restored {
            let verb = match (added.contains(path), arguments.dry_run) {
                (false, false) => "put back",
                (false, true) => "would put back",
                (true, false) => "removed",
                (true, true) => "would remove",
            };
            let _ = writeln!(out, "{verb} {}", shown(path));
        }
        if let Some(again) = &one.turn {
            let _ = writeln!(out, "to have it again: tieline undo {} --turn {again}", entry.id);
            for file in undo.files(again).into_iter().filter(|file| file.unkept.is_some()) {
                let _ = writeln!(out, "but not {}: it was too large to be copied", shown(&file.path));
            }
        }
        done.restored.extend(one.restored);
        done.refused.extend(one.refused);
    }
    let plain = |name: &&String| name.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one));
    let name = arguments.session.as_ref().filter(plain).map_or(&*entry.id, String::as_str);
    for one in &done.refused {
        *refused = true;
        note(format_args!("left alone: {one}{}", hint(&one.why, name)));
    }
    if arguments.turn.is_none() && file.is_none() && done.restored.is_empty() && *refused {
        let earlier = before(&journal, &undo, &entry, &turn).await?;
        if let Some(line) = earlier {
            note(format_args!("what was changed before that: {line}"));
        }
    }
    if let Some(unclear) = unclear.filter(|_| !arguments.meanwhile) {
        let files = undo.files(&unclear).into_iter().map(|known| known.path);
        let files = files.filter(|path| file.as_ref().is_none_or(|file| file == path)).map(|path| shown(&path));
        let files = cut(&files.collect::<Vec<_>>().join(", "), MAX_NAMES_CHARS);
        if !files.is_empty() {
            note(format_args!("left alone, by the agent or by somebody else: {files}; --meanwhile puts it back, too"));
        }
    }
    if !arguments.dry_run && !done.restored.is_empty() {
        told(&recording, &out).await?;
    }
    Ok(out)
}

/// What can be done about a file that was left alone, in a session of this name.
fn hint(why: &Why, name: &str) -> String {
    match why {
        Why::ChangedBy(turn, _) => {
            format!("; undo that one first: tieline undo {name} --turn {turn}; --force puts it back all the same")
        }
        Why::ChangedSince | Why::Mixed => {
            format!("; `tieline diff {name} --now` shows it, --force puts it back all the same")
        }
        Why::InTheWay => "; move it back, or delete it, by hand, and undo again".to_owned(),
        Why::OnlyCopy => "; --force removes it all the same".to_owned(),
        Why::Hollow => "; --force puts it back all the same".to_owned(),
        Why::NotRecorded => format!("; `tieline diff {name} --names` lists what was"),
        Why::NotKept(Unkept::Moved) => "; move it back, or delete it, by hand".to_owned(),
        Why::NotKept(_) | Why::Beyond(_) => format!("; `tieline undo {name} --list` shows what can be put back"),
        _ => String::new(),
    }
}

/// The line that undoes what changed before a turn, here or in an older session of this folder, if there is anything.
async fn before(journal: &Journal, undo: &Undo, entry: &Entry, turn: &str) -> Result<Option<String>, Failed> {
    let turns = undo.turns().into_iter().take_while(|known| known != turn);
    if let Some(earlier) = turns.filter(|known| !is_undo(known) && !is_unclear(known)).last() {
        return Ok(Some(format!("tieline undo {} --turn {earlier}", entry.id)));
    }
    let changed = journal.changed(Some(&here()?)).await.map_err(bad_journal)?;
    let mut older = changed.into_iter().skip_while(|other| other.id != entry.id).skip(1);
    let fits = |other: &Entry| Undo::open(journal, other).is_ok_and(|undo| undo.last_turn(None).is_some());
    Ok(older.find(fits).map(|other| format!("tieline undo {}", other.id)))
}

/// The session that an undo is about if none is named; or why there is none.
async fn last_undoable(
    journal: &Journal,
    arguments: &Arguments,
    file: Option<&Path>,
) -> Result<Result<Entry, String>, Failed> {
    let unclear = RefCell::new(None);
    let fits = async |entry: &Entry| {
        // A turn that is named or listed may be one that was undone already.
        if arguments.turn.is_some() || arguments.list {
            return Ok(true);
        }
        let undo = open_undo(journal, entry).await?.1;
        let may_be = undo.unclear(None).is_some();
        if may_be {
            unclear.borrow_mut().get_or_insert_with(|| entry.id.clone());
        }
        let fits = arguments.meanwhile && may_be || undo.last_turn(file).is_some();
        if !fits {
            tell_damage(&undo);
        }
        Ok(fits)
    };
    if let Some(entry) = last_change(journal, "undo", fits).await? {
        return Ok(Ok(entry));
    }
    let nothing = match &arguments.file {
        Some(file) => format!("no session of this folder changed {}, or it was undone", shown(file)),
        None => "no session of this folder has anything to undo".to_owned(),
    };
    Ok(Err(match unclear.take() {
        Some(id) => {
            format!("{nothing}, but for what the agent or somebody else changed: tieline undo {id} --meanwhile")
        }
        None => nothing,
    }))
}

/// The turn that is named, or the one that an undo is about without that, in this file if one is given.
pub fn turn_of(undo: &Undo, entry: &Entry, named: Option<String>, file: Option<&Path>) -> Result<String, Failed> {
    let turn = named.or_else(|| undo.last_turn(file)).ok_or_else(|| match file {
        Some(file) => {
            let file = shown(file.strip_prefix(&entry.cwd).unwrap_or(file));
            (WRONG, format!("session {} did not change {file}, or it was undone", entry.id))
        }
        None => (WRONG, format!("session {} has nothing to undo", entry.id)),
    })?;
    let known = undo.turns();
    if known.contains(&turn) {
        return Ok(turn);
    }
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err((WRONG, format!("session {} has no turn {turn} that can be undone; there is: {known}", entry.id)))
}

/// What a turn is that is the record of an undo.
pub fn undo_words(turn: &str) -> Option<&'static str> {
    match turn.matches("~undo").count() {
        0 => None,
        undos if undos % 2 == 1 => Some("an undo; undoing it puts the change back"),
        _ => Some("an undo of an undo; undoing it takes the change away again"),
    }
}

/// The turns that can be undone, and what they changed.
fn list(undo: &Undo, story: &Story, file: Option<&Path>, format: ListFormat) -> String {
    let entry = &story.entry;
    let name = |turn: u64, file: &Changed| remembered_as(turn, file.asked);
    let told = story.turns.iter().flat_map(|turn| turn.changes.iter().map(move |file| (name(turn.number, file), file)));
    let asked: HashMap<(String, &Path), HowAsked> =
        told.map(|(turn, file)| ((turn, Path::new(&file.path)), file.asked)).collect();
    let turns = undo.turns().into_iter().flat_map(|turn| {
        let files = undo.files(&turn).into_iter().filter(|known| file.is_none_or(|file| known.path == file));
        files.map(|file| (turn.clone(), file)).collect::<Vec<_>>()
    });
    let turns: Vec<(String, RememberedFile)> = turns.collect();
    let asked = |turn: &String, file: &RememberedFile| asked.get(&(turn.clone(), &file.path)).copied();
    let value = |(turn, file): &(String, RememberedFile)| {
        let RememberedFile { path, kind, unkept, .. } = file;
        let (asked, kept) = (asked(turn, file), unkept.is_none());
        json!({"session": &*entry.id, "turn": turn, "path": path.to_string_lossy(), "how": kind, "asked": asked, "kept": kept,
            "unkept": unkept, "undo": is_undo(turn)})
    };
    format.print(&turns.iter().map(value).collect::<Vec<_>>(), |_| {
        let line = |(turn, file): &(String, RememberedFile)| {
            let name = shown(file.path.strip_prefix(&entry.cwd).unwrap_or(&file.path));
            let how = json!(file.kind);
            let kept = file.unkept.map(|why| format!("can't be undone: {why}"));
            let asked = asked(turn, file).and_then(HowAsked::words).map(str::to_owned);
            let words = kept.into_iter().chain(asked).chain(undo_words(turn).map(str::to_owned));
            let words = words.collect::<Vec<_>>().join("; ");
            let words = if words.is_empty() { words } else { format!(" ({words})") };
            format!("turn {turn}: {} {name}{words}\n", how.as_str().unwrap_or_default())
        };
        turns.iter().map(line).collect()
    })
}

/// The session that changed files last in this folder, of those that fit. Which one it is is said, unless it is the last one
/// here. If there is none here but one near, the line to type for that one is the error.
pub async fn last_change(
    journal: &Journal,
    command: &str,
    fits: impl AsyncFn(&Entry) -> Result<bool, Failed>,
) -> Result<Option<Entry>, Failed> {
    let here = here()?;
    let last = journal.last(None, Some(&here)).await.map_err(bad_journal)?;
    // What one that is at work has changed is not passed over.
    let mut at_work = None;
    if let Some(last) = last.as_ref().filter(|last| Undo::is_open(journal, last)) {
        at_work = under_way(journal, last).await?.filter(|(_, changed)| !changed.is_empty()).map(|_| last.clone());
    }
    let changed = journal.changed(Some(&here)).await.map_err(bad_journal)?;
    for entry in at_work.into_iter().chain(changed) {
        if fits(&entry).await? {
            if last.is_some_and(|last| last.id != entry.id) {
                let title = entry.title.as_deref().map(|title| format!(", “{}”", cut(&sanitize::line(title), 60)));
                note(format_args!("the last change here is of session {}{}", entry.id, title.unwrap_or_default()));
            }
            return Ok(Some(entry));
        }
    }
    let near = |entry: &Entry| here.starts_with(&entry.cwd) || Path::new(&entry.cwd).starts_with(&here);
    match journal.changed(None).await.map_err(bad_journal)?.into_iter().find(|entry| last.is_none() && near(entry)) {
        Some(entry) => {
            let (id, cwd) = (&entry.id, shown(entry.cwd.as_ref()));
            // All that was typed stays: what only looks must not become what does.
            let typed = std::env::args_os().skip_while(|word| word != command).skip(1);
            let words = [command, &**id].map(str::to_owned).into_iter();
            let words = words.chain(typed.map(|word| sanitize::exact_line(&word.to_string_lossy())));
            let line = format!("tieline {}", join_line(&words.collect::<Vec<_>>()));
            Err((NO_SESSION, format!("there is no session of this folder, but one of {cwd}; type: {line}")))
        }
        None => Ok(None),
    }
}

/// The turn of a session that is at work, and what it has changed already.
pub async fn under_way(journal: &Journal, entry: &Entry) -> Result<Option<(String, Vec<Changed>)>, Failed> {
    Undo::open(journal, entry).map_err(bad_undo)?.under_way().await.map_err(bad_undo)
}

/// Writes down what was undone.
async fn told(recording: &Recording, text: &str) -> Result<(), Failed> {
    recording.notice("info", format!("undo: {}", text.trim_end())).await.map_err(bad_journal)
}

/// Something that could not be undone.
pub fn bad_undo(error: Error) -> Failed {
    (WRONG, error.to_string())
}

/// Takes the session, so that nobody works in it meanwhile.
pub async fn open_undo(journal: &Journal, entry: &Entry) -> Result<(Recording, Undo), Failed> {
    let recording = journal.reopen(&entry.id, Claim::IfFree).await.map_err(bad_journal)?;
    let undo = Undo::open(journal, entry).map_err(bad_undo)?;
    Ok((recording, undo))
}

/// Says what is lost because the list of what can be undone was damaged.
pub fn tell_damage(undo: &Undo) {
    undo.damage().into_iter().for_each(note);
}

/// The whole path of a file, whether it is there or not.
pub fn whole_path(file: &Path) -> Result<PathBuf, Failed> {
    let path = here()?.join(file);
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    Ok(match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    })
}
