//! What is selected with the mouse: from one place in the conversation to another, copied as it was said and not as it is drawn.

use super::{Entry, List, Page, item};
use crate::rows::{Cache, Row};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use tieline_client::live::Conversation;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// A mark that is not shown is at most so long, in characters.
const MAX_MARK: usize = 64;

/// A place: the entry, its row, the column.
pub type Spot = (usize, usize, u16);

impl List {
    /// What stands at a place of the screen, as it was drawn last; below the end it is the end.
    fn spot(&self, at: Position) -> Option<Spot> {
        let row = usize::from(at.y.saturating_sub(self.area.y)).min(self.shown.len().checked_sub(1)?);
        let (entry, row) = self.shown[row];
        Some((entry, row, at.x.saturating_sub(self.area.x + 1)))
    }

    /// The button goes down: what was selected is not any more.
    pub fn press(&mut self, at: Position) {
        self.selected = self.spot(at).filter(|_| self.area.contains(at)).map(|spot| (spot, spot));
    }

    /// The mouse moves with it. At the edges more comes into view.
    pub fn drag(&mut self, at: Position) {
        if self.selected.is_none() {
            return;
        }
        if at.y <= self.area.y {
            self.scroll(-1);
        } else if at.y + 1 >= self.area.bottom() {
            self.scroll(1);
        }
        self.selected = self.selected.map(|(from, to)| (from, self.spot(at).unwrap_or(to)));
    }

    /// The button goes up. Gives what is selected, as it was said.
    pub fn release(&mut self, talk: &Conversation, cache: &mut Cache) -> Option<String> {
        self.selected.take_if(|(from, to)| from == to);
        self.selection(talk, cache)
    }

    fn ends(&self) -> Option<(Spot, Spot)> {
        self.selected.map(|(from, to)| (from.min(to), from.max(to)))
    }

    /// Marks what is selected of a row on the screen.
    pub(super) fn mark(&self, (entry, row): (usize, usize), gutter: u16, line: Rect, buffer: &mut Buffer) {
        let Some((from, to)) = self.ends().filter(|(from, to)| from != to) else { return };
        if (entry, row) < (from.0, from.1) || (entry, row) > (to.0, to.1) {
            return;
        }
        let begin = if (entry, row) == (from.0, from.1) { from.2.max(gutter) } else { gutter };
        let end = if (entry, row) == (to.0, to.1) { to.2 + 1 } else { line.width };
        for x in (line.x + begin)..(line.x + end.min(line.width)) {
            buffer[(x, line.y)].modifier.insert(Modifier::REVERSED);
        }
    }

    fn selection(&self, talk: &Conversation, cache: &mut Cache) -> Option<String> {
        let ((from, to), look) = (self.ends()?, self.look.as_ref()?);
        let mut page = Page { talk, cache, look };
        let mut text = Vec::new();
        for at in from.0..=to.0.min(self.entries.len().checked_sub(1)?) {
            let (gap, look) = (self.gap(at, talk), self.look(at, look));
            if at == to.0 && to.1 < gap {
                break;
            }
            let first = if at == from.0 { from.1.saturating_sub(gap) } else { 0 };
            let last = if at == to.0 { to.1.saturating_sub(gap) } else { self.count(at, &mut page) - gap - 1 };
            let rows = self.rows(at, gap + first, last - first + 1, &mut page);
            let shown = |row: Option<&Row>| row.map(|row| (visible(row), row.gutter)).unwrap_or_default();
            let (head, tail) = (shown(rows.first()), shown(rows.last()));
            let whole = match &self.entries[at] {
                Entry::Item(place) => item(talk, *place)
                    .map(|item| page.cache.text(talk, &item, &look, first..last + 1))
                    .unwrap_or_default(),
                _ => rows.iter().map(visible).collect::<Vec<_>>().join("\n"),
            };
            let mut range = 0..whole.len();
            if at == from.0 && from.1 >= gap {
                let before = columns(&head.0, from.2.saturating_sub(head.1)).0;
                range.start = align(whole.char_indices().map(|(at, c)| (at + c.len_utf8(), c)), before.chars());
            }
            if at == to.0 && to.1 >= gap {
                let behind = columns(&tail.0, (to.2 + 1).saturating_sub(tail.1)).1;
                let end = align(whole.char_indices().rev().map(|(at, c)| (whole.len() - at, c)), behind.chars().rev());
                range.end -= end;
            }
            text.push(whole.get(range).unwrap_or_default().to_owned());
        }
        Some(text.join("\n")).filter(|text| !text.is_empty())
    }
}

/// The text of a row without what is ours before it.
pub(super) fn visible(row: &Row) -> String {
    columns(&row.text(), row.gutter).1.to_owned()
}

/// A text parted at a column.
fn columns(text: &str, column: u16) -> (&str, &str) {
    let mut used = 0;
    let at = text.grapheme_indices(true).find(|(_, part)| {
        used += part.width();
        used > usize::from(column)
    });
    text.split_at(at.map_or(text.len(), |(at, _)| at))
}

/// How far into the source what is seen goes: marks that are not shown are passed over, what is not in the source is left out.
fn align(source: impl Iterator<Item = (usize, char)> + Clone, seen: impl Iterator<Item = char>) -> usize {
    let (mut rest, mut end) = (source, 0);
    for c in seen {
        if let Some(skip) = rest.clone().take(MAX_MARK).position(|(_, other)| other == c)
            && let Some((at, _)) = rest.nth(skip)
        {
            end = at;
        }
    }
    end
}
