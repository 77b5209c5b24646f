//! What a question shows of changes, and what a yes to it covers: these bytes, once, while the file is as it was shown.

use crate::files::{Outside, Target};
use crate::permission::MAX_PATHS;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use tieline::rpc::sync::Lock;
use tieline::schema::{Diff, DiffTexts, SessionId, ToolCallContent, ToolCallUpdate};
use tieline_host::files::{Expect, Files, Hash, Version};
use tieline_host::roots;

/// So many are kept; older ones are forgotten, and asked again.
const MAX_GRANTS: usize = 256;
/// A longer command is asked about again; well below what is shown of one.
const MAX_COMMAND_BYTES: usize = 1024;
/// So many bytes of files are held against what one question says of them; what is beyond is not compared.
const MAX_COMPARED_BYTES: usize = 16 << 20;
/// A file that can't be read counts as so many: it may be long.
const UNREADABLE_BYTES: usize = 4 << 20;

/// A change that a person was shown.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    file: PathBuf,
    /// What it starts from; `None` if there is no file.
    before: Option<Version>,
    /// What is there afterwards.
    after: Hash,
}

impl Seen {
    /// What must be there when it is made.
    pub(super) fn expect(&self) -> Expect {
        self.before.map_or(Expect::New, Expect::Version)
    }
}

/// Changes as a person is shown them: against the files as they are, whatever the agent says of these.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) diffs: Vec<Diff>,
    /// What to mind about them.
    pub(super) hints: Vec<String>,
    /// What a yes covers.
    pub(super) seen: Vec<Seen>,
}

/// A file while the changes of one question are laid over it.
struct Draft {
    file: PathBuf,
    before: Option<Version>,
    /// The diff that speaks of it first.
    diff: Diff,
    old: Option<String>,
    new: String,
}

impl Draft {
    /// The file as it is; `None` if it can't be read.
    fn open(files: &Files, diff: &Diff, path: &str) -> Option<Self> {
        let root = files.roots().list().next()?;
        let full = root.given_path().join(path);
        let target = Target::find(files, full.to_str()?, Outside::Ask).ok()?;
        let there = match target.whole() {
            Ok(text) => Some(text),
            Err(roots::Error::NotFound(_)) => None,
            Err(_) => return None,
        };
        let (before, old) = there.map(|text| (text.version, text.text)).unzip();
        let (file, diff, new) = (target.place.real_path(), diff.clone(), old.clone().unwrap_or_default());
        Some(Self { file, before, diff, old, new })
    }

    /// Lays one change over it. False if that starts from something that is not there.
    fn change(&mut self, old: &str, new: &str) -> bool {
        // Some agents say nothing of what was there, and many show only the place that changes.
        let whole = old.is_empty() || old == self.new;
        let part = (!whole && self.new.contains(old)).then(|| self.new.replacen(old, new, 1));
        let fits = whole || part.is_some();
        self.new = part.unwrap_or_else(|| new.to_owned());
        fits
    }
}

impl Shown {
    /// The changes that a tool call speaks of.
    pub(super) fn of_call(files: &Files, call: &ToolCallUpdate) -> Self {
        let (mut shown, mut room) = (Self::default(), MAX_COMPARED_BYTES);
        let (mut fits, mut compared) = (true, true);
        let mut drafts: Vec<(&str, Draft)> = Vec::new();
        let contents = call.content.set().map(|items| &items.0[..]).unwrap_or_default();
        if contents.len() > MAX_PATHS {
            shown.hints.push(format!("only the first {MAX_PATHS} of {} changes are shown", contents.len()));
        }
        for content in contents.iter().take(MAX_PATHS) {
            let ToolCallContent::Diff(diff) = content else { continue };
            let Some(DiffTexts { path, old, new }) = diff.texts().filter(|texts| diff.paths().eq([&*texts.path]))
            else {
                shown.diffs.push(diff.clone());
                continue;
            };
            if room > 0 && drafts.iter().all(|(known, _)| known != path) {
                drafts.extend(Draft::open(files, diff, path).map(|draft| (&**path, draft)));
            }
            let draft = drafts.iter_mut().find(|(known, _)| known == path).filter(|_| room > 0);
            room = room.saturating_sub(draft.as_ref().map_or(UNREADABLE_BYTES, |(_, draft)| draft.new.len()));
            match draft {
                Some((_, draft)) => fits &= draft.change(old.as_deref().unwrap_or_default(), new),
                None => {
                    compared = false;
                    shown.diffs.push(Diff::of(path, None, new));
                }
            }
        }
        for (path, Draft { file, before, diff, old, new }) in drafts {
            shown.seen.push(Seen { file, before, after: Hash::of(new.as_bytes()) });
            let texts = Some(DiffTexts { path: path.to_owned(), old, new });
            shown.diffs.push(Diff { texts, patch: None, ..diff });
        }
        shown.mind(fits, compared)
    }

    /// A file that is written whole.
    pub(super) fn of_write(target: &Target, content: &str) -> Self {
        let before = target.whole();
        let version = match &before {
            Ok(text) => Ok(Some(text.version)),
            // Bytes that are no text are told apart at least.
            Err(_) => target.files.version(&target.place),
        };
        let compared = matches!(before, Ok(_) | Err(roots::Error::NotFound(_)));
        let (file, after) = (target.place.real_path(), Hash::of(content.as_bytes()));
        let path = file.to_string_lossy().into_owned();
        let seen = version.ok().map(|before| Seen { file, before, after });
        let diff = Diff::of(path, before.ok().map(|text| text.text), content);
        Self { diffs: vec![diff], hints: Vec::new(), seen: seen.into_iter().collect() }.mind(true, compared)
    }

    fn mind(mut self, fits: bool, compared: bool) -> Self {
        if !fits {
            let hint = "what the agent says is in the file is not there; the change is shown against the file as it is";
            self.hints.push(hint.to_owned());
        }
        if !compared {
            self.hints.push("what is in the file now can't be shown, only what would be in it".to_owned());
        }
        self
    }
}

/// What was allowed in the turns that run: the session, the title of the call, the change or the command.
#[derive(Default)]
pub(super) struct Grants {
    changes: Mutex<VecDeque<(SessionId, String, Seen)>>,
    /// In our words, as the person was shown them.
    commands: Mutex<VecDeque<(SessionId, String, Vec<String>)>>,
}

impl Grants {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(SessionId, String, Seen)>> {
        self.changes.locked()
    }

    /// A call was allowed by a person who was shown what it would do. What may be cut is asked again: two of them may begin alike.
    pub(super) fn add_command(&self, session: &SessionId, title: &str, facts: &[String]) {
        if facts.iter().any(|line| line.len() > MAX_COMMAND_BYTES) {
            return;
        }
        let mut commands = self.commands.locked();
        commands.push_back((session.clone(), title.to_owned(), facts.to_vec()));
        let more = commands.len().saturating_sub(MAX_GRANTS);
        commands.drain(..more);
    }

    /// Uses up what was allowed in exactly these words; gives the title of the call.
    pub(super) fn take_command(&self, session: &SessionId, facts: &[String]) -> Option<String> {
        let mut commands = self.commands.locked();
        let at = commands.iter().position(|(owner, _, shown)| owner == session && shown == facts);
        commands.remove(at?).map(|(_, title, _)| title)
    }

    /// A call was allowed by who saw these changes.
    pub(super) fn add(&self, session: &SessionId, title: &str, seen: &[Seen]) {
        let mut grants = self.lock();
        grants.extend(seen.iter().map(|seen| (session.clone(), title.to_owned(), seen.clone())));
        let more = grants.len().saturating_sub(MAX_GRANTS);
        grants.drain(..more);
    }

    /// Whether something was allowed for this file, so that it is worth to look closer.
    pub(super) fn has(&self, session: &SessionId, file: &Path) -> bool {
        self.lock().iter().any(|(owner, _, seen)| owner == session && seen.file == file)
    }

    /// Uses up what was allowed for this file as it is now; gives the title of the call.
    pub(super) fn take(&self, session: &SessionId, now: &Seen) -> Option<String> {
        let mut grants = self.lock();
        let hash = |seen: &Seen| seen.before.map(|version| version.hash);
        let at = grants.iter().position(|(owner, _, seen)| {
            owner == session && seen.file == now.file && seen.after == now.after && hash(seen) == hash(now)
        });
        grants.remove(at?).map(|(_, title, _)| title)
    }

    /// A turn is over.
    pub(super) fn end(&self, session: &SessionId) {
        self.lock().retain(|(owner, ..)| owner != session);
        self.commands.locked().retain(|(owner, ..)| owner != session);
    }
}
