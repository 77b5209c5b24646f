//! Undo for any agent: what files were before each turn, what the turn changed, and the way back. Git is not touched.
//!
//! Before a turn the folders of the session are looked at ([`scan`]) and what changed since the last look is copied; after
//! it they are looked at again, and what is different is the turn's doing ([`Watch::after`]). What is not covered (large
//! files, what `.gitignore` names, more than fits the limits) is said.

mod text;
mod watch;

pub(crate) use text::unified;
pub use tieline_host::snapshot::{
    Changed as RememberedFile, Hunk, Limits, Undone, Unkept, Why, cut_off, is_unclear, is_undo,
};
pub(crate) use watch::{Aftermath, real};
pub use watch::{Report, Watch};

use crate::journal::{self, Changed, Entry, HowAsked, HowChanged, HowUndone, Journal, Recording, Story};
use crate::live::Conversation;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tieline_host::files::{Files, State};
use tieline_host::roots::{Root, Roots};
use tieline_host::snapshot::{self, Base, Contents, Open, Refused, Snapshots};
use tieline_host::store::Claim;
use tokio::task::JoinHandle;

/// How many bytes of old contents are kept for a session.
const LIMIT: u64 = 256 << 20;

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
    /// What became of turns that had been cut off.
    told: Vec<String>,
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
    let roots = all.clone();
    let look = move |began| {
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
    };
    let (journal, began) = (journal.cloned(), SystemTime::now());
    let looking = tokio::spawn(async move {
        let told = match &journal {
            Some(journal) => settle(journal).await,
            None => Vec::new(),
        };
        // What was settled had changed before.
        let began = if told.is_empty() { began } else { SystemTime::now() };
        let looked = tokio::task::spawn_blocking(move || look(began)).await;
        match looked {
            Ok(looked) => Looked { told, ..looked },
            Err(error) => Looked { uncovered: vec![error.to_string()], ..Looked::default() },
        }
    });
    Scanning { roots: all, looking }
}

/// Finishes the turns that were cut off, of whatever session: what is different since they began was their doing. To be called
/// before anybody works on. Gives what is to be told. A session that somebody has open is left to whoever has it.
pub async fn settle(journal: &Journal) -> Vec<String> {
    let mut told = Vec::new();
    for folder in cut_off(&state(journal)) {
        let Some(id) = folder.file_name().and_then(|id| id.to_str()) else { continue };
        let settled = match journal.reopen(id, Claim::IfFree).await {
            Ok(recording) => settle_turn(&recording).await,
            // The built-in agent's own, of an editor.
            Err(error) if error.is_no_session() => {
                let work = move || Snapshots::open(folder, LIMIT)?.settle();
                let _ = tokio::task::spawn_blocking(work).await;
                continue;
            }
            Err(_) => continue,
        };
        told.extend(settled.unwrap_or_else(|error| Some(format!("session {id}: {error}"))));
    }
    told
}

/// Finishes the turn of a session that was cut off, if there is one, and writes down what it changed. Gives what is to be told.
pub(crate) async fn settle_turn(recording: &Recording) -> Result<Option<String>, Error> {
    let entry = recording.entry();
    let settled = Undo::open(recording.journal(), entry)?.settle(recording).await?;
    let Some((turn, report)) = settled else { return Ok(None) };
    let failed = |error: journal::Error| Error(error.to_string());
    let what = match report.changed_text(entry.cwd.as_ref()) {
        files if files.is_empty() => "nothing changed since it began".to_owned(),
        files => format!("what changed since it began counts as its doing: {files}"),
    };
    let mut told = format!("turn {turn} of session {} was cut off; {what}", recording.id());
    for more in report.uncovered {
        let _ = write!(told, "; not known: {more}");
    }
    recording.notice("info", &*told).await.map_err(failed)?;
    Ok(Some(told))
}

fn state(journal: &Journal) -> PathBuf {
    journal.path().parent().map(Path::to_owned).unwrap_or_default()
}

/// The turn under which a change is remembered.
pub fn remembered_as(turn: u64, asked: HowAsked) -> String {
    if asked.is_unclear() { snapshot::unclear(&turn.to_string()) } else { turn.to_string() }
}

/// What another session left in a file.
struct Claimed {
    state: State,
    /// The session, if it knows that it was its doing, and if it can be undone there.
    session: Option<String>,
}

/// What a session changed, and the way back. Only the process that has the session open may have it.
#[derive(Debug, Clone)]
pub struct Undo {
    /// Where everything is kept, and what is of this session; `None` if nothing is.
    kept: Option<(PathBuf, PathBuf)>,
    /// What knows the other sessions, and where the agent keeps what it changes, if it is one of ours.
    beside: Option<(Journal, PathBuf)>,
    snapshots: Arc<Snapshots>,
    files: Files,
}

impl Undo {
    /// Opens what is kept of a session. Blocks for a moment.
    pub fn open(journal: &Journal, entry: &Entry) -> Result<Self, Error> {
        let folder = journal.undo_folder(&entry.id);
        let real = |path: &String| std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let roots = Roots::new(real(&entry.cwd), entry.directories.iter().map(real))?;
        let snapshots = Snapshots::open(&folder, LIMIT)?;
        let agents = entry.agent_session.as_ref().map(|id| journal.undo_folder(&id.as_str().into()));
        let beside = Some((journal.clone(), agents.unwrap_or_else(|| folder.clone())));
        Ok(Self { kept: Some((state(journal), folder)), beside, snapshots, files: Files::new(roots) })
    }

    /// What is lost because the list of what can be undone was damaged, for people.
    pub fn damage(&self) -> Option<String> {
        self.snapshots.damage()
    }

    /// What a session changes while it runs, where nothing can be kept.
    pub fn in_memory(scanning: &Scanning) -> Result<Self, Error> {
        let real = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let mut roots = scanning.roots.iter().map(real);
        let roots = Roots::new(roots.next().unwrap_or_default(), roots)?;
        Ok(Self { kept: None, beside: None, snapshots: Snapshots::in_memory(), files: Files::new(roots) })
    }

    /// True if a turn of the session was cut off, or is under way, and what it changed is not known yet.
    pub fn is_open(journal: &Journal, entry: &Entry) -> bool {
        Open::is_in(&journal.undo_folder(&entry.id))
    }

    /// Watches a turn; to be called before the prompt is sent.
    pub async fn watch(&self, turn: u64, scanning: Scanning, conversation: &Conversation) -> Result<Watch, Error> {
        let mut looked = scanning.looking.await.map_err(|error| Error(error.to_string()))?;
        let open = Open::new(turn.to_string(), &looked.bases);
        let announced = self.snapshots.announce(&turn.to_string()).map_err(|error| error.to_string());
        let marked = announced.and_then(|held| self.mark(&open).map(|()| held).map_err(|error| error.to_string()));
        if let Err(why) = &marked {
            looked.uncovered.push(format!("what is there if this is cut off: {why}"));
        }
        Ok(Watch::new(self.clone(), open, looked, conversation.clone(), false, marked.ok().flatten()))
    }

    /// Remembers that a turn is under way.
    fn mark(&self, open: &Open) -> std::io::Result<()> {
        self.kept.as_ref().map_or(Ok(()), |(_, folder)| open.write(folder))
    }

    /// Finishes the turn that a crash left open, if there is one, and writes down what it changed: what is different since it began was
    /// its doing. Gives its number.
    pub async fn settle(&self, recording: &Recording) -> Result<Option<(String, Report)>, Error> {
        let Some((turn, watch)) = self.left_open().await? else { return Ok(None) };
        let mut report = watch.judge().await?;
        if !report.changed.is_empty() {
            recording.changes(&report.changed).await.map_err(|error| Error(error.to_string()))?;
        }
        watch.close();
        report.uncovered.extend(watch.uncovered());
        Ok(Some((turn, report)))
    }

    /// The turn that is under way, perhaps in another process, and what it has changed already.
    pub async fn under_way(&self) -> Result<Option<(String, Vec<Changed>)>, Error> {
        match self.left_open().await? {
            Some((turn, watch)) => Ok(Some((turn, watch.so_far().await?))),
            None => Ok(None),
        }
    }

    /// The turn that was begun and not finished, seen from how the folders were before it.
    async fn left_open(&self) -> Result<Option<(String, Watch)>, Error> {
        let Some((state, folder)) = self.kept.clone() else { return Ok(None) };
        let open = match Open::read(&folder) {
            Ok(Some(open)) => open,
            Ok(None) => return Ok(None),
            Err(error) => {
                Open::close(&folder, []);
                return Err(Error(format!("what a turn changed that was cut off is not known: {error}")));
            }
        };
        let (turn, looks) = (open.turn.clone(), open.clone());
        let looked = tokio::task::spawn_blocking(move || looks.bases(&state)).await;
        let (bases, uncovered) = looked.map_err(|error| Error(error.to_string()))?;
        let looked = Looked { bases, uncovered, told: Vec::new() };
        Ok(Some((turn, Watch::new(self.clone(), open, looked, Conversation::default(), true, None))))
    }

    /// What other sessions left in files since a look, and whether one of them is at work in the same folder. Blocks; to be
    /// called where that may be.
    fn others(&self, base: &Base) -> (HashMap<PathBuf, Vec<Claimed>>, bool) {
        let (mut left, mut busy) = (HashMap::<_, Vec<Claimed>>::new(), false);
        let (Some((_, own)), Some((journal, agents))) = (&self.kept, &self.beside) else { return (left, busy) };
        let beside = own.parent().and_then(|above| std::fs::read_dir(above).ok());
        let beside = beside.into_iter().flatten().flatten().map(|entry| entry.path());
        for folder in beside.filter(|folder| folder != own) {
            let session = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let claims = snapshot::left_since(&folder, base.began());
            let here = |open: Open| open.works_in(&base.root);
            let works = snapshot::is_under_way(&folder) && Open::read(&folder).ok().flatten().is_some_and(here);
            if claims.is_empty() && !works {
                continue;
            }
            // A built-in agent that somebody else started has a session that nobody can undo here. If it is our agent, what it
            // did is its doing; of any other it can't be told whether our agent started it.
            let known = tokio::runtime::Handle::current().block_on(journal.entry(&session)).is_ok();
            if !known && folder == *agents {
                continue;
            }
            for (path, state, turn) in claims {
                let session = (known && !is_unclear(&turn)).then(|| session.clone());
                left.entry(path).or_default().push(Claimed { state, session });
            }
            busy |= works;
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
        self.turns().into_iter().rfind(|turn| !is_undo(turn) && !is_unclear(turn) && has(turn))
    }

    /// What changed during a turn through the agent or somebody else, as a turn of its own, if that is still in effect; of the last
    /// such turn if none is named.
    pub fn unclear(&self, turn: Option<&str>) -> Option<String> {
        let fits = |known: &String| turn.is_none_or(|turn| *known == snapshot::unclear(turn));
        self.turns().into_iter().rfind(|known| is_unclear(known) && fits(known))
    }

    /// The files of a turn whose changes are still in effect.
    pub fn files(&self, turn: &str) -> Vec<RememberedFile> {
        self.snapshots.changed(turn)
    }

    /// Those of them that the turn made: taking it back removes them.
    pub fn added(&self, turn: &str) -> BTreeSet<PathBuf> {
        let added = self.files(turn).into_iter().filter(|file| file.kind == HowChanged::Added);
        added.map(|file| file.path).collect()
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
        let undone = undo.undone();
        for turn in &mut story.turns {
            for changed in &mut turn.changes {
                let files = undone.get(&remembered_as(turn.number, changed.asked));
                changed.undone =
                    files.and_then(|files| files.get(Path::new(&changed.path))).copied().unwrap_or_default();
            }
        }
    }

    /// What was undone of each turn, file by file; in one go, for turns with many files.
    fn undone(&self) -> HashMap<String, HashMap<PathBuf, HowUndone>> {
        let mut undone: HashMap<String, HashMap<PathBuf, HowUndone>> = HashMap::new();
        let turns = self.snapshots.turns();
        for undo in &turns {
            if let Some((of, _)) = undo.rsplit_once("~undo") {
                let partly = self.files(undo).into_iter().map(|file| (file.path, HowUndone::Partly));
                undone.entry(of.to_owned()).or_default().extend(partly);
            }
        }
        for turn in turns {
            let whole = self.snapshots.remembered(&turn).into_iter().filter(|file| file.undone);
            let whole: Vec<_> = whole.map(|file| (file.path, HowUndone::Whole)).collect();
            undone.entry(turn).or_default().extend(whole);
        }
        undone
    }

    /// A path in one line of a diff: below the folders of the session without them.
    fn name(&self, path: &Path) -> String {
        let mut roots = self.files.roots().list().filter_map(Root::real_path);
        let name = roots.find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path);
        name.to_string_lossy().replace('\n', "⏎")
    }

    /// What taking a file of a turn back would change in it now, as a diff where there is one to show.
    pub fn would_change(&self, turn: &str, file: &Path) -> Option<String> {
        let (before, now) = self.snapshots.contents(&self.files, turn, file).ok()?;
        text::unified(&self.name(file), now.as_deref(), before.as_deref())
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
}
