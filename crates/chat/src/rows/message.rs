//! The rows of a message that grows: what is finished is laid out once, only the last block again.

use super::blocks::{Block, Finder, Kind, MAX_NAMED_BYTES, Names, is_bare_fence};
use super::look::QUIET;
use super::markdown::{lines, markdown};
use super::safe::Safe;
use super::wrap::{Break, indent, seal};
use super::{Row, code};
use ratatui::style::Style;
use ratatui::text::Span;
use std::collections::BTreeMap;
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

/// One block, laid out. A huge message has very many of them.
#[derive(Debug)]
struct Part {
    /// The byte behind it; it begins where the one before ends.
    end: usize,
    /// The rows before it. It has one at least.
    before: usize,
    kind: Kind,
    /// An empty row sets it off from the one before.
    spaced: bool,
    /// It ends with an empty row.
    ends_empty: bool,
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
    /// So many rows there are.
    count: usize,
    /// The rows that are kept, by their part, and how many these are.
    rows: BTreeMap<usize, Vec<Row>>,
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
        let (names, parts, rows) = (Names::new(), Vec::new(), BTreeMap::new());
        Self { manner, finder, names, parts, stay: 0, seen: 0, count: 0, rows, kept: 0, work: 0 }
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
            self.kept -= self.rows.split_off(&self.stay).values().map(Vec::len).sum::<usize>();
            self.count = self.parts.get(self.stay).map_or(self.count, |part| part.before);
            self.parts.truncate(self.stay);
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
        let last = self.parts.last();
        let start = last.map_or(0, |part| part.end);
        let (end, kind) = (block.end.max(start), block.kind);
        let shown = text.get(start.saturating_sub(from)..end - from).unwrap_or_default();
        // A fence without a name has an empty row already.
        let spaced = last.is_some_and(|last| last.kind == Kind::Markdown && !last.ends_empty)
            && !(kind == Kind::Markdown && is_bare_fence(shown));
        let (rows, pale) = self.lay_out(shown, start, kind, spaced, false);
        // The mark stands in every row.
        let ends_empty = rows.last().is_some_and(|row| row.spans.len() < 2);
        self.parts.push(Part { end, before: self.count, kind, spaced, ends_empty, pale });
        self.count += rows.len();
        self.keep(self.parts.len() - 1, rows);
    }

    /// A name stands for something else now: everything is laid out again.
    fn again(&mut self, read: &impl Read) {
        self.count = 0;
        for i in 0..self.parts.len() {
            let (rows, pale) = self.lay_out_part(i, read, false);
            (self.parts[i].pale, self.parts[i].before) = (pale, self.count);
            self.count += rows.len();
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
        let start = at.checked_sub(1).map_or(0, |before| self.parts[before].end);
        let Part { end, kind, spaced, .. } = self.parts[at];
        self.lay_out(&read(start, end - start), start, kind, spaced, coloured)
    }

    fn keep(&mut self, at: usize, rows: Vec<Row>) {
        self.kept += rows.len();
        self.kept -= self.rows.insert(at, rows).map_or(0, |before| before.len());
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of them are kept in memory.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// The parts that have some of these rows.
    fn with(&self, rows: &Range<usize>) -> Range<usize> {
        let first = self.parts.partition_point(|part| part.before <= rows.start).saturating_sub(1);
        first..self.parts.partition_point(|part| part.before < rows.end).max(first)
    }

    /// Lets the rows go that are not among these.
    pub fn forget(&mut self, but: &Range<usize>) {
        let parts = self.with(but);
        self.rows.retain(|at, _| parts.contains(at));
        self.kept = self.rows.values().map(Vec::len).sum();
    }

    /// Some rows, by their numbers.
    pub fn rows(&mut self, read: &impl Read, range: &Range<usize>) -> Vec<Row> {
        let mut out = Vec::with_capacity(range.len().min(1000));
        for i in self.with(range) {
            let before = self.parts[i].before;
            let count = self.parts.get(i + 1).map_or(self.count, |next| next.before) - before;
            let coloured = self.parts[i].pale && code::is_ready();
            if coloured || !self.rows.contains_key(&i) {
                let (mut rows, pale) = self.lay_out_part(i, read, coloured);
                // Colours change no row; should they all the same, there are none.
                if rows.len() != count {
                    (rows, _) = self.lay_out_part(i, read, false);
                }
                self.parts[i].pale = pale && !coloured;
                self.keep(i, rows);
            }
            let rows = self.rows.get(&i).map(Vec::as_slice).unwrap_or_default();
            let from = range.start.saturating_sub(before).min(rows.len());
            let to = range.end.saturating_sub(before).min(rows.len());
            out.extend_from_slice(&rows[from..to.max(from)]);
        }
        out
    }
}
