//! Rows: what is shown of one item of the conversation at one width. Each row knows the bytes it was made from, so that copying and
//! searching never read the screen.

mod blocks;
mod cache;
mod cell;
mod code;
mod diff;
pub mod look;
mod markdown;
mod message;
mod safe;
mod table;
pub mod terminal;
pub mod wrap;

pub use cache::Cache;
pub use code::is_ready as colours_are_ready;
use ratatui::style::Style;
use ratatui::text::Span;
use std::borrow::Cow;
use std::ops::Range;
use std::time::Instant;

/// One row on the screen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// What is drawn; made safe already.
    pub spans: Vec<Span<'static>>,
    /// The bytes of the item's source text that it shows.
    pub source: Range<usize>,
    /// True if the row ends because the screen does, not because the text breaks there.
    pub soft: bool,
    /// So many columns at the beginning are ours (marks, line numbers) and are no part of the text.
    pub gutter: u16,
}

impl Row {
    /// A row of ours that stands at a place of the source.
    fn ours(text: impl Into<Cow<'static, str>>, style: Style, at: usize) -> Self {
        Self { spans: vec![Span::styled(text, style)], source: at..at, ..Self::default() }
    }

    /// Its words, with what is ours.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| &*span.content).collect()
    }
}

/// How much is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Detail {
    /// One line for each thing that is done.
    Brief,
    /// The beginning of what it brought.
    #[default]
    Normal,
    /// Everything.
    Full,
}

/// How something is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// The columns there are.
    pub width: u16,
    /// How much is shown.
    pub detail: Detail,
    /// This item is opened: everything is shown of it, whatever the detail.
    pub open: bool,
    /// Two columns for diffs, if they fit.
    pub side_by_side: bool,
    /// The time, for ages.
    pub now: Instant,
}
