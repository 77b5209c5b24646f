//! What can follow `@` and `/`: files of the folder, found in a thread, and commands of the agent.

use frizbee::{Config, Matcher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tieline::rpc::sync::Lock as _;
use tieline::schema::{Command, CommandInput};
use tieline_client::sanitize;

/// So many files are looked at.
const MAX_FILES: usize = 50_000;
/// So many are offered.
pub const MAX_OFFERS: usize = 8;
/// A longer pattern is no name, in bytes.
const MAX_PATTERN_BYTES: usize = 200;

/// One thing that is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What is written if it is taken.
    pub text: String,
    /// What is said about it; safe to show.
    pub hint: String,
}

/// The files of a folder.
#[derive(Debug, Default, Clone)]
pub struct Files(Arc<Mutex<Found>>);

#[derive(Debug, Default)]
struct Found {
    root: PathBuf,
    /// A thread looks, or has looked.
    begun: bool,
    /// What it found.
    paths: Option<Vec<String>>,
}

impl Files {
    /// The files below a folder; nobody looks yet.
    pub fn below(root: &Path) -> Self {
        Self(Arc::new(Mutex::new(Found { root: root.to_owned(), ..Found::default() })))
    }

    /// Looks, in a thread, and calls when it is done. What ignore files name is left out.
    pub fn look(&self, done: impl FnOnce() + Send + 'static) {
        let mut found = self.0.locked();
        if found.begun || found.root.as_os_str().is_empty() {
            return;
        }
        found.begun = true;
        let (root, into) = (found.root.clone(), Arc::clone(&self.0));
        drop(found);
        let walk = move || {
            let (mut paths, mut bytes) = (Vec::new(), 0);
            let hidden = ignore::WalkBuilder::new(&root).hidden(true).require_git(false).build();
            for entry in hidden.filter_map(Result::ok).filter(|entry| entry.depth() > 0) {
                // A name that can't be shown can't be typed either.
                let below = entry.path().strip_prefix(&root).ok().and_then(Path::to_str);
                let Some(path) = below.filter(|path| sanitize::exact_line(path) == *path) else { continue };
                let end = if entry.file_type().is_some_and(|kind| kind.is_dir()) { "/" } else { "" };
                paths.push(format!("{path}{end}"));
                bytes += path.len();
                if paths.len() >= MAX_FILES || bytes > 8 << 20 {
                    break;
                }
            }
            paths.sort_by_key(|path| (path.matches('/').count(), path.clone()));
            into.locked().paths = Some(paths);
            done();
        };
        let _ = std::thread::Builder::new().name("tieline-files".into()).spawn(walk);
    }

    /// Those that fit best.
    pub fn offers(&self, pattern: &str) -> Vec<Offer> {
        let found = self.0.locked();
        let paths = found.paths.as_deref().unwrap_or_default();
        let offer = |path: &String| Offer { text: format!("@{path}"), hint: String::new() };
        best(pattern, paths).into_iter().filter_map(|index| paths.get(index)).map(offer).collect()
    }

    /// True if a thread still looks.
    pub fn is_looking(&self) -> bool {
        let found = self.0.locked();
        found.begun && found.paths.is_none()
    }
}

/// The commands that fit best.
pub fn commands(pattern: &str, commands: &[Command]) -> Vec<Offer> {
    let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
    let offer = |command: &Command| {
        let mut hint = sanitize::line(&command.description);
        if let Some(CommandInput::Text(input)) = &command.input {
            hint = format!("<{}>  {hint}", sanitize::line(&input.hint));
        }
        Offer { text: format!("/{}", command.name), hint }
    };
    let shown = |command: &&Command| sanitize::exact_line(&command.name) == command.name && !command.name.contains(' ');
    best(pattern, &names).into_iter().filter_map(|index| commands.get(index)).filter(shown).map(offer).collect()
}

fn best<S: AsRef<str>>(pattern: &str, names: &[S]) -> Vec<usize> {
    if pattern.is_empty() || pattern.len() > MAX_PATTERN_BYTES {
        return (0..names.len().min(if pattern.is_empty() { MAX_OFFERS } else { 0 })).collect();
    }
    let found = Matcher::new(pattern, &Config::default()).match_list(names);
    found.iter().take(MAX_OFFERS).map(|found| found.index as usize).collect()
}
