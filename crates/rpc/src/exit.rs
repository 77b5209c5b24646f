//! How a child process ended, in a form that people can read.

use std::fmt;
use std::process::ExitStatus;

/// People are shown this many lines of standard error, and at most so many bytes.
const LINES: usize = 8;
const BYTES: usize = 2000;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It exited with this status; zero means all went well.
    Code(i32),
    /// A signal with this number killed it.
    Signal(i32),
    /// It is gone, but nobody could tell us how: its guardian was killed, or somebody else reaped it.
    Unknown,
    /// It is still there although it was killed. Only the kernel can hold a process like that.
    Stuck,
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Self {
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
            return Self::Signal(signal);
        }
        status.code().map_or(Self::Unknown, Self::Code)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with status {code}"),
            Self::Signal(number) => match signal_name(*number) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {number}"),
            },
            Self::Unknown => f.write_str("ended, but its status was lost"),
            Self::Stuck => f.write_str("did not end although it was killed"),
        }
    }
}

/// The ones whose number is the same everywhere.
fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return None,
    })
}

/// How a process ended, and what it said last. Shown, it reads "exited with status 3; last lines of stderr: …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitReason {
    /// How it ended.
    pub status: Status,
    /// The end of its standard error, at most 64 KiB, just as it was written.
    pub stderr: String,
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status.fmt(f)?;
        let lines = last_lines(&self.stderr);
        if !lines.is_empty() {
            write!(f, "; last lines of stderr: {}", lines.join("\n"))?;
        }
        Ok(())
    }
}

/// The last lines with something in them, safe for a terminal.
fn last_lines(text: &str) -> Vec<String> {
    let mut room = BYTES;
    let mut lines = Vec::new();
    for line in text.lines().rev().map(plain).filter(|line| !line.is_empty()).take(LINES) {
        if line.len() > room {
            // The first line that does not fit is shown as far as it goes, unless that is next to nothing.
            if lines.is_empty() {
                lines.push(format!("{}…", &line[..line.floor_char_boundary(room)]));
            }
            break;
        }
        room -= line.len();
        lines.push(line);
    }
    lines.reverse();
    lines
}

/// The line without what a terminal would obey: control characters, escape sequences, changes of direction.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            '\t' => out.push(' '),
            '\u{1b}' | '\u{9b}' => {
                // Colours and the like end with a letter.
                if char == '\u{9b}' || chars.clone().next() == Some('[') {
                    chars.by_ref().skip(usize::from(char == '\u{1b}')).find(|char| matches!(char, '@'..='~'));
                }
            }
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            char if char.is_control() => {}
            char => out.push(char),
        }
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: Status, stderr: &str, expect: &str) {
        assert_eq!(ExitReason { status, stderr: stderr.into() }.to_string(), expect);
    }

    #[test]
    fn reasons_read_well() {
        check(Status::Code(3), "", "exited with status 3");
        check(Status::Code(3), "one\n\n  two \r\n", "exited with status 3; last lines of stderr: one\n  two");
        check(Status::Signal(9), "\n", "was killed by SIGKILL");
        check(Status::Signal(64), "x", "was killed by signal 64; last lines of stderr: x");
        check(Status::Unknown, "", "ended, but its status was lost");
    }

    #[test]
    fn a_terminal_has_nothing_to_obey() {
        check(
            Status::Code(1),
            "\u{1b}[31mred\u{1b}[0m \u{202e}x\u{7}",
            "exited with status 1; last lines of stderr: red x",
        );
        check(
            Status::Code(1),
            "a\u{1b}]52;c;AA\u{7}b\u{9b}2Jc",
            "exited with status 1; last lines of stderr: a]52;c;AAbc",
        );
    }

    #[test]
    fn only_the_end_is_shown() {
        let many = (0..100).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let shown = ExitReason { status: Status::Code(1), stderr: many }.to_string();
        assert!(shown.ends_with("line 98\nline 99") && !shown.contains("line 91\n"), "{shown}");
        let long = ExitReason { status: Status::Code(1), stderr: "é".repeat(5000) }.to_string();
        assert!(long.len() < BYTES + 100 && long.ends_with('…'), "{}", long.len());
    }
}
