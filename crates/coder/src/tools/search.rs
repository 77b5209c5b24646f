//! `glob` and `grep`: files by the pattern of their names, and lines by a regular expression.

use super::walk::{Stop, walk};
use super::{Output, Prepared, Tool, ToolContext, ToolError, Type, argument, ready, shown};
use crate::workspace::blocking;
use globset::{GlobBuilder, GlobMatcher};
use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, SearcherBuilder, sinks};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tieline::ToolKind;
use tieline_host::roots::Place;

/// As many names as `glob` gives.
const MAX_NAMES: usize = 500;
/// As many lines as `grep` gives.
const MAX_LINES: usize = 300;
/// As much of a line as is given, in characters.
const MAX_LINE_CHARS: usize = 300;

pub const GLOB: Tool = Tool::new(
    "glob",
    ToolKind::Search,
    "Finds files by name, such as `**/*.rs`. Leaves out what .gitignore names.",
    &[("pattern", Type::Text, ""), ("path?", Type::Text, "")],
    |input, ctx| ready(glob(&input, ctx)),
);

pub const GREP: Tool = Tool::new(
    "grep",
    ToolKind::Search,
    "Finds lines by a regular expression: `file:line: text`. `glob` limits the files. Leaves out what .gitignore names.",
    &[
        ("pattern", Type::Text, ""),
        ("path?", Type::Text, ""),
        ("glob?", Type::Text, ""),
        ("ignore_case?", Type::Boolean, ""),
    ],
    |input, ctx| ready(grep(&input, ctx)),
);

/// A pattern for paths below a folder; one without `/` matches names anywhere.
fn matcher(pattern: &str) -> Result<GlobMatcher, ToolError> {
    let anywhere =
        if pattern.contains('/') { pattern.trim_start_matches("./").into() } else { format!("**/{pattern}") };
    Ok(GlobBuilder::new(&anywhere).literal_separator(true).build()?.compile_matcher())
}

/// What is looked for, and below which folder.
fn wanted<'v>(input: &'v Value, ctx: &ToolContext) -> Result<(&'v str, Place), ToolError> {
    let folder = argument::<Option<_>>(input, "path")?.unwrap_or(".");
    Ok((argument(input, "pattern")?, ctx.workspace.place(folder)?))
}

fn glob(input: &Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let (pattern, place) = wanted(input, &ctx)?;
    let glob = matcher(pattern)?;
    let title = format!("Find {pattern} in {}", shown(&place));
    let target = place.clone();
    let work = async move {
        let stop = Stop::default();
        let flag = Arc::clone(&stop.0);
        let search = move || {
            let mut found = walk(ctx.workspace.files(), &target, Some(&glob), &flag);
            found.retain(|file| !ctx.permissions.hides(file));
            Ok(found)
        };
        let found = blocking(search).await?;
        let lines: Vec<String> = found.iter().take(MAX_NAMES).map(shown).collect();
        let mut text = if lines.is_empty() { "Nothing found.".into() } else { lines.join("\n") };
        if found.len() > MAX_NAMES {
            let _ = write!(text, "\n(the first {MAX_NAMES} of {})", found.len());
        }
        Ok(Output::text(text).raw(json!({ "files": found.len() })))
    };
    Ok(Prepared::reading(title, &place, 0, work))
}

fn grep(input: &Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let (pattern, place) = wanted(input, &ctx)?;
    let glob = argument::<Option<_>>(input, "glob")?.map(matcher).transpose()?;
    let ignore_case = argument::<Option<_>>(input, "ignore_case")?.unwrap_or_default();
    let regex = RegexMatcherBuilder::new().case_insensitive(ignore_case).build(pattern);
    let regex = regex.map_err(|error| format!("The pattern can't be read: {error}"))?;
    let title = format!("Search {pattern} in {}", shown(&place));
    let target = place.clone();
    let work = async move {
        let stop = Stop::default();
        let flag = Arc::clone(&stop.0);
        let search = move || {
            let files = ctx.workspace.files();
            let (mut text, mut count, mut hits) = (String::new(), 0, 0);
            let mut searcher =
                SearcherBuilder::new().binary_detection(BinaryDetection::quit(0)).line_number(true).build();
            for file in walk(files, &target, glob.as_ref(), &flag) {
                if count >= MAX_LINES || flag.load(Ordering::Relaxed) {
                    break;
                }
                let Some(Ok(bytes)) = (!ctx.permissions.hides(&file)).then(|| files.read_bytes(&file)) else {
                    continue;
                };
                let (name, before) = (shown(&file), count);
                let sink = sinks::Lossy(|number, line| {
                    let line: String = line.trim_end().chars().take(MAX_LINE_CHARS).collect();
                    let _ = writeln!(text, "{name}:{number}: {line}");
                    count += 1;
                    Ok(count < MAX_LINES)
                });
                let _ = searcher.search_slice(&regex, &bytes.bytes, sink);
                hits += usize::from(count > before);
            }
            if count == 0 {
                text.push_str("Nothing found.");
            } else if count >= MAX_LINES {
                let _ = writeln!(text, "(only the first {MAX_LINES})");
            }
            Ok(Output::text(text).raw(json!({ "matches": count, "files": hits })))
        };
        blocking(search).await
    };
    Ok(Prepared::reading(title, &place, 0, work))
}
