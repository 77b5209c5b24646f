//! The rows of a message that grows: what is finished is laid out once, only the last block again.

use super::blocks::{Block, Finder, Kind, MAX_NAMED_BYTES, Names, is_bare_fence};
use super::look::QUIET;
use super::markdown::{lines, markdown};
use super::safe::Safe;
use super::wrap::{Break, indent, seal};
use super::{Row, code};
use ratatui::style::Style;
use ratatui::text::Span;
use std::ops::Range;

/// How a message looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Manner {
    /// The columns there are, with the mark.
    pub width: u16,
    /// What stands before each row, and how that looks.
    pub mark: (&'static str, Style),
    /// How its text looks.
    pub style: Style,
    /// True if it is Markdown, not lines.
    pub markdown: bool,
}

/// One block, laid out.
#[derive(Debug)]
struct Part {
    source: Range<usize>,
    kind: Kind,
    /// An empty row sets it off from the one before.
    spaced: bool,
    /// It ends with an empty row.
    ends_empty: bool,
    /// The rows before it.
    before: usize,
    count: usize,
    /// Its rows, if they are kept.
    rows: Option<Vec<Row>>,
    /// There is code in it that could be shown in colours, and is not yet.
    pale: bool,
}

/// A message, laid out.
#[derive(Debug)]
pub struct Message {
    manner: Manner,
    finder: Finder,
    names: Names,
    parts: Vec<Part>,
    /// So many of them stay.
    stay: usize,
    /// So many bytes were looked at.
    seen: usize,
    /// So many rows are kept.
    kept: usize,
    /// So many bytes were laid out, again or for the first time.
    pub work: usize,
}

/// Reads some bytes of a text: whole characters from a byte on, at most so many bytes.
pub trait Read: Fn(usize, usize) -> String {}
impl<F: Fn(usize, usize) -> String> Read for F {}

impl Message {
    /// Nothing is laid out yet.
    pub fn new(manner: Manner) -> Self {
        let finder = if manner.markdown { Finder::default() } else { Finder::of_lines() };
        Self { manner, finder, names: Names::new(), parts: Vec::new(), stay: 0, seen: 0, kept: 0, work: 0 }
    }

    /// Lays out what is new, until there is no room for more bytes; of one that is quite new something in any case. The message has
    /// so many bytes. True if that was all of it.
    pub fn advance(&mut self, read: &impl Read, bytes: usize, room: &mut usize) -> bool {
        if self.seen == bytes {
            return true;
        }
        while *room > 0 || self.parts.is_empty() {
            let (from, work) = (self.finder.done, self.work);
            let text = read(from, self.finder.window());
            let all = from + text.len() >= bytes || text.is_empty();
            let found = self.finder.find(&text, all);
            self.kept -=
                self.parts.drain(self.stay..).filter_map(|part| part.rows).map(|rows| rows.len()).sum::<usize>();
            for block in &found.stay {
                self.add(*block, &text, from);
            }
            self.stay = self.parts.len();
            for block in &found.open {
                self.add(*block, &text, from);
            }
            *room = room.saturating_sub(text.len().max(self.work - work));
            if all && (!found.open.is_empty() || self.finder.done >= bytes || text.is_empty()) {
                self.seen = bytes;
                if bytes <= MAX_NAMED_BYTES {
                    let mut names = self.finder.names.clone();
                    found.names.into_iter().for_each(|(name, to)| _ = names.entry(name).or_insert(to));
                    if names != self.names {
                        self.names = names;
                        self.again(read);
                    }
                }
                return true;
            }
        }
        false
    }

    fn add(&mut self, block: Block, text: &str, from: usize) {
        let start = self.parts.last().map_or(0, |part| part.source.end);
        let source = start..block.end.max(start);
        let before = self.count();
        let shown = text.get(start.saturating_sub(from)..source.end - from).unwrap_or_default();
        // A fence without a name has an empty row already.
        let spaced = self.parts.last().is_some_and(|last| last.kind == Kind::Markdown && !last.ends_empty)
            && !(block.kind == Kind::Markdown && is_bare_fence(shown));
        let (rows, pale) = self.lay_out(shown, start, block.kind, spaced, false);
        self.kept += rows.len();
        // The mark stands in every row.
        let ends_empty = rows.last().is_some_and(|row| row.spans.len() < 2);
        let (kind, count, rows) = (block.kind, rows.len(), Some(rows));
        self.parts.push(Part { source, kind, spaced, ends_empty, before, count, rows, pale });
    }

    /// A name stands for something else now: everything is laid out again.
    fn again(&mut self, read: &impl Read) {
        let mut before = 0;
        for i in 0..self.parts.len() {
            let (rows, pale) = self.lay_out_part(i, read, false);
            self.parts[i].pale = pale;
            (self.parts[i].before, self.parts[i].count) = (before, rows.len());
            before += rows.len();
            self.keep(i, rows);
        }
    }

    fn lay_out(&mut self, text: &str, at: usize, kind: Kind, spaced: bool, coloured: bool) -> (Vec<Row>, bool) {
        let Manner { width, mark: (mark, mark_style), style, markdown: is_markdown } = self.manner;
        self.work += text.len();
        let columns = usize::from(width).saturating_sub(super::wrap::width(mark)).max(1);
        let safe = Safe::new(text);
        let (mut rows, has_code) = match kind {
            Kind::Markdown => markdown(&safe.text, columns, &self.names, style, coloured),
            Kind::Lines if is_markdown => (lines(&safe.text, columns, style, Break::Anywhere), false),
            Kind::Words | Kind::Lines => (lines(&safe.text, columns, style, Break::Words), false),
        };
        if rows.is_empty() {
            rows = lines(safe.text.trim_end(), columns, style.patch(QUIET), Break::Words);
        }
        if spaced || rows.is_empty() {
            rows.insert(0, Row::default());
        }
        seal(&mut rows, 0, safe.text.len());
        for row in &mut rows {
            row.source = at + safe.source(row.source.start)..at + safe.source(row.source.end);
        }
        if let Some(last) = rows.last_mut() {
            last.source.end = at + text.len();
        }
        let mark = Span::styled(mark, mark_style);
        indent(&mut rows, &mark, &mark);
        (rows, has_code)
    }

    fn lay_out_part(&mut self, at: usize, read: &impl Read, coloured: bool) -> (Vec<Row>, bool) {
        let Part { source, kind, spaced, .. } = &self.parts[at];
        let (start, kind, spaced, text) = (source.start, *kind, *spaced, read(source.start, source.len()));
        self.lay_out(&text, start, kind, spaced, coloured)
    }

    fn keep(&mut self, at: usize, rows: Vec<Row>) {
        self.kept += rows.len();
        self.kept -= self.parts[at].rows.replace(rows).map_or(0, |before| before.len());
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.parts.last().map_or(0, |part| part.before + part.count)
    }

    /// How many of them are kept in memory.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Lets the rows go that are not among these.
    pub fn forget(&mut self, but: Range<usize>) {
        for part in &mut self.parts {
            if part.before + part.count <= but.start || part.before >= but.end {
                self.kept -= part.rows.take().map_or(0, |rows| rows.len());
            }
        }
    }

    /// Some rows, by their numbers.
    pub fn rows(&mut self, read: &impl Read, range: Range<usize>) -> Vec<Row> {
        let first = self.parts.partition_point(|part| part.before + part.count <= range.start);
        let mut out = Vec::with_capacity(range.len().min(1000));
        for i in first..self.parts.len() {
            let part = &self.parts[i];
            if part.before >= range.end {
                break;
            }
            let coloured = part.pale && code::is_ready();
            if part.rows.is_none() || coloured {
                let (mut rows, pale) = self.lay_out_part(i, read, coloured);
                // Colours change no row; should they all the same, there are none.
                if rows.len() != self.parts[i].count {
                    (rows, _) = self.lay_out_part(i, read, false);
                }
                self.parts[i].pale = pale && !coloured;
                self.keep(i, rows);
            }
            let part = &self.parts[i];
            let rows = part.rows.as_deref().unwrap_or_default();
            let from = range.start.saturating_sub(part.before).min(rows.len());
            let to = (range.end - part.before).min(rows.len());
            out.extend_from_slice(&rows[from..to.max(from)]);
        }
        out
    }
}
