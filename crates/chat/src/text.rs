//! Text that is safe already, broken to columns without styles; see [`crate::rows::wrap`].

use crate::rows::Row;
pub use crate::rows::wrap::fit;
use crate::rows::wrap::{self, Break, Piece};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// The text in rows of so many columns, broken behind words where that is possible. Never empty.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    wrap::wrap(&[Piece::new(text, Style::new(), 0)], width, Break::Words, 0, &mut rows);
    rows.iter().map(Row::text).collect()
}

/// The same, each row behind a head: the first one has its own.
pub fn behind([first, rest]: [&str; 2], head: Style, text: &str, style: Style, width: usize) -> Vec<Line<'static>> {
    let room = width.saturating_sub(wrap::width(first).max(wrap::width(rest)));
    let heads = std::iter::once(first).chain(std::iter::repeat(rest));
    let row = |(begin, part): (&str, String)| {
        Line::from(vec![Span::styled(begin.to_owned(), head), Span::styled(part, style)])
    };
    heads.zip(self::wrap(text, room)).map(row).collect()
}
