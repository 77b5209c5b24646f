//! Fenced blocks: diffs to apply, commands to run, files to write.

use super::action::Action;
use super::files::{announces, introduces};
use super::sentences::core;
use super::split::split;
use super::words::{looks_like_path, words};

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Text between blocks.
    Prose(String),
    /// A fenced block.
    Block {
        /// What stands behind the opening fence.
        info: String,
        /// What is in it, with a line break at its end.
        body: String,
    },
}

/// Splits a prompt into prose and fenced blocks. A block that is not closed goes on to the end.
pub fn segments(prompt: &str) -> Vec<Segment> {
    let mut found = Vec::new();
    let mut prose = String::new();
    let mut lines = prompt.lines();
    while let Some(line) = lines.next() {
        let Some((indent, fence, info)) = opening(line) else {
            prose.push_str(line);
            prose.push('\n');
            continue;
        };
        let mut body = String::new();
        for line in lines.by_ref() {
            let bare = line.trim();
            if bare.len() >= fence.len() && bare.starts_with(fence) && bare.chars().all(|c| fence.starts_with(c)) {
                break;
            }
            let indented = line.bytes().take(indent).take_while(|byte| *byte == b' ').count();
            body.push_str(line.get(indented..).unwrap_or(line));
            body.push('\n');
        }
        if !prose.trim().is_empty() {
            found.push(Segment::Prose(std::mem::take(&mut prose)));
        }
        prose.clear();
        found.push(Segment::Block { info: info.to_owned(), body });
    }
    if !prose.trim().is_empty() {
        found.push(Segment::Prose(prose));
    }
    found
}

/// The body of the block, if the text is exactly one.
pub fn only(text: &str) -> Option<String> {
    let text = text.trim();
    opening(text.lines().next()?)?;
    match segments(text).as_slice() {
        [Segment::Block { body, .. }] => Some(body.clone()),
        _ => None,
    }
}

fn opening(line: &str) -> Option<(usize, &str, &str)> {
    let bare = line.trim_start();
    let sign = bare.chars().next().filter(|c| *c == '`' || *c == '~')?;
    let length = bare.chars().take_while(|c| *c == sign).count();
    let (fence, info) = bare.split_at_checked(length)?;
    // Inline code can look like a fence: ```code```.
    (length >= 3 && !(sign == '`' && info.contains('`'))).then(|| (line.len() - bare.len(), fence, info.trim()))
}

/// What is to be done with a block, and whether the line before it belongs to it.
pub fn action(info: &str, body: &str, before: Option<&str>) -> (Option<Action>, bool) {
    let language = info.split([' ', ',', '{', ':']).next().unwrap_or_default().to_ascii_lowercase();
    let introduced = before.is_some_and(introduces);
    if matches!(language.as_str(), "diff" | "patch" | "udiff") || (info.is_empty() && is_diff(body)) {
        return (Some(Action::Patch { patch: body.to_owned() }), introduced);
    }
    if let Some(path) = path_in(info) {
        return (Some(Action::Write { path, content: body.to_owned() }), introduced);
    }
    if let Some(path) = before.and_then(|line| header_line(line).or_else(|| announces(line))) {
        return (Some(Action::Write { path, content: body.to_owned() }), true);
    }
    let shell = matches!(language.as_str(), "sh" | "bash" | "shell" | "console" | "zsh" | "shell-session" | "terminal");
    let wanted = before.is_some_and(|line| {
        let line = words(line);
        line.first().is_some_and(|word| word.any(&["run", "execute"]))
    });
    if shell || (info.is_empty() && introduced && wanted) {
        let command = script(body);
        return ((!command.is_empty()).then(|| Action::run(command)), introduced);
    }
    (None, false)
}

/// Whether the text before a block says that it should not be carried out.
pub fn forbids(prose: &str) -> bool {
    let no = ["not", "never", "don't", "don’t", "dont", "avoid", "without", "shouldn't", "mustn't", "can't", "cannot"];
    let last = prose.trim_end().lines().next_back().unwrap_or_default();
    words(last).iter().any(|word| word.any(&no))
        || prose.lines().flat_map(split).any(|sentence| match core(&sentence).as_slice() {
            [first, second, ..] if first.is("do") && second.is("not") => true,
            [first, ..] => first.any(&["don't", "don’t", "dont", "never"]),
            [] => false,
        })
}

/// Whether text is a patch.
pub fn is_diff(text: &str) -> bool {
    let text = text.trim_start();
    let mut lines = text.lines();
    let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    first.starts_with("diff --git ")
        || first.starts_with("*** Begin Patch")
        || (first.starts_with("--- ") && second.starts_with("+++ "))
}

/// The path in a header such as `rust src/x.rs`, `rust:src/x.rs`, `path=src/x.rs` or `rust title="src/x.rs"`.
fn path_in(info: &str) -> Option<String> {
    let parts = words(info);
    for (index, part) in parts.iter().enumerate() {
        let text = info.get(part.start..).and_then(|rest| rest.split(char::is_whitespace).next()).unwrap_or_default();
        let text = if part.quoted { part.text.as_str() } else { text };
        if let Some((key, value)) = text.split_once('=') {
            let value = value.trim_matches(['"', '\'', '}']);
            if matches!(key.trim_matches('{'), "path" | "file" | "filename" | "title" | "name") && !value.is_empty() {
                return Some(value.to_owned());
            }
            continue;
        }
        if let Some((language, path)) = text.split_once(':')
            && language.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+#-".contains(&byte))
            && looks_like_path(path)
        {
            return Some(path.to_owned());
        }
        let bare = text.trim_matches(['(', ')', '[', ']', ',']);
        if looks_like_path(bare) && (index > 0 || bare.contains('/') || bare.contains('.')) {
            return Some(bare.to_owned());
        }
    }
    None
}

/// The path in a line that consists of nothing else: `src/x.rs:`, `**src/x.rs**`, `### src/x.rs`, `File: src/x.rs`.
fn header_line(line: &str) -> Option<String> {
    let bare = line.trim().trim_start_matches('#').trim().trim_end_matches(':').trim();
    let marked = bare != line.trim() || bare.starts_with(['*', '`', '_']);
    let bare =
        bare.strip_prefix("File").or_else(|| bare.strip_prefix("file")).map_or(bare, |b| b.trim_start_matches(':'));
    let bare = bare.trim().trim_end_matches(':').trim_matches(['*', '`', '_']).trim_end_matches(':').trim();
    (marked && looks_like_path(bare)).then(|| bare.to_owned())
}

/// The commands of a shell block. With prompts in it, everything else is output.
fn script(body: &str) -> String {
    if !body.lines().any(|line| line.trim_start().starts_with("$ ")) {
        return body.trim().to_owned();
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut goes_on = false;
    for line in body.lines() {
        match line.trim_start().strip_prefix("$ ") {
            Some(command) => kept.push(command),
            None if goes_on => kept.push(line.strip_prefix("> ").unwrap_or(line)),
            None => continue,
        }
        goes_on = line.ends_with('\\');
    }
    kept.join("\n").trim().to_owned()
}
