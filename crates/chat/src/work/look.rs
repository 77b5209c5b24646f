//! Looks things up for the pickers, and does what is picked there: sessions, agents, turns that can be taken back.

use super::{Live, Told};
use crate::event::Event;
use crate::pick::{Errand, Pick, Picker, Source};
use crate::{Go, Opener, Which};
use std::path::{Path, PathBuf};
use tieline_client::export::{self, Format};
use tieline_client::journal::{Entry, Journal};
use tieline_client::live;
use tieline_client::sanitize;
use tieline_client::undo::Undo;
use tieline_host::roots::shown;
use tieline_host::store::ListQuery;
use tieline_host::text::counted;

/// So many sessions are listed.
const MAX_SESSIONS: usize = 200;

/// Finds what a picker shows.
pub(super) async fn look(opener: &dyn Opener, live: Option<Live>, source: Source) -> Told<Event> {
    let picker = match source {
        Source::Sessions => sessions(&journal(opener)?).await?,
        Source::Agents => {
            let mut all = Picker::new("Agents: a new session in a new tab", Vec::new());
            for agent in opener.agents() {
                let more = if agent.found { agent.about } else { format!("not installed: {}", agent.about) };
                let which = Which { agent: Some(agent.name.clone()), session: Go::New };
                all = all.line(sanitize::line(&agent.name), sanitize::line(&more), Pick::Open(which));
            }
            all
        }
        Source::Traffic => {
            let live = live.ok_or("there is no agent yet")?;
            return Ok(Event::Read("Frames".into(), live.log.lines()));
        }
        Source::Turns => {
            let (undo, entry) = undo(opener, live).await?;
            let mut all = Picker::new("Take back the changes of which turn?", Vec::new());
            for turn in undo.turns().into_iter().rev() {
                let files = undo.files(&turn);
                let names: Vec<_> = files.iter().map(|file| name(&file.path, &entry)).collect();
                all = all.line(format!("turn {turn}"), names.join(", "), Pick::Look(Source::Files(turn)));
            }
            all
        }
        Source::Files(turn) => {
            let (undo, entry) = undo(opener, live).await?;
            let preview = undo.preview(&turn, None, false);
            let mut all = Picker::new(format!("Turn {turn}: what is taken back?"), Vec::new());
            let refused = if preview.refused.is_empty() {
                String::new()
            } else {
                format!(", {} left alone", preview.refused.len())
            };
            let what = format!("puts {} back{refused}", counted(preview.restored.len(), "file"));
            all = all.line("All of it", what, Pick::Do(Errand::Undo(turn.clone())));
            for one in &preview.refused {
                all = all.line("left alone", sanitize::line(&one.to_string()), Pick::Nothing);
            }
            for path in preview.restored {
                let (label, path) = (name(&path, &entry), path.to_string_lossy().into_owned());
                all = all.line(label, "this file, or places in it", Pick::Look(Source::Hunks(turn.clone(), path)));
            }
            all
        }
        Source::Hunks(turn, path) => {
            let (undo, entry) = undo(opener, live).await?;
            let mut all = Picker::new(format!("{}: what is taken back?", name(Path::new(&path), &entry)), Vec::new());
            all = all.line("The whole file", "", Pick::Do(Errand::UndoFile(turn.clone(), path.clone())));
            for (at, hunk) in undo.hunks(&turn, Path::new(&path)).unwrap_or_default().iter().enumerate() {
                let (old, new) = (sanitize::exact_line(hunk.old.trim_end()), sanitize::exact_line(hunk.new.trim_end()));
                let label = format!("from line {}", hunk.new_lines.start + 1);
                all = all.line(
                    label,
                    format!("- {new}  + {old}"),
                    Pick::Do(Errand::UndoHunk(turn.clone(), path.clone(), at)),
                );
            }
            all
        }
    };
    Ok(Event::Found(picker))
}

fn name(path: &Path, entry: &Entry) -> String {
    shown(path.strip_prefix(&entry.cwd).unwrap_or(path))
}

fn journal(opener: &dyn Opener) -> Told<Journal> {
    opener.journal().ok_or_else(|| "sessions are not recorded here".into())
}

async fn undo(opener: &dyn Opener, live: Option<Live>) -> Told<(Undo, Entry)> {
    let journal = journal(opener)?;
    let live = live.ok_or("there is no session yet")?;
    if !matches!(live.session.state(), live::State::Idle | live::State::Lost) {
        return Err("changes are taken back when no turn runs".into());
    }
    let id = live.session.id().to_string();
    let entry = match journal.entry(&id).await {
        Ok(entry) => entry,
        Err(_) => journal
            .last(None, None)
            .await
            .ok()
            .flatten()
            .filter(|entry| entry.agent_session.as_deref() == Some(&id))
            .ok_or("nothing was changed yet")?,
    };
    let undo = Undo::open(&journal, &entry).map_err(|error| error.to_string())?;
    Ok((undo, entry))
}

async fn sessions(journal: &Journal) -> Told<Picker> {
    let query = ListQuery { begun: true, limit: MAX_SESSIONS, ..ListQuery::default() };
    let (entries, _) = journal.list(query).await.map_err(|error| error.to_string())?;
    let mut all = Picker::new("Sessions: go on in a new tab", Vec::new());
    for entry in entries {
        let id = entry.id.to_string();
        let title = sanitize::line(entry.title.as_deref().unwrap_or(&id));
        let which = Which { agent: None, session: Go::On(id.clone()) };
        let menu = Picker::new(title.clone(), Vec::new())
            .line("Go on with it", "in a new tab", Pick::Open(which))
            .line("Rename it", "", Pick::AskName(id.clone()))
            .line("Export it", "as Markdown, into this folder", Pick::Do(Errand::Export(id.clone())))
            .line("Delete it", "for good, with what could be taken back", Pick::Do(Errand::Delete(id)));
        let more = sanitize::line(&format!(
            "{} · {} · {}",
            entry.agent,
            counted(usize::try_from(entry.turns).unwrap_or(0), "turn"),
            entry.cwd
        ));
        all = all.line(title, more, Pick::Menu(Box::new(menu)));
    }
    Ok(all)
}

/// Does what was picked with a stored session or a turn, and says what happened.
pub(super) async fn run(opener: &dyn Opener, live: Option<Live>, errand: Errand) -> Told<String> {
    let wrong = |error: tieline_client::journal::Error| error.to_string();
    match errand {
        Errand::Delete(id) => journal(opener)?.delete(&id).await.map_err(wrong).map(|()| "deleted".into()),
        Errand::Rename(id, name) => {
            let journal = journal(opener)?;
            let entry = journal.entry(&id).await.map_err(wrong)?;
            journal.rename(&entry, &name).await.map_err(wrong).map(|()| "renamed".into())
        }
        Errand::Export(id) => {
            let story = journal(opener)?.story(&id).await.map_err(wrong)?;
            let path: PathBuf = opener.folder().join(format!("session-{id}.md"));
            let mut file = std::fs::OpenOptions::new();
            let file = file.write(true).create_new(true).open(&path);
            let text = export::export(&story, Format::Markdown);
            let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
            written
                .map_err(|error| format!("{}: {error}", path.display()))
                .map(|()| format!("written: {}", path.display()))
        }
        Errand::Undo(turn) => {
            let (undo, _) = undo(opener, live).await?;
            Ok(told(&undo.undo(&turn, None, false)))
        }
        Errand::UndoFile(turn, path) => {
            let (undo, _) = undo(opener, live).await?;
            Ok(told(&undo.undo(&turn, Some(Path::new(&path)), false)))
        }
        Errand::UndoHunk(turn, path, at) => {
            let (undo, _) = undo(opener, live).await?;
            let path = Path::new(&path);
            let hunks = undo.hunks(&turn, path).map_err(|error| error.to_string())?;
            let hunk = hunks.get(at).ok_or("it is not there any more")?;
            undo.undo_hunk(&turn, path, hunk, false)
                .map(|_| "taken back; F5 has it again".into())
                .map_err(|error| error.to_string())
        }
    }
}

fn told(done: &tieline_host::snapshot::Undone) -> String {
    let left: Vec<_> = done.refused.iter().map(ToString::to_string).collect();
    let left = if left.is_empty() { String::new() } else { format!("; left alone: {}", left.join(", ")) };
    format!("{} put back{left}; F5 has it again", counted(done.restored.len(), "file"))
}
