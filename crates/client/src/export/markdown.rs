//! A session as Markdown. What stands at the margin is ours; words of the user and the agent are quoted, and what tools brought is
//! fenced, so that no text can pose as another entry.

use super::{Brought, Part, brought, changed_text, text_of, title, tool_words, turns, who};
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
        let _ = writeln!(out, "- A part of this session is lost: {}\n", sanitize::line(damage));
    }
    for (turn, parts) in turns(story) {
        if turn.number > 0 {
            let _ = writeln!(out, "## Turn {}\n", turn.number);
        }
        for part in parts {
            match part {
                Part::Prompt { told, text, .. } => quoted(&mut out, who(told), &text),
                Part::Said { thought: true, blocks } => quoted(&mut out, "Agent, thinking", text_of(blocks).trim()),
                Part::Said { thought: false, blocks } => quoted(&mut out, "Agent", text_of(blocks).trim()),
                Part::Tool(call) => {
                    let (name, status) = tool_words(call);
                    let _ = writeln!(out, "**Tool** {} ({status})\n", code(&name));
                    for piece in brought(story, call, true) {
                        match piece {
                            Brought::Text(text) => fenced(&mut out, "", &text),
                            Brought::Diff(text) => fenced(&mut out, "diff", &text),
                        }
                    }
                }
                Part::Note(text) | Part::End(text) => {
                    let _ = writeln!(out, "- {}\n", text.replace('\n', "\n  "));
                }
                Part::Changes(changes) => {
                    out.push_str("Files changed in this turn:\n\n");
                    for changed in changes {
                        let _ = writeln!(out, "- {}", changed_text(changed, &story.entry.cwd));
                    }
                    out.push('\n');
                    for diff in changes.iter().filter_map(|changed| changed.diff.as_ref()) {
                        fenced(&mut out, "diff", &sanitize::exact(diff));
                    }
                }
            }
        }
    }
    out
}

/// Somebody's words.
fn quoted(out: &mut String, who: &str, text: &str) {
    let _ = writeln!(out, "**{who}**\n");
    for line in text.lines() {
        let _ = writeln!(out, "{}", format!("> {line}").trim_end());
    }
    out.push('\n');
}

/// Words in a line of ours.
fn code(text: &str) -> String {
    let fence = "`".repeat(longest_fence(text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

fn longest_fence(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A block of code whose fence is longer than any inside.
fn fenced(out: &mut String, kind: &str, text: &str) {
    let fence = "`".repeat(longest_fence(text).max(2) + 1);
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    let _ = writeln!(out, "{fence}{kind}\n{text}{end}{fence}\n");
}
