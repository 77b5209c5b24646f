//! Words that are looked for in the conversation: found row by row, brought into view and marked.

use super::{List, Page, select::visible, text};
use crate::rows::Cache;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use tieline_client::live::Conversation;
use unicode_width::UnicodeWidthStr as _;

impl List {
    /// Looks for words from where they were found last, back or on, and round. True if they were found: they are in view then.
    pub fn search(&mut self, talk: &Conversation, cache: &mut Cache, words: &str, on: bool) -> bool {
        let (words, count) = (words.to_lowercase(), self.entries.len());
        let Some((look, last)) = self.look.zip(count.checked_sub(1)) else { return false };
        let mut page = Page { talk, cache, look: &look };
        let (from, row) = self.found.unwrap_or(if on { (0, 0) } else { (last, usize::MAX) });
        for step in 0..=count {
            let at = if on { from + step } else { from + count - step } % count;
            if !text(talk, &self.entries[at]).is_some_and(|text| text.to_lowercase().contains(&words)) {
                continue;
            }
            let rows = self.rows_with(at, &words, &mut page);
            let beyond = |found: &&usize| step > 0 || if on { **found > row } else { **found < row };
            let found = if on { rows.iter().find(beyond) } else { rows.iter().rfind(beyond) };
            if let Some(row) = found.copied() {
                (self.picked, self.anchor, self.found) = (Some(at), Some((at, row)), Some((at, row)));
                // What stands above it is seen, too.
                self.scroll = -(self.height / 3).cast_signed();
                self.sought = Some(words);
                return true;
            }
        }
        false
    }

    /// Nobody looks for anything any more; what was found stays in view.
    pub fn found(&mut self) {
        self.sought = None;
    }

    /// The rows of an entry in which the words begin. One that hides them is opened.
    fn rows_with(&mut self, at: usize, words: &str, page: &mut Page<'_>) -> Vec<usize> {
        for open in [false, true] {
            let opened = open && self.open.insert(at);
            let count = self.whole_count(at, page, usize::MAX);
            let rows = self.rows(at, 0, count, page).iter().map(|row| visible(row).to_lowercase()).collect::<Vec<_>>();
            let has = |number: &usize| {
                // They may go on in the next row.
                let next = rows.get(number + 1).map_or("", |row| row.trim_start());
                rows[*number].contains(words)
                    || !next.contains(words) && format!("{} {next}", rows[*number].trim_end()).contains(words)
            };
            let found: Vec<usize> = (0..rows.len()).filter(has).collect();
            if !found.is_empty() {
                return found;
            }
            if opened {
                self.open.remove(&at);
            }
        }
        vec![self.gap(at, page.talk)]
    }

    /// Marks the words in a row on the screen.
    pub(super) fn mark_found(&self, line: Rect, buffer: &mut Buffer) {
        let Some(words) = self.sought.as_deref().filter(|words| !words.is_empty()) else { return };
        for x in line.x..line.right() {
            let (mut rest, mut end) = (words, x);
            while end < line.right() && !rest.is_empty() {
                let symbol = buffer[(end, line.y)].symbol();
                let Some(more) = rest.strip_prefix(&*symbol.to_lowercase()) else { break };
                (rest, end) = (more, end + u16::try_from(symbol.width().max(1)).unwrap_or(1));
            }
            for x in (x..end.min(line.right())).take_while(|_| rest.is_empty()) {
                buffer[(x, line.y)].modifier.insert(Modifier::REVERSED);
            }
        }
    }
}
