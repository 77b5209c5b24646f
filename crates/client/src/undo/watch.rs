//! A turn that is watched: who was asked about what, which tool says it did what, and in the end what really changed.

use super::{Claimed, Error, Looked, RememberedFile, Undo, text};
use crate::journal::{Changed, HowAsked, HowUndone};
use crate::live::{Conversation, is_command, paths_of};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};
use tieline::rpc::sync::Lock;
use tieline::schema::{Dialect, PermissionRequest, PermissionSubject, ToolCallStatus, Transcript, Update};
use tieline_host::files::State;
use tieline_host::roots::shown;
use tieline_host::snapshot::{self, Base, Difference, Kind, Left, Look, Made, Open, Recorder, Unkept};
use tokio::sync::{OwnedRwLockReadGuard, RwLock, oneshot, watch};
use tokio::task::spawn_blocking;

/// How much text the diffs of one turn may have.
const MAX_DIFF_BYTES: usize = 4 << 20;
/// So many calls and paths that were allowed are remembered; what comes on top counts as never asked.
const MAX_ASKED: usize = 50_000;
/// A question that is answered sooner was answered by a rule: nobody can have changed a file meanwhile.
const QUICK_ANSWER: Duration = Duration::from_millis(300);
/// The times of files may be so much too early.
const CLOCK_TICK: Duration = Duration::from_millis(10);
/// So many files are named in one line.
const MAX_TOLD_FILES: usize = 20;

/// What a turn changed.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The files; among them those of which it can't be told whether it was the agent. One may be there twice.
    pub changed: Vec<Changed>,
    /// Files that other sessions say they changed meanwhile, by session.
    pub meanwhile: BTreeMap<String, Vec<PathBuf>>,
    /// What can't be undone although it was looked at, in words.
    pub uncovered: Vec<String>,
    /// What was not looked at after the turn, in words.
    pub unseen: BTreeSet<String>,
}

impl Report {
    /// What changed meanwhile through other sessions, in words; paths below `cwd` are shown from there.
    pub fn meanwhile_text(&self, cwd: &Path) -> Vec<String> {
        let told = |(session, files): (&String, &Vec<PathBuf>)| {
            let names = named(files.iter().map(PathBuf::as_path), cwd);
            format!("changed meanwhile in session {session}: {names}; `tieline undo {session}` puts it back")
        };
        self.meanwhile.iter().map(told).collect()
    }

    /// What changed, in words.
    pub fn changed_text(&self, cwd: &Path) -> String {
        named(self.changed.iter().map(|file| file.path.as_ref()), cwd)
    }

    /// What can't be undone, each reason in words, with the files.
    pub fn unkept_text(&self, cwd: &Path) -> Vec<String> {
        let mut reasons: BTreeMap<Unkept, Vec<&Path>> = BTreeMap::new();
        for (file, why) in self.changed.iter().filter_map(|file| Some((file, file.unkept?))) {
            reasons.entry(why).or_default().push(file.path.as_ref());
        }
        let told = |(why, files): (Unkept, Vec<&Path>)| format!("can't be undone ({why}): {}", named(files, cwd));
        reasons.into_iter().map(told).collect()
    }
}

/// Some names of files in words.
fn named<'a>(files: impl IntoIterator<Item = &'a Path>, cwd: &Path) -> String {
    let mut files = files.into_iter().map(|path| shown(path.strip_prefix(cwd).unwrap_or(path)));
    let names = files.by_ref().take(MAX_TOLD_FILES).collect::<Vec<_>>().join(", ");
    match files.count() {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// A change of which it can't be told whether it was the agent, and why not.
type Unclear = (Difference, HowAsked);

/// For each path the tool that names it, and whether it was allowed.
type Asked = BTreeMap<PathBuf, (Option<String>, bool)>;

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
    settled: Vec<String>,
    conversation: Conversation,
    /// What is remembered of the turn in case we are killed.
    open: Open,
    /// The turn was cut off: who was asked about what is not known.
    cut_off: bool,
    /// The commands that were allowed and are not over, by the keys of their calls or terminals.
    commands: tokio::sync::Mutex<Running>,
    /// Held by each question that stands, until it is known what changed meanwhile.
    standing: Arc<RwLock<()>>,
    /// Tells questions that nobody answered that the turn is over.
    over: watch::Sender<()>,
    told: Mutex<Told>,
    /// While it is held, the built-in agent records into the same turn.
    announced: Mutex<Option<File>>,
    /// All that the turn changed can be undone, so the turn can be closed.
    is_remembered: AtomicBool,
}

/// Commands that run, and how the folders were when the first of them began.
#[derive(Debug, Default)]
struct Running {
    keys: BTreeSet<u64>,
    before: Vec<Look>,
}

#[derive(Debug, Default)]
struct Told {
    /// The keys of the calls that were allowed.
    allowed: BTreeSet<u64>,
    /// Paths that were allowed, or written through us.
    asked: BTreeSet<PathBuf>,
    /// True if a command was allowed.
    command: bool,
    /// What changed while commands ran that were allowed, as they left it.
    by_commands: Left,
    /// Files that no look covers, remembered one by one.
    guarded: BTreeSet<PathBuf>,
    /// Files that the agent had not touched when somebody else changed them, as they were left.
    meanwhile: BTreeMap<PathBuf, (State, Option<Vec<u8>>)>,
    /// Files that both changed.
    mixed: BTreeSet<PathBuf>,
}

impl Watch {
    pub(super) fn new(
        undo: Undo,
        open: Open,
        looked: Looked,
        conversation: Conversation,
        cut_off: bool,
        announced: Option<File>,
    ) -> Self {
        let recorder = undo.snapshots.begin(&*open.turn);
        let Looked { bases, uncovered, told: settled } = looked;
        Self {
            inner: Arc::new(Inner {
                undo,
                recorder,
                bases,
                uncovered,
                settled,
                conversation,
                open,
                cut_off,
                commands: tokio::sync::Mutex::default(),
                standing: Arc::default(),
                over: watch::Sender::default(),
                told: Mutex::default(),
                announced: Mutex::new(announced),
                is_remembered: AtomicBool::new(false),
            }),
        }
    }

    /// What is not looked at, and can't be undone, in words.
    pub fn uncovered(&self) -> Vec<String> {
        let bases = self.inner.bases.iter().flat_map(|base| base.uncovered.iter());
        self.inner.uncovered.iter().chain(bases).cloned().collect()
    }

    /// What became of turns that had been cut off, in words.
    pub fn settled(&self) -> &[String] {
        &self.inner.settled
    }

    /// Whether the agent says that rules allowed its commands, and nobody was asked.
    pub(crate) fn has_commands_by_rule(&self) -> bool {
        self.inner.conversation.has_commands_by_rule()
    }

    /// Hears what was allowed, before the agent does. Files that it names and no look covers are remembered now.
    pub async fn allowed(&self, request: &PermissionRequest) {
        let (mut paths, mut runs) = (Vec::new(), true);
        match &request.subject {
            Some(PermissionSubject::ToolCall(subject)) => {
                let (asked, id) = (&subject.tool_call, &subject.tool_call.tool_call_id);
                let known = self.inner.conversation.call(id);
                let known = known.as_deref();
                let kind = asked.kind.set().or(known.map(|call| &call.kind));
                runs = kind.is_none_or(is_command);
                paths.extend(known.map(paths_of).unwrap_or_default());
                // What the question names itself may not be part of the conversation yet.
                let mut question = Transcript::new(Dialect::V2);
                question.apply(&Update::ToolCall(Box::new(asked.clone())));
                paths.extend(question.tool_call(id).map(paths_of).unwrap_or_default());
                let key = self.inner.conversation.key(id);
                let mut told = self.inner.told();
                let room = MAX_ASKED.saturating_sub(told.asked.len());
                told.asked.extend(paths.iter().take(room).cloned());
                if told.allowed.len() < MAX_ASKED {
                    told.allowed.insert(key);
                }
            }
            Some(PermissionSubject::Command(_)) => {}
            _ => runs = false,
        }
        self.guard(paths).await;
        if runs {
            self.command(&request.tool_call().tool_call_id).await;
        }
    }

    /// Waits for the answer to a question, about a call if it names one. What changes meanwhile may be somebody else's doing, as far as the agent
    /// says that it waits, too; also if there never is an answer and this is dropped.
    pub async fn asking<T>(&self, call: Option<&str>, question: impl Future<Output = T>) -> T {
        let mut question = std::pin::pin!(question);
        if let Ok(answer) = tokio::time::timeout(QUICK_ANSWER, question.as_mut()).await {
            return answer;
        }
        let standing = Arc::clone(&self.inner.standing).try_read_owned();
        let (Some(calls), Ok(standing)) = (self.inner.conversation.at_rest(call), standing) else {
            return question.await;
        };
        let ((stands, ended), mut over) = (oneshot::channel(), self.inner.over.subscribe());
        let mut stands = Stands(Some(stands));
        let ended = async move {
            tokio::select! {
                dropped = ended => dropped.ok(),
                _ = over.changed() => None,
            }
        };
        let noted = Arc::clone(&self.inner).note_meanwhile(call.map(str::to_owned), calls, ended, standing);
        let noted = tokio::spawn(noted);
        let answer = question.await;
        stands.0 = None;
        let _ = noted.await;
        answer
    }

    /// Hears that a command may begin, by the id of its call or terminal. What changes until its end may be its doing.
    pub async fn command(&self, id: &str) {
        let mut running = self.inner.commands.lock().await;
        self.inner.told().command = true;
        if running.keys.is_empty() {
            let inner = Arc::clone(&self.inner);
            let looks = spawn_blocking(move || inner.bases.iter().map(Base::look).collect());
            running.before = looks.await.unwrap_or_default();
        }
        if running.keys.len() < MAX_ASKED {
            running.keys.insert(self.inner.conversation.key(id));
        }
    }

    /// Hears that a command is over, or that something else is.
    pub async fn ended(&self, id: &str) {
        let mut running = self.inner.commands.lock().await;
        if running.keys.remove(&self.inner.conversation.key(id)) && running.keys.is_empty() {
            self.follow(std::mem::take(&mut running.before)).await;
        }
    }

    /// Notes what changed since `before`, while commands ran.
    async fn follow(&self, before: Vec<Look>) {
        let inner = Arc::clone(&self.inner);
        let work = move || {
            for (base, before) in inner.bases.iter().zip(&before) {
                let now = base.look();
                base.follow(before, &now, &mut inner.told().by_commands);
            }
        };
        let _ = spawn_blocking(work).await;
    }

    /// Hears that we write a file for the agent, before we do.
    pub async fn writing(&self, path: &Path) {
        let path = real(path);
        {
            let mut told = self.inner.told();
            if told.asked.len() < MAX_ASKED {
                told.asked.insert(path.clone());
            }
        }
        self.guard(vec![path]).await;
    }

    async fn guard(&self, paths: Vec<PathBuf>) {
        let inner = Arc::clone(&self.inner);
        let work = move || paths.into_iter().for_each(|path| inner.guard(&path));
        let _ = spawn_blocking(work).await;
    }

    /// What the turn has changed up to now; nothing is remembered of it.
    pub(super) async fn so_far(&self) -> Result<Vec<Changed>, Error> {
        let inner = Arc::clone(&self.inner);
        let work = move || {
            let (asked, mut room) = (inner.asked(), MAX_DIFF_BYTES);
            let found = |base: &Base| {
                let (own, unclear) = inner.differences(base, &asked, &mut Report::default());
                let own = own.into_iter().map(|one| (one, None));
                let all = own.chain(unclear.into_iter().map(|(one, how)| (one, Some(how))));
                all.map(|(one, how)| inner.changed_file(base, &one, &asked, how, &mut room)).collect::<Vec<_>>()
            };
            inner.bases.iter().flat_map(found).collect()
        };
        spawn_blocking(work).await.map_err(|error| Error(error.to_string()))
    }

    /// Ends the turn for whoever writes down nothing else: [`judge`](Self::judge) and [`close`](Self::close) in one.
    pub async fn after(&self) -> Result<Report, Error> {
        let report = self.judge().await?;
        self.close();
        Ok(report)
    }

    /// Looks again, remembers what was before, and says what changed. Questions that still stand are over. If we are killed before the
    /// turn is [closed](Self::close), whoever comes next does all of this again.
    pub async fn judge(&self) -> Result<Report, Error> {
        self.inner.over.send_replace(());
        let _ended = self.inner.standing.write().await;
        let running = std::mem::take(&mut *self.inner.commands.lock().await);
        if !running.keys.is_empty() {
            self.follow(running.before).await;
        }
        let inner = Arc::clone(&self.inner);
        let work = spawn_blocking(move || inner.judge());
        work.await.map_err(|error| Error(error.to_string()))?
    }

    /// Hears that what changed is written down wherever it has to be. What could not be remembered is looked at again, as after a
    /// crash, by whoever comes next.
    pub fn close(&self) {
        let kept = self.inner.undo.kept.as_ref().filter(|_| self.inner.is_remembered.load(Ordering::Acquire));
        if let Some((_, folder)) = kept {
            Open::close(folder, &self.inner.bases);
        }
    }
}

/// A question that stands. Whoever drops it before there is an answer tells when: nobody waits for the look then, and the agent may
/// be at work again.
struct Stands(Option<oneshot::Sender<SystemTime>>);

impl Drop for Stands {
    fn drop(&mut self) {
        let _ = self.0.take().map(|ended| ended.send(SystemTime::now()));
    }
}

/// How a turn left the folders, and what changes from then on. The agent may still be there.
#[derive(Debug)]
pub(crate) struct Aftermath {
    turn: Arc<Inner>,
    left: Vec<Look>,
}

impl Aftermath {
    /// Looks at how the turn of a watch has left the folders.
    pub(crate) async fn of(watch: &Watch) -> Option<Self> {
        let turn = Arc::clone(&watch.inner);
        let look = move || Self { left: turn.bases.iter().map(Base::look).collect(), turn };
        spawn_blocking(look).await.ok()
    }

    /// What has changed since, by whomever; it is remembered as something that the agent may have done.
    pub(crate) async fn changed(self) -> Vec<Changed> {
        spawn_blocking(move || self.look_again()).await.unwrap_or_default()
    }

    fn look_again(self) -> Vec<Changed> {
        let Self { turn, left } = self;
        let (mut changed, mut room) = (Vec::new(), MAX_DIFF_BYTES);
        for (base, left) in turn.bases.iter().zip(&left) {
            let between = base.between(left, &base.look());
            if between.is_empty() {
                continue;
            }
            let untouched: HashMap<PathBuf, bool> = between.into_iter().map(|(name, .., was)| (name, was)).collect();
            let (mut found, _) = base.differences();
            found.retain(|one| untouched.contains_key(&one.name));
            let (others, _) = turn.undo.others(base);
            // What the person undid, and what other sessions say they did, is no riddle.
            let undone: HashMap<PathBuf, State> = turn.recorder.undone().into_iter().collect();
            found.retain(|one| {
                let path = base.root.join(&one.name);
                let claims = others.get(&path).map(Vec::as_slice).unwrap_or_default();
                let claims = claims.iter().filter(|left| left.session.is_some());
                let mut left = claims.map(|left| &left.state).chain(undone.get(&path));
                !left.any(|left| left.same_content(&one.after))
            });
            for one in found.iter_mut().filter(|one| !untouched[&one.name]) {
                // What the turn itself made of it was not kept.
                one.old = Err(Unkept::Between);
            }
            let made = found.iter().map(|one| one.made(base)).collect();
            let unclear = snapshot::unclear(turn.recorder.turn());
            let _ = turn.undo.snapshots.begin(&*unclear).made(made);
            let (asked, unkept) = (Asked::new(), turn.unkept(&unclear));
            changed.extend(found.iter().map(|one| {
                turn.changed_file(base, one, &asked, Some(HowAsked::Between), &mut room).or_unkept(&unkept)
            }));
        }
        changed
    }
}

impl Changed {
    /// The same, with the reason why it could not be remembered, if there is none yet.
    fn or_unkept(self, unkept: &HashMap<PathBuf, Unkept>) -> Self {
        let why = self.unkept.or_else(|| unkept.get(Path::new(&self.path)).copied());
        Self { unkept: why, ..self }
    }
}

/// The path without links, whether the file is there or not.
pub(crate) fn real(path: &Path) -> PathBuf {
    let whole = || {
        let folder = std::fs::canonicalize(path.parent()?).ok()?;
        Some(folder.join(path.file_name()?))
    };
    whole().unwrap_or_else(|| path.to_owned())
}

/// True if a file, or the folder that it was in, changed after this time.
fn changed_after(path: &Path, time: SystemTime) -> bool {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let meta = path.ancestors().find_map(|path| path.symlink_metadata().ok());
    let at = |meta: std::fs::Metadata| {
        let (seconds, nanos) = (u64::try_from(meta.ctime()).ok()?, u32::try_from(meta.ctime_nsec()).ok()?);
        Some(Duration::new(seconds, nanos))
    };
    meta.and_then(at).is_some_and(|at| at > since)
}

impl Inner {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.locked()
    }

    /// Remembers one file that no look covers.
    fn guard(&self, path: &Path) {
        let covered = |base: &Base| path.strip_prefix(&base.root).is_ok_and(|name| base.has(name));
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

    /// Notes what changes while a question stands, if no other call was at work until it `ended`, which says when if it was dropped.
    async fn note_meanwhile(
        self: Arc<Self>,
        call: Option<String>,
        calls: Vec<(u64, ToolCallStatus)>,
        ended: impl Future<Output = Option<SystemTime>>,
        _standing: OwnedRwLockReadGuard<()>,
    ) {
        let inner = Arc::clone(&self);
        let look = move || {
            let asking = Some(SystemTime::now());
            let before = inner.bases.iter().map(Base::look).collect::<Vec<_>>();
            // If we are killed now, it is known that the agent said to be at rest.
            let mut open = inner.open.clone();
            open.asking = asking;
            let _ = inner.undo.mark(&open);
            before
        };
        let Ok(before) = spawn_blocking(look).await else { return };
        let dropped = ended.await;
        let rested = self.conversation.at_rest(call.as_deref()) == Some(calls);
        let note = move || {
            if rested {
                self.meanwhile(&before, dropped);
            }
            let _ = self.undo.mark(&self.open);
        };
        let _ = spawn_blocking(note).await;
    }

    /// Notes what changed since `before`, a look at each folder, while the agent waited: until then, if it waits no longer.
    fn meanwhile(&self, before: &[Look], until: Option<SystemTime>) {
        for (base, before) in self.bases.iter().zip(before) {
            for (name, left, content, was_untouched) in base.between(before, &base.look()) {
                let path = base.root.join(name);
                if until.is_some_and(|until| changed_after(&path, until - CLOCK_TICK)) {
                    continue;
                }
                let mut told = self.told();
                let untouched = was_untouched || told.meanwhile.contains_key(&path);
                if untouched && !told.asked.contains(&path) {
                    told.meanwhile.insert(path, (left, content));
                } else {
                    told.mixed.insert(path);
                }
            }
        }
    }

    /// What the turn changed below a folder, and what the agent or somebody else changed. What other sessions say they did, and
    /// what was not seen, is reported.
    fn differences(&self, base: &Base, asked: &Asked, report: &mut Report) -> (Vec<Difference>, Vec<Unclear>) {
        let (mut found, unseen) = base.differences();
        report.unseen.extend(unseen);
        let mut unclear = Vec::new();
        if found.is_empty() {
            return (found, unclear);
        }
        let turn = self.recorder.turn();
        let own: BTreeSet<PathBuf> = self.undo.files(turn).into_iter().map(|file| file.path).collect();
        // Whoever was killed had told apart already what may be somebody else's.
        let beside = self.cut_off.then(|| self.undo.files(&snapshot::unclear(turn)));
        let beside: BTreeSet<PathBuf> = beside.into_iter().flatten().map(|file| file.path).collect();
        let (others, busy) = self.undo.others(base);
        let mut told = self.told();
        let ran = told.command || self.conversation.has_commands();
        found.retain_mut(|one| {
            let path = base.root.join(&one.name);
            let claims = others.get(&path).map(Vec::as_slice).unwrap_or_default();
            let left_so =
                |state: &State| claims.iter().filter(|left| left.state.same_content(state)).collect::<Vec<_>>();
            let session = |state: &State| left_so(state).into_iter().find_map(|left| left.session.clone());
            if beside.contains(&path) && !own.contains(&path) {
                unclear.push((one.clone(), HowAsked::Waiting));
                return false;
            }
            let mut theirs = |session: String| report.meanwhile.entry(session).or_default().push(path.clone());
            if let Some((left, content)) = told.meanwhile.get(&path) {
                // The agent waited for an answer, or says so.
                let all = left.same_content(&one.after);
                match session(left) {
                    Some(session) => theirs(session),
                    None => unclear
                        .push((Difference { after: *left, new: content.clone(), ..one.clone() }, HowAsked::Waiting)),
                }
                (one.before, one.old) = (*left, content.clone().ok_or(Unkept::Large));
                return !all;
            }
            let is_named = own.contains(&path) || asked.contains_key(&path);
            if let Some(session) = session(&one.after).filter(|_| !is_named) {
                theirs(session);
                return false;
            }
            if self.open.asking.is_some_and(|since| changed_after(&path, since)) {
                unclear.push((one.clone(), HowAsked::Waiting));
                return false;
            }
            if own.contains(&path) {
                // What it was when our agent first wrote it counts, unless a command of the same turn had changed it before.
                if let Some((before, old)) = self.undo.snapshots.before_turn(turn, &path)
                    && (!ran || !left_so(&before).is_empty() || one.old.is_err())
                {
                    (one.before, one.old) = (before, Ok(old.unwrap_or_default()));
                }
            } else if is_named {
                let another =
                    |left: &Claimed| !left.state.same_content(&one.before) && !left.state.same_content(&one.after);
                if claims.iter().any(another) {
                    told.mixed.insert(path);
                }
            } else if busy || !left_so(&one.after).is_empty() {
                unclear.push((one.clone(), HowAsked::Beside));
                return false;
            }
            true
        });
        (found, unclear)
    }

    fn judge(&self) -> Result<Report, Error> {
        let mut report = Report::default();
        let asked = self.asked();
        let undone: HashMap<PathBuf, State> = self.recorder.undone().into_iter().collect();
        let (mut room, mut is_kept) = (MAX_DIFF_BYTES, true);
        for base in &self.bases {
            let (mut found, mut unclear) = self.differences(base, &asked, &mut report);
            if let Err(error) = self.remember(base, &found, &unclear) {
                is_kept = false;
                let again = "`tieline undo` tries again when there is room";
                report.uncovered.push(format!("what changed in {}: {error}; {again}", shown(&base.root)));
                for one in found.iter_mut().chain(unclear.iter_mut().map(|(one, _)| one)) {
                    one.old = Err(Unkept::Nowhere);
                }
            }
            let unclear_turn = snapshot::unclear(self.recorder.turn());
            let unkept = [self.recorder.turn(), &unclear_turn].map(|turn| self.unkept(turn));
            for one in &found {
                let changed = self.changed_file(base, one, &asked, None, &mut room).or_unkept(&unkept[0]);
                // An undo is something that the person types.
                let typed = undone.get(Path::new(&changed.path)).is_some_and(|left| left.same_content(&one.after));
                let asked = if typed { HowAsked::Asked } else { changed.asked };
                report.changed.push(Changed { asked, ..changed });
            }
            for (one, how) in &unclear {
                let changed = self.changed_file(base, one, &asked, Some(*how), &mut room);
                report.changed.push(changed.or_unkept(&unkept[1]));
            }
        }
        self.after_guarded(&asked, &mut report);
        let forgotten = self.undo.snapshots.forgotten();
        let forgotten: BTreeSet<&str> = forgotten.iter().filter_map(|turn| turn.split('~').next()).collect();
        let told = |turn: &str| format!("turn {turn}, for more files were changed since than are remembered");
        report.uncovered.extend(forgotten.into_iter().map(told));
        report.changed.sort_by(|a, b| a.path.cmp(&b.path));
        self.is_remembered.store(is_kept, Ordering::Release);
        self.announced.locked().take();
        Ok(report)
    }

    /// Adds the files that no look covers, all in one step: an agent decides how many there are.
    fn after_guarded(&self, asked: &Asked, report: &mut Report) {
        let known: HashSet<&Path> = report.changed.iter().map(|known| Path::new(&known.path)).collect();
        let told = self.told();
        let guarded: HashSet<PathBuf> =
            told.guarded.iter().filter(|path| !known.contains(path.as_path())).cloned().collect();
        drop(told);
        if guarded.is_empty() {
            return;
        }
        let roots = self.undo.files.roots();
        let places: Vec<_> = guarded.iter().filter_map(|path| roots.resolve_entry(path).ok()).collect();
        let errors = self.recorder.after_all(&self.undo.files, &places);
        report.uncovered.extend(errors.iter().map(ToString::to_string));
        let changed = self.undo.snapshots.changed(self.recorder.turn()).into_iter();
        for known in changed.filter(|changed| guarded.contains(&changed.path)) {
            let changed = self.changed(asked, &known.path, known.kind, false);
            report.changed.push(Changed { unkept: known.unkept, ..changed });
        }
    }

    /// For each path the tool that names it, and whether it was allowed.
    fn asked(&self) -> Asked {
        let told = self.told();
        let mut asked = Asked::new();
        for (path, call, title) in self.conversation.files() {
            let known = asked.entry(path).or_default();
            known.1 |= told.allowed.contains(&call);
            if let Some(title) = title {
                known.0 = Some(title.as_ref().to_owned());
            }
        }
        for path in &told.asked {
            asked.entry(path.clone()).or_default().1 = true;
        }
        asked
    }

    /// Writes down what the files were, each on its own: a path that leads nowhere any more is no reason to lose the others.
    fn remember(&self, base: &Base, found: &[Difference], unclear: &[Unclear]) -> Result<(), Error> {
        let mixed = self.told().mixed.clone();
        let made = found.iter().map(|one| Made { mixed: mixed.contains(&base.root.join(&one.name)), ..one.made(base) });
        self.recorder.made(made.collect())?;
        let made = unclear.iter().map(|(one, _)| one.made(base)).collect();
        let beside = self.undo.snapshots.begin(snapshot::unclear(self.recorder.turn()));
        beside.made(made)?;
        let known = found.iter().chain(unclear.iter().map(|(one, _)| one)).filter(|one| one.old.is_ok());
        let known: BTreeSet<PathBuf> = known.map(|one| base.root.join(&one.name)).collect();
        let stored = [self.recorder.turn(), beside.turn()].map(|turn| self.undo.files(turn));
        let lost = |file: &RememberedFile| file.unkept == Some(Unkept::Nowhere) && known.contains(&file.path);
        match self.undo.kept.as_ref().and(stored.iter().flatten().find(|file| lost(file))) {
            Some(file) => Err(Error(format!("the old content of {} could not be stored", shown(&file.path)))),
            None => Ok(()),
        }
    }

    /// What of a turn could not be remembered, and why not.
    fn unkept(&self, turn: &str) -> HashMap<PathBuf, Unkept> {
        self.undo.files(turn).into_iter().filter_map(|file| Some((file.path, file.unkept?))).collect()
    }

    /// One difference as it is reported, with a diff if there is still room for it.
    fn changed_file(
        &self,
        base: &Base,
        one: &Difference,
        asked: &Asked,
        unclear: Option<HowAsked>,
        room: &mut usize,
    ) -> Changed {
        let path = base.root.join(&one.name);
        let shown = one.after == State::Missing || one.new.is_some();
        let old = one.old.as_deref().ok().filter(|_| one.before != State::Missing);
        let new = one.new.as_deref().filter(|_| one.after != State::Missing);
        let diff = || text::unified(&self.undo.name(&path), old, new);
        let known = one.old.is_ok() || one.before == State::Missing;
        let diff = (known && shown).then(diff).flatten().filter(|diff| diff.len() <= *room);
        *room -= diff.as_ref().map_or(0, String::len);
        let nowhere = self.undo.kept.is_none().then_some(Unkept::Nowhere);
        let by_command = self.told().by_commands.get(&path).is_some_and(|left| *left == one.facts);
        let changed = self.changed(asked, &path, Kind::of(one.before, one.after), by_command);
        let asked = unclear.unwrap_or(changed.asked);
        Changed { unkept: one.unkept(base).or(nowhere), diff, asked, ..changed }
    }

    /// One changed file as it is reported.
    fn changed(&self, asked: &Asked, path: &Path, how: Kind, by_command: bool) -> Changed {
        let (tool, allowed) = asked.get(path).cloned().unwrap_or_default();
        let asked = match allowed {
            true => HowAsked::Asked,
            false if self.cut_off => HowAsked::Unknown,
            false if by_command => HowAsked::Command,
            false => HowAsked::Never,
        };
        Changed {
            path: path.to_string_lossy().into_owned(),
            how,
            asked,
            tool,
            unkept: None,
            undone: HowUndone::Not,
            diff: None,
        }
    }
}
