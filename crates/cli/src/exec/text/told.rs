//! What is told beside the answer: updates, tool calls, plans, and what was decided by whom.

use super::Text;
use crate::exec::arguments::Show;
use crate::exec::ask::columns;
use crate::exec::lines::{Followed, Rows, rows};
use std::fmt::Write as _;
use tieline_client::agents::join_line;
use tieline_client::live::{When, allowed_by, never_ran};
use tieline_client::permission::{By, NOBODY, Record, Ruling};
use tieline_client::sanitize;
use tieline_client::services;
use tieline_host::roots::shown;
use tieline_schema::{
    MessageKind, Plan, PlanStatus, Severity, ToolCallContent, ToolCallItem, ToolCallStatus, ToolKind, Update,
    from_base64,
};

/// A diff is shown up to so many lines.
const MAX_DIFF_LINES: usize = 200;
/// So many lines of what a failed call says are shown.
const MAX_FAILURE_LINES: usize = 20;
/// So many calls are remembered.
const MAX_CALLS: usize = 10_000;

/// So many terminals of the agent's are shown beside each other.
const MAX_TERMINALS: usize = 100;
/// A call with a longer id is not remembered.
const MAX_ID_BYTES: usize = 1024;

/// What was shown of a call.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an independent fact about what was shown")]
pub(super) struct Shown {
    title: bool,
    allowed: bool,
    end: bool,
    /// It was refused here, so it did not run.
    refused: bool,
}

impl Text {
    pub(super) fn update(&self, update: &Update, tool: Option<&ToolCallItem>, when: When) {
        if when == When::Before {
            return;
        }
        let late = if when == When::Late { " (late)" } else { "" };
        match (update, tool) {
            (_, Some(tool)) => self.tool(tool, late),
            (Update::Usage(usage), _) if self.shows(Show::Usage) => {
                let cost = usage.cost.set().map(|cost| format!(", {} {}", cost.amount, sanitize::line(&cost.currency)));
                let cost = cost.unwrap_or_default();
                // An agent that does not know the size says 0.
                let size = if usage.size > 0 { format!(" of {}", usage.size) } else { String::new() };
                self.dim(&format!("used: {}{size} tokens{cost}{late}", usage.used));
            }
            (Update::Chunk(chunk), _) if chunk.kind == MessageKind::Agent => {
                self.dim(&format!("[{} content is not shown]{late}", sanitize::line(chunk.content.tag())));
            }
            (Update::Message(message), _) if message.kind == MessageKind::Agent => {
                let blocks = message.content.set().map(|blocks| &blocks[..]).unwrap_or_default();
                for block in blocks.iter().filter(|block| block.as_text().is_none()) {
                    self.dim(&format!("[{} content is not shown]{late}", sanitize::line(block.tag())));
                }
            }
            (Update::Plan(update), _) => match &update.plan {
                Plan::Items(plan) => self.plan(&plan.entries),
                Plan::Other { .. } => self.dim("[a plan of an unknown kind]"),
            },
            (Update::Notice(notice), _) => {
                let more = notice.description.as_deref().map(|more| format!(": {more}")).unwrap_or_default();
                let severity =
                    if matches!(notice.severity, Severity::Other(_)) { "info" } else { notice.severity.as_str() };
                let title = if more.is_empty() { &notice.title } else { notice.title.trim_end_matches('.') };
                // Whatever it says, it is not we who say it.
                let text = format!("the agent notes: {severity} {title}{more}");
                self.dim(&sanitize::line(&text));
            }
            (Update::Terminal(_) | Update::TerminalOutput(_), _) if !self.shows(Show::Tools) => {}
            (Update::Terminal(terminal), _) => {
                if let Some(command) = terminal.command.set() {
                    self.dim(&format!("$ {}", sanitize::exact_line(command)));
                }
                // Those who tell all of it again have told it in pieces before.
                let told = self.terminals.borrow().contains_key(&terminal.terminal_id);
                if let Some(output) = terminal.output.set().filter(|_| !told) {
                    self.output(&terminal.terminal_id, &output.data);
                }
            }
            (Update::TerminalOutput(chunk), _) => self.output(&chunk.terminal_id, &chunk.data),
            (Update::Other(unknown), _) => {
                self.dim(&format!("[an update of the unknown kind `{}`]{late}", sanitize::line(&unknown.tag)));
            }
            _ => {}
        }
    }

    /// Output of one of the agent's own terminals.
    fn output(&self, terminal: &str, data: &str) {
        let bytes = from_base64(data).unwrap_or_default();
        let mut terminals = self.terminals.borrow_mut();
        let mut lines = Vec::new();
        if terminals.len() >= MAX_TERMINALS && !terminals.contains_key(terminal) {
            lines = terminals.drain().flat_map(|(_, mut terminal)| terminal.rest()).collect();
        }
        lines.extend(terminals.entry(terminal.to_owned()).or_default().push(&bytes));
        drop(terminals);
        self.terminal_lines(&lines);
    }

    fn plan(&self, entries: &[tieline_schema::PlanEntry]) {
        if !self.shows(Show::Plan) {
            return;
        }
        let (mut text, columns) = (String::new(), columns());
        for entry in entries {
            let mark = match entry.status {
                PlanStatus::Completed => "x",
                PlanStatus::InProgress => ">",
                _ => " ",
            };
            let entry = format!("[{mark}] {}\n", sanitize::line(&entry.content));
            text += &Rows::new("  ", columns).push(&entry, columns);
        }
        if *self.plan.borrow() != text {
            self.err(&self.style.dim(&format!("· plan\n{text}")));
            *self.plan.borrow_mut() = text;
        }
    }

    fn tool(&self, tool: &ToolCallItem, late: &str) {
        let mut tools = self.tools.borrow_mut();
        if tools.len() > MAX_CALLS {
            tools.clear();
        }
        let mut unkept = Shown::default();
        let shown = match tool.id.len() {
            0..=MAX_ID_BYTES => tools.entry(tool.id.clone()).or_default(),
            _ => &mut unkept,
        };
        let title = sanitize::line(tool.title.as_deref().unwrap_or(&tool.id));
        // A word of the agent here could pass for one of ours.
        let other = if matches!(tool.kind, ToolKind::Other(_)) { "other " } else { "" };
        let kind = format!("{other}{}", sanitize::line(tool.kind.as_str()));
        if !shown.title && (tool.title.is_some() || tool.status.is_final()) {
            shown.title = true;
            self.tell_tool(&format!("{kind} {title}{late}"));
        }
        if let Some(by) = allowed_by(tool).filter(|_| !std::mem::replace(&mut shown.allowed, true)) {
            self.dim(&format!("allowed by the agent: {title} ({})", sanitize::exact_line(&by)));
        }
        if !tool.status.is_final() || std::mem::replace(&mut shown.end, true) {
            return;
        }
        self.failed.set(self.failed.get() || tool.status == ToolCallStatus::Failed);
        let ended = |how: &str| rows("✗ ", &format!("the agent's call ({kind}): {title}: {how}"), columns());
        match tool.status {
            ToolCallStatus::Failed if self.shows(Show::Tools) => {
                let how = if shown.refused || never_ran(tool) { "not done" } else { "failed" };
                self.err(&self.style.red(&ended(how)));
            }
            ToolCallStatus::Cancelled if self.shows(Show::Tools) => {
                self.err(&self.style.dim(&ended("cancelled")));
            }
            _ => {}
        }
        for content in &tool.content {
            match content {
                ToolCallContent::Diff(_) if !self.shows(Show::Diffs) => {}
                ToolCallContent::Diff(diff) => {
                    let patch = diff.patch().map(|patch| patch.text).unwrap_or_default();
                    if !self.printer.was_shown(&patch) {
                        self.err(&self.style.diff(&patch, MAX_DIFF_LINES));
                    }
                }
                ToolCallContent::Other(unknown) => {
                    self.tell_tool(&format!("[{} content is not shown]", sanitize::line(&unknown.tag)));
                }
                ToolCallContent::Content(_) | ToolCallContent::Terminal(_) if tool.status != ToolCallStatus::Failed => {
                }
                content => {
                    let text = sanitize::text(content.as_text().unwrap_or_default());
                    if self.shows(Show::Tools) {
                        let lines: Vec<String> = text.lines().take(MAX_FAILURE_LINES).map(str::to_owned).collect();
                        self.indented("  ", &lines);
                    }
                }
            }
        }
    }

    /// A line about a tool call.
    fn tell_tool(&self, line: &str) {
        if self.shows(Show::Tools) {
            self.dim(line);
        }
    }

    fn decided(&self, record: &Record) {
        if let (Ruling::Refused | Ruling::Cancelled, Some(call)) = (record.ruling, &record.call) {
            self.tools.borrow_mut().entry(call.clone()).or_default().refused = true;
        }
        let quiet = record.method == "fs/read_text_file" || matches!(record.by, By::Before(_));
        if record.ruling == Ruling::Allowed && quiet {
            return;
        }
        let what = match (&record.facts[..], &*record.title) {
            ([], "") => record.method.to_owned(),
            ([], title) => title.to_owned(),
            (facts, _) => facts.join("; "),
        };
        self.dim(&format!("{}: {what} ({})", record.ruling.word(), why(record)));
    }

    pub(super) fn note(&self, note: &services::Event) {
        match note {
            services::Event::Decided(record) => self.decided(record),
            services::Event::Wrote { path, .. } => {
                self.dim(&format!("wrote {}", shown(path)));
            }
            services::Event::TerminalStarted { line, terminal, .. } => {
                self.dim(&format!("$ {}", sanitize::exact_line(line)));
                let view = self.services.borrow().as_ref().and_then(|services| services.terminals().watch(terminal));
                self.ours.borrow_mut().extend(view.map(|view| Followed::new(terminal.clone(), view)));
            }
            services::Event::TerminalEnded { terminal, .. } => {
                self.follow();
                self.ours.borrow_mut().retain(|followed| followed.id != *terminal);
            }
            services::Event::Notice { text, .. } => self.dim(&format!("note: {text}")),
            _ => {}
        }
    }
}

/// Why something was decided so, and what to type to have it otherwise.
fn why(record: &Record) -> String {
    let mut why = match &record.by {
        By::Decider(name) if name == NOBODY => {
            format!("nobody could be asked; to allow it: {}", record.way().unwrap_or_default())
        }
        By::Decider(_) if record.kept.is_some() => {
            let kept = record.kept.as_ref().map(ToString::to_string).unwrap_or_default();
            match &record.learned[..] {
                // No rule of ours says it, so that it holds only where the agent keeps it.
                [] => "your answer; the agent keeps it as it says".to_owned(),
                learned => {
                    let rules: Vec<String> = learned.iter().map(|rule| join_line(&[rule])).collect();
                    format!("your answer: {}; {kept}", sanitize::exact_line(&rules.join(", ")))
                }
            }
        }
        By::Decider(_) => "your answer".to_owned(),
        by => sanitize::exact_line(&by.to_string()),
    };
    if let Some(hint) = &record.hint {
        let _ = write!(why, "; {hint}");
    }
    why
}
