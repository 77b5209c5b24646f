//! Looks things up for the pickers, and does what is picked there: sessions, agents, turns that can be taken back.

use super::{Live, Told};
use crate::Opener;
use crate::event::Event;
use crate::pick::{self, Change, Errand, Source, Stored};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use tieline::schema::ContentBlock;
use tieline_client::export::{self, Format};
use tieline_client::journal::{Entry, Journal};
use tieline_client::live;
use tieline_client::undo::Undo;
use tieline_host::roots::shown;
use tieline_host::store::{ListQuery, Time};

/// So many sessions are listed.
const MAX_SESSIONS: usize = 200;

/// Finds what a picker shows.
pub(super) async fn look(opener: &dyn Opener, live: Option<Live>, source: Source) -> Told<Event> {
    let picker = match source {
        Source::Sessions => {
            let query = ListQuery { begun: true, limit: MAX_SESSIONS, ..ListQuery::default() };
            let (entries, _) = journal(opener)?.list(query).await.map_err(|error| error.to_string())?;
            pick::sessions(entries.into_iter().map(|entry| Stored {
                id: entry.id.to_string(),
                title: entry.title.clone(),
                agent: entry.agent.clone(),
                turns: entry.turns,
                ago: entry.updated.ago(Time::now()),
                cwd: entry.cwd.clone(),
            }))
        }
        Source::Agents => pick::agents(opener.agents()),
        Source::Traffic => {
            let live = live.ok_or("there is no agent yet")?;
            return Ok(Event::Read("Frames".into(), live.log.lines()));
        }
        Source::Turns => {
            let (undo, entry) = undo(opener, live).await?;
            let below = |path: &Path| shown(path.strip_prefix(&entry.cwd).unwrap_or(path));
            let story = journal(opener)?.story(&entry.id).await.map_err(|error| error.to_string())?;
            let change = |id: String| {
                let names: Vec<_> = undo.files(&id).iter().map(|file| below(&file.path)).collect();
                let told = story.turns.iter().find(|turn| id.split('~').next() == Some(&turn.number.to_string()));
                let prompt = told.into_iter().flat_map(|turn| &turn.prompt).find_map(ContentBlock::as_text);
                let ago = told.map(|turn| turn.began.ago(Time::now())).unwrap_or_default();
                Change::new(&id, prompt.unwrap_or_default(), &ago, &names)
            };
            pick::turns(undo.turns().into_iter().rev().map(change))
        }
        Source::Files(turn, words) => {
            let (undo, entry) = undo(opener, live).await?;
            let preview = undo.preview(&turn, None, false);
            let diffs: Vec<_> = preview.restored.iter().map(|path| undo.would_change(&turn, path)).collect();
            pick::files(&turn, &words, &preview, &undo.added(&turn), &diffs, Path::new(&entry.cwd))
        }
        Source::Hunks(turn, path) => {
            let (undo, entry) = undo(opener, live).await?;
            let hunks = undo.hunks(&turn, Path::new(&path)).unwrap_or_default();
            pick::hunks(&turn, &path, &hunks, Path::new(&entry.cwd))
        }
    };
    Ok(Event::Found(picker))
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
            let path = opener.folder().join(format!("session-{id}.md"));
            let text = export::export(&story, Format::Markdown);
            let written = File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()));
            written
                .map_err(|error| format!("{}: {error}", path.display()))
                .map(|()| format!("written: {}", path.display()))
        }
        Errand::Undo(turn, path) => {
            let (undo, _) = undo(opener, live).await?;
            let added = undo.added(&turn);
            let done = undo.undo(&turn, path.as_deref().map(Path::new), false);
            let [back, gone] = pick::counts(&done.restored, &added);
            let done_to = [(back, "put back"), (gone, "removed")]
                .into_iter()
                .filter_map(|(files, done)| Some(format!("{} {done}", files?)));
            let left = done.refused.iter().map(|one| format!("left alone: {one}"));
            let told: Vec<_> = done_to.chain(left).chain(["F5 has it again".into()]).collect();
            Ok(told.join("; "))
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
