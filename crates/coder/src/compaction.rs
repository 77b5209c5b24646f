//! What is left of the older part of a conversation when it is shortened: what was wanted, decided and changed.

use crate::history::{Cut, compaction_event, cut, replace, text_of, trim};
use crate::model::{Message, ToolRequest, ToolResult};
use crate::report::Log;
use crate::tools;
use serde_json::Value;
use std::cmp::Reverse;
use std::fmt::Write as _;
use tieline::agent::Turn;
use tieline::schema::{CompactionStatus, CompactionUpdate, Items};
use tieline::{Patch, Result, Update};
use tieline_host::store::new_id;

/// So many messages at the end stay as they are.
const KEPT_MESSAGES: usize = 6;
/// No summary is longer, in bytes. What matters least goes first, the oldest of it before the rest.
const MAX_SUMMARY_BYTES: usize = 24 << 10;
/// No list of changed files is longer, in bytes.
const MAX_LIST_BYTES: usize = 6 << 10;

const HEAD: &str = "Summary of the conversation so far:";
const FILES: &str = "Files changed so far: ";
const PLAN: &str = "The plan: ";
const LEFT_OUT: &str = "(older steps are left out)";

/// How the lines begin, the most important ones first.
const KINDS: [&str; 6] = [
    "- The user said: ",
    "- The user answered: ",
    "- The user rejected: ",
    "- You said: ",
    "- It failed: ",
    "- You used: ",
];

/// Shortens a conversation and says so. False if there is nothing to make shorter.
pub async fn compact(turn: &Turn, log: &Log, messages: &mut Vec<Message>, cut: Cut) -> Result<bool> {
    // When everything is cut, there is a summary already.
    let summary = if cut == Cut::Everything { None } else { summarize(messages) };
    let cut = if trim(messages, cut) { cut } else { Cut::Nothing };
    if summary.is_none() && cut == Cut::Nothing {
        return Ok(false);
    }
    let compaction_id = new_id();
    let update = |status, summary| CompactionUpdate {
        compaction_id: compaction_id.clone(),
        status,
        summary,
        ..CompactionUpdate::default()
    };
    turn.update(Update::Compaction(update(CompactionStatus::InProgress, Patch::Keep))).await?;
    let (summary, kept) = summary.map_or((None, 0), |(summary, kept)| (Some(summary), kept));
    log.note(compaction_event(summary.as_deref(), kept, cut)).await?;
    let told = match summary {
        Some(summary) => {
            replace(messages, &summary, kept);
            summary
        }
        None if cut == Cut::Everything => "Long prompts were cut.".into(),
        None => "Long results of tools were cut.".into(),
    };
    let told = Patch::Set(Items(vec![told.into()]));
    turn.update(Update::Compaction(update(CompactionStatus::Completed, told))).await?;
    Ok(true)
}

#[derive(Default)]
struct Summary {
    lines: Vec<String>,
    files: Vec<String>,
    plan: Option<String>,
    left_out: bool,
}

/// A summary of what a shortened conversation leaves out, and how many messages stay. `None` if it is short enough.
pub fn summarize(messages: &[Message]) -> Option<(String, usize)> {
    // A kept part must not begin with results whose calls are gone.
    let start = (messages.len().saturating_sub(KEPT_MESSAGES)..messages.len())
        .find(|&at| !matches!(messages[at], Message::Results(_)))
        .unwrap_or(messages.len());
    if start < 2 {
        return None;
    }
    let mut summary = Summary::default();
    let mut calls: &[ToolRequest] = &[];
    for message in &messages[..start] {
        match message {
            Message::User(content) => {
                let said = content.iter().map(text_of).collect::<Vec<_>>().join(" ");
                match said.strip_prefix(HEAD) {
                    Some(earlier) => summary.take_up(earlier),
                    None => summary.add(0, &ends(&said, 600)),
                }
            }
            Message::Assistant { text, calls: wanted, .. } => {
                if !text.trim().is_empty() && text != "Noted." {
                    summary.add(3, &ends(text, 500));
                }
                calls = wanted;
            }
            Message::Results(results) => {
                // They come in the order of the calls.
                for (call, result) in calls.iter().zip(results) {
                    summary.done(call, result);
                }
            }
        }
    }
    Some((summary.written(), messages.len() - start))
}

impl Summary {
    fn add(&mut self, kind: usize, text: &str) {
        self.lines.push(format!("{}{text}", KINDS[kind]));
    }

    /// Goes on from an earlier summary, so that a second one does not lose the first.
    fn take_up(&mut self, earlier: &str) {
        for line in earlier.lines() {
            if let Some(files) = line.strip_prefix(FILES) {
                for file in files.split("; ") {
                    self.changed(file.to_owned());
                }
            } else if let Some(plan) = line.strip_prefix(PLAN) {
                self.plan = Some(plan.to_owned());
            } else if line == LEFT_OUT {
                self.left_out = true;
            } else if rank(line) < KINDS.len() {
                self.lines.push(line.to_owned());
            }
        }
    }

    /// The file that was changed last stands last.
    fn changed(&mut self, file: String) {
        self.files.retain(|known| *known != file);
        self.files.push(file);
    }

    fn done(&mut self, call: &ToolRequest, result: &ToolResult) {
        let told = result.content.iter().map(text_of).collect::<Vec<_>>().join(" ");
        let used = format!("{} {}", call.name, cut(&call.arguments, 160));
        if result.is_error {
            let kind = if told.starts_with("The user rejected") || told.starts_with("Not allowed") { 2 } else { 4 };
            self.add(kind, &format!("{used}: {}", cut(&told, 300)));
            return;
        }
        let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        match call.name.as_str() {
            "ask" => {
                let question = input["question"].as_str().unwrap_or_default();
                self.add(1, &format!("{} (you asked: {})", cut(&told, 300), cut(question, 200)));
            }
            "todo" => self.plan = Some(plan(&input)),
            name => {
                let files = tools::changes(name, &input);
                if files.is_empty() {
                    self.add(5, &used);
                }
                for file in files {
                    self.changed(cut(&file, 300));
                }
            }
        }
    }

    fn written(mut self) -> String {
        while self.files.iter().map(|file| file.len() + 2).sum::<usize>() > MAX_LIST_BYTES {
            self.files.remove(0);
            self.left_out = true;
        }
        let fixed =
            HEAD.len() + LEFT_OUT.len() + MAX_LIST_BYTES + FILES.len() + self.plan.as_ref().map_or(0, String::len);
        let mut size: usize = fixed + self.lines.iter().map(|line| line.len() + 1).sum::<usize>();
        // The first request stays: it says what all this is for.
        let mut order: Vec<usize> = (1..self.lines.len()).collect();
        order.sort_by_key(|&at| (Reverse(rank(&self.lines[at])), at));
        for at in order {
            if size <= MAX_SUMMARY_BYTES {
                break;
            }
            size -= self.lines[at].len() + 1;
            self.lines[at].clear();
            self.left_out = true;
        }
        let mut text = format!("{HEAD}\n");
        if self.left_out {
            let _ = writeln!(text, "{LEFT_OUT}");
        }
        for line in self.lines.iter().filter(|line| !line.is_empty()) {
            text.push_str(line);
            text.push('\n');
        }
        if !self.files.is_empty() {
            let _ = writeln!(text, "{FILES}{}", self.files.join("; "));
        }
        if let Some(plan) = &self.plan {
            let _ = writeln!(text, "{PLAN}{plan}");
        }
        text
    }
}

fn rank(line: &str) -> usize {
    KINDS.iter().position(|kind| line.starts_with(kind)).unwrap_or(KINDS.len())
}

/// The entries of a plan on one line.
fn plan(input: &Value) -> String {
    let entries = input["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let entry = |entry: &Value| {
        let status = entry["status"].as_str().unwrap_or("pending");
        format!("{} ({})", cut(entry["content"].as_str().unwrap_or_default(), 120), cut(status, 20))
    };
    cut(&entries.iter().map(entry).collect::<Vec<_>>().join("; "), 3000)
}

/// A text on one line; of a long one the beginning and the end, where conclusions stand.
fn ends(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let count = line.chars().count();
    if count <= most {
        return line;
    }
    let first: String = line.chars().take(most / 2).collect();
    let last: String = line.chars().skip(count - most / 2).collect();
    format!("{first} … {last}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(name: &str, arguments: &Value, result: &str, is_error: bool) -> [Message; 2] {
        let call = ToolRequest { id: "1".into(), name: name.into(), arguments: arguments.to_string() };
        let result = ToolResult { id: "1".into(), name: name.into(), content: vec![result.into()], is_error };
        [said("", vec![call]), Message::Results(vec![result])]
    }

    fn said(text: &str, calls: Vec<ToolRequest>) -> Message {
        Message::Assistant { text: text.into(), thought: String::new(), calls, kept: None }
    }

    fn user(text: &str) -> Message {
        Message::User(vec![text.into()])
    }

    fn talk() -> Vec<Message> {
        let patch = "--- a/p.txt\n+++ b/p.txt\n@@ -1 +1 @@\n-a\n+b\n--- a/q.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
        let long = format!("Let us see. {} So we use tabs.", "Thinking. ".repeat(200));
        let mut messages = vec![user("Make it blue."), said(&long, Vec::new())];
        for (name, arguments, result, failed) in [
            ("write", json!({"path": "a.txt", "content": "secret of the file"}), "Written: a.txt.", false),
            ("edit", json!({"path": "b.txt", "edits": []}), "Written: b.txt.", false),
            (
                "write",
                json!({"path": "never.txt", "content": ""}),
                "The user rejected this call. The user's reason: not there",
                true,
            ),
            ("patch", json!({"patch": patch}), "Patched", false),
            ("move", json!({"from": "c.txt", "to": "d.txt"}), "Moved", false),
            ("delete", json!({"path": "e.txt"}), "Deleted", false),
            ("ask", json!({"question": "Which blue?"}), "navy", false),
            (
                "todo",
                json!({"entries": [{"content": "paint", "status": "completed"}, {"content": "dry"}]}),
                "shown",
                false,
            ),
            ("run", json!({"command": "make"}), "ok", false),
            ("read", json!({"path": "z.txt"}), "There is no file", true),
        ] {
            messages.extend(step(name, &arguments, result, failed));
        }
        messages.extend((0..KEPT_MESSAGES).map(|at| if at % 2 == 0 { user("on") } else { said("well", Vec::new()) }));
        messages
    }

    const EXPECT: [&str; 8] = [
        "- The user said: Make it blue.",
        "So we use tabs.",
        "Files changed so far: a.txt; b.txt; p.txt; q.txt; c.txt; d.txt; e.txt\n",
        "not there",
        "- The user answered: navy (you asked: Which blue?)",
        "The plan: paint (completed); dry (pending)\n",
        "- You used: run {\"command\":\"make\"}",
        "- It failed: read",
    ];

    #[test]
    fn what_was_decided_and_changed_stays() {
        let (text, kept) = summarize(&talk()).unwrap();
        assert_eq!(kept, KEPT_MESSAGES);
        for expect in EXPECT {
            assert!(text.contains(expect), "{expect}: {text}");
        }
        assert!(!text.contains("never.txt;") && !text.contains("secret of the file"), "{text}");
        assert!(summarize(&talk()[..5]).is_none());
    }

    #[test]
    fn a_second_summary_keeps_the_first() {
        let mut messages = talk();
        for _ in 0..5 {
            let (text, kept) = summarize(&messages).unwrap();
            replace(&mut messages, &text, kept);
            messages.extend(step("write", &json!({"path": "b.txt", "content": ""}), "Written", false));
            messages
                .extend((0..KEPT_MESSAGES).map(|at| if at % 2 == 0 { user("more") } else { said("fine", Vec::new()) }));
        }
        let (text, _) = summarize(&messages).unwrap();
        for expect in EXPECT.iter().filter(|expect| !expect.starts_with("Files")) {
            assert!(text.contains(expect), "{expect}: {text}");
        }
        assert!(text.contains("Files changed so far: a.txt; p.txt; q.txt; c.txt; d.txt; e.txt; b.txt\n"), "{text}");
        assert_eq!(text.matches(HEAD).count(), 1, "{text}");
    }

    #[test]
    fn it_is_never_long_and_keeps_what_matters() {
        let mut messages = talk();
        let tail = messages.split_off(messages.len() - KEPT_MESSAGES);
        for number in 0..3000 {
            messages.push(user(&format!("wish {number}")));
            messages.extend(step("run", &json!({"command": "x".repeat(300)}), "ok", false));
            messages.extend(step(
                "write",
                &json!({"path": format!("{}{number}", "y".repeat(100)), "content": ""}),
                "ok",
                false,
            ));
        }
        messages.extend(tail);
        let (text, _) = summarize(&messages).unwrap();
        assert!(text.len() <= MAX_SUMMARY_BYTES, "{}", text.len());
        assert!(text.contains("Make it blue.") && text.contains("wish 2999\n") && text.contains(LEFT_OUT), "{text}");
        assert!(text.contains("y2999\n") && !text.contains("You used"), "{text}");
    }
}
