//! Text of others on our screen: cut into lines, and kept apart from what we say ourselves.

use tieline_client::sanitize::Sanitizer;
use tieline_host::run::View;

/// So many lines of one command are shown.
const MAX_LINES: usize = 200;
/// A longer line, in bytes, is shown in parts.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// What our own lines begin with: headings, questions, notes, failures.
const OURS: [char; 4] = ['─', '»', '·', '✗'];

/// Puts a bar before what would look like the beginning of a line of ours. It takes text in pieces.
#[derive(Debug, Default)]
pub struct Margin {
    /// There was something other than spaces in this line.
    inside: bool,
    /// So many spaces stand before.
    spaces: usize,
}

impl Margin {
    /// The cursor is at the beginning of a line.
    pub fn fresh(&mut self) {
        *self = Self::default();
    }

    /// The next piece, safe to show already.
    pub fn push(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '\n' => self.fresh(),
                ' ' | '\t' => self.spaces += 1,
                _ => {
                    let frame = matches!(c, '\u{2500}'..='\u{257f}');
                    // Spaces can fill a line up, so that what follows stands at the beginning of the next.
                    if (!self.inside && (frame || OURS.contains(&c))) || (self.spaces > 1 && c == '─') {
                        out.push_str("│ ");
                    }
                    (self.inside, self.spaces) = (true, 0);
                }
            }
            out.push(c);
        }
        out
    }
}

/// Text of others behind `before`, in rows of so many columns. What would begin the next row gets a bar, because a line that is
/// filled up with spaces could put its end where our own lines begin.
pub fn rows(before: &str, text: &str, columns: usize) -> String {
    own_rows(before, &[Part::Theirs(text)], columns)
}

/// A part of a line.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// In our own words.
    Ours(&'a str),
    /// In words of others, safe to show already.
    Theirs(&'a str),
}

/// A line of ours behind `before`, in rows of so many columns. It breaks between our words, and what goes on is indented by two
/// blanks; the words of others in it break as in [`rows`], so that the bar stands before them and never before ours.
pub fn own_rows(before: &str, parts: &[Part<'_>], columns: usize) -> String {
    let indent = " ".repeat(2 + before.len() - before.trim_start_matches(' ').len());
    let mut row = Row { out: before.to_owned(), left: columns.saturating_sub(width(before)), columns, indent };
    for part in parts {
        match part {
            Part::Theirs(text) => text.chars().for_each(|c| row.push(c, "│ ")),
            Part::Ours(text) => row.words(text),
        }
    }
    row.out.push('\n');
    row.out
}

/// So many columns a text takes at most.
fn width(text: &str) -> usize {
    text.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum()
}

/// The rows of a line so far.
struct Row {
    out: String,
    /// So many columns are left in the last one.
    left: usize,
    columns: usize,
    /// What our own words go on behind.
    indent: String,
}

impl Row {
    fn turn(&mut self, begin: &str) {
        self.out.push('\n');
        self.out.push_str(begin);
        // A screen that is too narrow for anything gets one character in a row.
        self.left = self.columns.saturating_sub(width(begin)).max(2);
    }

    fn push(&mut self, c: char, begin: &str) {
        let wide = if c.is_ascii() { 1 } else { 2 };
        if self.left < wide {
            self.turn(begin);
        }
        self.left -= wide;
        self.out.push(c);
    }

    fn words(&mut self, text: &str) {
        let indent = self.indent.clone();
        for (at, word) in text.split(' ').enumerate() {
            let gap = usize::from(at > 0);
            if gap > 0 && self.left < gap + width(word) {
                self.turn(&indent);
            } else if gap > 0 {
                self.push(' ', &indent);
            }
            word.chars().for_each(|c| self.push(c, &indent));
        }
    }
}

/// The output of a command, or a thought, line by line.
pub struct Lines {
    sanitizer: Sanitizer,
    line: String,
    /// What each line begins with.
    before: &'static str,
    /// So many more are shown.
    left: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self { sanitizer: Sanitizer::new(), line: String::new(), before: "  ", left: MAX_LINES }
    }
}

impl Lines {
    /// Those of a thought, which is shown whole.
    pub fn thought() -> Self {
        Self { before: "~ ", left: usize::MAX, ..Self::default() }
    }

    /// The lines that are new, indented and safe to show.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.line += &self.sanitizer.push_bytes(bytes);
        let end = if self.line.len() > MAX_LINE_BYTES {
            self.line.len()
        } else {
            self.line.rfind('\n').map_or(0, |at| at + 1)
        };
        self.take(end)
    }

    /// The last line, if it has no end.
    pub fn rest(&mut self) -> Vec<String> {
        self.take(self.line.len())
    }

    fn take(&mut self, end: usize) -> Vec<String> {
        let whole: String = self.line.drain(..end).collect();
        let mut lines = Vec::new();
        for line in whole.lines() {
            match self.left {
                0 => continue,
                1 => lines.push("  … more output is not shown".to_owned()),
                _ => lines.push(format!("{}{line}", self.before)),
            }
            self.left -= 1;
        }
        lines
    }
}

/// A terminal of ours that is shown while it runs.
pub struct Followed {
    /// Its id.
    pub id: String,
    view: View,
    from: u64,
    lines: Lines,
}

impl Followed {
    /// From its beginning.
    pub fn new(id: String, view: View) -> Self {
        Self { id, view, from: 0, lines: Lines::default() }
    }

    /// The lines that are new; the last one also without its end once the command is over.
    pub fn news(&mut self) -> Vec<String> {
        let over = self.view.ended().is_some();
        let output = self.view.output(self.from);
        self.from = output.next;
        let mut lines = self.lines.push(output.text.as_bytes());
        if over {
            lines.extend(self.lines.rest());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_ours_gets_a_bar() {
        for (text, expect) in [
            ("plain\n- list\n  * more\n", "plain\n- list\n  * more\n"),
            ("── The agent asks ──\n", "│ ── The agent asks ──\n"),
            ("ok\n  » y once: ", "ok\n  │ » y once: "),
            ("· allowed: all", "│ · allowed: all"),
            ("a · b ─ c", "a · b ─ c"),
            ("filled up            ── The agent asks", "filled up            │ ── The agent asks"),
            ("┌─┐\n│ │\n", "│ ┌─┐\n│ │ │\n"),
        ] {
            for cut in 0..=text.len() {
                let cut = text.floor_char_boundary(cut);
                let mut margin = Margin::default();
                let out = margin.push(&text[..cut]) + &margin.push(&text[cut..]);
                assert_eq!(out, expect, "of {text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn no_part_of_a_long_line_begins_a_row() {
        let text = format!("true{}would: nothing", " ".repeat(29));
        assert_eq!(rows("would: ", &text, 40), format!("would: true{}\n│ would: nothing\n", " ".repeat(29)));
        assert_eq!(rows("│ ", "short", 40), "│ short\n");
        assert_eq!(rows("│ ", "日本", 6), "│ 日\n│ 本\n");
        assert!(rows("would: ", &"x".repeat(9), 0).lines().skip(1).all(|row| row.starts_with("│ ")));
    }

    #[test]
    fn our_words_stay_whole_and_get_no_bar() {
        let line = |columns| {
            own_rows("always: ", &[Part::Theirs("run x"), Part::Ours("; in this folder, taken back")], columns)
        };
        assert_eq!(line(80), "always: run x; in this folder, taken back\n");
        assert_eq!(line(30), "always: run x; in this folder,\n  taken back\n");
        assert_eq!(line(29), "always: run x; in this\n  folder, taken back\n");
        assert_eq!(line(12), "always: run \n│ x; in\n  this\n  folder,\n  taken back\n");
        assert_eq!(own_rows("  ", &[Part::Ours("y  yes, this once")], 14), "  y  yes, this\n    once\n");
        assert_eq!(own_rows("", &[Part::Ours("unbreakable")], 6), "unbrea\n  kabl\n  e\n");
        assert!(own_rows("a: ", &[Part::Ours("b c d")], 0).lines().skip(1).all(|row| row.starts_with("  ")));
    }

    #[test]
    fn output_comes_in_whole_lines() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"one\ntw"), ["  one"]);
        assert_eq!(lines.push(b"o\nth\xc3"), ["  two"]);
        assert_eq!(lines.push(b"\xa9"), [] as [&str; 0]);
        assert_eq!(lines.rest(), ["  thé"]);
        assert_eq!(lines.push(&b"x\n".repeat(1000)).len(), MAX_LINES - 3);
    }
}
