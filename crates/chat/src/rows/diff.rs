//! Changes of files as rows: one below the other or side by side, with the words that changed; from two texts or from a patch.

use super::Row;
use super::cell::Body;
use super::look::{BAD, GOOD, PLAIN, QUIET, STRONG};
use super::wrap::{Break, Piece, fit, indent, seal, width, wrap};
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff};
use std::fmt::Write as _;
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
/// What stands between two columns.
const BETWEEN: &str = " │ ";
/// Words that changed within a line.
const CHANGED: Modifier = Modifier::BOLD.union(Modifier::UNDERLINED);

/// One line of a diff.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// A file begins: what happened to it.
    File(String),
    /// Lines are left out.
    Gap,
    /// A line that is in both, with its numbers.
    Same(usize, usize, String),
    Old(usize, String),
    New(usize, String),
    /// Something that is said about it.
    Note(String),
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
        lines.extend(diff.changes.iter().filter_map(|change| told(change, diff.patch.is_some())).map(Line::Note));
    }
    let mut page = Page { body: Body::default(), columns, digits: digits(&lines), word_lines: 0 };
    let beside = side_by_side && columns >= 2 * MIN_SIDE + width(BETWEEN);
    let mut at = 0;
    while at < lines.len() && page.body.rows.len() <= most {
        let old = lines[at..].iter().take_while(|line| matches!(line, Line::Old(..))).count();
        let new = lines[at + old..].iter().take_while(|line| matches!(line, Line::New(..))).count();
        if old + new == 0 {
            page.line(&lines[at], beside);
            at += 1;
        } else {
            page.changed(&lines[at..at + old], &lines[at + old..at + old + new], beside, most);
            at += old + new;
        }
    }
    let mut body = page.body;
    if body.rows.len() > most {
        body.rows.truncate(most);
        let left = lines.len() - lines.len().min(most);
        let note = if left > 0 { format!("… about {left} more lines") } else { "… more".to_owned() };
        let end = body.rows.last().map_or(0, |row| row.source.end);
        body.rows.push(Row {
            spans: vec![Span::styled(fit(&note, columns), QUIET)],
            source: end..end,
            ..Row::default()
        });
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
    let what = if texts.old.is_none() { "new file " } else { "" };
    lines.push(Line::File(format!("{what}{}  +{come} -{gone}", sanitize::exact_line(&texts.path))));
    for (number, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if number > 0 {
            lines.push(Line::Gap);
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let value: &str = change.value();
            let text = shown(value.trim_end_matches(['\n', '\r']));
            let (old, new) = (change.old_index().unwrap_or(0) + 1, change.new_index().unwrap_or(0) + 1);
            lines.push(match change.tag() {
                ChangeTag::Equal => Line::Same(old, new, text),
                ChangeTag::Delete => Line::Old(old, text),
                ChangeTag::Insert => Line::New(new, text),
            });
        }
    }
}

/// A patch as git writes it. How long a hunk is stands in its head, so that its lines can't pass for a head.
fn of_patch(patch: &str, lines: &mut Vec<Line>) {
    let (mut old, mut new) = (0, 0);
    let (mut old_left, mut new_left) = (0_usize, 0_usize);
    let mut fresh = true;
    for line in patch.lines() {
        let text = || shown(line.get(1..).unwrap_or_default());
        match line.as_bytes().first() {
            Some(b'-') if old_left > 0 => {
                lines.push(Line::Old(old, text()));
                (old, old_left) = (old + 1, old_left - 1);
            }
            Some(b'+') if new_left > 0 => {
                lines.push(Line::New(new, text()));
                (new, new_left) = (new + 1, new_left - 1);
            }
            Some(b' ') | None if old_left > 0 && new_left > 0 => {
                lines.push(Line::Same(old, new, text()));
                (old, new, old_left, new_left) = (old + 1, new + 1, old_left - 1, new_left - 1);
            }
            Some(b'@') => {
                let Some(head) = hunk(line) else { continue };
                ((old, old_left), (new, new_left)) = head;
                if !std::mem::take(&mut fresh) {
                    lines.push(Line::Gap);
                }
            }
            _ => {
                let name = |prefix: &str| line.strip_prefix(prefix).map(|path| path.split('\t').next().unwrap_or(path));
                if line.starts_with("diff --git ") {
                    fresh = true;
                }
                if let Some(path) = name("+++ ").or_else(|| name("--- ")) {
                    // The second of the two names it, unless the file is gone.
                    if path != "/dev/null" {
                        if line.starts_with("+++ ") && matches!(lines.last(), Some(Line::File(_))) {
                            lines.pop();
                        }
                        lines.push(Line::File(sanitize::exact_line(path)));
                    }
                } else if ["rename ", "copy ", "new file", "deleted file", "Binary "]
                    .iter()
                    .any(|it| line.starts_with(it))
                {
                    lines.push(Line::Note(sanitize::exact_line(line)));
                }
            }
        }
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

/// Every character can be seen: somebody decides on it.
fn shown(line: &str) -> String {
    sanitize::exact(line).replace('\n', "\\u{a}")
}

fn digits(lines: &[Line]) -> usize {
    let number = |line: &Line| match line {
        Line::Same(old, new, _) => *old.max(new),
        Line::Old(number, _) | Line::New(number, _) => *number,
        _ => 0,
    };
    lines.iter().map(number).max().unwrap_or(0).to_string().len()
}

struct Page {
    body: Body,
    columns: usize,
    digits: usize,
    /// Lines whose words were compared.
    word_lines: usize,
}

impl Page {
    fn line(&mut self, line: &Line, beside: bool) {
        match line {
            Line::File(text) => self.ours(text, STRONG),
            Line::Note(text) => self.ours(text, QUIET),
            Line::Gap => self.ours("⋯", QUIET),
            Line::Same(old, new, text) if beside => {
                let pieces = vec![Piece::new(text.as_str(), PLAIN, 0)];
                self.beside(Some((*old, ' ', &pieces)), Some((*new, ' ', &pieces)), text);
            }
            Line::Same(_, number, text) => self.put(*number, ' ', &[Piece::new(text.as_str(), PLAIN, 0)], text),
            Line::Old(..) | Line::New(..) => {}
        }
    }

    /// A line that is about the text and not in it.
    fn ours(&mut self, text: &str, style: Style) {
        let at = self.body.source.len();
        let span = Span::styled(fit(text, self.columns), style);
        let _ = writeln!(self.body.source, "{text}");
        self.body.rows.push(Row { spans: vec![span], source: at..self.body.source.len(), soft: false, gutter: 0 });
    }

    /// Lines that went and lines that came for them.
    fn changed(&mut self, old: &[Line], new: &[Line], beside: bool, most: usize) {
        let pieces = |line: &Line, other: Option<&Line>, compare: bool| match (line, other) {
            (Line::Old(_, text), Some(Line::New(_, other))) if compare => words(text, other, true),
            (Line::New(_, text), Some(Line::Old(_, other))) if compare => words(other, text, false),
            (Line::Old(_, text), _) => vec![Piece::new(text.as_str(), BAD, 0)],
            (Line::New(_, text), _) => vec![Piece::new(text.as_str(), GOOD, 0)],
            _ => Vec::new(),
        };
        let compare = old.len() == new.len() && self.word_lines < MAX_WORD_LINES;
        self.word_lines += if compare { old.len() } else { 0 };
        let of = |line: &Line| match line {
            Line::Old(number, text) | Line::New(number, text) => (*number, text.clone()),
            _ => (0, String::new()),
        };
        if beside {
            for i in 0..old.len().max(new.len()) {
                let (left, right) = (old.get(i), new.get(i));
                let left_pieces = left.map(|line| pieces(line, right, compare)).unwrap_or_default();
                let right_pieces = right.map(|line| pieces(line, left, compare)).unwrap_or_default();
                let text = right.or(left).map(|line| of(line).1).unwrap_or_default();
                self.beside(
                    left.map(|line| (of(line).0, '-', &left_pieces)),
                    right.map(|line| (of(line).0, '+', &right_pieces)),
                    &text,
                );
                if self.body.rows.len() > most {
                    return;
                }
            }
            return;
        }
        for (lines, others, sign) in [(old, new, '-'), (new, old, '+')] {
            for (i, line) in lines.iter().enumerate() {
                let (number, text) = of(line);
                self.put(number, sign, &pieces(line, others.get(i), compare), &text);
                if self.body.rows.len() > most {
                    return;
                }
            }
        }
    }

    fn gutter(&self, number: usize, sign: char) -> (Span<'static>, Span<'static>) {
        // On a narrow screen the text matters more than its numbers.
        let narrow = self.columns < self.digits + 3 + MIN_TEXT;
        let first =
            if narrow { format!("{sign} ") } else { format!("{number:>digits$} {sign} ", digits = self.digits) };
        let style = match sign {
            '+' => GOOD,
            '-' => BAD,
            _ => QUIET,
        };
        let rest = Span::raw(" ".repeat(first.len()));
        (Span::styled(first, style), rest)
    }

    fn put(&mut self, number: usize, sign: char, pieces: &[Piece], text: &str) {
        let (first, rest) = self.gutter(number, sign);
        let mut rows = Vec::new();
        wrap(pieces, self.columns.saturating_sub(width(&first.content)), Break::Anywhere, 0, &mut rows);
        self.add(rows, text, Some((&first, &rest)));
    }

    /// Two lines side by side; what is copied is the new one.
    fn beside(
        &mut self,
        left: Option<(usize, char, &Vec<Piece>)>,
        right: Option<(usize, char, &Vec<Piece>)>,
        text: &str,
    ) {
        let side = (self.columns - width(BETWEEN)) / 2;
        let lay_out = |half: Option<(usize, char, &Vec<Piece>)>| {
            let Some((number, sign, pieces)) = half else { return Vec::new() };
            let (first, rest) = self.gutter(number, sign);
            let mut rows = Vec::new();
            wrap(pieces, side.saturating_sub(width(&first.content)), Break::Anywhere, 0, &mut rows);
            indent(&mut rows, &first, &rest);
            rows
        };
        let (left, right) = (lay_out(left), lay_out(right));
        let rows = (0..left.len().max(right.len())).map(|i| {
            let mut spans = left.get(i).map(|row| row.spans.clone()).unwrap_or_default();
            let used: usize = spans.iter().map(|span| width(&span.content)).sum();
            spans.push(Span::raw(" ".repeat(side.saturating_sub(used))));
            spans.push(Span::styled(BETWEEN, QUIET));
            spans.extend(right.get(i).map(|row| row.spans.clone()).unwrap_or_default());
            let source = if right.is_empty() { left.get(i) } else { right.get(i) };
            let source = source.map_or(text.len(), |row| row.source.start);
            Row { spans, source: source..source, soft: i + 1 < left.len().max(right.len()), gutter: 0 }
        });
        let rows = rows.collect();
        self.add(rows, text, None);
    }

    fn add(&mut self, mut rows: Vec<Row>, text: &str, gutter: Option<(&Span<'static>, &Span<'static>)>) {
        let base = self.body.source.len();
        self.body.source.push_str(text);
        self.body.source.push('\n');
        seal(&mut rows, 0, text.len() + 1);
        if let Some((first, rest)) = gutter {
            indent(&mut rows, first, rest);
        }
        self.body.rows.extend(rows.into_iter().map(|mut row| {
            row.source = base + row.source.start..base + row.source.end;
            row
        }));
    }
}

/// A line with the words that changed in it, if the lines are alike.
fn words(old: &str, new: &str, is_old: bool) -> Vec<Piece> {
    let (text, style) = if is_old { (old, BAD) } else { (new, GOOD) };
    let plain = || vec![Piece::new(text, style, 0)];
    if old.len().max(new.len()) > MAX_WORD_BYTES {
        return plain();
    }
    let diff = TextDiff::configure().diff_unicode_words(old, new);
    if diff.ratio() < 0.4 {
        return plain();
    }
    let (mut pieces, mut at) = (Vec::new(), 0);
    for change in diff.iter_all_changes() {
        let style = match change.tag() {
            ChangeTag::Equal => style,
            ChangeTag::Delete if is_old => style.add_modifier(CHANGED),
            ChangeTag::Insert if !is_old => style.add_modifier(CHANGED),
            _ => continue,
        };
        let value: &str = change.value();
        pieces.push(Piece::new(value, style, at));
        at += value.len();
    }
    pieces
}
