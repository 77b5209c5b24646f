//! `list`: what is in a folder.

use super::{Boxed, Output, Prepared, Tool, ToolContext, arguments, object, shown};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use tieline::ToolKind;
use tieline_host::files::EntryKind;
use tieline_host::roots;
use tieline_host::rules::Action;

/// As many entries as are shown.
const MOST: usize = 1000;

pub struct List;

#[derive(Deserialize)]
struct Input {
    path: Option<String>,
}

impl Tool for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn description(&self) -> &'static str {
        "Lists a folder: folders end in `/`, files come with their size."
    }

    fn schema(&self) -> Value {
        object(&[("path?", "string".into(), "the working directory if absent")])
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Read
    }

    fn reads_only(&self) -> bool {
        true
    }

    fn prepare(&self, input: Value, ctx: Arc<ToolContext>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let input: Input = arguments(input)?;
            let place = ctx.workspace.place(input.path.as_deref().unwrap_or("."))?;
            let (action, target) = (Action::Read(place.location()), place.clone());
            let work = async move {
                let listing = ctx.workspace.list(&target).await?;
                let mut text = String::new();
                for entry in listing.entries.iter().take(MOST) {
                    let name = roots::shown(Path::new(&entry.name));
                    let _ = match entry.kind {
                        EntryKind::Directory => writeln!(text, "{name}/"),
                        EntryKind::File => writeln!(text, "{name}  {} bytes", entry.size),
                        EntryKind::Link => {
                            let target = entry.target.as_deref().map(roots::shown).unwrap_or_default();
                            writeln!(text, "{name} -> {target}")
                        }
                        EntryKind::Special => writeln!(text, "{name}  (special)"),
                    };
                }
                if listing.more || listing.entries.len() > MOST {
                    text.push_str("(there are more)\n");
                }
                if text.is_empty() {
                    text.push_str("(empty)\n");
                }
                Ok(Output::text(text).raw(json!({ "entries": listing.entries.len() })))
            };
            let title = format!("List {}", shown(&place));
            Ok(Prepared::new(title, move |_| async move { Output::of(work.await) }).at(&place, 0, action))
        })
    }
}
