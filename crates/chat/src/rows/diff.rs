//! Changes of files as rows: one below the other or side by side, with the words that changed; from two texts or from a patch.

use super::Row;
use super::cell::{Body, cut};
use super::look::{BAD, GOOD, PLAIN, QUIET, STRONG};
use super::wrap::{Break, Piece, fit, indent, seal, width, wrap};
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff};
use std::time::Duration;
use tieline::schema::{Change, Diff, DiffTexts, Operation};
use tieline_client::sanitize;

/// So many lines are shown around a change.
const AROUND: usize = 3;
/// Comparing two texts takes at most so long; what is left then counts as changed.
const PATIENCE: Duration = Duration::from_millis(30);
/// Words are compared in so many lines of one diff.
const MAX_WORD_LINES: usize = 2_000;
/// Words are compared in lines up to so many bytes.
const MAX_WORD_BYTES: usize = 400;
/// A column of a text beside another one is at least so wide.
const MIN_SIDE: usize = 35;
/// Next to the numbers of lines there are at least so many columns.
const MIN_TEXT: usize = 12;
/// What stands where lines are left out.
const GAP: &str = "⋯";
/// What stands before the name of a file that is new.
const NEW_FILE: &str = "new file ";
/// What stands between two columns.
const BETWEEN: &str = " │ ";
/// Words that changed within a line.
const CHANGED: Modifier = Modifier::BOLD.union(Modifier::UNDERLINED);

/// One line of a diff.
#[derive(Debug)]
struct Line {
    kind: Kind,
    /// Its number in the old text and in the new one, if it is in them.
    numbers: (usize, usize),
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A file begins: what happened to it.
    File,
    /// Something that is said about it, such as that lines are left out.
    Note,
    /// A line that is in both texts.
    Same,
    Old,
    New,
}

impl Kind {
    fn sign(self) -> char {
        match self {
            Self::Old => '-',
            Self::New => '+',
            _ => ' ',
        }
    }

    fn style(self) -> Style {
        match self {
            Self::File => STRONG,
            Self::Note => QUIET,
            Self::Same => PLAIN,
            Self::Old => BAD,
            Self::New => GOOD,
        }
    }
}

impl Line {
    /// A line that is about the text and not in it.
    fn ours(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, numbers: (0, 0), text: text.into() }
    }

    /// Every character can be seen: somebody decides on it.
    fn text(kind: Kind, numbers: (usize, usize), text: &str) -> Self {
        Self { kind, numbers, text: sanitize::exact(text).replace('\n', "\\u{a}") }
    }

    fn number(&self) -> usize {
        if self.kind == Kind::Old { self.numbers.0 } else { self.numbers.1 }
    }

    fn pieces(&self) -> Vec<Piece> {
        vec![Piece::new(self.text.as_str(), self.kind.style(), 0)]
    }
}

/// The rows of a diff; at most so many.
pub fn rows(diff: &Diff, columns: usize, side_by_side: bool, most: usize) -> Body {
    let mut lines = Vec::new();
    match (&diff.texts, &diff.patch) {
        (Some(texts), _) => of_texts(texts, &mut lines),
        (None, Some(patch)) => of_patch(&patch.text, &mut lines),
        (None, None) => {}
    }
    if diff.texts.is_none() {
        let told = diff.changes.iter().filter_map(|change| told(change, diff.patch.is_some()));
        lines.extend(told.map(|text| Line::ours(Kind::Note, text)));
    }
    let number = lines.iter().map(|line| line.numbers.0.max(line.numbers.1)).max().unwrap_or(0);
    let mut page = Page { body: Body::default(), columns, digits: number.to_string().len(), most, word_lines: 0 };
    // A file that is new, or gone, has nothing beside it.
    let both = |kind| lines.iter().any(|line: &Line| line.kind == kind);
    let beside = side_by_side && columns >= 2 * MIN_SIDE + width(BETWEEN) && both(Kind::Old) && both(Kind::New);
    let mut rest = &lines[..];
    while let Some(line) = rest.first().filter(|_| !page.is_full()) {
        let run = |lines: &[Line], kind: Kind| lines.iter().take_while(|line| line.kind == kind).count();
        let (old, behind) = rest.split_at(run(rest, Kind::Old));
        let (new, behind) = behind.split_at(run(behind, Kind::New));
        rest = behind;
        if !old.is_empty() || !new.is_empty() {
            page.changed(old, new, beside);
            continue;
        }
        rest = &rest[1..];
        match line.kind {
            Kind::Same if beside => {
                let (left, right) = line.numbers;
                let half = |number| Some((number, Kind::Same, line.pieces()));
                page.beside(half(left), half(right));
            }
            Kind::Same => page.put(line.number(), line.kind, &line.pieces()),
            kind => page.ours(&line.text, kind.style()),
        }
    }
    let mut body = page.body;
    if body.rows.len() > most {
        let left = lines.len() - lines.len().min(most);
        let more = if left > 0 { format!("… about {left} more lines") } else { "… more".to_owned() };
        cut(&mut body.rows, most, fit(&more, columns));
    }
    body
}

/// What a change is, if no text shows it.
fn told(change: &Change, has_patch: bool) -> Option<String> {
    let Change::File(file) = change else { return Some("a change of a kind that is not known".to_owned()) };
    let path = sanitize::exact_line(&file.path);
    let from = sanitize::exact_line(file.old_path.as_deref().unwrap_or_default());
    Some(match file.operation {
        Operation::Move => format!("moved {from} → {path}"),
        Operation::Copy => format!("copied {from} → {path}"),
        _ if has_patch => return None,
        Operation::Add => format!("new file {path}"),
        Operation::Delete => format!("deleted {path}"),
        _ => format!("changed {path}"),
    })
}

fn of_texts(texts: &DiffTexts, lines: &mut Vec<Line>) {
    let old = texts.old.as_deref().unwrap_or_default();
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(PATIENCE).diff_lines(old, texts.new.as_str());
    let (mut gone, mut come) = (0, 0);
    for op in diff.ops() {
        if !matches!(op, DiffOp::Equal { .. }) {
            gone += op.old_range().len();
            come += op.new_range().len();
        }
    }
    let what = if texts.old.is_none() { NEW_FILE } else { "" };
    let head = format!("{what}{}  +{come} -{gone}", sanitize::exact_line(&texts.path));
    lines.push(Line::ours(Kind::File, head));
    for (number, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if number > 0 {
            lines.push(Line::ours(Kind::Note, GAP));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let value: &str = change.value();
            let kind = match change.tag() {
                ChangeTag::Equal => Kind::Same,
                ChangeTag::Delete => Kind::Old,
                ChangeTag::Insert => Kind::New,
            };
            let number = |index: Option<usize>| index.map_or(0, |index| index + 1);
            let numbers = (number(change.old_index()), number(change.new_index()));
            lines.push(Line::text(kind, numbers, value.trim_end_matches(['\n', '\r'])));
        }
    }
}

/// A patch as git writes it. How long a hunk is stands in its head, so that its lines can't pass for a head.
fn of_patch(patch: &str, lines: &mut Vec<Line>) {
    // The next line of both texts, and how many of them are left in this hunk.
    let ((mut old, mut old_left), (mut new, mut new_left)) = ((0, 0), (0, 0));
    let mut fresh = true;
    for line in patch.lines() {
        let kind = match line.as_bytes().first() {
            Some(b'-') if old_left > 0 => Kind::Old,
            Some(b'+') if new_left > 0 => Kind::New,
            Some(b' ') | None if old_left > 0 && new_left > 0 => Kind::Same,
            Some(b'@') => {
                let Some(head) = hunk(line) else { continue };
                ((old, old_left), (new, new_left)) = head;
                if !std::mem::take(&mut fresh) {
                    lines.push(Line::ours(Kind::Note, GAP));
                }
                continue;
            }
            _ => {
                fresh |= line.starts_with("diff --git ");
                head(line, lines);
                continue;
            }
        };
        let (is_old, is_new) = (kind != Kind::New, kind != Kind::Old);
        let numbers = (if is_old { old } else { 0 }, if is_new { new } else { 0 });
        lines.push(Line::text(kind, numbers, line.get(1..).unwrap_or_default()));
        // A head can name any line.
        (old, old_left) = (old.saturating_add(is_old.into()), old_left - usize::from(is_old));
        (new, new_left) = (new.saturating_add(is_new.into()), new_left - usize::from(is_new));
    }
}

/// What stands between hunks.
fn head(line: &str, lines: &mut Vec<Line>) {
    let name = |prefix: &str| line.strip_prefix(prefix).map(|path| path.split('\t').next().unwrap_or(path));
    // That a file is new is seen by its name; one that can be run is another matter.
    if line.strip_prefix("new file mode ").is_some_and(|mode| mode == "100644") {
        return lines.push(Line::ours(Kind::File, NEW_FILE));
    }
    let said = ["rename ", "copy ", "new file", "deleted file", "Binary "];
    if let Some(path) = name("+++ ").or_else(|| name("--- ")) {
        // The second of the two names it, unless the file is gone.
        if path != "/dev/null" {
            let before = lines.pop_if(|last| last.kind == Kind::File && line.starts_with("+++ "));
            let new = if before.is_some_and(|last| last.text == NEW_FILE) { NEW_FILE } else { "" };
            lines.push(Line::ours(Kind::File, format!("{new}{}", sanitize::exact_line(path))));
        }
    } else if said.iter().any(|begin| line.starts_with(begin)) {
        lines.push(Line::ours(Kind::Note, sanitize::exact_line(line)));
    }
}

/// The places and lengths in the head of a hunk: `@@ -1,2 +3,4 @@`.
fn hunk(line: &str) -> Option<((usize, usize), (usize, usize))> {
    let mut parts = line.strip_prefix("@@ -")?.split(' ');
    let range = |part: &str| {
        let (start, length) = part.split_once(',').unwrap_or((part, "1"));
        Some((start.parse().ok()?, length.parse().ok()?))
    };
    Some((range(parts.next()?)?, range(parts.next()?.strip_prefix('+')?)?))
}

/// One of two lines that stand side by side: its number, what it is, and its words.
type Half = (usize, Kind, Vec<Piece>);

struct Page {
    body: Body,
    columns: usize,
    digits: usize,
    most: usize,
    /// Lines whose words were compared.
    word_lines: usize,
}

impl Page {
    fn is_full(&self) -> bool {
        self.body.rows.len() > self.most
    }

    /// A line that is about the text and not in it.
    fn ours(&mut self, text: &str, style: Style) {
        let row = Row::ours(fit(text, self.columns), style, 0);
        self.add(vec![row], text);
    }

    /// Lines that went and lines that came for them.
    fn changed(&mut self, old: &[Line], new: &[Line], beside: bool) {
        let compare = old.len() == new.len() && self.word_lines < MAX_WORD_LINES;
        self.word_lines += if compare { old.len() } else { 0 };
        let half = |lines: &[Line], others: &[Line], at: usize| -> Option<Half> {
            let line = lines.get(at)?;
            let other = others.get(at).filter(|_| compare);
            Some((line.number(), line.kind, other.map_or_else(|| line.pieces(), |other| words(line, other))))
        };
        if beside {
            for at in 0..old.len().max(new.len()) {
                if self.is_full() {
                    return;
                }
                self.beside(half(old, new, at), half(new, old, at));
            }
            return;
        }
        let begin = self.body.rows.len();
        let room = self.most.saturating_sub(begin);
        // What went leaves rows for what came, up to half of them.
        let share = if new.is_empty() { usize::MAX } else { begin + (room - new.len().min(room / 2)) };
        for (lines, others, end) in [(old, new, share), (new, old, usize::MAX)] {
            for at in 0..lines.len() {
                let (left, more) = (end.saturating_sub(self.body.rows.len()), lines.len() - at);
                if left <= 1 && more > left {
                    self.ours(&format!("{GAP} {more} more"), BAD);
                    break;
                }
                if self.is_full() {
                    return;
                }
                if let Some((number, kind, pieces)) = half(lines, others, at) {
                    self.put(number, kind, &pieces);
                }
            }
        }
    }

    /// The rows of a line behind its number and sign.
    fn lay_out(&self, number: usize, kind: Kind, pieces: &[Piece], columns: usize) -> Vec<Row> {
        // On a narrow screen the text matters more than its numbers.
        let narrow = self.columns < self.digits + 3 + MIN_TEXT;
        let (sign, digits) = (kind.sign(), self.digits);
        let first = if narrow { format!("{sign} ") } else { format!("{number:>digits$} {sign} ") };
        let rest = Span::raw(" ".repeat(first.len()));
        let style = if kind == Kind::Same { QUIET } else { kind.style() };
        let mut rows = Vec::new();
        wrap(pieces, columns.saturating_sub(first.len()), Break::Anywhere, 0, &mut rows);
        indent(&mut rows, &Span::styled(first, style), &rest);
        rows
    }

    fn put(&mut self, number: usize, kind: Kind, pieces: &[Piece]) {
        let rows = self.lay_out(number, kind, pieces, self.columns);
        self.add(rows, &text(pieces));
    }

    /// Two lines side by side; what is copied is the new one.
    fn beside(&mut self, left: Option<Half>, right: Option<Half>) {
        let text = right.as_ref().or(left.as_ref()).map(|(.., pieces)| text(pieces)).unwrap_or_default();
        let side = (self.columns - width(BETWEEN)) / 2;
        let lay_out = |half: Option<Half>| {
            half.map(|(number, kind, pieces)| self.lay_out(number, kind, &pieces, side)).unwrap_or_default()
        };
        let (left, right) = (lay_out(left), lay_out(right));
        let count = left.len().max(right.len());
        let rows = (0..count).map(|i| {
            let mut spans = left.get(i).map(|row| row.spans.clone()).unwrap_or_default();
            let used: usize = spans.iter().map(|span| width(&span.content)).sum();
            spans.push(Span::raw(" ".repeat(side.saturating_sub(used))));
            spans.push(Span::styled(BETWEEN, QUIET));
            spans.extend(right.get(i).map(|row| row.spans.clone()).unwrap_or_default());
            let source = if right.is_empty() { left.get(i) } else { right.get(i) };
            let source = source.map_or(text.len(), |row| row.source.start);
            Row { spans, source: source..source, soft: i + 1 < count, gutter: 0 }
        });
        self.add(rows.collect(), &text);
    }

    fn add(&mut self, mut rows: Vec<Row>, text: &str) {
        seal(&mut rows, 0, text.len() + 1);
        self.body.add(&format!("{text}\n"), rows);
    }
}

fn text(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| piece.text.as_str()).collect()
}

/// A line with the words that changed in it, if it is like the other one.
fn words(line: &Line, other: &Line) -> Vec<Piece> {
    let is_old = line.kind == Kind::Old;
    let (old, new) = if is_old { (line, other) } else { (other, line) };
    if old.text.len().max(new.text.len()) > MAX_WORD_BYTES {
        return line.pieces();
    }
    let diff = TextDiff::configure().diff_unicode_words(old.text.as_str(), new.text.as_str());
    if diff.ratio() < 0.4 {
        return line.pieces();
    }
    let (mut pieces, mut at) = (Vec::new(), 0);
    for change in diff.iter_all_changes() {
        let style = match change.tag() {
            ChangeTag::Equal => line.kind.style(),
            ChangeTag::Delete if is_old => line.kind.style().add_modifier(CHANGED),
            ChangeTag::Insert if !is_old => line.kind.style().add_modifier(CHANGED),
            _ => continue,
        };
        let value: &str = change.value();
        pieces.push(Piece::new(value, style, at));
        at += value.len();
    }
    pieces
}
