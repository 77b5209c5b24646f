//! A session as Markdown.

use super::{Brought, Part, brought, changed_text, parts, text_of, title};
use crate::journal::Story;
use crate::sanitize;
use std::fmt::Write as _;

pub(super) fn write(story: &Story) -> String {
    let entry = &story.entry;
    let mut out = format!("# {}\n\n", title(story));
    let protocol = entry.protocol.map(|dialect| format!(", protocol {dialect}")).unwrap_or_default();
    let _ = writeln!(
        out,
        "Session `{}` with {}{protocol}, in `{}`, {}\n",
        entry.id,
        sanitize::line(&entry.agent),
        sanitize::line(&entry.cwd),
        entry.created
    );
    if let Some(damage) = &story.damage {
        let _ = writeln!(out, "> A part of this session is lost: {}\n", sanitize::line(damage));
    }
    for turn in story.turns.iter().filter(|turn| turn.number > 0 || !parts(story, turn).is_empty()) {
        if turn.number > 0 {
            let _ = writeln!(out, "## Turn {}\n", turn.number);
        }
        for part in parts(story, turn) {
            match part {
                Part::Prompt(text, _) => quoted(&mut out, &text),
                Part::Said { thought: true, blocks } => {
                    let _ = writeln!(out, "*Thought:* {}\n", text_of(blocks).trim());
                }
                Part::Said { thought: false, blocks } => {
                    let _ = writeln!(out, "{}\n", text_of(blocks).trim());
                }
                Part::Tool(call) => {
                    let name = call.title.as_ref().or(call.name.as_ref()).map_or("a tool", String::as_str);
                    let _ = writeln!(
                        out,
                        "**{}** ({}, {})\n",
                        sanitize::line(name),
                        sanitize::line(&call.kind.to_string()),
                        sanitize::line(&call.status.to_string())
                    );
                    for piece in brought(story, call) {
                        match piece {
                            Brought::Text(text) => fenced(&mut out, "", &text),
                            Brought::Diff(text) => fenced(&mut out, "diff", &text),
                        }
                    }
                }
                Part::Note(text) => {
                    let _ = writeln!(out, "- {}\n", text.replace('\n', "\n  "));
                }
                Part::Changes(changes) => {
                    out.push_str("Files changed in this turn:\n\n");
                    for changed in changes {
                        let _ = writeln!(out, "- {}", changed_text(changed, &story.entry.cwd));
                    }
                    out.push('\n');
                    for diff in changes.iter().filter_map(|changed| changed.diff.as_ref()) {
                        fenced(&mut out, "diff", &sanitize::text(diff));
                    }
                }
                Part::End(text) => {
                    let _ = writeln!(out, "> {}\n", text.replace('\n', "\n> "));
                }
            }
        }
    }
    out
}

fn quoted(out: &mut String, text: &str) {
    for line in text.lines() {
        let _ = writeln!(out, "> {line}");
    }
    out.push('\n');
}

/// A block of code whose fence is longer than any inside.
fn fenced(out: &mut String, kind: &str, text: &str) {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    let _ = writeln!(out, "{fence}{kind}\n{text}{end}{fence}\n");
}
