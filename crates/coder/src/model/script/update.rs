//! The `update` step: things that are no model output.

use super::step::to_json;
use crate::model::Report;
use serde::Deserialize;
use tieline::schema::{CompactionStatus, from_json};
use tieline::{PlanEntry, PlanPriority, PlanStatus, Severity, Update};

/// An update as it stands in a scenario: one of the keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawUpdate {
    title: Option<String>,
    notice: Option<RawNotice>,
    commands: Option<Vec<RawCommand>>,
    mode: Option<String>,
    context: Option<RawContext>,
    plan: Option<Vec<RawEntry>>,
    compaction: Option<RawCompaction>,
    stop: Option<String>,
    fail: Option<RawFail>,
    raw: Option<toml::Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNotice {
    severity: String,
    title: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCommand {
    name: String,
    description: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawContext {
    used: u64,
    size: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    content: String,
    status: Option<String>,
    priority: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCompaction {
    id: String,
    status: String,
    summary: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFail {
    code: i64,
    message: String,
}

impl RawUpdate {
    pub(super) fn report(self) -> Result<Report, String> {
        let mut reports: Vec<Report> = Vec::new();
        reports.extend(self.title.map(Report::Title));
        if let Some(RawNotice { severity, title }) = self.notice {
            let severity = Severity::from(known("severity", &severity, Severity::KNOWN)?);
            reports.push(Report::Notice { severity, title });
        }
        reports.extend(
            self.commands.map(|all| {
                Report::Commands(all.into_iter().map(|command| (command.name, command.description)).collect())
            }),
        );
        reports.extend(self.mode.map(Report::Mode));
        reports.extend(self.context.map(|RawContext { used, size }| Report::Context { used, size }));
        if let Some(entries) = self.plan {
            reports.push(Report::Plan(entries.into_iter().map(RawEntry::entry).collect::<Result<_, _>>()?));
        }
        if let Some(RawCompaction { id, status, summary, error }) = self.compaction {
            let status = CompactionStatus::from(known("status", &status, CompactionStatus::KNOWN)?);
            reports.push(Report::Compaction { id, status, summary, error });
        }
        reports.extend(self.stop.map(Report::Stop));
        reports.extend(self.fail.map(|RawFail { code, message }| Report::Fail { code, message }));
        if let Some(raw) = self.raw {
            let json = to_json(toml::Value::Table(raw)).to_string();
            let update: Update = from_json(&json).map_err(|error| format!("`update.raw` is no update: {error}"))?;
            reports.push(Report::Update(Box::new(update)));
        }
        match (reports.pop(), reports.is_empty()) {
            (Some(report), true) => Ok(report),
            _ => Err("an `update` has one of `title`, `notice`, `commands`, `mode`, `context`, `plan`, `compaction`, \
                      `stop`, `fail` and `raw`"
                .into()),
        }
    }
}

impl RawEntry {
    fn entry(self) -> Result<PlanEntry, String> {
        let status = self.status.unwrap_or_else(|| "pending".into());
        let priority = self.priority.unwrap_or_else(|| "medium".into());
        Ok(PlanEntry {
            content: self.content,
            status: PlanStatus::from(known("status", &status, PlanStatus::KNOWN)?),
            priority: PlanPriority::from(known("priority", &priority, PlanPriority::KNOWN)?),
            meta: None,
        })
    }
}

/// Refuses a value that is none of the known ones: in a scenario it is a slip of the pen.
fn known<'a>(key: &str, value: &'a str, all: &[&str]) -> Result<&'a str, String> {
    if all.contains(&value) {
        return Ok(value);
    }
    Err(format!("`{key}` is one of `{}`, not `{value}`; `raw` takes any", all.join("`, `")))
}
