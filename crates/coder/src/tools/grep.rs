//! `grep`: lines of files that match a regular expression.

use super::find::matcher;
use super::walk::{Stop, walk};
use super::{Boxed, Output, Prepared, Tool, ToolContext, arguments, object, shown};
use crate::workspace::blocking;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, SearcherBuilder, sinks};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tieline::ToolKind;
use tieline_host::roots;
use tieline_host::rules::{Action, Decision};

/// As many lines as are given.
const MOST: usize = 300;
/// As much of a line as is given, in characters.
const LINE: usize = 300;

pub struct Grep;

#[derive(Deserialize)]
struct Input {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
}

impl Tool for Grep {
    fn name(&self) -> &'static str {
        "grep"
    }

    fn description(&self) -> &'static str {
        "Finds lines by a regular expression: `file:line: text`. `glob` limits the files. Leaves out what .gitignore names."
    }

    fn schema(&self) -> Value {
        object(&[
            ("pattern", "string".into(), ""),
            ("path?", "string".into(), ""),
            ("glob?", "string".into(), ""),
            ("ignore_case?", "boolean".into(), ""),
        ])
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
            let glob = input.glob.as_deref().map(matcher).transpose()?;
            let regex = RegexMatcherBuilder::new().case_insensitive(input.ignore_case).build(&input.pattern);
            let regex = regex.map_err(|error| format!("The pattern can't be read: {error}"))?;
            let (action, target) = (Action::Read(place.location()), place.clone());
            let work = async move {
                let stop = Stop::default();
                let flag = Arc::clone(&stop.0);
                blocking(move || {
                    let cwd = ctx.workspace.cwd();
                    let (mut text, mut count, mut files) = (String::new(), 0, 0);
                    let mut searcher =
                        SearcherBuilder::new().binary_detection(BinaryDetection::quit(0)).line_number(true).build();
                    for file in walk(ctx.workspace.files(), &target, glob.as_ref(), &flag) {
                        if count >= MOST || flag.load(Ordering::Relaxed) {
                            break;
                        }
                        // Rules may hide a file.
                        if ctx.permissions.decide(&Action::Read(file.location())).decision != Decision::Allow {
                            continue;
                        }
                        let Ok(bytes) = ctx.workspace.files().read_bytes(&file) else { continue };
                        let path = file.real_path();
                        let name = roots::shown(path.strip_prefix(&cwd).unwrap_or(&path));
                        let before = count;
                        let sink = sinks::Lossy(|number, line| {
                            let line: String = line.trim_end().chars().take(LINE).collect();
                            let _ = writeln!(text, "{name}:{number}: {line}");
                            count += 1;
                            Ok(count < MOST)
                        });
                        let _ = searcher.search_slice(&regex, &bytes.bytes, sink);
                        files += usize::from(count > before);
                    }
                    if count == 0 {
                        text.push_str("Nothing found.");
                    } else if count >= MOST {
                        let _ = writeln!(text, "(only the first {MOST})");
                    }
                    Ok(Output::text(text).raw(json!({ "matches": count, "files": files })))
                })
                .await
            };
            let title = format!("Search {} in {}", input.pattern, shown(&place));
            Ok(Prepared::new(title, move |_| async move { Output::of(work.await) }).at(&place, 0, action))
        })
    }
}
