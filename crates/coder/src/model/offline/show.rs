//! Shows results: in fenced blocks, cut where they are long.

use super::words::code;
use crate::model::ToolResult;
use std::fmt::Write as _;
use tieline::ContentBlock;
use tieline::schema::ResourceContents;

const LINES: usize = 200;
const BYTES: usize = 8000;

/// The text of a result; other content is named.
pub fn result_text(result: &ToolResult) -> String {
    let mut out = String::new();
    for block in &result.content {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        match block {
            ContentBlock::Text(text) => out.push_str(&text.text),
            ContentBlock::Image(image) => {
                let _ = write!(out, "[picture, {}]", image.mime_type);
            }
            ContentBlock::Audio(audio) => {
                let _ = write!(out, "[sound, {}]", audio.mime_type);
            }
            ContentBlock::ResourceLink(link) => out.push_str(&link.uri),
            ContentBlock::Resource(resource) => match &resource.resource {
                ResourceContents::Text(text) => out.push_str(&text.text),
                ResourceContents::Blob(blob) => out.push_str(&blob.uri),
            },
            ContentBlock::Other(unknown) => {
                let _ = write!(out, "[{}]", unknown.tag);
            }
        }
    }
    out
}

/// The text of a file without line numbers, if each line has one.
pub fn unnumbered(text: &str) -> String {
    let mut expected = None;
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let bare = line.trim_start();
        let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
        let number = bare.get(..digits).and_then(|digits| digits.parse::<u64>().ok());
        let rest = bare.get(digits..).and_then(|rest| rest.strip_prefix(['\t', '→', '│']));
        match (number, rest) {
            (Some(number), Some(rest)) if expected.is_none_or(|expected| expected == number) => {
                expected = number.checked_add(1);
                out.push_str(rest);
                out.push('\n');
            }
            _ => return text.to_owned(),
        }
    }
    out
}

/// A fenced block that starts with the first lines.
pub fn head(text: &str, language: &str) -> String {
    let mut end = 0;
    for line in text.split_inclusive('\n').take(LINES) {
        if end + line.len() > BYTES {
            end += floor(line, BYTES - end);
            break;
        }
        end += line.len();
    }
    let (shown, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let block = fenced(shown, language);
    match rest.lines().count() {
        0 => block,
        1 => format!("{block}\n\n(Cut: the rest is not shown.)"),
        count => format!("{block}\n\n(Cut: {count} more lines are not shown.)"),
    }
}

/// A fenced block that ends with the last lines.
pub fn tail(text: &str) -> String {
    let text = text.trim_end();
    let mut start = text.len();
    for line in text.split_inclusive('\n').rev().take(LINES) {
        if text.len() - start + line.len() > BYTES {
            break;
        }
        start -= line.len();
    }
    if start == text.len() && !text.is_empty() {
        return head(text, "");
    }
    let (before, shown) = text.split_at_checked(start).unwrap_or(("", text));
    match before.lines().count() {
        0 => fenced(shown, ""),
        count => format!("(Cut: {count} lines before these are not shown.)\n\n{}", fenced(shown, "")),
    }
}

/// Text in a fence that is longer than any in it.
pub fn fenced(text: &str, language: &str) -> String {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat((longest + 1).max(3));
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// Why something did not work, in a paragraph.
pub fn failure(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        "That did not work, and nothing says why.".to_owned()
    } else if text.lines().count() > 1 || text.len() > 300 {
        format!("That did not work:\n\n{}", tail(text))
    } else {
        format!("That did not work: {text}")
    }
}

/// `1 line`, `2 lines`.
pub fn lines(text: &str) -> String {
    match text.lines().count() {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    }
}

/// A sentence about a file with its text below.
pub fn file(verb: &str, name: &str, text: &str) -> String {
    if text.trim().is_empty() {
        return format!("{verb} {}: it is empty.", code(name));
    }
    format!("{verb} {} ({}).\n\n{}", code(name), lines(text), head(text, language(name)))
}

/// The word for a fence that belongs to a file name.
fn language(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, end)| end) {
        "rs" => "rust",
        "py" => "python",
        "js" | "mjs" | "cjs" => "javascript",
        "ts" => "typescript",
        "tsx" => "tsx",
        "go" => "go",
        "c" | "h" => "c",
        "cc" | "cpp" | "hpp" => "cpp",
        "java" => "java",
        "rb" => "ruby",
        "sh" | "bash" => "sh",
        "json" => "json",
        "toml" => "toml",
        "yml" | "yaml" => "yaml",
        "md" => "markdown",
        "html" => "html",
        "css" => "css",
        "sql" => "sql",
        _ => "",
    }
}

fn floor(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

const ERRORS: &[&str] = &[
    "error",
    "fail",
    "panicked",
    "exception",
    "traceback",
    "fatal",
    "undefined",
    "not found",
    "no such",
    "cannot",
    "denied",
    "assertion",
    "mismatch",
];

/// The lines that look like errors, each with the line behind it if that says where.
pub fn errors(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut last_was = false;
    for line in text.lines() {
        let lower = line.to_lowercase();
        let clean = lower.contains("0 failed") || lower.contains("0 errors");
        let is = !clean && ERRORS.iter().any(|word| lower.contains(word));
        let place = last_was && (lower.trim_start().starts_with("-->") || lower.trim_start().starts_with("at "));
        if is || place {
            found.push(line);
        }
        last_was = is;
        if found.len() == 20 {
            break;
        }
    }
    found
}

const DEFINITIONS: &[&str] = &[
    "fn ",
    "struct ",
    "enum ",
    "trait ",
    "impl ",
    "impl<",
    "mod ",
    "macro_rules!",
    "class ",
    "def ",
    "interface ",
    "function ",
    "func ",
    "module ",
    "namespace ",
    "type ",
];
const BEFORE: &[&str] = &[
    "pub ",
    "pub(crate) ",
    "pub(super) ",
    "async ",
    "const ",
    "unsafe ",
    "export ",
    "default ",
    "public ",
    "private ",
    "protected ",
    "static ",
    "abstract ",
    "final ",
    "extern ",
];

/// Headings and definitions with their line numbers.
pub fn outline(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        let sharps = line.bytes().take_while(|byte| *byte == b'#').count();
        let heading = !in_block && (1..=6).contains(&sharps) && line.as_bytes().get(sharps) == Some(&b' ');
        let mut bare = line.trim_start();
        while let Some(rest) = BEFORE.iter().find_map(|word| bare.strip_prefix(word)) {
            bare = rest.trim_start();
        }
        if heading || DEFINITIONS.iter().any(|word| bare.starts_with(word)) {
            let line = line.trim_end().trim_end_matches('{').trim_end();
            let short: String = line.chars().take(120).collect();
            found.push(format!("{:>5}  {short}", number + 1));
        }
    }
    found
}
