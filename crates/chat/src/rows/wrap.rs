//! Lines become rows: broken at words and whole characters, each row with the place in the source where it begins.

use super::Row;
use ratatui::style::Style;
use ratatui::text::Span;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr;

/// A tab goes on to the next multiple of so many columns.
const TAB: usize = 4;
/// A character has at most so many parts; letters under heaps of accents lose some.
const MAX_PARTS: usize = 12;

/// Text of one style, safe to show.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// The text, without line feeds.
    pub text: String,
    /// How it looks.
    pub style: Style,
    /// Where it is in the source.
    pub at: usize,
    /// True if each of its bytes is one of the source; else all of it stands for what is at `at`.
    pub exact: bool,
}

impl Piece {
    /// Text that is in the source as it is.
    pub fn new(text: impl Into<String>, style: Style, at: usize) -> Self {
        Self { text: text.into(), style, at, exact: true }
    }

    /// Text that is ours, at a place.
    pub fn ours(text: impl Into<String>, style: Style, at: usize) -> Self {
        Self { exact: false, ..Self::new(text, style, at) }
    }
}

/// Where a line may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Between words.
    Words,
    /// Anywhere; blanks stay. For code.
    Anywhere,
}

/// One character as it is drawn.
struct Cell<'a> {
    text: &'a str,
    style: Style,
    at: usize,
    width: usize,
    blank: bool,
}

const BLANK: &str = " ";

/// Breaks one line into rows of at most so many columns. The rows hold no gutter yet, and their sources are where they begin.
pub fn wrap(pieces: &[Piece], columns: usize, how: Break, at: usize, rows: &mut Vec<Row>) {
    let columns = columns.max(1);
    let cells = cells(pieces, columns);
    let (mut begin, mut width, mut chance) = (0, 0, None);
    let mut i = 0;
    while i < cells.len() {
        let cell = &cells[i];
        if width + cell.width > columns && i > begin {
            let end = match chance {
                _ if how == Break::Words && cell.blank => i,
                // A word that fits in no row is begun here.
                Some(chance) if chance > begin && fits(&cells[chance..], columns) => chance,
                _ => i,
            };
            rows.push(row(&cells[begin..end], at, how, true));
            begin = end;
            while how == Break::Words && cells.get(begin).is_some_and(|cell| cell.blank) {
                begin += 1;
            }
            (i, width, chance) = (begin, 0, None);
            continue;
        }
        width += cell.width;
        // Wide characters are words of their own.
        if how == Break::Words && (cell.blank || cell.width > 1) {
            chance = Some(i + 1);
        }
        i += 1;
    }
    if begin < cells.len() || cells.is_empty() {
        rows.push(row(&cells[begin..], at, how, false));
    } else if let Some(last) = rows.last_mut() {
        last.soft = false;
    }
}

/// True if the first word of these fits in a row.
fn fits(cells: &[Cell<'_>], columns: usize) -> bool {
    // Wide characters are words of their own.
    let word = cells.iter().take_while(|cell| !cell.blank && cell.width == 1);
    word.take(columns + 1).count() <= columns
}

/// How many columns a text takes.
pub fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// The beginning of a text that fits, with a mark if there is more.
pub fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 0);
    for part in text.graphemes(true) {
        used += part.width();
        if used >= columns {
            break;
        }
        out.push_str(part);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

fn row(cells: &[Cell<'_>], at: usize, how: Break, soft: bool) -> Row {
    let source = cells.first().map_or(at, |cell| cell.at);
    let shown = cells.iter().rposition(|cell| how == Break::Anywhere || !cell.blank).map_or(0, |last| last + 1);
    let mut spans: Vec<Span<'static>> = Vec::new();
    for cell in &cells[..shown] {
        match spans.last_mut() {
            Some(span) if span.style == cell.style => span.content.to_mut().push_str(cell.text),
            _ => spans.push(Span::styled(cell.text.to_owned(), cell.style)),
        }
    }
    Row { spans, source: source..source, soft, gutter: 0 }
}

fn cells(pieces: &[Piece], columns: usize) -> Vec<Cell<'_>> {
    let mut cells = Vec::with_capacity(pieces.iter().map(|piece| piece.text.len()).sum());
    let mut column = 0;
    for Piece { text, style, at, exact } in pieces {
        let mut add = |offset: usize, text, width: usize| {
            cells.push(Cell {
                text,
                style: *style,
                at: at + if *exact { offset } else { 0 },
                width,
                blank: text == BLANK,
            });
            column += width;
            column
        };
        if text.is_ascii() && !text.contains('\t') {
            (0..text.len()).for_each(|i| _ = add(i, &text[i..=i], 1));
            continue;
        }
        let mut now = 0;
        for (offset, part) in text.grapheme_indices(true) {
            if part == "\t" {
                for _ in now % TAB..TAB {
                    now = add(offset, BLANK, 1);
                }
                continue;
            }
            let end = part.char_indices().nth(MAX_PARTS).map_or(part.len(), |(end, _)| end);
            let width = part[..end].width();
            now = match width {
                // Alone it would sit on what stands before it.
                0 => add(offset, "◌", 1),
                _ if width > columns => add(offset, "�", 1),
                _ => add(offset, &part[..end], width),
            };
        }
    }
    cells
}

/// Puts something of ours before each row: the first has its own.
pub fn indent(rows: &mut [Row], first: &Span<'static>, rest: &Span<'static>) {
    for (i, row) in rows.iter_mut().enumerate() {
        let begin = if i == 0 { first } else { rest };
        row.gutter += width(&begin.content) as u16;
        row.spans.insert(0, begin.clone());
    }
}

/// Makes the sources of rows follow each other, from `begin` to `end` without a gap.
pub fn seal(rows: &mut [Row], begin: usize, end: usize) {
    let mut after = end;
    for row in rows.iter_mut().rev() {
        let start = row.source.start.clamp(begin, after);
        row.source = start..after;
        after = start;
    }
    if let Some(first) = rows.first_mut() {
        first.source.start = begin;
    }
}
