//! `todo`: the plan of the work, shown to the user.

use super::{Output, Prepared, Tool, ToolContext, ToolError, Type, argument, ready};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tieline::{PlanEntry, PlanPriority, PlanStatus, ToolKind};

pub const TODO: Tool = Tool::new(
    "todo",
    ToolKind::Think,
    "Shows the plan of the work: always all entries. `status` is pending, in_progress or completed; `priority` is high, medium or low.",
    &[(
        "entries",
        Type::List(&Type::Object(&[
            ("content", Type::Text, ""),
            ("status?", Type::OneOf(&["pending", "in_progress", "completed"]), ""),
            ("priority?", Type::OneOf(PlanPriority::KNOWN), ""),
        ])),
        "",
    )],
    |input, ctx| ready(prepare(&input, ctx)),
);

#[derive(Deserialize)]
struct Entry {
    content: String,
    status: Option<String>,
    priority: Option<String>,
}

fn prepare(input: &Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let entries: Vec<Entry> = argument(input, "entries")?;
    let entries: Vec<PlanEntry> = entries.into_iter().map(entry).collect::<Result<_, _>>()?;
    let open = entries.iter().filter(|entry| entry.status != PlanStatus::Completed).count();
    Ok(Prepared::new("Update the plan", move |_| async move {
        ctx.turn.plan(entries).await?;
        Ok(Output::text(format!(
            "The plan is shown; {open} {}.",
            if open == 1 { "entry is open" } else { "entries are open" }
        ))
        .raw(json!({ "open": open })))
    }))
}

fn entry(entry: Entry) -> Result<PlanEntry, ToolError> {
    let status = entry.status.as_deref().map(PlanStatus::from).unwrap_or_default();
    let priority = entry.priority.as_deref().map(PlanPriority::from).unwrap_or_default();
    match (&status, &priority) {
        (PlanStatus::Other(other), _) => Err(format!("There is no status `{other}`.").into()),
        (_, PlanPriority::Other(other)) => Err(format!("There is no priority `{other}`.").into()),
        _ => Ok(PlanEntry { priority, ..PlanEntry::new(entry.content, status) }),
    }
}
