//! Terminals of agents: what a command wrote, through an emulator, as rows.

use super::Row;
use super::cell::Body;
use super::look::{QUIET, palette};
use super::wrap::{Break, Piece, seal, wrap};
use ratatui::style::{Modifier, Style};
use serde_json::Value;
use std::collections::HashMap;
use std::num::NonZeroU16;
use tieline::schema::{ToolCallContent, ToolCallItem, Update, from_base64};
use tieline_client::sanitize;
use tieline_host::run::Size;

/// So large are the screens that are emulated: rows and columns.
const SIZE: (NonZeroU16, NonZeroU16) = (NonZeroU16::new(24).unwrap(), NonZeroU16::new(120).unwrap());
/// So many columns of the screen stand beside what a terminal shows.
const BESIDE: u16 = 6;
/// So many rows above the screen are kept.
const SCROLLBACK: usize = 500;
/// A command has at least so many columns, however narrow the screen is.
const MIN_COLUMNS: u16 = 20;
/// So many terminals are kept; those that were written to longest ago are forgotten.
const MAX_TERMINALS: usize = 16;

/// How large the terminal of a command is, on a screen of this size: as it is shown here, so that what it draws fits.
pub fn shown_size(screen: Size) -> Size {
    let columns = screen.columns.saturating_sub(BESIDE).clamp(MIN_COLUMNS, SIZE.1.get());
    Size { columns, rows: SIZE.0.get() }
}

/// The screens of terminals, by their ids.
#[derive(Default)]
pub struct Screens {
    screens: HashMap<String, Screen>,
    changes: u64,
}

struct Screen {
    parser: vt100::Parser,
    /// The number of the last change.
    change: u64,
    /// The last byte was a carriage return.
    returned: bool,
}

impl std::fmt::Debug for Screens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screens").field("count", &self.screens.len()).finish_non_exhaustive()
    }
}

impl Screens {
    /// A terminal was written to.
    pub fn feed(&mut self, id: &str, bytes: &[u8]) {
        self.changes += 1;
        if !self.screens.contains_key(id) && self.screens.len() >= MAX_TERMINALS {
            let oldest = self.screens.iter().min_by_key(|(_, screen)| screen.change).map(|(id, _)| id.clone());
            oldest.and_then(|id| self.screens.remove(&id));
        }
        let screen = self.screens.entry(id.to_owned()).or_insert_with(|| Screen {
            parser: vt100::Parser::new(SIZE.0, SIZE.1, SCROLLBACK),
            change: 0,
            returned: false,
        });
        screen.change = self.changes;
        // A pipe has line feeds alone, where a terminal would begin a new line.
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, end) = line.split_at(line.len() - usize::from(line.ends_with(b"\n")));
            screen.parser.process(text);
            let returned = text.last().map_or(screen.returned, |last| *last == b'\r');
            if !end.is_empty() {
                screen.parser.process(if returned { b"\n" } else { b"\r\n" });
            }
            screen.returned = returned && end.is_empty();
        }
    }

    /// All that a terminal wrote is known anew.
    pub fn set(&mut self, id: &str, bytes: &[u8]) {
        self.screens.remove(id);
        self.feed(id, bytes);
    }

    /// What an update says of terminals that an agent runs itself.
    pub fn update(&mut self, update: &Update) {
        let bytes = |base64: &str| from_base64(base64).unwrap_or_default();
        match update {
            Update::TerminalOutput(chunk) => self.feed(&chunk.terminal_id, &bytes(&chunk.data)),
            Update::Terminal(terminal) => {
                if let Some(output) = terminal.output.set() {
                    self.set(&terminal.terminal_id, &bytes(&output.data));
                }
            }
            Update::ToolCall(call) => {
                // An extension of agents of version 1.
                let meta = call.meta.set().and_then(|meta| serde_json::from_str::<Value>(meta.0.get()).ok());
                for name in ["terminal_output", "terminal_output_delta"] {
                    let output = meta.as_ref().map_or(&Value::Null, |meta| &meta[name]);
                    if let (Some(id), Some(data)) = (output["terminal_id"].as_str(), output["data"].as_str()) {
                        self.feed(id, data.as_bytes());
                    }
                }
            }
            _ => {}
        }
    }

    /// Another number when a terminal of this call shows something else.
    pub(super) fn changes(&self, call: &ToolCallItem) -> u64 {
        let terminals = call.content.iter().filter_map(|content| match content {
            ToolCallContent::Terminal(terminal) => self.screens.get(&terminal.terminal_id),
            _ => None,
        });
        terminals.map(|screen| screen.change).max().unwrap_or(0)
    }

    /// The last rows of a terminal, at most so many.
    pub(super) fn rows(&mut self, id: &str, columns: usize, most: usize) -> Option<Body> {
        let lines = self.screens.get_mut(id)?.lines();
        let mut body = Body::default();
        for pieces in lines {
            let at = body.source.len();
            let mut place = at;
            let mut moved = Vec::with_capacity(pieces.len());
            for (text, style) in pieces {
                moved.push(Piece::new(text.clone(), style, place));
                place += text.len();
                body.source.push_str(&text);
            }
            body.source.push('\n');
            wrap(&moved, columns, Break::Anywhere, at, &mut body.rows);
        }
        seal(&mut body.rows, 0, body.source.len());
        if body.rows.len() > most {
            let more = body.rows.len() - most;
            body.rows.drain(..more);
            let at = body.rows.first().map_or(0, |row| row.source.start);
            body.rows.insert(0, Row::ours(format!("… {more} more"), QUIET, at));
        }
        Some(body)
    }
}

impl Screen {
    /// The lines, those that are broken by the screen only put together again; without the empty ones at the end.
    fn lines(&mut self) -> Vec<Vec<(String, Style)>> {
        let screen = self.parser.screen_mut();
        let (height, width) = (SIZE.0.get(), SIZE.1.get());
        let mut lines: Vec<Vec<(String, Style)>> = Vec::new();
        let mut above = screen.scrollback_len();
        let mut goes_on = false;
        loop {
            screen.set_scrollback(above);
            // Of a page that reaches into the next one only what is above that.
            let rows = if above == 0 { height } else { (above as u16).min(height) };
            for row in 0..rows {
                let line = line(screen, row, width);
                match lines.last_mut().filter(|_| goes_on) {
                    Some(last) => last.extend(line),
                    None => lines.push(line),
                }
                goes_on = screen.row_wrapped(row);
            }
            if above == 0 {
                break;
            }
            above = above.saturating_sub(usize::from(rows));
        }
        while lines.last().is_some_and(|line| line.iter().all(|(text, _)| text.trim().is_empty())) {
            lines.pop();
        }
        lines
    }
}

fn line(screen: &vt100::Screen, row: u16, width: u16) -> Vec<(String, Style)> {
    let mut pieces: Vec<(String, Style)> = Vec::new();
    let end = (0..width).rev().find(|column| screen.cell(row, *column).is_some_and(vt100::Cell::has_contents));
    for column in 0..end.map_or(0, |end| end + 1) {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else { continue };
        let text = if cell.has_contents() { sanitize::line(cell.contents()) } else { " ".to_owned() };
        let style = style(cell);
        match pieces.last_mut() {
            Some((last, before)) if *before == style => last.push_str(&text),
            _ => pieces.push((text, style)),
        }
    }
    pieces
}

/// The sixteen colours of the palette; others are not shown, nor are backgrounds.
fn style(cell: &vt100::Cell) -> Style {
    let mut style = Style::new();
    if let vt100::Color::Idx(number) = cell.fgcolor() {
        style.fg = palette(number);
    }
    let modifiers = [
        (cell.bold(), Modifier::BOLD),
        (cell.dim(), Modifier::DIM),
        (cell.italic(), Modifier::ITALIC),
        (cell.underline(), Modifier::UNDERLINED),
        (cell.inverse(), Modifier::REVERSED),
    ];
    modifiers.into_iter().filter(|(on, _)| *on).fold(style, |style, (_, modifier)| style.add_modifier(modifier))
}
