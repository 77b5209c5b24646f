//! `list`: what is in a folder.

use super::{Output, Prepared, Tool, ToolContext, ToolError, Type, argument, ready, shown};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use tieline::ToolKind;
use tieline_host::files::{EntryKind, Files};
use tieline_host::roots;

/// As many entries as are shown.
const MAX_ENTRIES: usize = 1000;

pub const LIST: Tool = Tool::new(
    "list",
    ToolKind::Read,
    "Lists a folder: folders end in `/`, files come with their size.",
    &[("path?", Type::Text, "the working directory if absent")],
    |input, ctx| ready(prepare(&input, ctx)),
);

fn prepare(input: &Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let place = ctx.workspace.place(argument::<Option<_>>(input, "path")?.unwrap_or("."))?;
    let target = place.clone();
    let work = async move {
        let listing = ctx.workspace.disk(&target, Files::list).await?;
        let mut text = String::new();
        for entry in listing.entries.iter().take(MAX_ENTRIES) {
            let name = roots::shown(Path::new(&entry.name));
            let _ = match entry.kind {
                EntryKind::Directory => writeln!(text, "{name}/"),
                EntryKind::File => writeln!(text, "{name}  {} bytes", entry.size),
                EntryKind::Link => {
                    writeln!(text, "{name} -> {}", entry.target.as_deref().map(roots::shown).unwrap_or_default())
                }
                EntryKind::Special => writeln!(text, "{name}  (special)"),
            };
        }
        if listing.more || listing.entries.len() > MAX_ENTRIES {
            text.push_str("(there are more)\n");
        }
        if text.is_empty() {
            text.push_str("(empty)\n");
        }
        Ok(Output::text(text).raw(json!({ "entries": listing.entries.len() })))
    };
    Ok(Prepared::reading(format!("List {}", shown(&place)), &place, 0, work))
}
