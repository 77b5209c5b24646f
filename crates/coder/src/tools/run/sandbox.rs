//! How the commands of a session run: the sandbox around them, and those in the background.

use crate::jobs::Jobs;
use crate::notice::Notices;
use crate::permission::Permissions;
use crate::tools::ToolError;
use crate::tools::guard::Watch;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::Severity;
use tieline_host::rules::Confined;
use tieline_host::run::{Background, View};
use tieline_host::sandbox::{Guarded, Level, Policy};
use tieline_rpc::sync::Lock;

/// So long those in the background may take to end with the session.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// How the commands of a session run.
pub struct Commands {
    level: Level,
    roots: Vec<PathBuf>,
    hide: Vec<PathBuf>,
    policy: Mutex<Option<Policy>>,
    pub(super) background: Background,
    /// What ran by itself later when a command of this id was started.
    pub(super) before: Mutex<HashMap<u32, Watch>>,
    /// What is held from those in the background by mounts on its names.
    pub(super) held: Mutex<HashMap<u32, Guarded>>,
    /// What the user was told of it last.
    told: Mutex<HashMap<u32, String>>,
    jobs: Arc<Jobs>,
}

impl Commands {
    /// Commands at this level of the sandbox, with these folders as the workspace, and these files out of sight.
    pub fn new(level: Level, roots: Vec<PathBuf>, hide: Vec<PathBuf>, jobs: Arc<Jobs>) -> Self {
        let (policy, before, held, told) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        Self { level, roots, hide, policy, background: Background::new(), before, held, told, jobs }
    }

    /// What goes on beside the turns.
    pub fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    /// Stops those in the background. What does not obey is killed when this is dropped.
    pub async fn stop_all(&self) {
        let running: Vec<View> =
            self.background.list().iter().filter_map(|entry| self.background.get(entry.id)).collect();
        running.iter().for_each(View::stop);
        // What they do when they are told to end counts as well.
        let all = async {
            for command in &running {
                command.outcome().await;
            }
        };
        let _ = tokio::time::timeout(END_TIMEOUT, all).await;
        self.jobs.finish().await;
    }

    /// The sandbox, made on first use, with or without a guard on what runs by itself later, and keeping what must not be read or
    /// changed. Fails if it can't be had here.
    pub(super) fn policy(&self, guard: bool, permissions: &Arc<Permissions>) -> Result<Policy, ToolError> {
        let mut policy = self.base()?;
        let kept = permissions.kept();
        if !kept.is_empty() {
            policy = kept.iter().filter_map(|rule| elsewhere(rule)).fold(policy, Policy::hide);
            if let Some((version, most, says)) = permissions.engine.keeper(&self.roots) {
                policy = policy.deny(version, most, says);
            }
        }
        Ok(if guard { policy.guard() } else { policy })
    }

    fn base(&self) -> Result<Policy, ToolError> {
        let mut policy = self.policy.locked();
        if let Some(policy) = &*policy {
            return Ok(policy.clone());
        }
        let new = Policy::new(self.level, &self.roots).map_err(|error| format!("no sandbox: {error}"))?;
        let new = self.hide.iter().fold(new, Policy::hide);
        new.check()?;
        *policy = Some(new.clone());
        Ok(new)
    }

    /// Fails if a command in the background is held from a file that is about to be replaced, deleted or moved: it would be free of that.
    pub fn check_replaced(&self, path: &Path) -> Result<(), ToolError> {
        let held = self.held.locked();
        let runs = self.background.list().into_iter().filter(|entry| entry.outcome.is_none());
        let mut holding = runs.filter(|entry| held.get(&entry.id).is_some_and(|held| held.holds(path)));
        match holding.next() {
            Some(entry) => Err(format!(
                "command {} in the background must not change this file, and could if it were replaced now; stop it first",
                entry.id
            )
            .into()),
            None => Ok(()),
        }
    }

    /// What is new since a command in the background was started.
    pub(super) async fn news(&self, id: u32) -> String {
        let watch = self.before.locked().get(&id).cloned();
        match watch {
            Some(watch) => watch.news().await,
            None => String::new(),
        }
    }

    /// Tells the user what commands in the background made that runs by itself later, whether the model asks for it or not.
    pub async fn tell_news(&self, notices: &Notices) {
        let ids: Vec<u32> = self.before.locked().keys().copied().collect();
        for id in ids {
            let news = self.news(id).await;
            let before = self.told.locked().insert(id, news.clone());
            if !news.is_empty() && before.as_ref() != Some(&news) {
                notices
                    .tell(Severity::Warning, format!("Command {id} in the background: {}", news.trim_start()), None)
                    .await;
            }
        }
    }
}

/// What the user is told of a sandbox, and how far it holds a command. If that is whole, it is not started should it have changed by then.
pub fn guarded(policy: Policy, guard: bool) -> Result<(String, Policy, Confined), ToolError> {
    let mut note = policy.describe()?;
    let keeps = policy.guards();
    // What a rule denies has to be found at any level; if it can't be, nobody is asked for what does not run.
    let workspace = policy.level() == Level::Workspace;
    let looks = policy.denies() || workspace && guard && keeps;
    let found = if looks { Some(policy.looked()?) } else { None };
    let gap = found.as_ref().and_then(Guarded::gap);
    let held = match (policy.level(), gap) {
        (Level::Off, _) => Confined::No,
        (Level::ReadOnly, None) => Confined::ReadOnly,
        (Level::ReadOnly, Some(why)) => {
            let _ = write!(note, "; but it may read what a rule denies: {why}");
            Confined::Partly
        }
        (Level::Workspace, _) if !guard => {
            note.push_str("; it may change .git, .envrc and the like, which run by themselves later");
            Confined::Unguarded
        }
        (Level::Workspace, _) if !keeps => Confined::Unguarded,
        (Level::Workspace, None) => return Ok((note, policy.guard_whole(), Confined::Guarded)),
        (Level::Workspace, Some(why)) => {
            let _ = write!(note, "; but not all of them, for it could change what runs by itself later: {why}");
            Confined::Partly
        }
    };
    Ok((note, policy, held))
}

/// What a rule like `read ~/keys/**` is about, if that has a plain name.
fn elsewhere(rule: &str) -> Option<PathBuf> {
    let path = rule.strip_prefix("read ")?.trim();
    let path = path.strip_suffix("/**").unwrap_or(path);
    if path.contains(['*', '?', '[', '{']) {
        return None;
    }
    match path.strip_prefix("~/") {
        Some(path) => Some(std::env::home_dir()?.join(path)),
        None => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
    }
}
