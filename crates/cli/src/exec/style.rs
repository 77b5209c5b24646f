//! How things look on standard error: plain, unless it is a terminal that may have colours.

use super::ask::columns;
use super::lines::rows;
use std::io::IsTerminal;
use tieline_client::sanitize;

/// What the two streams are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// Standard error is a terminal.
    pub terminal: bool,
    /// Standard output is one, too: both end up on the same screen.
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
            same_screen: terminal && std::io::stdout().is_terminal(),
            colour: !set("NO_COLOR") && (set("CLICOLOR_FORCE") || (terminal && !dumb)),
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
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

    /// A patch, at most so many lines of it, with every character visible.
    pub fn diff(self, patch: &str, limit: usize) -> String {
        let safe = sanitize::exact(patch);
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
            let width = if self.terminal { columns() } else { usize::MAX };
            for row in rows("  ", line, width).lines() {
                out.push_str(&self.paint(code, row));
                out.push('\n');
            }
        }
        if left > 0 {
            out.push_str(&self.dim(&format!("  … {left} more lines\n")));
        }
        out
    }
}
