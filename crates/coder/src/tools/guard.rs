//! What runs by itself later and a command: which commands have to change it, and what became of it.

use crate::workspace::blocking;
use std::path::{Path, PathBuf};
use tieline_host::roots;
use tieline_host::rules::CommandLine;
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

/// Subcommands that leave the history of versions as it is, whatever follows.
const LOOKS: &str = "annotate blame cat cat-file describe diff diff-tree evolog grep help log ls-files ls-tree merge-base \
    name-rev obslog reflog rev-list rev-parse root shortlog show status whatchanged --version version";

/// Whether a command changes what a version control keeps. That can't be done without changing what is protected.
pub fn keeps_versions(line: &CommandLine) -> bool {
    line.commands().any(|words| {
        let [program, rest @ ..] = &words[..] else { return false };
        if !["git", "hg", "jj", "svn"].contains(&program.rsplit('/').next().unwrap_or_default()) {
            return false;
        }
        let mut rest = rest.iter();
        let mut deed = None;
        while let Some(word) = rest.next() {
            if ["-C", "-c"].contains(word) {
                rest.next();
            } else if *word == "--version" || !word.starts_with('-') {
                deed = Some(*word);
                break;
            }
        }
        let lists =
            |deed| ["branch", "remote", "tag"].contains(&deed) && rest.clone().all(|word| word.starts_with('-'));
        deed.is_some_and(|deed| !LOOKS.split_whitespace().any(|look| look == deed) && !lists(deed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_change_the_history() {
        let check = |line: &str, expect: bool| assert_eq!(keeps_versions(&CommandLine::parse(line)), expect, "{line}");
        for line in [
            "git commit -m x",
            "git add . && git commit -m x",
            "/usr/bin/git -C sub -c a=b --no-pager commit",
            "git stash",
            "git config core.hooksPath x",
            "git branch new",
            "git init",
            "jj new",
            "cd x; git push",
        ] {
            check(line, true);
        }
        for line in ["git", "git status", "git --no-pager log -1", "git -C x diff", "git branch -a", "ls", "make git"] {
            check(line, false);
        }
    }
}
