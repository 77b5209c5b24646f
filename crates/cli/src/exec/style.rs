//! How things look on standard error: plain, unless it is a terminal that may have colours.

use super::ask::columns;
use super::lines::diff_rows;
use crate::shared::{counted, cut};
use std::io::IsTerminal;
use tieline_client::sanitize;

/// A longer line of a diff is cut where the diff is.
const MAX_LINE_CHARS: usize = 500;

/// Whether both streams go into the same file or pipe, as with `2>&1`.
fn same_file() -> bool {
    let stat = (rustix::fs::fstat(std::io::stdout()), rustix::fs::fstat(std::io::stderr()));
    matches!(stat, (Ok(out), Ok(err)) if (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino))
}

/// What the two streams are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// Standard error is a terminal.
    pub terminal: bool,
    /// Both end up on the same screen, or in the same file.
    pub same_screen: bool,
    colour: bool,
}

impl Style {
    /// What fits the streams and the environment.
    pub fn detect() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let terminal = std::io::stderr().is_terminal();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            terminal: terminal && !dumb,
            same_screen: (terminal && std::io::stdout().is_terminal()) || same_file(),
            colour: !set("NO_COLOR") && (set("CLICOLOR_FORCE") || (terminal && !dumb)),
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        let line = text.trim_end_matches('\n');
        if self.colour && !line.is_empty() {
            format!("\x1b[{code}m{line}\x1b[0m{}", &text[line.len()..])
        } else {
            text.to_owned()
        }
    }

    /// Less important.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Bad news.
    pub fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Something to look at.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// A patch, at most so many lines of it, with every character visible. Names of files are told from the folder that we
    /// work in.
    pub fn diff(self, patch: &str, limit: usize) -> String {
        let here = std::env::current_dir().map(|here| format!(" {}/", here.display())).unwrap_or_default();
        // Only in the head of a file: what changed stands there as it is.
        let mut head = true;
        let short = |line: &str| {
            head = line.starts_with("diff --git ") || (head && !line.starts_with("@@"));
            if head && !here.is_empty() { line.replace(&here, " ") } else { line.to_owned() }
        };
        let safe = sanitize::exact(&patch.split('\n').map(short).collect::<Vec<_>>().join("\n"));
        let mut out = String::new();
        let mut left = 0;
        for (at, line) in safe.lines().enumerate() {
            if at >= limit {
                left += 1;
                continue;
            }
            let code = match line.as_bytes().first() {
                Some(b'+') => "32",
                Some(b'-') => "31",
                _ => "2",
            };
            // What is only told may be cut; what is decided on is not.
            let line = if limit < usize::MAX { cut(line, MAX_LINE_CHARS) } else { line.to_owned() };
            for row in diff_rows("  ", &line, columns()).lines() {
                out.push_str(&self.paint(code, row));
                out.push('\n');
            }
        }
        if left > 0 {
            out.push_str(&self.dim(&format!("  … {}\n", counted(left, "more line"))));
        }
        out
    }
}
