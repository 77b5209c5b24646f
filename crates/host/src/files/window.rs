//! A window of lines on a text.

use super::Version;
use std::fmt::Write as _;

/// Which lines of a text are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// The first line, counted from 1; 0 is the same as 1.
    pub line: usize,
    /// How many lines; `None` is all.
    pub limit: Option<usize>,
    /// Cut each line after so many bytes and say how many are missing; `None` cuts nothing.
    pub max_line: Option<usize>,
}

/// The lines that a window shows.
#[derive(Clone, Debug)]
pub struct Text {
    /// The lines with their own line ends.
    pub text: String,
    /// The number of the first line shown, from 1.
    pub first_line: usize,
    /// How many lines are shown.
    pub lines: usize,
    /// How many lines the file has.
    pub total_lines: usize,
    /// How many of the shown lines were cut.
    pub cut_lines: usize,
    /// Which version of the whole file it is.
    pub version: Version,
}

impl Text {
    /// Whether the file goes on after the last line shown.
    pub fn more(&self) -> bool {
        self.first_line.saturating_add(self.lines) <= self.total_lines
    }
}

impl Window {
    /// The whole text.
    pub const ALL: Self = Self { line: 1, limit: None, max_line: None };

    pub(crate) fn show(&self, text: String, version: Version) -> Text {
        let first_line = self.line.max(1);
        let total_lines = text.split_inclusive('\n').count();
        if first_line == 1 && self.limit.is_none_or(|limit| limit >= total_lines) && self.max_line.is_none() {
            return Text { text, first_line, lines: total_lines, total_lines, cut_lines: 0, version };
        }
        let mut shown = Text { text: String::new(), first_line, lines: 0, total_lines, cut_lines: 0, version };
        for line in text.split_inclusive('\n').skip(first_line - 1).take(self.limit.unwrap_or(usize::MAX)) {
            shown.lines += 1;
            let body = line.strip_suffix('\n').map_or(line, |body| body.strip_suffix('\r').unwrap_or(body));
            match self.max_line {
                Some(max) if body.len() > max => {
                    let kept = body.floor_char_boundary(max);
                    shown.cut_lines += 1;
                    shown.text.push_str(&body[..kept]);
                    _ = write!(shown.text, "… [{} more bytes]", body.len() - kept);
                    shown.text.push_str(&line[body.len()..]);
                }
                _ => shown.text.push_str(line),
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Hash;

    fn show(text: &str, line: usize, limit: Option<usize>, max_line: Option<usize>) -> (String, usize, usize, bool) {
        let version = Version { size: 0, mtime_ns: 0, inode: 0, hash: Hash::of(b"") };
        let shown = Window { line, limit, max_line }.show(text.to_owned(), version);
        let more = shown.more();
        (shown.text, shown.lines, shown.cut_lines, more)
    }

    #[test]
    fn windows() {
        for (text, line, limit, max, expect) in [
            ("a\nb\nc", 1, None, None, ("a\nb\nc", 3, 0, false)),
            ("a\nb\nc\n", 2, Some(1), None, ("b\n", 1, 0, true)),
            ("a\r\nb\r\n", 1, Some(1), None, ("a\r\n", 1, 0, true)),
            ("a\nb\n", 0, Some(9), None, ("a\nb\n", 2, 0, false)),
            ("a\nb\n", 3, None, None, ("", 0, 0, false)),
            ("a\nb\n", usize::MAX, Some(usize::MAX), None, ("", 0, 0, false)),
            ("a\n", 1, Some(0), None, ("", 0, 0, true)),
            ("", 1, None, None, ("", 0, 0, false)),
            ("abcdef\r\nx\n", 1, None, Some(2), ("ab… [4 more bytes]\r\nx\n", 2, 1, false)),
            ("ää\n", 1, None, Some(3), ("ä… [2 more bytes]\n", 1, 1, false)),
            ("ä", 1, None, Some(0), ("… [2 more bytes]", 1, 1, false)),
        ] {
            let got = show(text, line, limit, max);
            assert_eq!((got.0.as_str(), got.1, got.2, got.3), expect, "{text:?} {line} {limit:?} {max:?}");
        }
    }
}
