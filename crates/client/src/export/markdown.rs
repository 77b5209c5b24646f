//! A session as Markdown. What stands at the margin is ours; words of the user and the agent are quoted, and what tools brought is
//! fenced, so that no text can pose as another entry.

use super::{Brought, Part, brought, changed_text, text_of, title, tool_words, turns, who};
use crate::journal::Story;
use crate::sanitize;
use std::fmt::Write as _;

pub(super) fn write(story: &Story) -> String {
    let entry = &story.entry;
    let mut out = format!("# {}\n\n", inert(&title(story)));
    let protocol = entry.protocol.map(|dialect| format!(", protocol {dialect}")).unwrap_or_default();
    let _ = writeln!(
        out,
        "Session `{}` with {}{protocol}, in {}, {}\n",
        entry.id,
        code(&sanitize::line(&entry.agent)),
        code(&sanitize::line(&entry.cwd)),
        entry.created
    );
    if let Some(damage) = &story.damage {
        let _ = writeln!(out, "- A part of this session is lost: {}\n", inert(&sanitize::line(damage)));
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
                    let _ = writeln!(out, "- {}\n", inert(&text).replace('\n', "\n  "));
                }
                Part::Changes(changes) => {
                    out.push_str("Files changed in this turn:\n\n");
                    for changed in changes {
                        let _ = writeln!(out, "- {}", inert(&changed_text(changed, &story.entry.cwd)));
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
    // Code stays as it is, but only where every reader sees the same fences as we do.
    let (mut code, mut certain) = (false, true);
    for line in text.lines() {
        match line.trim_end().strip_prefix("```") {
            Some("") => code = !code,
            Some(kind) if !code && kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) => code = true,
            None if !["```", "~~~"].iter().any(|fence| line.trim_start().starts_with(fence)) => {}
            _ => certain = false,
        }
        let line = if code && certain { line.to_owned() } else { no_pictures(line) };
        let _ = writeln!(out, "{}", format!("> {line}").trim_end());
    }
    out.push('\n');
}

/// Words that are formatted as their author wanted, but load nothing: a picture becomes a link, and a tag is text.
fn no_pictures(text: &str) -> String {
    text.replace("![", "!\\[").replace('<', "&lt;")
}

/// Words at the margin, with all formatting taken from them.
fn inert(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '!' | '|' | '~' | '&') {
            out.push('\\');
        }
        out.push(c);
    }
    out
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
