//! A turn that is watched: who was asked about what, which tool says it did what, and in the end what really changed.

use super::base::{Base, Before, Difference};
use super::{Error, Looked, Undo, text};
use crate::journal::{Changed, HowAsked, HowChanged};
use crate::live::Conversation;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tieline::rpc::sync::Lock;
use tieline::schema::{
    Dialect, Item, PermissionRequest, PermissionSubject, Raw, ToolCallContent, ToolCallItem, ToolKind, Transcript,
    Update,
};
use tieline_host::files::{Hash, State};
use tieline_host::roots::shown;
use tieline_host::snapshot::{Kind, Made, Recorder};

/// How many changed files of one turn are kept.
const MAX_CHANGED_FILES: usize = 2000;
/// How much text the diffs of one turn may have.
const MAX_DIFF_BYTES: usize = 4 << 20;

/// What a turn changed.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The files.
    pub changed: Vec<Changed>,
    /// What was not looked at, in words.
    pub uncovered: Vec<String>,
}

impl Report {
    /// The files that nobody was asked about.
    pub fn unasked(&self) -> impl Iterator<Item = &Changed> {
        self.changed.iter().filter(|changed| changed.asked == HowAsked::Never)
    }
}

/// A turn that is watched. It borrows the conversation; tell it of questions and writes, and [`Watch::after`] says what changed.
#[derive(Debug)]
pub struct Watch {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    undo: Undo,
    recorder: Arc<Recorder>,
    bases: Vec<Base>,
    uncovered: Vec<String>,
    conversation: Conversation,
    told: Mutex<Told>,
    /// While it is held, the built-in agent records into the same turn.
    announced: Mutex<Option<File>>,
}

#[derive(Debug)]
struct Told {
    /// The calls that were allowed.
    allowed: BTreeSet<String>,
    /// Paths that were allowed, or written through us.
    asked: BTreeSet<PathBuf>,
    /// True if a command was allowed.
    command: bool,
    /// Files that no look covers, remembered one by one.
    guarded: BTreeSet<PathBuf>,
}

impl Watch {
    pub(super) fn new(
        undo: Undo,
        turn: u64,
        looked: Looked,
        conversation: Conversation,
        announced: Option<File>,
    ) -> Self {
        let recorder = undo.snapshots.begin(turn.to_string());
        let told = Told { allowed: BTreeSet::new(), asked: BTreeSet::new(), command: false, guarded: BTreeSet::new() };
        let Looked { bases, uncovered } = looked;
        Self {
            inner: Arc::new(Inner {
                undo,
                recorder,
                bases,
                uncovered,
                conversation,
                told: Mutex::new(told),
                announced: Mutex::new(announced),
            }),
        }
    }

    /// Hears what was allowed, before the agent does. Files that it names and no look covers are remembered now.
    pub async fn allowed(&self, request: &PermissionRequest) {
        let mut paths = Vec::new();
        match &request.subject {
            Some(PermissionSubject::ToolCall(subject)) => {
                let (asked, id) = (&subject.tool_call, &subject.tool_call.tool_call_id);
                let now = self.inner.conversation.now();
                let known = now.tool_call(id);
                let kind = asked.kind.set().or(known.map(|call| &call.kind));
                let runs = kind
                    .is_none_or(|kind| matches!(kind, ToolKind::Execute | ToolKind::Unspecified | ToolKind::Other(_)));
                paths.extend(known.map(paths_of).unwrap_or_default());
                // What the question names itself may not be part of the conversation yet.
                let mut question = Transcript::new(Dialect::V2);
                question.apply(&Update::ToolCall(Box::new(asked.clone())));
                paths.extend(question.tool_call(id).map(paths_of).unwrap_or_default());
                let mut told = self.inner.told();
                told.command |= runs;
                told.asked.extend(paths.iter().cloned());
                told.allowed.insert(id.clone());
            }
            Some(PermissionSubject::Command(_)) => self.command(),
            _ => {}
        }
        self.guard(paths).await;
    }

    /// Hears of a command that was allowed in another way, such as a terminal.
    pub fn command(&self) {
        self.inner.told().command = true;
    }

    /// Hears that we write a file for the agent, before we do.
    pub async fn writing(&self, path: &Path) {
        let path = real(path);
        self.inner.told().asked.insert(path.clone());
        self.guard(vec![path]).await;
    }

    async fn guard(&self, paths: Vec<PathBuf>) {
        let inner = Arc::clone(&self.inner);
        let work = move || paths.into_iter().for_each(|path| inner.guard(&path));
        let _ = tokio::task::spawn_blocking(work).await;
    }

    /// Looks again, remembers what was before, and says what changed.
    pub async fn after(&self) -> Result<Report, Error> {
        let inner = Arc::clone(&self.inner);
        let work = tokio::task::spawn_blocking(move || inner.after());
        work.await.map_err(|error| Error(error.to_string()))?
    }
}

/// The path without links, whether the file is there or not.
pub(super) fn real(path: &Path) -> PathBuf {
    let whole = || {
        let folder = std::fs::canonicalize(path.parent()?).ok()?;
        Some(folder.join(path.file_name()?))
    };
    whole().unwrap_or_else(|| path.to_owned())
}

/// The files that a call names: where it works, what it changes, what it was given.
fn paths_of(call: &ToolCallItem) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = call.locations.iter().map(|location| PathBuf::from(&location.path)).collect();
    for content in &call.content {
        if let ToolCallContent::Diff(diff) = content {
            paths.extend(diff.paths().map(PathBuf::from));
        }
    }
    let given =
        call.raw_input.as_ref().and_then(|raw: &Raw| raw.parse::<serde_json::Map<String, serde_json::Value>>().ok());
    for (name, value) in given.unwrap_or_default() {
        let name = name.to_lowercase();
        if (name.contains("path") || name.contains("file"))
            && let Some(path) = value.as_str().filter(|path| path.starts_with('/') && path.len() < 4096)
        {
            paths.push(path.into());
        }
    }
    paths.iter().map(|path| real(path)).collect()
}

fn changes_files(call: &ToolCallItem) -> bool {
    let diff = call.content.iter().any(|content| matches!(content, ToolCallContent::Diff(_)));
    diff || matches!(call.kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move)
}

/// A file before or after a turn.
#[derive(Debug, PartialEq, Eq)]
enum Side {
    /// Not there.
    Missing,
    /// There, with a content that is not known.
    Unknown,
    /// There, with this content.
    Known(Vec<u8>),
}

impl Side {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Known(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl Inner {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.locked()
    }

    /// Remembers one file that no look covers.
    fn guard(&self, path: &Path) {
        let covered =
            |base: &Base| path.strip_prefix(&base.root).ok().and_then(Path::to_str).is_some_and(|name| base.has(name));
        if self.bases.iter().any(covered) || self.told().guarded.contains(path) {
            return;
        }
        // Outside the roots nothing can be put back.
        if let Ok(place) = self.undo.files.roots().resolve_entry(path)
            && self.recorder.before(&self.undo.files, &place).is_ok()
        {
            self.told().guarded.insert(path.to_owned());
        }
    }

    fn after(&self) -> Result<Report, Error> {
        let mut report = Report { changed: Vec::new(), uncovered: self.uncovered.clone() };
        let asked = self.asked();
        let mut room = MAX_DIFF_BYTES;
        for base in &self.bases {
            report.uncovered.extend(base.uncovered.iter().cloned());
            let found = base.differences();
            let remembered = self.remember(base, &found);
            if let Err(error) = &remembered {
                report.uncovered.push(format!("the way back in {}: {error}", shown(&base.root)));
            }
            for (at, difference) in found.into_iter().enumerate() {
                let path = base.root.join(&difference.name);
                let old = match &difference.before {
                    Before::Was(seen) => base.content(seen).map_or(Side::Unknown, Side::Known),
                    Before::Unknown => Side::Unknown,
                    Before::Missing => Side::Missing,
                };
                let new = match difference.after {
                    Some((_, content)) => content.map_or(Side::Unknown, Side::Known),
                    None => Side::Missing,
                };
                let kept = remembered.is_ok() && at < MAX_CHANGED_FILES && old != Side::Unknown;
                report.changed.push(self.changed(&asked, &path, (&old, &new), kept, &mut room));
            }
        }
        let guarded = self.told().guarded.clone();
        for path in &guarded {
            if report.changed.iter().any(|known| Path::new(&known.path) == path) {
                continue;
            }
            if let Ok(place) = self.undo.files.roots().resolve_entry(path) {
                let noted = self.recorder.after(&self.undo.files, &place);
                report.uncovered.extend(noted.err().map(|error| error.to_string()));
            }
            let known =
                self.undo.snapshots.changed(self.recorder.turn()).into_iter().find(|changed| changed.path == *path);
            if let Some(known) = known {
                let side = |is: bool| if is { Side::Unknown } else { Side::Missing };
                let (old, new) = (side(known.kind != Kind::Added), side(known.kind != Kind::Deleted));
                report.changed.push(self.changed(&asked, path, (&old, &new), known.kept, &mut room));
            }
        }
        report.changed.sort_by(|a, b| a.path.cmp(&b.path));
        report.uncovered.sort();
        report.uncovered.dedup();
        let _ = std::fs::remove_file(self.undo.marker());
        self.announced.locked().take();
        Ok(report)
    }

    /// For each path the tool that names it, and whether it was allowed.
    fn asked(&self) -> BTreeMap<PathBuf, (Option<String>, bool)> {
        let told = self.told();
        let mut asked: BTreeMap<PathBuf, (Option<String>, bool)> = BTreeMap::new();
        for item in self.conversation.now().items() {
            let Item::ToolCall(call) = item else { continue };
            let allowed = told.allowed.contains(&call.id);
            for path in paths_of(call) {
                let known = asked.entry(path).or_default();
                known.1 |= allowed;
                if changes_files(call) {
                    known.0 = call.title.clone().or_else(|| call.name.clone());
                }
            }
        }
        for path in &told.asked {
            asked.entry(path.clone()).or_default().1 = true;
        }
        asked
    }

    /// Writes down what the files were, each on its own: a path that leads nowhere any more is no reason to lose the others.
    fn remember(&self, base: &Base, found: &[Difference]) -> Result<(), Error> {
        let found = &found[..found.len().min(MAX_CHANGED_FILES)];
        let folders: Vec<Vec<PathBuf>> = found.iter().map(|one| base.new_folders(&one.name)).collect();
        let contents: Vec<Option<Vec<u8>>> = found
            .iter()
            .map(|one| match &one.before {
                Before::Was(seen) => base.content(seen),
                _ => None,
            })
            .collect();
        let made = found.iter().zip(&contents).zip(&folders).map(|((difference, content), folders)| {
            let before = match &difference.before {
                Before::Missing => State::Missing,
                Before::Was(seen) => {
                    let hash = seen.kept.map_or_else(|| Hash::of(b""), |(_, hash)| hash);
                    State::File { hash, size: seen.facts.size, mode: seen.facts.mode }
                }
                // Never put back: its old content is not there.
                Before::Unknown => State::File { hash: Hash::of(b"?"), size: 1, mode: 0o644 },
            };
            let after = match &difference.after {
                None => State::Missing,
                Some((facts, Some(content))) => {
                    State::File { hash: Hash::of(content), size: content.len() as u64, mode: facts.mode }
                }
                Some((facts, None)) => State::File { hash: Hash::of(b"?"), size: facts.size, mode: facts.mode },
            };
            let directories = if before == State::Missing { &folders[..] } else { &[] };
            let (root, path) = (base.root.clone(), PathBuf::from(&difference.name));
            Made { root, path, before, content: content.as_deref(), after, directories }
        });
        if found.is_empty() { Ok(()) } else { Ok(self.recorder.made(made.collect())?) }
    }

    /// One changed file as it is reported.
    fn changed(
        &self,
        asked: &BTreeMap<PathBuf, (Option<String>, bool)>,
        path: &Path,
        (old, new): (&Side, &Side),
        kept: bool,
        room: &mut usize,
    ) -> Changed {
        let (tool, allowed) = asked.get(path).cloned().unwrap_or_default();
        let how = match (old, new) {
            (Side::Missing, _) => HowChanged::Added,
            (_, Side::Missing) => HowChanged::Deleted,
            _ => HowChanged::Modified,
        };
        let mut diff = None;
        if *old != Side::Unknown && *new != Side::Unknown {
            diff = text::unified(&self.undo.name(path), old.bytes(), new.bytes()).filter(|diff| diff.len() <= *room);
        }
        *room -= diff.as_ref().map_or(0, String::len);
        let asked = match (allowed, self.told().command) {
            (true, _) => HowAsked::Asked,
            (false, true) => HowAsked::Command,
            (false, false) => HowAsked::Never,
        };
        Changed { path: path.to_string_lossy().into_owned(), how, asked, tool, kept, diff }
    }
}
