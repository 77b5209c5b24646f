//! Rows that are kept, so that the work for a frame follows the screen and not the session.

use super::cell::{self, Body};
use super::look::{PLAIN, QUIET, USER, mark};
use super::message::{Manner, Message};
use super::terminal::Screens;
use super::wrap::{fit, width};
use super::{Detail, Look, Row};
use ratatui::text::Span;
use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};
use tieline::schema::{MessageKind, ToolCallItem, ToolCallStatus};
use tieline_client::live::{Conversation, Item};
use tieline_client::sanitize;

/// So many rows of a message are kept; the others are made again when somebody looks.
const MAX_ROWS: usize = 4_000;
/// So many of all items.
const MAX_ALL_ROWS: usize = 40_000;
/// So many items are remembered.
const MAX_ITEMS: usize = 4_000;
/// So many bytes of text are laid out for one frame; the rest follows.
const MAX_FRAME_BYTES: usize = 32 << 10;
/// Of a folded thought so many bytes are looked at.
const FOLDED_BYTES: usize = 4096;

/// Rows that are kept, for each item and width, within a bound.
#[derive(Debug, Default)]
pub struct Cache {
    /// What agents' terminals show; to be fed by who hears of it.
    pub screens: Screens,
    items: HashMap<Item, Laid>,
    /// When calls were first and last heard of.
    times: HashMap<Item, Time>,
    /// The calls that wait for the user, and since when.
    waiting: HashMap<Item, Instant>,
    /// A message that is not laid out to its end yet.
    behind: Option<Item>,
    now: u64,
    /// The frame that is made, by its time, and so many bytes can still be laid out for it.
    frame: Option<Instant>,
    room: usize,
    /// So many bytes were laid out since the cache was made.
    work: usize,
}

/// When a call was begun, and when it was over.
#[derive(Debug)]
struct Time {
    begin: Instant,
    end: Option<Instant>,
    /// It is not begun yet.
    pending: bool,
    /// The user was asked about it, and has answered.
    answered: bool,
}

/// What makes rows other ones.
#[derive(Debug, PartialEq)]
struct Key {
    state: u64,
    width: u16,
    detail: Detail,
    open: bool,
    side_by_side: bool,
    screens: u64,
}

#[derive(Debug)]
struct Laid {
    key: Key,
    what: What,
    used: u64,
    /// The rows that were last asked for.
    asked: Range<usize>,
}

#[derive(Debug)]
enum What {
    Message(Box<Message>),
    /// A folded thought, or what stands below the head of a call.
    Whole(Body),
}

/// So many rows of an item are made anew for each frame: the head of a call tells its age.
fn heads(item: &Item) -> usize {
    usize::from(matches!(item, Item::Call(_)))
}

impl Cache {
    /// A call was heard of: its age counts from the first time until it is over.
    pub fn heard(&mut self, call: &ToolCallItem, now: Instant) {
        if self.times.len() < MAX_ITEMS || !call.status.is_final() {
            let id = Item::Call(call.id.as_str().into());
            let pending = call.status == ToolCallStatus::Pending;
            let time = self.times.entry(id).or_insert(Time { begin: now, end: None, pending, answered: false });
            // Until it is begun it waits, whoever for; one that goes straight to its end took the time between.
            if std::mem::replace(&mut time.pending, pending) && !pending && !call.status.is_final() {
                time.begin = now;
            }
            time.end = if call.status.is_final() { time.end.or(Some(now)) } else { None };
        }
        if self.times.len() > 2 * MAX_ITEMS {
            self.times.retain(|_, time| time.end.is_none());
            self.times.shrink_to(MAX_ITEMS);
        }
    }

    /// These calls wait for the user now: that is no time of theirs.
    pub fn wait(&mut self, calls: impl Iterator<Item = String>, now: Instant) {
        let calls: Vec<Item> = calls.map(|id| Item::Call(id.as_str().into())).collect();
        let times = &mut self.times;
        self.waiting.retain(|item, since| {
            if let Some(time) = times.get_mut(item).filter(|_| !calls.contains(item)) {
                time.begin += now.saturating_duration_since(time.begin.max(*since));
                time.answered = true;
            }
            calls.contains(item)
        });
        for item in calls {
            _ = self.waiting.entry(item).or_insert(now);
        }
    }

    /// How many rows an item has. Cheap if nothing changed.
    pub fn count(&mut self, talk: &Conversation, item: &Item, look: &Look) -> usize {
        match &self.laid(talk, item, look).what {
            What::Message(message) => message.count(),
            What::Whole(body) => heads(item) + body.rows.len(),
        }
    }

    /// Some rows of an item, by their numbers.
    pub fn rows(&mut self, talk: &Conversation, item: &Item, look: &Look, range: Range<usize>) -> Vec<Row> {
        let head = match item {
            Item::Call(id) if range.start == 0 && range.end > 0 => Some(match talk.call(id) {
                Some(call) => {
                    let asks = self.waiting.contains_key(item);
                    let took = self.took(item, look.now).filter(|_| !asks);
                    // Some agents never say that a call runs that they have asked about.
                    let answered = self.times.get(item).is_some_and(|time| time.answered);
                    cell::head(talk, &call, look, took, (asks, answered))
                }
                None => cell::forgotten(look.width),
            }),
            _ => None,
        };
        let laid = self.laid(talk, item, look);
        laid.asked = range.clone();
        match &mut laid.what {
            What::Message(message) => {
                let before = message.work;
                let rows = message.rows(&reader(talk, item), &range);
                let more = message.work - before;
                self.work += more;
                rows
            }
            What::Whole(body) => {
                let from = range.start.saturating_sub(heads(item));
                let most = range.end.saturating_sub(heads(item)).saturating_sub(from);
                head.into_iter().chain(body.rows.iter().skip(from).take(most).cloned()).collect()
            }
        }
    }

    /// The text that some rows show, as it was said: without marks, without breaks of ours, made safe.
    pub fn text(&mut self, talk: &Conversation, item: &Item, look: &Look, range: Range<usize>) -> String {
        let rows = self.rows(talk, item, look, range.clone());
        let start = rows.iter().map(|row| row.source.start).min().unwrap_or(0);
        let end = rows.iter().map(|row| row.source.end).max().unwrap_or(0);
        let text = match (&self.laid(talk, item, look).what, item) {
            (What::Whole(body), Item::Call(id)) => {
                let from =
                    rows.iter().skip(usize::from(range.start == 0)).map(|row| row.source.start).min().unwrap_or(end);
                let title = talk.call(id).filter(|_| range.start == 0).and_then(|call| call.title.clone());
                let title = title.map(|title| title + "\n").unwrap_or_default();
                title + body.source.get(from..end).unwrap_or_default()
            }
            _ => reader(talk, item)(start, end - start),
        };
        let safe = sanitize::text(&text);
        safe.trim_end_matches('\n').to_owned()
    }

    /// True if a long message was not laid out to its end yet: look again soon.
    pub fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// Goes on with such a message as far as for one frame.
    pub fn catch_up(&mut self, talk: &Conversation) {
        let Some(item) = self.behind.take() else { return };
        self.room = MAX_FRAME_BYTES;
        if let (Some(laid), Some((_, bytes))) = (self.items.get_mut(&item), talk.state(&item)) {
            let done = laid.advance(talk, &item, bytes, &mut self.room, &mut self.work);
            self.behind = Some(item).filter(|_| !done);
        }
    }

    /// What frames cost: so many bytes of text were laid out, again or for the first time, and so often an item was looked up.
    pub fn work(&self) -> (usize, u64) {
        (self.work, self.now)
    }

    fn took(&self, item: &Item, now: Instant) -> Option<Duration> {
        self.times.get(item).map(|time| time.end.unwrap_or(now).saturating_duration_since(time.begin))
    }

    fn laid(&mut self, talk: &Conversation, item: &Item, look: &Look) -> &mut Laid {
        self.now += 1;
        if self.frame.replace(look.now) != Some(look.now) {
            self.room = MAX_FRAME_BYTES;
        }
        let (state, bytes) = talk.state(item).unwrap_or((u64::MAX, 0));
        let Look { width, detail, open, side_by_side, .. } = *look;
        let mut key = Key { state, width, detail, open, side_by_side, screens: 0 };
        let folded = match item {
            Item::Message(MessageKind::Thought, _) => !open && detail != Detail::Full,
            Item::Message(..) => false,
            Item::Call(id) => {
                key.screens = talk.call(id).map_or(0, |call| self.screens.changes(&call));
                false
            }
        };
        if let Item::Message(..) = item {
            // Only this makes a message look different.
            (key.detail, key.open, key.side_by_side) =
                (if folded { Detail::Brief } else { Detail::Full }, false, false);
        }
        if self.items.get(item).is_some_and(|laid| laid.key != key || folded) {
            self.items.remove(item);
        }
        if !self.items.contains_key(item) {
            self.trim();
        }
        let laid = self.items.entry(item.clone()).or_insert_with(|| {
            let what = match item {
                Item::Message(..) if folded => {
                    What::Whole(Body { rows: vec![fold(talk, item, width, bytes)], ..Body::default() })
                }
                Item::Message(kind, _) => What::Message(Box::new(Message::new(manner(*kind, width)))),
                Item::Call(id) => {
                    let body = talk.call(id).map(|call| cell::body(&call, look, &mut self.screens)).unwrap_or_default();
                    self.work += body.source.len();
                    What::Whole(body)
                }
            };
            Laid { key, what, used: 0, asked: 0..0 }
        });
        laid.used = self.now;
        if !laid.advance(talk, item, bytes, &mut self.room, &mut self.work) {
            self.behind = Some(item.clone());
        } else if self.behind.as_ref() == Some(item) {
            self.behind = None;
        }
        laid
    }

    /// Lets go what nobody looked at for long.
    fn trim(&mut self) {
        let kept = |laid: &Laid| match &laid.what {
            What::Message(message) => message.kept(),
            What::Whole(body) => body.rows.len(),
        };
        if self.items.len() > MAX_ITEMS || self.items.values().map(kept).sum::<usize>() > MAX_ALL_ROWS {
            let mut ages: Vec<u64> = self.items.values().map(|laid| laid.used).collect();
            ages.sort_unstable();
            let middle = ages[ages.len() / 2];
            self.items.retain(|_, laid| laid.used > middle);
            self.behind.take_if(|item| !self.items.contains_key(item));
        }
    }
}

impl Laid {
    /// Lays out what is new of a message, as far as there is room. True if that was all.
    fn advance(&mut self, talk: &Conversation, item: &Item, bytes: u64, room: &mut usize, work: &mut usize) -> bool {
        let What::Message(message) = &mut self.what else { return true };
        let before = message.work;
        let done = message.advance(&reader(talk, item), usize::try_from(bytes).unwrap_or(usize::MAX), room);
        *work += message.work - before;
        if message.kept() > MAX_ROWS {
            message.forget(&self.asked);
        }
        done
    }
}

/// Reads the text of a message.
fn reader(talk: &Conversation, item: &Item) -> impl Fn(usize, usize) -> String {
    move |from, most| match item {
        Item::Message(kind, number) => talk.piece(*kind, *number, from as u64, most).unwrap_or_default(),
        Item::Call(_) => String::new(),
    }
}

fn manner(kind: MessageKind, width: u16) -> Manner {
    let (mark, style, markdown) = match kind {
        MessageKind::User => ((mark::USER, USER), PLAIN, false),
        MessageKind::Agent => ((mark::AGENT, QUIET), PLAIN, true),
        MessageKind::Thought => ((mark::THOUGHT, QUIET), QUIET, true),
    };
    Manner { width, mark, style, markdown }
}

/// A thought in one row: its first words, and how long it is.
fn fold(talk: &Conversation, item: &Item, columns: u16, bytes: u64) -> Row {
    let text = reader(talk, item)(0, FOLDED_BYTES);
    let first = text.lines().map(|line| line.trim_matches(['*', '#', ' '])).find(|line| !line.is_empty());
    let lines = text.trim_end().lines().count();
    let more = if bytes > FOLDED_BYTES as u64 { format!("  {} KB", bytes / 1024) } else { format!("  {lines} lines") };
    let more = if lines > 1 { more } else { String::new() };
    let room = usize::from(columns).saturating_sub(width(mark::THOUGHT));
    let more = fit(&more, room.saturating_sub(4));
    let words = fit(&sanitize::line(first.unwrap_or_default()), room.saturating_sub(width(&more)));
    let spans = vec![Span::styled(mark::THOUGHT, QUIET), Span::styled(words, QUIET), Span::styled(more, QUIET)];
    Row {
        spans,
        source: 0..usize::try_from(bytes).unwrap_or(usize::MAX),
        soft: false,
        gutter: width(mark::THOUGHT) as u16,
    }
}
