//! What lies over the conversation, and its keys: a list, a text to read, a line to type.

use super::State;
use crate::effect::Effect;
use crate::list::{Mark, moved};
use crate::pick::{Errand, Pick, Picker, Waiting};
use crate::text::wrap;
use crate::{Go, Which};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Instant;
use tieline_client::sanitize;

/// What lies over the conversation.
#[derive(Debug)]
pub enum Over {
    /// A list to pick from.
    Pick(Picker),
    /// A text to read.
    Read(Reading),
    /// One line to type: what for, and what is there.
    Line(For, String),
}

/// A text to read.
#[derive(Debug, Default)]
pub struct Reading {
    /// What it is.
    pub title: String,
    /// Its lines; they are broken where they are shown.
    pub lines: Vec<String>,
    /// The line at the top, and which row of it.
    top: (usize, usize),
    /// So many rows it is to be moved when it is drawn next.
    scroll: isize,
    /// What is shown again behind it.
    back: Option<Picker>,
}

impl Reading {
    /// A text from its beginning.
    pub fn new(title: impl Into<String>, lines: Vec<String>) -> Self {
        Self { title: title.into(), lines, ..Self::default() }
    }

    fn key(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Up => self.scroll(-1),
            KeyCode::Down => self.scroll(1),
            KeyCode::PageUp => self.scroll(-10),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll(10),
            KeyCode::Home => (self.top, self.scroll) = ((0, 0), 0),
            KeyCode::End => (self.top, self.scroll) = ((self.lines.len().saturating_sub(1), 0), 0),
            _ => {}
        }
    }

    /// Moves by so many rows when it is drawn next; negative is back.
    pub(super) fn scroll(&mut self, rows: isize) {
        self.scroll = self.scroll.saturating_add(rows);
    }

    /// The rows of a line. One that goes on is marked: nothing that somebody wrote can begin one as our own lines do.
    fn rows(&self, line: usize, width: usize) -> Vec<String> {
        let Some(line) = self.lines.get(line) else { return Vec::new() };
        let mut rows = wrap(&line.replace('\t', "    "), width.saturating_sub(4));
        rows.iter_mut().skip(1).for_each(|row| row.insert_str(0, "  ↪ "));
        rows
    }

    /// So many rows from the top on, and the number of the line that stands there.
    pub fn page(&mut self, width: usize, room: usize) -> (Vec<String>, usize) {
        let last = self.lines.len().saturating_sub(1);
        let end = (last, self.rows(last, width).len().saturating_sub(1));
        let scroll = std::mem::take(&mut self.scroll);
        self.top = moved(self.top, scroll, end, |line| self.rows(line, width).len());
        let (line, row) = self.top;
        let rows = (line..self.lines.len()).flat_map(|line| self.rows(line, width));
        (rows.skip(row).take(room).collect(), line + 1)
    }
}

/// What a line is typed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum For {
    /// Words to look for.
    Search,
    /// The name of a session.
    Name(String),
    /// The command of an agent.
    Command,
}

impl State {
    pub(super) fn over_key(&mut self, key: KeyEvent, now: Instant) {
        let Some(over) = &mut self.over else { return };
        let leaves =
            key.code == KeyCode::Esc || (key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL);
        match over {
            Over::Read(reading) if leaves || matches!(key.code, KeyCode::Enter | KeyCode::Char('q')) => {
                self.over = reading.back.take().map(Over::Pick);
            }
            _ if leaves => {
                self.over = None;
                self.tab_mut().list.found();
            }
            Over::Pick(picker) => match picker.key(key) {
                Some(Pick::Read(title, lines)) => {
                    let back = Some(std::mem::take(picker));
                    self.over = Some(Over::Read(Reading { back, ..Reading::new(title, lines) }));
                }
                Some(pick) => {
                    self.over = None;
                    self.picked(pick, now);
                }
                None => {}
            },
            Over::Read(reading) => reading.key(key),
            Over::Line(purpose, line) => match (key.code, key.modifiers) {
                (KeyCode::Backspace, _) => drop(line.pop()),
                (KeyCode::Char('u'), KeyModifiers::CONTROL) => line.clear(),
                (KeyCode::Char(c), KeyModifiers::NONE | KeyModifiers::SHIFT) => line.push(c),
                (KeyCode::Enter | KeyCode::Up | KeyCode::Down, _) if *purpose == For::Search => {
                    let (on, tab) = (key.code == KeyCode::Down, &mut self.tabs[self.at]);
                    if !line.is_empty() && !tab.list.search(&tab.talk, &mut tab.cache, line, on) {
                        self.say("not found", now);
                    }
                }
                (KeyCode::Enter, _) => {
                    let (purpose, line) = (purpose.clone(), line.trim().to_owned());
                    self.over = None;
                    self.typed(purpose, line, now);
                }
                _ => {}
            },
        }
    }

    fn typed(&mut self, purpose: For, line: String, now: Instant) {
        match purpose {
            For::Name(id) => self.want(Effect::Do(self.tab().id, Errand::Rename(id, line))),
            For::Command if !line.is_empty() => {
                let keep = format!("to keep this agent: tieline agents add NAME -- {}", sanitize::exact_line(&line));
                self.open(Which { agent: Some(line), session: Go::New }, Vec::new(), now);
                self.tab_mut().notice(Mark::Info, keep);
            }
            For::Command | For::Search => {}
        }
    }

    fn picked(&mut self, pick: Pick, now: Instant) {
        let id = self.tab().id;
        match pick {
            Pick::Deed(deed) => self.deed(deed, now),
            Pick::Open(which) => match &which.session {
                // One that is open is gone to.
                Go::On(session) if let Some(at) = self.tab_of(session) => self.show(at),
                _ => self.open(which, Vec::new(), now),
            },
            Pick::Look(source) => self.look("…", source),
            Pick::Menu(menu) => self.over = Some(Over::Pick(*menu)),
            Pick::Write(text) => self.tab_mut().composer.write_instead(&text),
            Pick::Set(option, value) => self.want(Effect::SetOption(id, option, value)),
            Pick::Do(Errand::Delete(session)) if self.tab_of(&session).is_some() => {
                self.say("it is open in a tab: close that first", now);
            }
            Pick::Do(errand) => self.want(Effect::Do(id, errand)),
            Pick::Ask(what) => self.over = Some(Over::Line(what, String::new())),
            Pick::Waiting(number, what) => self.waiting(number, what),
            Pick::Read(..) | Pick::Nothing => {}
        }
    }

    /// Does something with what waits, unless it was sent meanwhile.
    fn waiting(&mut self, number: u64, what: Waiting) {
        let tab = self.tab_mut();
        let Some(at) = tab.queue.iter().position(|queued| queued.number == number) else { return };
        match what {
            Waiting::Now => {
                tab.sends = tab.runs();
                let id = tab.id;
                return self.want(Effect::SendNow(id, number));
            }
            Waiting::Raise => tab.queue.swap(at, at.saturating_sub(1)),
            Waiting::Edit => {
                let queued = tab.queue.remove(at);
                tab.composer.take_back(&queued.parts);
                tab.edits = tab.queue.iter().skip(at).map(|queued| queued.number).collect();
            }
            Waiting::Drop => drop(tab.queue.remove(at)),
        }
        let effect = Effect::SetQueue(tab.id, tab.queue.clone());
        self.want(effect);
    }
}
