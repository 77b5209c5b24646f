//! `patch`: a unified diff of one or several files.

use super::change::{Change, change};
use super::{Prepared, Tool, ToolContext, ToolError, Type, argument, shown, unified};
use serde_json::Value;
use std::sync::Arc;
use tieline::ToolKind;

pub const PATCH: Tool = Tool::new(
    "patch",
    ToolKind::Edit,
    "Applies a unified diff (`---`, `+++`, `@@`), also of several files. `/dev/null` makes or deletes a file.",
    &[("patch", Type::Text, "")],
    |input, ctx| Box::pin(prepare(input, ctx)),
);

async fn prepare(input: Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let mut changes = Vec::new();
    for section in unified::parse(argument(&input, "patch")?)? {
        let path = section.new.as_deref().or(section.old.as_deref()).ok_or("a file without a name")?;
        if section.old.is_some() && section.new.is_some() && section.old != section.new {
            return Err(format!("{path}: a patch that moves a file; use `move` first").into());
        }
        let place = ctx.workspace.place(path)?;
        let (name, delete) = (shown(&place), section.new.is_none());
        let edit = move |text: Option<&str>| {
            let text = match (text, &section.old) {
                (Some(_), None) => return Err(format!("{name} exists already; nothing was changed").into()),
                (None, Some(_)) => return Err(format!("There is no file {name}; nothing was changed").into()),
                (text, _) => text.unwrap_or_default(),
            };
            section.apply(text).map_err(|why| format!("{name}: {why}; nothing was changed").into())
        };
        changes.push(Change { place, delete, edit: Some(Box::new(edit)) });
    }
    change("Patch", "Patched", changes, ctx).await
}
