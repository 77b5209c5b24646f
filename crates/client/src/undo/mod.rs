//! Undo for any agent: what files were before each turn, what the turn changed, and the way back. Git is not touched.
//!
//! Before a turn the folders of the session are looked at ([`scan`]) and what changed since the last look is copied; after
//! it they are looked at again, and what is different is the turn's doing ([`Watch::after`]). What is not covered (large
//! files, what `.gitignore` names, more than fits the limits) is said.

mod text;
mod watch;

pub(crate) use text::unified;
pub use tieline_host::snapshot::{Changed as RememberedFile, Hunk, Limits, Undone, Unkept, Why, is_undo};
pub(crate) use watch::real;
pub use watch::{Report, Watch};

use crate::journal::{Changed, Entry, HowAsked, HowUndone, Journal, Story};
use crate::live::Conversation;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tieline_host::files::{Files, State};
use tieline_host::roots::{Root, Roots};
use tieline_host::snapshot::{self, Base, Contents, Refused, Snapshots};
use tieline_host::whole::write_whole;
use tokio::task::JoinHandle;

/// How many bytes of old contents are kept for a session.
const LIMIT: u64 = 256 << 20;

/// The file that says which turn is under way.
const MARKER: &str = "open.json";

/// Why something could not be undone or watched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

impl From<tieline_host::roots::Error> for Error {
    fn from(error: tieline_host::roots::Error) -> Self {
        Self(error.to_string())
    }
}

/// A look at folders that is under way; it runs beside the start of the agent.
#[derive(Debug)]
pub struct Scanning {
    roots: Vec<PathBuf>,
    looking: JoinHandle<Looked>,
}

#[derive(Debug, Default)]
struct Looked {
    bases: Vec<Base>,
    uncovered: Vec<String>,
}

/// Looks at the folders of a session, beside everything else; `ours` are files that we write there ourselves. Without a journal
/// nothing can be put back, but what changes is known. To be called in a tokio runtime.
pub fn scan(
    journal: Option<&Journal>,
    roots: impl IntoIterator<Item = PathBuf>,
    ours: &[PathBuf],
    limits: Limits,
) -> Scanning {
    let state = journal.map(state);
    let skip: Vec<PathBuf> = state.iter().cloned().chain(ours.iter().map(|path| watch::real(path))).collect();
    let all: Vec<PathBuf> = roots.into_iter().collect();
    let (began, roots) = (SystemTime::now(), all.clone());
    let looking = tokio::task::spawn_blocking(move || {
        let mut looked = Looked::default();
        for (at, root) in roots.iter().enumerate() {
            let inside = |other: &PathBuf| root.starts_with(other) && root != other;
            if roots.iter().any(inside) || roots[..at].contains(root) {
                continue;
            }
            match Base::take(state.as_deref(), root, skip.clone(), limits, began) {
                Ok(base) => looked.bases.push(base),
                Err(error) => looked.uncovered.push(format!("{}: {error}", tieline_host::roots::shown(root))),
            }
        }
        looked
    });
    Scanning { roots: all, looking }
}

fn state(journal: &Journal) -> PathBuf {
    journal.path().parent().map(Path::to_owned).unwrap_or_default()
}

/// What a session changed, and the way back. Only the process that has the session open may have it.
#[derive(Debug, Clone)]
pub struct Undo {
    /// Where everything is kept, and what is of this session; `None` if nothing is.
    kept: Option<(PathBuf, PathBuf)>,
    snapshots: Arc<Snapshots>,
    files: Files,
}

/// A turn that is under way, as it is remembered in case we are killed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Open {
    turn: u64,
    /// The folders and the names of the looks at them.
    roots: Vec<(String, u64)>,
    /// Since when the agent waits for the answer to a question and does nothing else.
    #[serde(default)]
    asking: Option<SystemTime>,
}

impl Open {
    fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(MARKER)).ok()?).ok()
    }
}

impl Undo {
    /// Opens what is kept of a session. Blocks for a moment.
    pub fn open(journal: &Journal, entry: &Entry) -> Result<Self, Error> {
        let folder = journal.undo_folder(&entry.id);
        let real = |path: &String| std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let roots = Roots::new(real(&entry.cwd), entry.directories.iter().map(real))?;
        let snapshots = Snapshots::open(&folder, LIMIT)?;
        Ok(Self { kept: Some((state(journal), folder)), snapshots, files: Files::new(roots) })
    }

    /// What a session changes while it runs, where nothing can be kept.
    pub fn in_memory(scanning: &Scanning) -> Result<Self, Error> {
        let real = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let mut roots = scanning.roots.iter().map(real);
        let roots = Roots::new(roots.next().unwrap_or_default(), roots)?;
        Ok(Self { kept: None, snapshots: Snapshots::in_memory(), files: Files::new(roots) })
    }

    /// True if a turn of the session was cut off, or is under way, and what it changed is not known yet.
    pub fn is_open(journal: &Journal, entry: &Entry) -> bool {
        journal.undo_folder(&entry.id).join(MARKER).exists()
    }

    /// Watches a turn; to be called before the prompt is sent.
    pub async fn watch(&self, turn: u64, scanning: Scanning, conversation: &Conversation) -> Result<Watch, Error> {
        let mut looked = scanning.looking.await.map_err(|error| Error(error.to_string()))?;
        let root = |base: &Base| (base.root.to_string_lossy().into_owned(), base.generation());
        let open = Open { turn, roots: looked.bases.iter().map(root).collect(), asking: None };
        let announced = self.mark(&open).map_err(|error| error.to_string());
        let announced =
            announced.and_then(|()| self.snapshots.announce(&turn.to_string()).map_err(|error| error.to_string()));
        if let Err(why) = &announced {
            looked.uncovered.push(format!("what is there if this is cut off: {why}"));
        }
        Ok(Watch::new(self.clone(), open, looked, conversation.clone(), false, announced.ok().flatten()))
    }

    /// Remembers that a turn is under way.
    fn mark(&self, open: &Open) -> std::io::Result<()> {
        match self.marker() {
            Some(marker) => write_whole(&marker, &serde_json::to_vec(open)?),
            None => Ok(()),
        }
    }

    /// Finishes the turn that a crash left open, if there is one: what is different since it began was its doing. Gives its
    /// number.
    pub async fn settle(&self) -> Result<Option<(u64, Report)>, Error> {
        match self.left_open().await? {
            Some((turn, watch)) => {
                let mut report = watch.after().await?;
                report.uncovered.extend(watch.uncovered());
                Ok(Some((turn, report)))
            }
            None => Ok(None),
        }
    }

    /// The turn that is under way, perhaps in another process, and what it has changed already.
    pub async fn under_way(&self) -> Result<Option<(u64, Vec<Changed>)>, Error> {
        match self.left_open().await? {
            Some((turn, watch)) => Ok(Some((turn, watch.so_far().await?))),
            None => Ok(None),
        }
    }

    /// The turn that was begun and not finished, seen from how the folders were before it.
    async fn left_open(&self) -> Result<Option<(u64, Watch)>, Error> {
        let Some((state, folder)) = self.kept.clone() else { return Ok(None) };
        let marker = folder.join(MARKER);
        if !marker.exists() {
            return Ok(None);
        }
        let Some(open) = Open::read(&folder) else {
            let _ = std::fs::remove_file(marker);
            return Ok(None);
        };
        let roots = open.roots.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let mut looked = Looked::default();
            for (root, generation) in roots {
                match Base::last(&state, Path::new(&root), generation) {
                    Ok(Some(base)) => looked.bases.push(base),
                    Ok(None) => looked.uncovered.push(format!("{root}: another session worked there since")),
                    Err(error) => looked.uncovered.push(format!("{root}: {error}")),
                }
            }
            looked
        });
        let looked = looked.await.map_err(|error| Error(error.to_string()))?;
        let turn = open.turn;
        Ok(Some((turn, Watch::new(self.clone(), open, looked, Conversation::default(), true, None))))
    }

    /// What other sessions left in files since a look, and whether one of them is at work in the same folder.
    fn others(&self, base: &Base) -> (HashMap<PathBuf, Vec<State>>, bool) {
        let (mut left, mut busy) = (HashMap::<_, Vec<State>>::new(), false);
        let Some((_, own)) = &self.kept else { return (left, busy) };
        let beside = own.parent().and_then(|above| std::fs::read_dir(above).ok());
        let beside = beside.into_iter().flatten().flatten().map(|entry| entry.path());
        for folder in beside.filter(|folder| folder != own) {
            for (path, state) in snapshot::left_since(&folder, base.began()) {
                left.entry(path).or_default().push(state);
            }
            let here = |open: Open| open.roots.iter().any(|(root, _)| Path::new(root) == base.root);
            busy |= snapshot::is_under_way(&folder) && Open::read(&folder).is_some_and(here);
        }
        (left, busy)
    }

    /// The turns that changed files which can still be undone, oldest first.
    pub fn turns(&self) -> Vec<String> {
        let turns = self.snapshots.turns().into_iter();
        turns.filter(|turn| !self.snapshots.changed(turn).is_empty()).collect()
    }

    /// The turn that an undo is about unless another is named: the last one that is still in effect, in this file if one is
    /// given.
    pub fn last_turn(&self, file: Option<&Path>) -> Option<String> {
        let has = |turn: &str| file.is_none_or(|file| self.files(turn).iter().any(|known| known.path == file));
        self.turns().into_iter().rfind(|turn| !is_undo(turn) && has(turn))
    }

    /// The files of a turn whose changes are still in effect.
    pub fn files(&self, turn: &str) -> Vec<RememberedFile> {
        self.snapshots.changed(turn)
    }

    /// What is different now from what it was before the session, file by file, with a diff where there is one to show.
    pub fn now(&self) -> Vec<(PathBuf, Option<String>)> {
        let mut found = BTreeMap::new();
        for turn in self.turns().iter().filter(|turn| !is_undo(turn)) {
            for file in self.files(turn) {
                found.entry(file.path).or_insert_with_key(|path| self.snapshots.contents(&self.files, turn, path));
            }
        }
        let differs = |(path, contents): (PathBuf, Result<Contents, Refused>)| {
            let same = contents.as_ref().is_ok_and(|(old, new)| old == new);
            let diff = self.diff(&path, contents);
            (!same).then_some((path, diff))
        };
        found.into_iter().filter_map(differs).collect()
    }

    /// The files of an undo, and what is different now from before it; `None` if there was no such undo.
    pub fn of_undo(&self, turn: &str) -> Option<Vec<Changed>> {
        self.snapshots.turns().iter().find(|known| *known == turn)?;
        let changed = |file: RememberedFile| Changed {
            path: file.path.to_string_lossy().into_owned(),
            how: file.kind,
            asked: HowAsked::Asked,
            tool: None,
            unkept: file.unkept,
            undone: if file.undone { HowUndone::Whole } else { HowUndone::Not },
            diff: self.diff(&file.path, self.snapshots.contents(&self.files, turn, &file.path)),
        };
        Some(self.snapshots.remembered(turn).into_iter().map(changed).collect())
    }

    fn diff(&self, path: &Path, contents: Result<Contents, Refused>) -> Option<String> {
        let (old, new) = contents.ok()?;
        text::unified(&self.name(path), old.as_deref(), new.as_deref())
    }

    /// Marks what was undone since in the story of a session.
    pub fn mark_undone(journal: &Journal, story: &mut Story) {
        let there = journal.undo_folder(&story.entry.id).exists();
        let Some(undo) = there.then(|| Self::open(journal, &story.entry).ok()).flatten() else { return };
        for turn in &mut story.turns {
            for changed in &mut turn.changes {
                changed.undone = undo.how_undone(&turn.number.to_string(), changed.path.as_ref());
            }
        }
    }

    /// How much of what a turn changed in a file was undone since.
    fn how_undone(&self, turn: &str, file: &Path) -> HowUndone {
        let of = |undo: &String| undo.rsplit_once("~undo").is_some_and(|(of, _)| of == turn);
        let has = |undo: String| self.files(&undo).iter().any(|known| known.path == file);
        if self.snapshots.is_undone(turn, file) {
            HowUndone::Whole
        } else if self.turns().into_iter().filter(of).any(has) {
            HowUndone::Partly
        } else {
            HowUndone::Not
        }
    }

    /// A path in one line of a diff: below the folders of the session without them.
    fn name(&self, path: &Path) -> String {
        let mut roots = self.files.roots().list().filter_map(Root::real_path);
        let name = roots.find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path);
        name.to_string_lossy().replace('\n', "⏎")
    }

    /// What an undo would do now.
    pub fn preview(&self, turn: &str, file: Option<&Path>, force: bool) -> Undone {
        self.snapshots.preview(&self.files, turn, file, force)
    }

    /// Puts the files of a turn back, or one of them. A file that changed since is left alone, unless `force`.
    pub fn undo(&self, turn: &str, file: Option<&Path>, force: bool) -> Undone {
        self.snapshots.undo(&self.files, turn, file, force)
    }

    /// The places in which a file differs from what it was before a turn.
    pub fn hunks(&self, turn: &str, file: &Path) -> Result<Vec<Hunk>, Error> {
        self.snapshots.hunks(&self.files, turn, file).map_err(|error| Error(error.to_string()))
    }

    /// Takes one of them back. Gives the turn under which that is remembered.
    pub fn undo_hunk(&self, turn: &str, file: &Path, hunk: &Hunk, force: bool) -> Result<String, Error> {
        self.snapshots.undo_hunk(&self.files, turn, file, hunk, force).map_err(|error| Error(error.to_string()))
    }

    fn marker(&self) -> Option<PathBuf> {
        self.kept.as_ref().map(|(_, folder)| folder.join(MARKER))
    }
}
