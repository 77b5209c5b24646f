//! What runs by itself later and a command: what became of it.

use crate::workspace::blocking;
use std::path::{Path, PathBuf};
use tieline_host::roots;
use tieline_host::sandbox::{Guarded, Level, Policy};

/// No more new names are told one by one.
const NAMED: usize = 20;

/// What runs by itself later, as it was when a command was started.
#[derive(Clone)]
pub struct Watch {
    policy: Policy,
    before: Guarded,
    cwd: PathBuf,
}

impl Watch {
    /// Looks before a command is started, if it is guarded at all.
    pub async fn begin(policy: Policy, cwd: PathBuf) -> Option<Self> {
        if policy.level() != Level::Workspace || !policy.guards() {
            return None;
        }
        let looked = blocking(move || Ok(Self { before: policy.guarded(), policy, cwd }));
        looked.await.ok()
    }

    /// What is new since then, in words. A name that is not there yet can't be guarded, so it is told.
    pub async fn news(self) -> String {
        let news = blocking(move || {
            let now = self.policy.guarded();
            let name = |path: &Path| roots::shown(path.strip_prefix(&self.cwd).unwrap_or(path));
            Ok(now.since(&self.before).into_iter().map(name).collect::<Vec<_>>())
        });
        match &news.await.unwrap_or_default()[..] {
            [] => String::new(),
            names => {
                let more = names.len().saturating_sub(NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let names = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
                format!(
                    "\nNew while it ran, and may run by itself later: {names}{more}. The user should look at it before it is used."
                )
            }
        }
    }
}
