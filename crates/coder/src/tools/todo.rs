//! `todo`: the plan of the work, shown to the user.

use super::{Boxed, Output, Prepared, Tool, ToolContext, arguments, object};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tieline::schema::{Plan, PlanUpdate};
use tieline::{PlanEntry, PlanPriority, PlanStatus, ToolKind};

pub struct Todo;

#[derive(Deserialize)]
struct Input {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    content: String,
    status: Option<String>,
    priority: Option<String>,
}

impl Tool for Todo {
    fn name(&self) -> &'static str {
        "todo"
    }

    fn description(&self) -> &'static str {
        "Shows the plan of the work: always all entries. `status` is pending, in_progress or completed; `priority` is high, medium or low."
    }

    fn schema(&self) -> Value {
        let entry = object(&[
            ("content", "string".into(), ""),
            ("status?", json!({ "enum": ["pending", "in_progress", "completed"] }), ""),
            ("priority?", json!({ "enum": ["high", "medium", "low"] }), ""),
        ]);
        object(&[("entries", json!({ "type": "array", "items": entry }), "")])
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Think
    }

    fn prepare(&self, input: Value, ctx: Arc<ToolContext>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let Input { entries } = arguments(input)?;
            let entries: Vec<PlanEntry> = entries.into_iter().map(entry).collect::<Result<_, _>>()?;
            let open = entries.iter().filter(|entry| entry.status != PlanStatus::Completed).count();
            Ok(Prepared::new("Update the plan", move |_| async move {
                match ctx.reporter.update(PlanUpdate::from(Plan::main(entries))).await {
                    Ok(()) => Output::text(format!("The plan is shown; {open} entries are open."))
                        .raw(json!({ "open": open })),
                    Err(error) => Output::error(error.to_string()),
                }
            }))
        })
    }
}

fn entry(entry: Entry) -> Result<PlanEntry, String> {
    let status = match entry.status.as_deref() {
        None | Some("pending") => PlanStatus::Pending,
        Some("in_progress") => PlanStatus::InProgress,
        Some("completed") => PlanStatus::Completed,
        Some(other) => return Err(format!("There is no status `{other}`.")),
    };
    let priority = match entry.priority.as_deref() {
        None | Some("medium") => PlanPriority::Medium,
        Some("high") => PlanPriority::High,
        Some("low") => PlanPriority::Low,
        Some(other) => return Err(format!("There is no priority `{other}`.")),
    };
    Ok(PlanEntry { priority, ..PlanEntry::new(entry.content, status) })
}
