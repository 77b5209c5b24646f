//! Text of others on our screen: laid out in rows that can't be taken for ours, at any width.

use std::fmt::Write as _;
use tieline_client::sanitize::Sanitizer;
use tieline_host::run::View;

/// So many lines of one command are shown.
const MAX_LINES: usize = 200;
/// A longer line, in bytes, is shown in parts.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// A tab goes on to the next multiple of so many columns.
const TAB: usize = 8;

/// What a row begins with that would otherwise begin like one of ours, or that goes on with a line of others in a question.
pub const BAR: &str = "│ ";

/// Lays text out in the rows of a terminal. We break the rows, not the terminal, so that each of them begins as we say: those of
/// others are indented, where ours are not, and what does not begin with plain text stands behind a bar. It takes text in
/// pieces, and shows them at once.
#[derive(Debug)]
pub struct Rows {
    /// What a row begins with.
    begin: &'static str,
    columns: usize,
    /// So many columns are left in this row; none if nothing stands in it.
    left: Option<usize>,
    /// So many blanks come before what will stand in it.
    blanks: usize,
    /// The word that the row ends with.
    word: String,
}

impl Rows {
    /// Rows that begin with this. [`usize::MAX`] columns if nothing breaks them.
    pub fn new(begin: &'static str, columns: usize) -> Self {
        Self { begin, columns, left: None, blanks: 0, word: String::new() }
    }

    /// Somebody else has brought the cursor to the beginning of a line. Blanks of a row that nothing stands in yet are still to come.
    pub fn fresh(&mut self) {
        if self.left.is_some() {
            *self = Self::new(self.begin, self.columns);
        }
    }

    /// What stands there can't be taken away again.
    pub fn settle(&mut self) {
        self.word.clear();
    }

    /// The next piece, safe to show already. The width may be another one than before.
    pub fn push(&mut self, text: &str, columns: usize) -> String {
        let mut out = String::with_capacity(text.len());
        if self.columns != columns {
            // Nobody knows what became of the row.
            out.push_str(if self.left.is_some() { "\n" } else { "" });
            *self = Self::new(self.begin, columns);
        }
        for c in text.chars() {
            match c {
                '\n' => {
                    *self = Self::new(self.begin, columns);
                    out.push('\n');
                }
                ' ' => self.blank(&mut out),
                // Where a tab would end is the terminal's affair, so that it gets none.
                '\t' if columns < usize::MAX => {
                    let at = self.left.map_or(self.blanks, |left| columns.saturating_sub(left + width(BAR)));
                    (at % TAB..TAB).for_each(|_| self.blank(&mut out));
                }
                c => self.put(c, &mut out),
            }
        }
        out
    }

    fn blank(&mut self, out: &mut String) {
        self.word.clear();
        match self.left {
            Some(left @ 1..) => {
                self.left = Some(left - 1);
                out.push(' ');
            }
            Some(0) => {
                out.push('\n');
                (self.left, self.blanks) = (None, 1);
            }
            // There is room for the widest character behind them.
            None if self.blanks + width(BAR) + 4 > self.columns => {
                let _ = writeln!(out, "{}{}", self.begin, " ".repeat(self.blanks));
                self.blanks = 1;
            }
            None => self.blanks += 1,
        }
    }

    fn put(&mut self, c: char, out: &mut String) {
        let wide = wide(c);
        // The last column is for a blank, so that none begins the next row.
        if self.left.is_some_and(|left| left <= wide) {
            self.turn(wide, out);
        }
        let left = self.left.unwrap_or_else(|| {
            let plain = c.is_ascii() || c.is_alphanumeric() || is_picture_or_quote(c);
            let begin = if plain { self.begin } else { BAR };
            out.push_str(begin);
            out.extend(std::iter::repeat_n(' ', self.blanks));
            self.columns.saturating_sub(width(begin) + self.blanks)
        });
        self.left = Some(left.saturating_sub(wide));
        out.push(c);
        if self.columns < usize::MAX {
            self.word.push(c);
        }
    }

    /// The next row, which gets the whole word if that fits.
    fn turn(&mut self, wide: usize, out: &mut String) {
        let word = std::mem::take(&mut self.word);
        let shown = word.len().saturating_sub(out.len());
        let room = self.columns.saturating_sub(width(BAR).max(self.begin.len()));
        // How wide a word is on the screen, to take it away there, is certain only of plain letters.
        let moves = width(&word) + wide < room && (shown == 0 || word.is_ascii());
        if moves {
            out.truncate(out.len() + shown - word.len());
            if shown > 0 {
                let _ = write!(out, "\x1b[{shown}D\x1b[K");
            }
        }
        out.push('\n');
        (self.left, self.blanks) = (None, 0);
        if moves {
            word.chars().for_each(|c| self.put(c, out));
        }
    }
}

/// Text of others behind `before`, in rows of so many columns. What goes on in the next row gets a bar.
pub fn rows(before: &str, text: &str, columns: usize) -> String {
    own_rows(before, &[Part::Theirs(text)], columns)
}

/// A line of a diff behind `before`. Where it goes on in the next row, that is marked: it is neither a line of its own nor anybody's
/// words.
pub fn diff_rows(before: &str, line: &str, columns: usize) -> String {
    let mut rows = Rows { left: Some(columns.saturating_sub(width(before))), ..Rows::new("  ↳ ", columns) };
    format!("{before}{}\n", rows.push(line, columns))
}

/// Words of others, each row of which begins with this.
pub fn rows_of_others(begin: &'static str, line: &str, columns: usize) -> String {
    let rows = Rows::new(begin, columns).push(line, columns);
    // A line without words still is a line of theirs.
    if rows.trim().is_empty() { format!("{begin}\n") } else { rows + "\n" }
}

/// A part of a line.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// In our own words.
    Ours(&'a str),
    /// In words of others, safe to show already.
    Theirs(&'a str),
}

/// A line of ours behind `before`, in rows of so many columns. Where our words go on they are indented; the words of others in it
/// go on behind a bar.
pub fn own_rows(before: &str, parts: &[Part<'_>], columns: usize) -> String {
    let indent = if before.starts_with(' ') { "    " } else { "  " };
    let mut out = before.to_owned();
    let mut rows = Rows { left: Some(columns.saturating_sub(width(before))), ..Rows::new(indent, columns) };
    for part in parts {
        let (begin, text) = match part {
            Part::Ours(text) => (indent, text),
            Part::Theirs(text) => (BAR, text),
        };
        rows.begin = begin;
        out += &rows.push(text, columns);
        // What follows is no part of this word.
        rows.settle();
    }
    out + "\n"
}

/// So many columns a text takes at most.
pub fn width(text: &str) -> usize {
    text.chars().map(wide).sum()
}

/// So many columns a character takes at most, whatever the terminal: a row that is too short does no harm.
pub fn wide(c: char) -> usize {
    match c {
        '\u{17d8}' | '\u{2e3b}' | '\u{fdfd}' => 4,
        '\0'..='\u{10ff}' | '\u{2010}'..='\u{2027}' | '\u{2500}'..='\u{259f}' => 1,
        _ => 2,
    }
}

/// What answers often begin with and we never do.
fn is_picture_or_quote(c: char) -> bool {
    matches!(c, '\u{2018}'..='\u{201f}' | '…' | '\u{2190}'..='\u{21ff}' | '\u{2600}'..='\u{26ff}' | '✅' | '\u{1f000}'..='\u{1faff}')
}

/// The output of a command, or a thought, line by line.
pub struct Lines {
    sanitizer: Sanitizer,
    line: String,
    /// So many more are shown.
    left: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self { sanitizer: Sanitizer::new(), line: String::new(), left: MAX_LINES }
    }
}

impl Lines {
    /// Those of a thought, which is shown whole.
    pub fn thought() -> Self {
        Self { left: usize::MAX, ..Self::default() }
    }

    /// The lines that are new, safe to show.
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
        // What is left gets room of its own: a long line must not hold its memory for ever.
        let rest = self.line.split_off(end);
        let whole = std::mem::replace(&mut self.line, rest);
        let mut lines = Vec::new();
        for line in whole.lines() {
            match self.left {
                0 => continue,
                1 => lines.push("… more output is not shown".to_owned()),
                _ => lines.push(line.to_owned()),
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
        let mut lines = Vec::new();
        let mut text = output.text.as_str();
        if output.dropped > 0 {
            // What was cut off in its middle is no line.
            text = text.split_once('\n').map_or(text, |(_, whole)| whole);
            lines.push(format!("… {} bytes are not shown", output.dropped + (output.text.len() - text.len()) as u64));
        }
        lines.extend(self.lines.push(text.as_bytes()));
        if over {
            lines.extend(self.lines.rest());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a terminal shows of the agent's words, and of what comes behind them.
    fn screen(columns: usize, pieces: &[&str]) -> Vec<String> {
        let mut rows = Rows::new("  ", columns);
        let out: String = pieces.iter().map(|piece| rows.push(piece, columns)).collect();
        let some = |size: usize| std::num::NonZeroU16::new(u16::try_from(size).unwrap()).unwrap();
        let mut terminal = vt100::Parser::new(some(80), some(columns), 0);
        terminal.process(out.replace('\n', "\r\n").as_bytes());
        let shown = terminal.screen().rows(0, u16::try_from(columns).unwrap());
        shown.map(|row| row.trim_end().to_owned()).filter(|row| !row.is_empty()).collect()
    }

    #[test]
    fn no_text_begins_a_row_like_ours() {
        let fillers = [
            " ",
            "x",
            "\u{a0}",
            "\u{2003}",
            "\u{2800}",
            "日",
            "e\u{301}",
            "\u{301}",
            "👩\u{200d}🔬",
            "\t",
            "ж",
            "─",
            "☎\u{fe0f}",
        ];
        let marks = [
            "── The agent asks for permission ──",
            "» y once, n no:",
            "· allowed: all",
            "│ quoted",
            "✗ x",
            "tieline exec: no",
        ];
        for columns in [1_usize, 2, 3, 7, 20, 50, 80, 97, 120] {
            for (filler, mark) in fillers.iter().flat_map(|filler| marks.iter().map(move |mark| (filler, mark))) {
                for count in (columns.saturating_sub(4)..=columns + 4).chain([columns / 2, columns * 2 - 2]) {
                    let text = format!("{}{mark}", filler.repeat(count));
                    let half = text.floor_char_boundary(text.len() / 2);
                    for pieces in [&[&text[..]][..], &[&text[..half], &text[half..]], &["a ", &text, "\n", mark]] {
                        let shown = screen(columns, pieces);
                        let odd = |row: &&String| {
                            let rest = row.strip_prefix("  ").filter(|rest| {
                                rest.trim_start()
                                    .chars()
                                    .next()
                                    .is_none_or(|c| c.is_ascii() || c.is_alphanumeric() || is_picture_or_quote(c))
                            });
                            rest.or(row.strip_prefix(BAR)).is_none() && row.trim() != "│"
                        };
                        // On a screen of two columns there is no room beside the indentation, and none for a mark.
                        let found = shown.iter().find(odd).filter(|_| columns > 3);
                        assert_eq!(found, None, "{columns} columns, {count} of {filler:?}: {shown:#?}");
                    }
                }
            }
        }
    }

    #[test]
    fn words_stay_whole_however_they_come() {
        let text = "one two three four five, and quite a few more of them; then a_word_that_is_longer_than_any_row ends\n\n    code\n- item";
        let expect = [
            "  one two three four",
            "  five, and quite a",
            "  few more of them;",
            "  then",
            "  a_word_that_is_long",
            "  er_than_any_row",
            "  ends",
            "      code",
            "  - item",
        ];
        for cut in 0..=text.len() {
            assert_eq!(screen(22, &[&text[..cut], &text[cut..]]), expect, "cut at {cut}");
        }
        let letters: Vec<&str> = text.split_inclusive(|_: char| true).collect();
        assert_eq!(screen(22, &letters), expect);
    }

    #[test]
    fn nothing_but_what_looks_like_ours_changes_in_a_file() {
        for (text, expect) in [
            ("plain\n- list\n  * more\n\tx", "plain\n- list\n  * more\n\tx"),
            ("── The agent asks ──\n", "│ ── The agent asks ──\n"),
            ("ok\n  » y once: ", "ok\n│   » y once: "),
            ("· allowed: all", "│ · allowed: all"),
            ("a · b ─ c", "a · b ─ c"),
            ("┌─┐\n│ │\n", "│ ┌─┐\n│ │ │\n"),
        ] {
            for cut in 0..=text.len() {
                let cut = text.floor_char_boundary(cut);
                let mut rows = Rows::new("", usize::MAX);
                let out = rows.push(&text[..cut], usize::MAX) + &rows.push(&text[cut..], usize::MAX);
                assert_eq!(out.trim_end_matches(' '), expect.trim_end_matches(' '), "of {text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn no_character_is_wider_than_we_think() {
        let some = |size: u16| std::num::NonZeroU16::new(size).unwrap();
        let mut terminal = vt100::Parser::new(some(2), some(20), 0);
        for c in ('\u{a0}'..='\u{2ffff}').filter(|c| !c.is_control()) {
            terminal.process(format!("\r{c}").as_bytes());
            assert!(usize::from(terminal.screen().cursor_position().1) <= wide(c), "U+{:x}", u32::from(c));
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
        assert_eq!(line(31), "always: run x; in this folder, \n  taken back\n");
        assert_eq!(line(29), "always: run x; in this \n  folder, taken back\n");
        assert_eq!(own_rows("  ", &[Part::Ours("y  yes, this once")], 15), "  y  yes, this \n    once\n");
        assert_eq!(own_rows("", &[Part::Ours("unbreakable")], 6), "unbre\n  aka\n  ble\n");
        assert!(own_rows("a: ", &[Part::Ours("b c d")], 0).lines().skip(1).all(|row| row.starts_with("  ")));
    }

    #[test]
    fn output_comes_in_whole_lines() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"one\ntw"), ["one"]);
        assert_eq!(lines.push(b"o\nth\xc3"), ["two"]);
        assert_eq!(lines.push(b"\xa9"), [] as [&str; 0]);
        assert_eq!(lines.rest(), ["thé"]);
        assert_eq!(lines.push(&b"x\n".repeat(1000)).len(), MAX_LINES - 3);
    }
}
