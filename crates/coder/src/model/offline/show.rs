//! Shows results: in fenced blocks, cut where they are long.

use crate::model::ToolResult;
use crate::permission::FINAL;
use crate::text::code;
use crate::tools::printed_lines;
use tieline::ContentBlock;
use tieline_host::text::counted;

/// As many lines of a result as are shown,
const MAX_LINES: usize = 200;
/// and as many bytes.
const MAX_BYTES: usize = 8000;
/// The end of a `read` that is not the whole file, and what stands for an empty one.
const REMARKS: [&str; 2] = ["(lines ", "(the file "];

/// The text of a result, without what is only for models; other content is named.
pub fn result_text(result: &ToolResult) -> String {
    let text = |block: &ContentBlock| match block.as_text() {
        Some(text) => text.to_owned(),
        None => format!("[{}]", block.tag()),
    };
    let text = result.content.iter().map(text).collect::<Vec<_>>().join("\n");
    text.strip_suffix(FINAL).map_or_else(|| text.clone(), |why| why.trim_end().to_owned())
}

/// The text of a file without the numbers of its lines; and whether it is all of it.
pub fn unnumbered(text: &str) -> (String, bool) {
    let (mut out, mut whole) = (String::with_capacity(text.len()), true);
    for line in text.lines() {
        let numbered = line.trim_start().split_once("  ").filter(|(number, _)| number.parse::<u64>().is_ok());
        match numbered {
            Some((_, rest)) => {
                out.push_str(rest);
                out.push('\n');
            }
            None if REMARKS.iter().any(|remark| line.starts_with(remark)) => whole &= !line.starts_with(REMARKS[0]),
            None => return (text.to_owned(), false),
        }
    }
    (out, whole)
}

/// A fenced block that starts with the first lines.
pub fn head(text: &str, language: &str) -> String {
    let mut end = 0;
    for line in text.split_inclusive('\n').take(MAX_LINES) {
        if end + line.len() > MAX_BYTES {
            end += line.floor_char_boundary(MAX_BYTES - end);
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
    for line in text.split_inclusive('\n').rev().take(MAX_LINES) {
        if text.len() - start + line.len() > MAX_BYTES {
            break;
        }
        start -= line.len();
    }
    if start == text.len() && !text.is_empty() {
        return head(text, "");
    }
    let (before, shown) = text.split_at_checked(start).unwrap_or(("", text));
    match printed_lines(before) {
        0 => fenced(shown, ""),
        count => format!("(Cut: {count} lines before these are not shown.)\n\n{}", fenced(shown, "")),
    }
}

/// Text in a fence that is longer than any in it.
fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
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

/// How many lines a command printed.
pub fn printed(output: &str) -> String {
    let more = if output.starts_with("[… the beginning is left out …]") { "more than " } else { "" };
    format!("{more}{}", counted(printed_lines(output), "line"))
}

/// How many lines it has.
pub fn lines(text: &str) -> String {
    counted(text.lines().count(), "line")
}

/// A sentence about a file with its text below.
pub fn file(verb: &str, name: &str, text: &str) -> String {
    if text.trim().is_empty() {
        return format!("{verb} {}: it is empty.", code(name));
    }
    format!("{verb} {} ({}).\n\n{}", code(name), lines(text), head(text, language(name)))
}

/// The word for a fence that belongs to a file name.
fn language(name: &str) -> &str {
    match name.rsplit_once('.').map_or("", |(_, end)| end) {
        "rs" => "rust",
        "py" => "python",
        "js" | "mjs" | "cjs" => "javascript",
        "ts" => "typescript",
        "md" => "markdown",
        "yml" => "yaml",
        end @ ("go" | "c" | "h" | "cpp" | "java" | "rb" | "sh" | "json" | "toml" | "yaml" | "html" | "css" | "sql") => {
            end
        }
        _ => "",
    }
}
