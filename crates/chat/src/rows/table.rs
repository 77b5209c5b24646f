//! Tables that fit: columns as wide as what stands in them, the widest give way; if that is too narrow, one line for each cell.

use super::Row;
use super::look::{QUIET, STRONG};
use super::wrap::{Break, Piece, width, wrap};
use ratatui::text::Span;

/// What stands between two columns.
const BETWEEN: &str = " │ ";
/// A narrower column can't be read.
const MIN_COLUMN: usize = 6;

/// The cells of a table.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<(usize, Vec<Vec<Piece>>)>,
}

impl Table {
    /// A row begins at a place in the source.
    pub fn begin_row(&mut self, at: usize) {
        self.rows.push((at, Vec::new()));
    }

    /// The next cell of the row.
    pub fn cell(&mut self, pieces: Vec<Piece>) {
        if let Some((_, cells)) = self.rows.last_mut() {
            cells.push(pieces);
        }
    }

    /// Lays it out.
    pub fn rows(mut self, room: usize, end: usize) -> Vec<Row> {
        let count = self.rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
        if let Some((_, head)) = self.rows.first_mut() {
            head.iter_mut().flatten().for_each(|piece| piece.style = piece.style.patch(STRONG));
        }
        let between = width(BETWEEN) * count.saturating_sub(1);
        if between + count > room {
            return self.list(room);
        }
        let mut widths = vec![1; count];
        for (_, cells) in &self.rows {
            for (most, cell) in widths.iter_mut().zip(cells) {
                *most = (*most).max(cell.iter().map(|piece| width(&piece.text)).sum::<usize>().min(room));
            }
        }
        let room_for_cells = room.saturating_sub(between);
        while widths.iter().sum::<usize>() > room_for_cells {
            let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > MIN_COLUMN) else {
                return self.list(room);
            };
            *widest -= 1;
        }
        let mut out = Vec::new();
        for (number, (at, cells)) in self.rows.iter().enumerate() {
            let next = self.rows.get(number + 1).map_or(end, |(at, _)| *at);
            let mut columns: Vec<Vec<Row>> = Vec::new();
            for (cell, width) in cells.iter().zip(&widths) {
                let mut rows = Vec::new();
                wrap(cell, *width, Break::Words, *at, &mut rows);
                columns.push(rows);
            }
            for line in 0..columns.iter().map(Vec::len).max().unwrap_or(1) {
                let mut spans = Vec::new();
                for (i, (rows, most)) in columns.iter().zip(&widths).enumerate() {
                    if i > 0 {
                        spans.push(Span::styled(BETWEEN, QUIET));
                    }
                    let cell = rows.get(line).map(|row| row.spans.clone()).unwrap_or_default();
                    let used: usize = cell.iter().map(|span| width(&span.content)).sum();
                    spans.extend(cell);
                    if i + 1 < columns.len() {
                        spans.push(Span::raw(" ".repeat(most.saturating_sub(used))));
                    }
                }
                let start = if line == 0 { *at } else { next };
                let soft = columns.iter().any(|rows| rows.len() > line + 1);
                out.push(Row { spans, source: start..start, soft, gutter: 0 });
            }
            if number == 0 {
                let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join("─┼─");
                out.push(Row { soft: true, ..Row::ours(rule, QUIET, next) });
            }
        }
        out
    }

    /// For narrow screens: each cell has lines of its own.
    fn list(self, room: usize) -> Vec<Row> {
        let mut out = Vec::new();
        for (at, cells) in self.rows {
            for cell in cells {
                let place = cell.first().map_or(at, |piece| piece.at);
                wrap(&cell, room, Break::Words, place, &mut out);
            }
            out.push(Row { soft: true, ..Row::ours("─".repeat(room.min(8)), QUIET, usize::MAX) });
        }
        out
    }
}
