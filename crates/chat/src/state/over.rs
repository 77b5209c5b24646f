//! What lies over the conversation, and its keys: a list, a text to read, a line to type.

use super::State;
use crate::effect::Effect;
use crate::keys::Deed;
use crate::pick::{self, Errand, Pick, Picker};
use crate::tab::Tab;
use crate::{Go, Which};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Instant;

/// What lies over the conversation.
#[derive(Debug)]
pub enum Over {
    /// A list to pick from.
    Pick(Picker),
    /// A text to read: title, lines, the first that is shown.
    Read(String, Vec<String>, usize),
    /// One line to type: what for, and what is there.
    Line(For, String),
}

/// What a line is typed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum For {
    /// Words to look for.
    Search,
    /// The name of a session.
    Name(String),
}

impl State {
    pub(super) fn over_key(&mut self, key: KeyEvent, now: Instant) -> Vec<Effect> {
        let Some(over) = &mut self.over else { return Vec::new() };
        let leaves =
            key.code == KeyCode::Esc || (key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL);
        match over {
            Over::Pick(picker) => match picker.key(key) {
                pick::Pressed::Stay => {}
                pick::Pressed::Leave => self.over = None,
                pick::Pressed::Picked(pick) => {
                    self.over = None;
                    return self.picked(pick, now);
                }
            },
            _ if leaves => self.over = None,
            Over::Read(_, lines, top) => {
                let last = lines.len().saturating_sub(1);
                *top = match key.code {
                    KeyCode::Up => top.saturating_sub(1),
                    KeyCode::Down => (*top + 1).min(last),
                    KeyCode::PageUp => top.saturating_sub(10),
                    KeyCode::PageDown | KeyCode::Char(' ') => (*top + 10).min(last),
                    KeyCode::Home => 0,
                    KeyCode::End => last,
                    KeyCode::Enter | KeyCode::Char('q') => {
                        self.over = None;
                        return Vec::new();
                    }
                    _ => *top,
                };
            }
            Over::Line(purpose, line) => match (key.code, key.modifiers) {
                (KeyCode::Backspace, _) => drop(line.pop()),
                (KeyCode::Char(c), KeyModifiers::NONE | KeyModifiers::SHIFT) => line.push(c),
                (KeyCode::Enter, _) => {
                    let (purpose, line) = (purpose.clone(), std::mem::take(line));
                    self.over = None;
                    return self.typed(purpose, &line, now);
                }
                _ => {}
            },
        }
        Vec::new()
    }

    pub(super) fn typed(&mut self, purpose: For, line: &str, now: Instant) -> Vec<Effect> {
        match purpose {
            For::Search => {
                let tab = self.tab_mut();
                if !line.is_empty() && !tab.list.search(&tab.talk, line) {
                    return self.say("not found", now);
                }
                // The same key finds the one before.
                self.over = (!line.is_empty()).then(|| Over::Line(For::Search, line.to_owned()));
                Vec::new()
            }
            For::Name(id) => vec![Effect::Do(self.tab().id, pick::Errand::Rename(id, line.trim().to_owned()))],
        }
    }

    pub(super) fn picked(&mut self, pick: Pick, now: Instant) -> Vec<Effect> {
        let id = self.tab().id;
        let place = |tab: &Tab, number: u64| tab.queue.iter().position(|queued| queued.number == number);
        match pick {
            Pick::Deed(deed) => self.deed(deed, now),
            // One that is open is gone to.
            Pick::Open(Which { session: Go::On(session), .. }) if self.tab_of(&session).is_some() => {
                self.tab_of(&session).map_or_else(Vec::new, |at| self.show(at))
            }
            Pick::Open(which) => self.open(which, Vec::new(), now),
            Pick::Look(source) => {
                self.over = Some(Over::Pick(Picker::looking("…")));
                vec![Effect::Look(id, source)]
            }
            Pick::Menu(menu) => {
                self.over = Some(Over::Pick(*menu));
                Vec::new()
            }
            Pick::Set(option, value) => vec![Effect::SetOption(id, option, value)],
            Pick::Do(Errand::Delete(session)) if self.tab_of(&session).is_some() => {
                self.say("it is open in a tab: close that first", now)
            }
            Pick::Do(errand) => vec![Effect::Do(id, errand)],
            Pick::AskName(session) => {
                self.over = Some(Over::Line(For::Name(session), String::new()));
                Vec::new()
            }
            Pick::Now(number) => {
                let tab = self.tab_mut();
                let Some(queued) = place(tab, number).map(|at| tab.queue[at].clone()) else { return Vec::new() };
                vec![Effect::SendNow(id, queued)]
            }
            Pick::Edit(number) | Pick::Drop(number) | Pick::Raise(number) => {
                let tab = self.tab_mut();
                let Some(at) = place(tab, number) else { return Vec::new() };
                match pick {
                    Pick::Raise(_) => tab.queue.swap(at, at.saturating_sub(1)),
                    Pick::Edit(_) => {
                        let queued = tab.queue.remove(at);
                        tab.composer.take_back(&queued.parts);
                    }
                    _ => drop(tab.queue.remove(at)),
                }
                vec![Effect::SetQueue(id, tab.queue.clone())]
            }
            Pick::Kill => self.deed(Deed::Kill, now),
            Pick::Nothing => Vec::new(),
        }
    }
}
