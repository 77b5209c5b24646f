//! What the page asks for beside the protocol: words in all sessions, files for `@`, and the way back from what a turn changed.

use crate::hub::{Hub, Role, Visitor};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tieline::schema::Raw;
use tieline::{Error, Result};
use tieline_client::live::State;
use tieline_client::sanitize;
use tieline_client::undo::Undo;
use tieline_host::text::cut;

/// So many sessions, or files, are told.
const MAX_FOUND: usize = 50;
const MAX_OFFERS: usize = 12;
/// So many files of a folder are looked at.
const MAX_FILES: usize = 20_000;
/// As much as is told of a change, in characters.
const MAX_DIFF_CHARS: usize = 20_000;
/// The longest text that is looked for, in characters.
const MAX_QUERY_CHARS: usize = 200;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Params {
    session_id: String,
    query: String,
    /// The turn that is taken back; without it is told what would be done to the last one.
    turn: Option<String>,
    /// It is only told what would be done.
    preview: bool,
}

/// Answers an extension method.
pub(crate) async fn answer(hub: &Hub, visitor: &Visitor, method: &str, params: &Raw) -> Result<Raw> {
    let params: Params = serde_json::from_str(params.get()).map_err(Error::invalid_params)?;
    let query = cut(&params.query, MAX_QUERY_CHARS);
    let value = match method {
        "_tieline/search" => search(hub, visitor, &query).await,
        "_tieline/files" | "_tieline/undo" if visitor.role < Role::Use => {
            Err(Error::wire(-32603, "this token may only look on"))
        }
        "_tieline/files" => files(hub, &params.session_id, query).await,
        "_tieline/undo" => undo(hub, &params.session_id, params.turn, params.preview).await,
        _ => Err(Error::method_not_found(method)),
    }?;
    Ok(value.into())
}

/// Whoever may only look on finds what lives: the others can't be looked at either.
async fn search(hub: &Hub, visitor: &Visitor, query: &str) -> Result<Value> {
    let hits = hub.journal().search(query, MAX_FOUND).await.map_err(Error::internal)?;
    let may = |id: &str| visitor.role >= Role::Use || hub.live(id).is_some();
    let shown = hits.iter().filter(|hit| may(hit.session.id.as_str()));
    let shown = shown.filter(|hit| hub.allowed([Path::new(&hit.session.cwd)]).is_ok());
    let rows: Vec<Value> = shown
        .map(|hit| json!({ "sessionId": hit.session.id.as_str(), "turn": hit.turn, "snippet": sanitize::line(&hit.snippet) }))
        .collect();
    Ok(json!({ "hits": rows }))
}

/// The folder of a session that lives; of the server, if there is none.
async fn folder(hub: &Hub, session: &str) -> Result<PathBuf> {
    match hub.live(session) {
        Some(_) => {
            Ok(hub.journal().entry(session).await.map_err(|_| Error::unknown_session(session))?.cwd.clone().into())
        }
        None => Ok(hub.settings().folder.clone()),
    }
}

async fn files(hub: &Hub, session: &str, query: String) -> Result<Value> {
    let folder = folder(hub, session).await?;
    hub.allowed([&folder])?;
    let found = tokio::task::spawn_blocking(move || fitting(&folder, &query.to_lowercase())).await;
    Ok(json!({ "files": found.map_err(Error::internal)? }))
}

/// The files below a folder whose path has these letters, those with fewer others first. What ignore files name is left out.
fn fitting(folder: &Path, query: &str) -> Vec<String> {
    let walk = ignore::WalkBuilder::new(folder).hidden(true).require_git(false).build();
    let paths = walk.filter_map(std::result::Result::ok).take(MAX_FILES).filter_map(|entry| {
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        let path = entry.path().strip_prefix(folder).ok()?.to_str()?.to_owned();
        (is_file && sanitize::exact_line(&path) == path).then_some(path)
    });
    let mut fitting: Vec<(u8, usize, String)> = paths
        .filter_map(|path| {
            let small = path.to_lowercase();
            let name = small.rsplit('/').next().unwrap_or_default();
            let mut letters = small.chars();
            let rank = match () {
                () if name.starts_with(query) => 0,
                () if name.contains(query) => 1,
                () if small.contains(query) => 2,
                () if query.chars().all(|wanted| letters.any(|letter| letter == wanted)) => 3,
                () => return None,
            };
            Some((rank, path.len(), path))
        })
        .collect();
    fitting.sort();
    fitting.into_iter().take(MAX_OFFERS).map(|(_, _, path)| path).collect()
}

/// Tells what the last turn changed, or takes a turn back, which may be one that took something back. Files that changed since are left
/// alone and named.
async fn undo(hub: &Hub, session: &str, turn: Option<String>, preview: bool) -> Result<Value> {
    let wrong = |why: &str| Error::wire(-32603, why.to_owned());
    let room = hub.live(session).ok_or_else(|| Error::unknown_session(session))?;
    let state = room.state().ok_or_else(|| wrong("changes are taken back at the node that has the session"))?;
    if !matches!(state, State::Idle | State::Lost) {
        return Err(wrong("changes are taken back when no turn runs"));
    }
    let entry = hub.journal().entry(session).await.map_err(|_| wrong("nothing was changed yet"))?;
    let journal = hub.journal().clone();
    let work = tokio::task::spawn_blocking(move || {
        let undo = Undo::open(&journal, &entry).map_err(|error| error.to_string())?;
        let told = |path: &PathBuf| sanitize::line(&path.strip_prefix(&entry.cwd).unwrap_or(path).to_string_lossy());
        let (last, done) = match turn {
            Some(turn) if preview => (turn.clone(), undo.preview(&turn, None, false)),
            Some(turn) => (turn.clone(), undo.undo(&turn, None, false)),
            None => {
                let last = undo.last_turn(None).ok_or("there is nothing to take back")?;
                (last.clone(), undo.preview(&last, None, false))
            }
        };
        let files: Vec<Value> = done
            .restored
            .iter()
            .map(|path| {
                let diff = undo.would_change(&last, path).unwrap_or_default();
                json!({ "path": told(path), "patch": cut(&diff, MAX_DIFF_CHARS) })
            })
            .collect();
        let refused: Vec<String> = done.refused.iter().map(|refused| sanitize::line(&refused.to_string())).collect();
        Ok::<_, String>(json!({ "turn": last, "files": files, "refused": refused, "again": done.turn }))
    });
    work.await.map_err(Error::internal)?.map_err(|why| wrong(&why))
}
