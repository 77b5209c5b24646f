//! The conversation on the screen: an anchor and what follows from it. Nothing is ever laid out for the whole session.

mod search;
mod select;

use crate::rows::look as theme;
use crate::rows::wrap;
use crate::rows::{Cache, Look, Row};
use crate::text::behind;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use std::collections::HashSet;
use tieline::schema::{MessageKind, PlanStatus};
use tieline_client::live::{Conversation, Item};
use tieline_client::sanitize;

/// So many of our own remarks are kept; older ones are dropped with a word.
const MAX_NOTICES: usize = 20_000;
const DROPPED: &str = "(a remark that is not kept any more)";
/// So much of a message is searched, in bytes.
const MAX_SEARCHED_BYTES: usize = 8 << 20;

/// One thing in the list.
#[derive(Debug, Clone)]
pub enum Entry {
    /// An item of the conversation, by its place.
    Item(usize),
    /// A remark of ours.
    Notice(Mark, String),
    /// The plans, as they are now.
    Plan,
}

/// What kind of remark it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// In passing.
    Info,
    /// To be known.
    Warn,
    /// Something is wrong.
    Bad,
    /// Words for the first minute.
    Welcome,
}

/// What rows are made of: the conversation, the rows that are kept, and how it is looked at.
struct Page<'a> {
    talk: &'a Conversation,
    cache: &'a mut Cache,
    look: &'a Look,
}

/// The list of one tab.
#[derive(Debug, Default)]
pub struct List {
    entries: Vec<Entry>,
    /// So many items of the conversation are in it.
    items: usize,
    notices: usize,
    /// Those before this entry are dropped.
    dropped: usize,
    /// The plan is in it.
    planned: bool,
    /// The entry and its row at the top; `None` follows the end.
    anchor: Option<(usize, usize)>,
    /// So many rows it is to be moved when it is drawn next.
    scroll: isize,
    /// What was at the top when it was drawn last.
    top: (usize, usize),
    height: usize,
    /// The chosen entry.
    pub picked: Option<usize>,
    open: HashSet<usize>,
    /// The words that were looked for, in small letters, and the row of which entry they were found in.
    sought: Option<String>,
    found: Option<(usize, usize)>,
    /// What is selected: where that began, and where it ends.
    selected: Option<(select::Spot, select::Spot)>,
    /// Where it was drawn last, how, and which row of which entry each row was.
    area: Rect,
    look: Option<Look>,
    shown: Vec<(usize, usize)>,
}

impl List {
    /// Takes in what is new in the conversation.
    pub fn sync(&mut self, talk: &Conversation) {
        let count = talk.items(0, 0).1;
        self.entries.extend((self.items..count).map(Entry::Item));
        self.items = self.items.max(count);
    }

    /// Adds a remark behind all that is there. Its text must be safe. Gives its place.
    pub fn notice(&mut self, talk: &Conversation, mark: Mark, text: impl Into<String>) -> usize {
        self.sync(talk);
        let place = self.entries.len();
        self.entries.push(Entry::Notice(mark, text.into()));
        self.notices += 1;
        // Its place stays: others are known by theirs.
        while self.notices > MAX_NOTICES
            && let Some(oldest) = self.entries.get_mut(self.dropped)
        {
            if let Entry::Notice(Mark::Info | Mark::Warn | Mark::Bad, text) = oldest {
                DROPPED.clone_into(text);
                self.notices -= 1;
            }
            self.dropped += 1;
        }
        place
    }

    /// The remark at a place says something else now.
    pub fn retell(&mut self, place: usize, text: String) {
        if let Some(entry @ Entry::Notice(..)) = self.entries.get_mut(place) {
            *entry = Entry::Notice(Mark::Info, text);
        }
    }

    /// The plan stands from here on.
    pub fn plan(&mut self, talk: &Conversation) {
        self.sync(talk);
        if !std::mem::replace(&mut self.planned, true) {
            self.entries.push(Entry::Plan);
        }
    }

    /// True if nothing but words for the first minute stands in it.
    pub fn is_fresh(&self) -> bool {
        self.entries.iter().all(|entry| matches!(entry, Entry::Notice(Mark::Welcome, _)))
    }

    /// True if it begins with words for the first minute.
    pub fn is_welcome(&self) -> bool {
        matches!(self.entries.first(), Some(Entry::Notice(Mark::Welcome, _)))
    }

    /// True if it follows the end.
    pub fn follows(&self) -> bool {
        self.anchor.is_none()
    }

    /// Moves by so many rows when it is drawn next; negative is back.
    pub fn scroll(&mut self, rows: isize) {
        self.scroll = self.scroll.saturating_add(rows);
    }

    /// Moves by so many screens, with a row in common.
    pub fn page(&mut self, pages: isize) {
        self.scroll(pages * self.height.saturating_sub(1).max(1).cast_signed());
    }

    /// To the beginning.
    pub fn to_top(&mut self) {
        (self.anchor, self.scroll) = (Some((0, 0)), 0);
    }

    /// To the end, and along with it.
    pub fn to_end(&mut self) {
        (self.anchor, self.scroll, self.picked, self.selected, self.found) = (None, 0, None, None, None);
    }

    /// Chooses the item above or below.
    pub fn pick(&mut self, down: bool) {
        let last = self.entries.len().saturating_sub(1);
        let at = match (self.picked, down) {
            (None, false) => last,
            (None, true) => return,
            (Some(at), false) => at.saturating_sub(1),
            (Some(at), true) if at >= last => return self.to_end(),
            (Some(at), true) => at + 1,
        };
        self.picked = Some(at);
        // It stays in view.
        if at <= self.top.0 {
            self.anchor = Some((at, 0));
        }
    }

    /// Opens or closes the chosen item where it stands.
    pub fn toggle(&mut self) {
        let Some(at) = self.picked.or(self.entries.len().checked_sub(1)) else { return };
        if !self.open.remove(&at) {
            self.open.insert(at);
        }
    }

    /// The source text of the chosen item, or of the last answer.
    pub fn source(&self, talk: &Conversation) -> Option<String> {
        let answer = |entry: &&Entry| matches!(entry, Entry::Item(at) if matches!(item(talk, *at), Some(Item::Message(MessageKind::Agent, _))));
        let entry = match self.picked {
            Some(at) => self.entries.get(at)?,
            None => self.entries.iter().rev().find(answer)?,
        };
        text(talk, entry)
    }

    fn look(&self, at: usize, look: &Look) -> Look {
        Look { open: self.open.contains(&at), ..*look }
    }

    /// The rows above an entry that set it off.
    fn gap(&self, at: usize, talk: &Conversation) -> usize {
        let quiet = |at: usize| match self.entries.get(at) {
            Some(Entry::Item(at)) => matches!(item(talk, *at), Some(Item::Call(_))),
            Some(Entry::Notice(..)) => true,
            _ => false,
        };
        usize::from(at > 0 && !(quiet(at) && quiet(at - 1)))
    }

    fn count(&self, at: usize, page: &mut Page<'_>) -> usize {
        let (talk, look) = (page.talk, self.look(at, page.look));
        let rows = match &self.entries[at] {
            Entry::Item(place) => item(talk, *place).map_or(0, |item| page.cache.count(talk, &item, &look)),
            entry => own_rows(entry, talk, look.width).len(),
        };
        self.gap(at, talk) + rows
    }

    /// The same when all of it is laid out, or so many rows of it.
    fn whole_count(&self, at: usize, page: &mut Page<'_>, most: usize) -> usize {
        let mut count = self.count(at, page);
        while page.cache.is_behind() && count < most {
            page.cache.catch_up(page.talk);
            count = self.count(at, page);
        }
        count
    }

    fn rows(&self, at: usize, from: usize, most: usize, page: &mut Page<'_>) -> Vec<Row> {
        let (talk, look, gap) = (page.talk, self.look(at, page.look), self.gap(at, page.talk));
        let mut rows = vec![Row::default(); gap.saturating_sub(from).min(most)];
        let (from, most) = (from.saturating_sub(gap), most - rows.len());
        match &self.entries[at] {
            Entry::Item(place) => {
                if let Some(item) = item(talk, *place) {
                    rows.extend(page.cache.rows(talk, &item, &look, from..from + most));
                }
            }
            entry => {
                let own = own_rows(entry, talk, look.width).into_iter().skip(from).take(most);
                rows.extend(own.map(|line| Row { spans: line.spans, ..Row::default() }));
            }
        }
        rows
    }

    /// The top for which the last row stands at the bottom.
    fn end(&self, height: usize, page: &mut Page<'_>) -> (usize, usize) {
        let mut left = height;
        for at in (0..self.entries.len()).rev() {
            let count = self.count(at, page);
            if count >= left {
                return (at, count - left);
            }
            left -= count;
        }
        (0, 0)
    }

    /// Where the top is now.
    fn settle(&mut self, height: usize, page: &mut Page<'_>) -> (usize, usize) {
        self.height = height;
        let scroll = std::mem::take(&mut self.scroll);
        // The first words are read from the first one on, also where they don't all fit.
        let end = if self.is_fresh() && scroll == 0 { (0, 0) } else { self.end(height, page) };
        let Some(mut top) = self.anchor.or((scroll < 0).then_some(end)) else { return end };
        top.0 = top.0.min(self.entries.len().saturating_sub(1));
        let top = moved(top, scroll, end, |at| self.count(at, page));
        // Whoever comes back to the end follows it again.
        self.anchor = (top < end).then_some(top);
        top
    }

    /// Draws it.
    pub fn draw(&mut self, talk: &Conversation, cache: &mut Cache, look: &Look, area: Rect, buffer: &mut Buffer) {
        if area.width < 4 || area.height == 0 {
            return;
        }
        let look = Look { width: area.width - 2, ..*look };
        let height = usize::from(area.height);
        let mut page = Page { talk, cache, look: &look };
        let top = self.settle(height, &mut page);
        (self.top, self.area, self.look) = (top, area, Some(look));
        self.shown.clear();
        let (mut at, mut from, mut y) = (top.0, top.1, 0);
        while at < self.entries.len() && y < height {
            let gap = self.gap(at, talk);
            for (number, row) in self.rows(at, from, height - y, &mut page).into_iter().enumerate() {
                let line = area.y + u16::try_from(y).unwrap_or(u16::MAX);
                if self.picked == Some(at) && from + number >= gap {
                    buffer.set_string(area.x, line, "▌", theme::KEY);
                }
                buffer.set_line(area.x + 1, line, &Line::from(row.spans), look.width);
                let line = Rect::new(area.x + 1, line, look.width, 1);
                self.mark((at, from + number), row.gutter, line, buffer);
                self.mark_found(line, buffer);
                self.shown.push((at, from + number));
                y += 1;
            }
            (at, from) = (at + 1, 0);
        }
        if !self.follows() {
            let part = top.0 * height / self.entries.len().max(1);
            let line = area.y + u16::try_from(part.min(height - 1)).unwrap_or(0);
            buffer.set_string(area.right() - 1, line, "█", theme::QUIET);
        }
    }

    /// All of it as plain text, for the scrollback: the gutters stay, so that it is seen who says what.
    pub fn print(&self, talk: &Conversation, width: u16, most: usize) -> Vec<String> {
        let look = Look {
            width,
            detail: crate::rows::Detail::Normal,
            open: false,
            side_by_side: false,
            now: std::time::Instant::now(),
        };
        let (mut cache, mut lines) = (Cache::default(), Vec::new());
        let mut page = Page { talk, cache: &mut cache, look: &look };
        for at in (0..self.entries.len()).rev() {
            if matches!(self.entries[at], Entry::Notice(Mark::Welcome, _)) {
                continue;
            }
            let count = self.whole_count(at, &mut page, most);
            let rows = self.rows(at, 0, count, &mut page);
            lines.extend(rows.iter().map(|row| row.text().trim_end().to_owned()).rev());
            if lines.len() >= most {
                lines.truncate(most);
                lines.push("… what was said before is in the journal: tieline sessions show".into());
                break;
            }
        }
        lines.reverse();
        lines
    }
}

/// A place, an entry and a row of it, moved by so many rows: not before the beginning, nor behind the end.
pub(crate) fn moved(
    (mut at, mut row): (usize, usize),
    by: isize,
    end: (usize, usize),
    mut count: impl FnMut(usize) -> usize,
) -> (usize, usize) {
    let mut back = usize::try_from(-by).unwrap_or(0);
    while back > row && at > 0 {
        back -= row;
        at -= 1;
        row = count(at);
    }
    row = row.saturating_sub(back);
    let mut on = usize::try_from(by).unwrap_or(0);
    while on > 0 && (at, row) < end {
        let left = count(at).saturating_sub(row);
        if on < left {
            row += on;
            break;
        }
        on -= left;
        (at, row) = (at + 1, 0);
    }
    (at, row).min(end)
}

fn item(talk: &Conversation, at: usize) -> Option<Item> {
    talk.items(at, 1).0.pop()
}

fn text(talk: &Conversation, entry: &Entry) -> Option<String> {
    let mut text = String::new();
    match entry {
        Entry::Notice(_, notice) => text.clone_from(notice),
        Entry::Plan => text = plan_text(talk).join("\n"),
        Entry::Item(at) => match item(talk, *at)? {
            Item::Message(kind, number) => {
                let take = |piece: &str| {
                    if text.len() < MAX_SEARCHED_BYTES {
                        text.push_str(piece);
                    }
                };
                talk.text(kind, number, take).ok()?;
            }
            Item::Call(id) => {
                let call = talk.call(&id)?;
                text = call.title.clone().unwrap_or_default();
                for content in &call.content {
                    use tieline::schema::ToolCallContent;
                    let more = match content {
                        ToolCallContent::Diff(diff) => diff.patch().map(|patch| patch.text),
                        ToolCallContent::Content(content) => content.content.as_text().map(str::to_owned),
                        _ => None,
                    };
                    text.extend(more.iter().flat_map(|more| ["\n", more.as_str()]));
                }
            }
        },
    }
    Some(text)
}

/// The rows of what is no item of the conversation.
fn own_rows(entry: &Entry, talk: &Conversation, width: u16) -> Vec<Line<'static>> {
    match entry {
        Entry::Item(_) => Vec::new(),
        Entry::Notice(mark, text) => notice_rows(*mark, text, width),
        Entry::Plan => plan_rows(talk, width),
    }
}

fn notice_rows(mark: Mark, text: &str, width: u16) -> Vec<Line<'static>> {
    let (head, style): (_, Style) = match mark {
        Mark::Info => ("· ", theme::QUIET),
        Mark::Warn => ("! ", theme::ASKS),
        Mark::Bad => ("✗ ", theme::BAD),
        Mark::Welcome => ("", theme::PLAIN),
    };
    let rest = " ".repeat(wrap::width(head));
    let rows = text.lines().enumerate().flat_map(|(number, line)| {
        let first = if number == 0 { head } else { &rest };
        behind([first, &rest], style, line, style, width.into())
    });
    rows.collect()
}

fn plan_text(talk: &Conversation) -> Vec<String> {
    let mark = |status: &PlanStatus| match status {
        PlanStatus::Completed => "x",
        PlanStatus::InProgress => ">",
        _ => " ",
    };
    let plans = talk.plans();
    let entries = plans.iter().flat_map(tieline::schema::Plan::entries);
    entries.map(|entry| format!("[{}] {}", mark(&entry.status), sanitize::line(&entry.content))).collect()
}

fn plan_rows(talk: &Conversation, width: u16) -> Vec<Line<'static>> {
    let mut rows = vec![Line::styled("│ Plan", theme::STRONG)];
    for entry in plan_text(talk) {
        let style = if entry.starts_with("[x]") { theme::QUIET } else { theme::PLAIN };
        rows.extend(behind(["│ ", "│     "], theme::QUIET, &entry, style, width.into()));
    }
    rows
}
