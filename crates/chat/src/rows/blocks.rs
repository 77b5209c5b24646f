//! Where the top-level blocks of a Markdown text are, found while it comes: what is found once stays, only the last block is open.

use pulldown_cmark::{Event, Options, Parser};
use std::collections::BTreeMap;

/// A longer block, in bytes, is shown as plain lines: the last block is laid out with every frame while it grows.
pub const MAX_BLOCK_BYTES: usize = 64 << 10;
/// A longer line, in bytes, is shown as it is, in parts.
const MAX_LINE_BYTES: usize = 8 << 10;
/// Plain lines are laid out in parts of so many bytes.
const PART_BYTES: usize = 16 << 10;

/// In a longer message a name that is said later changes nothing before it, and one that is said behind this is none, in bytes.
pub const MAX_NAMED_BYTES: usize = 64 << 10;

/// What is read of Markdown.
pub const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// What names stand for, by their name: `[name]: address`.
pub type Names = BTreeMap<String, String>;

/// How a block is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As Markdown.
    Markdown,
    /// As lines.
    Lines,
    /// As one very long line of words.
    Words,
}

/// One block: its end in the text (it begins where the one before ends), and how it is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The byte behind it.
    pub end: usize,
    /// How it is laid out.
    pub kind: Kind,
}

/// Finds blocks in a text that grows.
#[derive(Debug, Default)]
pub struct Finder {
    /// Everything before this byte is found.
    pub done: usize,
    /// In a block that is shown as plain lines: what ends it.
    plain: Option<End>,
    /// Its first line is still to come.
    fresh: bool,
    /// What names stand for, as far as it is found.
    pub names: Names,
}

#[derive(Debug, Clone)]
enum End {
    /// A line like this, the closing fence.
    Fence(char, usize),
    /// An empty line.
    Empty,
    /// The end of the line.
    Line,
    /// Nothing.
    Never,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Blocks that stay.
    pub stay: Vec<Block>,
    /// Blocks that may change with the next words.
    pub open: Vec<Block>,
    /// Names that these may bring.
    pub names: Names,
}

impl Finder {
    /// For a text that is no Markdown, but lines.
    pub fn of_lines() -> Self {
        Self { plain: Some(End::Never), ..Self::default() }
    }

    /// So many bytes it wants to see: what is too long shows.
    pub fn window(&self) -> usize {
        4 + if self.plain.is_none() { MAX_BLOCK_BYTES } else { PART_BYTES }
    }

    /// Looks at the text from `done` on: at least [`MAX_BLOCK_BYTES`] of it, or all there is (`all`).
    pub fn find(&mut self, text: &str, all: bool) -> Found {
        let mut found = Found::default();
        if let Some(end) = self.plain.clone() {
            self.lines(text, &end, all, &mut found);
            return found;
        }
        if let Some(at) = long_line(text) {
            self.before_long(&text[..at], &mut found);
            return found;
        }
        // The last line may go on and be another thing then.
        let lines = text.rfind('\n').map_or(0, |at| at + 1);
        let (starts, names) = blocks(&text[..lines]);
        if let Some((&last, before)) = starts.split_last().filter(|(last, _)| **last > 0) {
            let ends = before.iter().skip(1).chain([&last]);
            found.stay.extend(ends.map(|end| Block { end: self.done + end, kind: Kind::Markdown }));
            self.learn(names.into_iter().filter(|(.., end)| *end <= last));
            self.done += last;
            if all {
                self.open(&text[last..], &mut found);
            }
        } else if text.len() >= MAX_BLOCK_BYTES {
            self.fresh = true;
            self.plain = Some(fence(text).map_or(End::Empty, |(fence, count)| End::Fence(fence, count)));
        } else {
            self.open(text, &mut found);
        }
        found
    }

    /// A very long line follows: what stands before it stays, and it is shown as it is. In code, so is all behind it.
    fn before_long(&mut self, text: &str, found: &mut Found) {
        let (starts, names) = blocks(text);
        self.learn(names.into_iter());
        let last = starts.last().map_or("", |last| &text[*last..]);
        let open = fence(last).filter(|(fence, count)| !last.lines().skip(1).any(|line| closes(line, *fence, *count)));
        if !text.is_empty() {
            let ends = starts.into_iter().skip(1).chain([text.len()]);
            found.stay.extend(ends.map(|end| Block { end: self.done + end, kind: Kind::Markdown }));
        }
        self.done += text.len();
        self.fresh = false;
        self.plain = Some(open.map_or(End::Line, |(fence, count)| End::Fence(fence, count)));
    }

    fn learn(&mut self, names: impl Iterator<Item = (String, String, usize)>) {
        for (name, to, _) in names.filter(|_| self.done <= MAX_NAMED_BYTES) {
            self.names.entry(name).or_insert(to);
        }
    }

    /// The last block, with a line that is not complete.
    fn open(&self, text: &str, found: &mut Found) {
        if text.is_empty() {
            return;
        }
        let (starts, names) = blocks(text);
        found.names.extend(names.into_iter().map(|(name, to, _)| (name, to)));
        let ends = starts.into_iter().skip(1).chain([text.len()]);
        found.open.extend(ends.map(|end| Block { end: self.done + end, kind: Kind::Markdown }));
    }

    /// Goes on in a block that is shown as lines.
    fn lines(&mut self, text: &str, end: &End, all: bool, found: &mut Found) {
        let part = &text[..text.floor_char_boundary(PART_BYTES)];
        let (mut at, mut over) = (0, false);
        let kind = if matches!(end, End::Line) { Kind::Words } else { Kind::Lines };
        for (number, line) in part.split_inclusive('\n').enumerate() {
            let opens = number == 0 && self.fresh;
            if !line.ends_with('\n') {
                break;
            }
            at += line.len();
            let line = line.trim();
            over = match end {
                End::Fence(fence, count) => !opens && closes(line, *fence, *count),
                End::Empty => line.is_empty(),
                End::Line => true,
                End::Never => false,
            };
            if over {
                break;
            }
        }
        if over || text.len() > part.len() {
            let words = part.rfind(' ').filter(|_| kind == Kind::Words).map_or(part.len(), |at| at + 1);
            self.done += if at == 0 { words } else { at };
            self.fresh = false;
            found.stay.push(Block { end: self.done, kind });
            if over {
                self.plain = None;
            }
        } else if all && !text.is_empty() {
            found.open.push(Block { end: self.done + text.len(), kind });
        }
    }
}

/// Where the first very long line begins.
fn long_line(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.len() > MAX_LINE_BYTES {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// The fence that a block begins with: its character, and how many.
fn fence(block: &str) -> Option<(char, usize)> {
    let first = block.lines().next()?.trim_start();
    let fence = first.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let count = first.chars().take_while(|c| *c == fence).count();
    (count >= 3).then_some((fence, count))
}

/// True if a block begins with a fence that names no language.
pub fn is_bare_fence(block: &str) -> bool {
    fence(block)
        .is_some_and(|(_, count)| block.trim_start().lines().next().is_some_and(|line| line.trim().len() == count))
}

fn closes(line: &str, fence: char, count: usize) -> bool {
    let line = line.trim();
    line.len() >= count && line.chars().all(|c| c == fence)
}

/// Where the blocks of a text begin, each at the beginning of a line, the first at its beginning; and what names stand for, with
/// where that is said.
fn blocks(text: &str) -> (Vec<usize>, Vec<(String, String, usize)>) {
    let parser = Parser::new_ext(text, OPTIONS);
    let (mut depth, mut starts, mut end) = (0_usize, Vec::new(), 0);
    let mut names = Vec::new();
    let line = |at: usize| text[..at].rfind('\n').map_or(0, |at| at + 1);
    // What stands between two blocks and is not empty is one too: what names stand for.
    let between = |end: usize, at: usize| {
        let blank = text.get(end..at)?.find(|c: char| !c.is_whitespace())?;
        Some(line(end + blank))
    };
    for (name, definition) in parser.reference_definitions().iter() {
        names.push((key(name), definition.dest.to_string(), definition.span.end));
    }
    names.sort_by_key(|(.., end)| *end);
    for (event, range) in parser.into_offset_iter() {
        depth -= usize::from(matches!(event, Event::End(_)));
        if depth == 0 && !matches!(event, Event::End(_)) {
            let start = line(range.start);
            starts.extend(between(end, start));
            starts.push(start);
            end = range.end;
        }
        depth += usize::from(matches!(event, Event::Start(_)));
    }
    starts.extend(between(end, text.len()));
    starts.dedup();
    if let Some(first) = starts.first_mut() {
        *first = 0;
    }
    (starts, names)
}

/// How a name is looked for: case and blanks don't matter.
pub fn key(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}
