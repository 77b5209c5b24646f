//! `glob`: files by the pattern of their names; and the walk that `grep` shares.

use super::{Boxed, Output, Prepared, Scene, Tool, arguments, object, shown};
use crate::workspace::blocking;
use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tieline::ToolKind;
use tieline_host::roots::{self, Place};
use tieline_host::rules::Action;

/// As many names as are given.
const MOST: usize = 500;

pub struct Glob;

#[derive(Deserialize)]
struct Input {
    pattern: String,
    path: Option<String>,
}

/// Stops a walk in another thread when the call is dropped.
#[derive(Default)]
pub struct Stop(pub Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A pattern for paths below a folder; one without `/` matches names anywhere.
pub fn matcher(pattern: &str) -> Result<GlobMatcher, String> {
    let anywhere =
        if pattern.contains('/') { pattern.trim_start_matches("./").into() } else { format!("**/{pattern}") };
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
}

/// Files below a folder, sorted by path, without what version control ignores. Links are not followed.
pub fn walk(place: &Place, glob: Option<&GlobMatcher>, stop: &AtomicBool) -> Vec<PathBuf> {
    let top = place.real_path();
    let walk = WalkBuilder::new(&top)
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_name(std::cmp::Ord::cmp)
        .build();
    walk.take_while(|_| !stop.load(Ordering::Relaxed))
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(ignore::DirEntry::into_path)
        .filter(|path| {
            let below = path.strip_prefix(&top).unwrap_or(path);
            glob.is_none_or(|glob| glob.is_match(below) || below.as_os_str().is_empty())
        })
        .collect()
}

impl Tool for Glob {
    fn name(&self) -> &'static str {
        "glob"
    }

    fn description(&self) -> &'static str {
        "Finds files by name, such as `**/*.rs`. Leaves out what .gitignore names."
    }

    fn schema(&self) -> Value {
        object(&[("pattern", "string".into(), ""), ("path?", "string".into(), "")])
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Search
    }

    fn reads_only(&self) -> bool {
        true
    }

    fn prepare(&self, input: Value, scene: Arc<Scene>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let input: Input = arguments(input)?;
            let place = scene.workspace.place(input.path.as_deref().unwrap_or("."))?;
            let glob = matcher(&input.pattern)?;
            let (action, target) = (Action::Read(place.location()), place.clone());
            let cwd = scene.workspace.cwd();
            let work = async move {
                let stop = Stop::default();
                let flag = Arc::clone(&stop.0);
                let found = blocking(move || Ok(walk(&target, Some(&glob), &flag))).await?;
                let lines: Vec<String> =
                    found.iter().take(MOST).map(|path| roots::shown(path.strip_prefix(&cwd).unwrap_or(path))).collect();
                let mut text = if lines.is_empty() { "Nothing found.".into() } else { lines.join("\n") };
                if found.len() > MOST {
                    let _ = write!(text, "\n(the first {MOST} of {})", found.len());
                }
                Ok(Output::text(text).raw(json!({ "files": found.len() })))
            };
            let title = format!("Find {} in {}", input.pattern, shown(&place));
            Ok(Prepared::new(title, move |_| async move { Output::of(work.await) }).at(&place, 0, action))
        })
    }
}
