//! Text that is safe already, broken to columns without styles; see [`crate::rows::wrap`].

pub use crate::rows::wrap::fit;
use crate::rows::wrap::{self, Break, Piece};
use ratatui::style::Style;

/// The text in rows of so many columns, broken behind words where that is possible. Never empty.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    wrap::wrap(&[Piece::new(text, Style::new(), 0)], width, Break::Words, 0, &mut rows);
    rows.into_iter().map(|row| row.spans.iter().map(|span| &*span.content).collect()).collect()
}
