//! The output for programs: one object at the end (`json`), or one event per line and the same object last (`stream-json`).

use super::printer::{Printer, To};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::cell::Cell;
use tieline::json::whole_pairs;
use tieline_client::journal::HowAsked;
use tieline_client::live::{Event, Gone, News, When};
use tieline_client::permission::Ruling;
use tieline_client::run::{Outcome, Progress, Watch};
use tieline_client::{sanitize, services};
use tieline_host::store::Time;
use tieline_schema::{ContentBlock, Cost, Dialect, MessageKind, Plan, ToolCallContent, ToolCallItem, Update, to_json};

/// Text is written in pieces of this size.
const PIECE: usize = 64 * 1024;

/// Prints events as they come.
pub struct Stream {
    printer: Printer,
    number: Cell<u64>,
}

impl Stream {
    /// Begins the stream.
    pub fn new(printer: Printer, agent: &str, cwd: &str) -> Self {
        let stream = Self { printer, number: Cell::new(0) };
        stream.event("start", json!({"agent": agent, "cwd": cwd, "tieline": env!("CARGO_PKG_VERSION")}));
        stream
    }

    fn head(&self, kind: &str) -> Value {
        let number = self.number.get();
        self.number.set(number + 1);
        json!({"v": 1, "seq": number, "ts": Time::now().to_string(), "type": kind})
    }

    fn event(&self, kind: &str, body: Value) {
        self.printer.push(To::Out, sanitize::json(&self.whole(kind, body)) + "\n");
    }

    /// An event as text.
    fn whole(&self, kind: &str, body: Value) -> String {
        let mut event = self.head(kind);
        if let (Value::Object(event), Value::Object(body)) = (&mut event, body) {
            event.extend(body);
        }
        event.to_string()
    }

    /// An event with an update as it is on the wire, of which no tree is made: that could be twenty times as long.
    fn raw_event(&self, mut body: Value, update: &str, when: When) {
        mark(&mut body, when);
        let mut text = self.whole("update", body);
        text.pop();
        text.push_str(",\"update\":");
        // Between the parts of a value a line break is white space.
        text.push_str(&whole_pairs(update).map_or(Cow::Borrowed(update), Cow::Owned).replace(['\n', '\r'], " "));
        text.push('}');
        self.printer.push(To::Out, sanitize::json(&text) + "\n");
    }

    /// The last event.
    pub fn end(&self, outcome: &Outcome) {
        let head = self.head("end");
        write_outcome(&self.printer, head, outcome);
    }
}

impl Watch for Stream {
    async fn see(&self, event: Event) -> Result<(), Gone> {
        match event {
            Event::Agent(agent) => {
                self.event("agent", json!({"name": agent.name, "version": agent.version, "protocol": agent.protocol}));
            }
            Event::Session(session) => self.event("session", json!(session)),
            Event::Said { kind, news, when, .. } => {
                let name = if kind == MessageKind::Thought { "thought" } else { "text" };
                let (fresh, text) = match news {
                    News::More(text) => (false, text),
                    News::Fresh(text) => (true, text),
                    News::Instead(text) => {
                        self.event("replace", json!({"of": name}));
                        (true, text)
                    }
                    News::Nothing => return Ok(()),
                };
                // A huge message is not held a second time.
                let (mut rest, mut fresh) = (&*text, fresh);
                while !rest.is_empty() {
                    let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
                    let mut body = json!({"text": piece, "new_message": std::mem::take(&mut fresh)});
                    mark(&mut body, when);
                    self.event(name, body);
                    rest = after;
                    self.printer.room().await?;
                }
            }
            Event::Update { update, tool, when } => self.update(&update, tool.as_deref(), when),
            Event::Note(note) => self.note(&note),
            Event::Warning(warning) => self.event("warning", json!({"message": warning})),
            _ => {}
        }
        self.printer.room().await
    }

    fn hear(&self, progress: Progress) {
        match progress {
            Progress::Phase(phase) => self.event("phase", json!({"phase": phase})),
            Progress::Cancelling(ending) => self.event("cancel", json!({"step": "asked", "why": ending})),
            Progress::Ending => self.event("cancel", json!({"step": "ending"})),
            Progress::Killing => self.event("cancel", json!({"step": "killing"})),
            Progress::Waiting(..) => {}
        }
    }
}

impl Stream {
    fn update(&self, update: &Update, tool: Option<&ToolCallItem>, when: When) {
        let (kind, mut body) = match (update, tool) {
            (Update::ToolCallContent(chunk), Some(tool)) => {
                let mut body = tool_value(tool, std::slice::from_ref(&chunk.content));
                body["added"] = true.into();
                ("tool", body)
            }
            (_, Some(tool)) => ("tool", tool_value(tool, &tool.content)),
            (Update::Plan(update), _) => match &update.plan {
                Plan::Items(plan) => {
                    let entries: Vec<Value> = plan
                        .entries
                        .iter()
                        .map(|entry| {
                            json!({"content": entry.content, "priority": entry.priority.to_string(),
                                "status": entry.status.to_string()})
                        })
                        .collect();
                    ("plan", json!({"plan": plan.plan_id, "entries": entries}))
                }
                Plan::Other { unknown, .. } => return self.raw_event(json!({}), unknown.raw.get(), when),
            },
            (Update::Usage(usage), _) => (
                "usage",
                json!({"used": usage.used, "size": usage.size,
                "cost": usage.cost.set().map(cost_value)}),
            ),
            (Update::Notice(notice), _) => (
                "notice",
                json!({"severity": notice.severity.to_string(), "title": notice.title,
                    "description": notice.description}),
            ),
            (Update::Other(unknown), _) => {
                return self.raw_event(json!({"unknown": &*unknown.tag}), unknown.raw.get(), when);
            }
            (other, _) => return self.raw_event(json!({}), &to_json(other, Dialect::V2), when),
        };
        mark(&mut body, when);
        self.event(kind, body);
    }

    fn note(&self, note: &services::Event) {
        use services::Event as Done;
        match note {
            Done::Decided(record) => {
                let answer = if record.ruling == Ruling::Refused { "denied" } else { record.ruling.word() };
                let by = record.by.to_string();
                self.event(
                    "permission",
                    json!({"method": record.method, "about": record.facts, "answer": answer, "by": by,
                        "option": record.option, "note": record.note}),
                );
            }
            Done::Read { path, bytes, .. } => {
                self.event("read", json!({"path": path.to_string_lossy(), "bytes": bytes}));
            }
            Done::Wrote { path, bytes, created, .. } => {
                self.event("wrote", json!({"path": path.to_string_lossy(), "bytes": bytes, "created": created}));
            }
            Done::TerminalStarted { terminal, line, folder, .. } => self
                .event("command", json!({"terminal": terminal, "command": line, "folder": folder.to_string_lossy()})),
            Done::TerminalEnded { terminal, exit, leftovers, .. } => self.event(
                "command_end",
                json!({"terminal": terminal, "exit_code": exit.exit_code, "signal": exit.signal,
                    "leftovers": leftovers}),
            ),
            Done::Elicited { mode, action, .. } => self.event("elicitation", json!({"mode": mode, "action": action})),
            Done::Notice { text, .. } => self.event("notice", json!({"severity": "info", "title": text})),
            _ => {}
        }
    }
}

/// Says when something came, if that was not in the turn.
fn mark(body: &mut Value, when: When) {
    match when {
        When::Turn => {}
        When::Before => body["when"] = "before".into(),
        When::Late => body["when"] = "late".into(),
    }
}

/// The one object of `json`.
pub fn object(printer: &Printer, outcome: &Outcome) {
    write_outcome(printer, json!({"v": 1}), outcome);
}

/// Writes the closing object; the text is copied piece by piece, however long it is.
fn write_outcome(printer: &Printer, mut head: Value, outcome: &Outcome) {
    if let Value::Object(head) = &mut head {
        head.extend(outcome_value(outcome));
    }
    let mut open = sanitize::json(&head.to_string());
    open.pop();
    printer.push(To::Out, open + ",\"text\":\"");
    let _ = outcome.said.all(|piece| {
        let quoted = sanitize::json(&Value::from(piece).to_string());
        printer.push(To::Out, &quoted.as_bytes()[1..quoted.len() - 1]);
        Ok(())
    });
    printer.push(To::Out, "\"}\n");
}

pub fn outcome_value(outcome: &Outcome) -> Map<String, Value> {
    let files = |asked: Option<HowAsked>| -> Vec<&str> {
        let files = outcome.changed.iter().filter(|file| asked.is_none_or(|asked| file.asked == asked));
        files.map(|file| &*file.path).collect()
    };
    let unclear = [files(Some(HowAsked::Waiting)), files(Some(HowAsked::Beside))].concat();
    let value = json!({
        "status": outcome.ending,
        "exit_code": outcome.ending.code(),
        "stop_reason": outcome.stop.as_ref().map(ToString::to_string),
        "session": outcome.session,
        "agent": outcome.agent,
        "usage": outcome.usage.map(|(used, size)| json!({"used": used, "size": size})),
        "cost": outcome.cost.as_ref().map(cost_value),
        "changed_files": files(None),
        "command_files": files(Some(HowAsked::Command)),
        "unasked_files": files(Some(HowAsked::Never)),
        "unclear_files": unclear,
        "permissions": outcome.permissions,
        "warnings": outcome.warnings,
        "duration_ms": outcome.took.as_millis() as u64,
    });
    let Value::Object(mut map) = value else { return Map::new() };
    map.extend(outcome.answer.iter().map(|answer| ("answer".to_owned(), answer.clone())));
    map.extend(outcome.failure.iter().map(|failure| ("error".to_owned(), json!(failure))));
    map
}

fn cost_value(cost: &Cost) -> Value {
    json!({"amount": cost.amount, "currency": cost.currency})
}

fn tool_value(tool: &ToolCallItem, content: &[ToolCallContent]) -> Value {
    let content: Vec<Value> = content
        .iter()
        .map(|content| match content {
            ToolCallContent::Content(content) => match &content.content {
                ContentBlock::Text(text) => json!({"type": "text", "text": text.text}),
                other => json!({"type": other.tag()}),
            },
            ToolCallContent::Diff(diff) => json!({"type": "diff", "files": diff.paths().collect::<Vec<_>>(),
                "patch": diff.patch().map(|patch| patch.text)}),
            ToolCallContent::Terminal(terminal) => json!({"type": "terminal", "terminal": terminal.terminal_id}),
            ToolCallContent::Other(unknown) => json!({"type": unknown.tag}),
        })
        .collect();
    let files: Vec<&str> = tool.locations.iter().map(|location| location.path.as_str()).collect();
    json!({"id": tool.id, "title": tool.title, "kind": tool.kind.to_string(), "status": tool.status.to_string(),
        "content": content, "files": files})
}
