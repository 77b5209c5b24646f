//! How a child process ended, in a form that people can read.

use std::fmt;
use std::process::ExitStatus;
use tieline_json::{Seen, Sequences};

/// People are shown this many lines of standard error, and at most so many bytes.
const MAX_SHOWN_LINES: usize = 8;
const MAX_SHOWN_BYTES: usize = 2000;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "supervisor", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Status {
    /// It exited with this status; zero means all went well.
    Code(i32),
    /// A signal with this number killed it.
    Signal(i32),
    /// It is gone, but nobody could tell us how: its guardian was killed, or somebody else reaped it.
    Unknown,
    /// With what it started it took more memory than it may have ([`crate::Limits`]), and was killed.
    OutOfMemory,
    /// It started more processes than it may, and was killed.
    TooMany,
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
            Self::OutOfMemory => f.write_str("was ended: with what it started it took more memory than it may"),
            Self::TooMany => f.write_str("was ended: it started more processes than it may"),
            Self::Stuck => f.write_str("did not end although it was killed"),
        }
    }
}

/// The name of a signal, for those whose number is the same everywhere; on Linux for all that have one.
pub fn signal_name(number: i32) -> Option<String> {
    const SAME_EVERYWHERE: [i32; 12] = [1, 2, 3, 4, 5, 6, 8, 9, 11, 13, 14, 15];
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    let known = cfg!(target_os = "linux") || SAME_EVERYWHERE.contains(&number);
    let name = usize::try_from(number - 1).ok().and_then(|at| NAMES.get(at));
    name.filter(|_| known).map(|name| format!("SIG{name}"))
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
pub(crate) fn last_lines(text: &str) -> Vec<String> {
    let text = plain(text);
    let mut room = MAX_SHOWN_BYTES;
    let mut lines = Vec::new();
    for line in text.lines().rev().map(str::trim_end).filter(|line| !line.is_empty()).take(MAX_SHOWN_LINES) {
        if line.len() > room {
            // The first line that does not fit is shown as far as it goes, unless that is next to nothing.
            if lines.is_empty() {
                let end = (0..=room).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
                lines.push(format!("{}…", &line[..end]));
            }
            break;
        }
        room -= line.len();
        lines.push(line.to_owned());
    }
    lines.reverse();
    lines
}

/// The text without what a terminal would obey: control characters, escape sequences and what they carry, changes of
/// direction. All of it at once, because a sequence may be cut anywhere.
pub fn plain(text: &str) -> String {
    let mut sequences = Sequences::default();
    let shown = text.chars().filter(|char| sequences.take(*char) == Seen::Text);
    let shown = shown.filter_map(|char| match char {
        '\n' => Some(char),
        '\t' => Some(' '),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => None,
        char => Some(char).filter(|char| !char.is_control()),
    });
    shown.collect()
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
        for (stderr, expect) in [
            ("a\u{1b}]52;c;AA\u{7}b\u{9b}2Jc", "abc"),
            ("a\u{1b}]0;title\u{1b}\\b", "ab"),
            ("a\u{9d}8;;http://x\u{9c}link\u{1b}]8;;\u{7}b", "alinkb"),
            // A line end ends what has none, and of other kinds.
            ("a\u{1b}]52;c;AA\nAA\nAA\u{7}b", "a\nAA\nAAb"),
            ("a\u{1b}Pq#0\u{1b}\\b\u{1b}_x\u{1b}\\c\u{1b}^x\u{9c}d\u{90}x\u{9c}e", "abcde"),
            // Cut off: nothing of it is shown, but what follows is.
            ("a\u{1b}]52;c;AAAA\nb", "a\nb"),
            ("a\u{1b}]52;c;AA\u{1b}[31mb\n", "ab"),
            ("a\u{1b}(B\u{1b}7b\u{1b}", "ab"),
            ("a\u{1b}[31\nb", "a\nb"),
            ("é\u{1b}é\u{9b}é", "ééé"),
        ] {
            check(Status::Code(1), stderr, &format!("exited with status 1; last lines of stderr: {expect}"));
        }
    }

    #[test]
    fn only_the_end_is_shown() {
        let many = (0..100).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let shown = ExitReason { status: Status::Code(1), stderr: many }.to_string();
        assert!(shown.ends_with("line 98\nline 99") && !shown.contains("line 91\n"), "{shown}");
        let long = ExitReason { status: Status::Code(1), stderr: "é".repeat(5000) }.to_string();
        assert!(long.len() < MAX_SHOWN_BYTES + 100 && long.ends_with('…'), "{}", long.len());
    }
}
