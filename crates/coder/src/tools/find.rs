//! `glob`: files by the pattern of their names.

use super::walk::{Stop, walk};
use super::{Boxed, Output, Prepared, Tool, ToolContext, arguments, object, shown};
use crate::workspace::blocking;
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use tieline::ToolKind;
use tieline_host::roots;
use tieline_host::rules::Action;

/// As many names as are given.
const MOST: usize = 500;

pub struct Glob;

#[derive(Deserialize)]
struct Input {
    pattern: String,
    path: Option<String>,
}

/// A pattern for paths below a folder; one without `/` matches names anywhere.
pub fn matcher(pattern: &str) -> Result<GlobMatcher, String> {
    let anywhere =
        if pattern.contains('/') { pattern.trim_start_matches("./").into() } else { format!("**/{pattern}") };
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
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

    fn prepare(&self, input: Value, ctx: Arc<ToolContext>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let input: Input = arguments(input)?;
            let place = ctx.workspace.place(input.path.as_deref().unwrap_or("."))?;
            let glob = matcher(&input.pattern)?;
            let (action, target) = (Action::Read(place.location()), place.clone());
            let cwd = ctx.workspace.cwd();
            let work = async move {
                let stop = Stop::default();
                let flag = Arc::clone(&stop.0);
                let files = ctx.workspace.files().clone();
                let found = blocking(move || Ok(walk(&files, &target, Some(&glob), &flag))).await?;
                let paths = found.iter().take(MOST).map(tieline_host::roots::Place::real_path);
                let lines: Vec<String> =
                    paths.map(|path| roots::shown(path.strip_prefix(&cwd).unwrap_or(&path))).collect();
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
