//! Changes that were allowed with a tool call: when the agent has us write just that, nobody is asked a second time.

use super::decide::Case;
use crate::permission::Facts;
use crate::sanitize;
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use tieline::rpc::sync::Lock;
use tieline::schema::SessionId;
use tieline_host::rules::Action;

/// So many are kept; older ones are forgotten, and asked again.
const MOST: usize = 256;
/// Of so many bytes in all.
const BYTES: usize = 16 << 20;

/// What was allowed in the turns that run.
#[derive(Default)]
pub(super) struct Grants(Mutex<VecDeque<Grant>>);

struct Grant {
    session: SessionId,
    file: PathBuf,
    title: String,
    /// What is replaced, and by what. Empty if the call did not say.
    changes: Vec<(Option<String>, String)>,
}

impl Grant {
    /// Whether the text is what was allowed, given what is in the file now.
    fn covers(&self, now: Option<&str>, text: &str) -> bool {
        if self.changes.is_empty() || self.changes.iter().any(|(_, new)| new == text) {
            return true;
        }
        // Many agents show only the places that change.
        let Some(now) = now else { return false };
        let step = |before: String, (old, new): &(Option<String>, String)| {
            let old = old.as_ref().filter(|old| !old.is_empty() && before.contains(&***old))?;
            Some(before.replacen(&**old, new, 1))
        };
        self.changes.iter().try_fold(now.to_owned(), step).is_some_and(|made| made == text)
    }

    fn bytes(&self) -> usize {
        self.changes.iter().map(|(old, new)| old.as_ref().map_or(0, String::len) + new.len()).sum()
    }
}

impl Grants {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Grant>> {
        self.0.locked()
    }

    /// A call was allowed.
    pub(super) fn add(&self, case: &Case, facts: &Facts) {
        if case.subject.is_none() || !facts.is_understood() {
            return;
        }
        let mut grants = self.lock();
        let written = facts.actions().iter().filter_map(|action| match action {
            Action::Write(location) => Some(location.absolute()),
            _ => None,
        });
        for file in written.collect::<BTreeSet<&Path>>() {
            let changes = facts.written(file).map(|(old, new)| (old.map(str::to_owned), new.to_owned())).collect();
            let (session, title) = (case.session.clone(), sanitize::exact_line(&case.title));
            grants.push_back(Grant { session, file: file.to_path_buf(), title, changes });
        }
        let mut bytes: usize = grants.iter().map(Grant::bytes).sum();
        while grants.len() > MOST || bytes > BYTES {
            bytes -= grants.pop_front().map_or(bytes, |old| old.bytes());
        }
    }

    /// Whether something was allowed for this file, so that it is worth to look closer.
    pub(super) fn has(&self, session: &SessionId, file: &Path) -> bool {
        self.lock().iter().any(|grant| grant.session == *session && grant.file == file)
    }

    /// The title of the call with which this text was allowed; `now` is what is in the file.
    pub(super) fn find(&self, session: &SessionId, file: &Path, now: Option<&str>, text: &str) -> Option<String> {
        let grants = self.lock();
        let mut here = grants.iter().rev().filter(|grant| grant.session == *session && grant.file == file);
        here.find(|grant| grant.covers(now, text)).map(|grant| grant.title.clone())
    }

    /// A turn is over.
    pub(super) fn end(&self, session: &SessionId) {
        self.lock().retain(|grant| grant.session != *session);
    }
}
