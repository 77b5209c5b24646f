//! What a key, a paste and the mouse do, before anything else: who gets them.

use super::{Over, State};
use crate::ask;
use crate::compose;
use crate::effect::Effect;
use crate::keys::{self, Deed};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;
use std::time::Instant;
use tieline_client::live::{Reply, State as Doing, What};
use tieline_client::permission::Answer;

/// So many rows the wheel moves.
const WHEEL_ROWS: i64 = 3;

impl State {
    pub(super) fn paste(&mut self, text: &str, now: Instant) -> Vec<Effect> {
        match &mut self.over {
            // A paste picks nothing and answers nothing.
            Some(Over::Line(_, line)) => line.push_str(&text.replace(['\n', '\r'], " ")),
            Some(_) => {}
            None => {
                let tab = self.tab_mut();
                if let Some(asked) = tab.questions.first()
                    && tab.dock.paste(asked, text)
                {
                    return Vec::new();
                }
                tab.dock.blur();
                let deed = tab.composer.paste(text, now);
                return self.composed(deed, now);
            }
        }
        Vec::new()
    }

    /// The wheel scrolls, dragging selects and copies; a click on a question gives it the keys, and answers nothing.
    pub(super) fn mouse(&mut self, mouse: MouseEvent, now: Instant) -> Vec<Effect> {
        let at = Position { x: mouse.column, y: mouse.row };
        let (free, docked) = (self.over.is_none(), self.docked.contains(at));
        let tab = self.tab_mut();
        let rows = match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) if free && docked && !tab.questions.is_empty() => {
                tab.dock.focus(now);
                return Vec::new();
            }
            MouseEventKind::Down(MouseButton::Left) if free => {
                tab.list.press(at);
                return Vec::new();
            }
            MouseEventKind::Drag(MouseButton::Left) if free => {
                tab.list.drag(at);
                return Vec::new();
            }
            MouseEventKind::Up(MouseButton::Left) if free && tab.list.release() => return vec![Effect::Select(tab.id)],
            MouseEventKind::ScrollUp => -WHEEL_ROWS,
            MouseEventKind::ScrollDown => WHEEL_ROWS,
            _ => return Vec::new(),
        };
        match &mut self.over {
            Some(Over::Read(_, lines, top)) => {
                let last = lines.len().saturating_sub(1);
                *top = top.saturating_add_signed(isize::try_from(rows).unwrap_or(0)).min(last);
            }
            Some(_) => {}
            None => self.tab_mut().list.scroll(rows),
        }
        Vec::new()
    }

    pub(super) fn key(&mut self, key: KeyEvent, now: Instant) -> Vec<Effect> {
        if self.over.is_some() {
            return self.over_key(key, now);
        }
        if key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL {
            return self.interrupt(now);
        }
        if let (KeyCode::Char(c @ '1'..='9'), KeyModifiers::ALT) = (key.code, key.modifiers) {
            return self.show(c as usize - '1' as usize);
        }
        if let Some(effects) = self.dock_key(key, now) {
            return effects;
        }
        let deed = keys::find(key);
        let tab = self.tab_mut();
        let empty = tab.composer.is_empty() && !tab.composer.is_searching();
        match (key.code, key.modifiers) {
            (KeyCode::Tab, KeyModifiers::NONE) if !tab.questions.is_empty() => {
                tab.dock.focus(now);
                return Vec::new();
            }
            (KeyCode::Char('?'), KeyModifiers::NONE | KeyModifiers::SHIFT) if empty => {
                return self.deed(Deed::Help, now);
            }
            (KeyCode::Enter, KeyModifiers::NONE) if empty => return self.enter(now),
            _ => {}
        }
        match deed {
            // These are the composer's first.
            Some(Deed::Quit) if !empty => self.compose(key, now),
            Some(Deed::Cancel) => match self.tab_mut().composer.key(key, now) {
                compose::Deed::Pass => self.deed(Deed::Cancel, now),
                deed => self.composed(deed, now),
            },
            Some(deed) => self.deed(deed, now),
            None => self.compose(key, now),
        }
    }

    /// Enter where nothing is typed: the first of the queue goes now, a lost agent comes back.
    pub(super) fn enter(&mut self, now: Instant) -> Vec<Effect> {
        let tab = self.tab();
        match tab.state.0 {
            _ if !tab.questions.is_empty() => self.say("a question waits: Tab answers it", now),
            _ if !tab.queue.is_empty() => self.deed(Deed::SendNow, now),
            Doing::Lost => self.deed(Deed::Revive, now),
            _ => Vec::new(),
        }
    }

    /// A key for the docked question, if it has the keys.
    pub(super) fn dock_key(&mut self, key: KeyEvent, now: Instant) -> Option<Vec<Effect>> {
        let tab = self.tab_mut();
        tab.dock.since?;
        let asked = tab.questions.first()?.clone();
        match tab.dock.key(&asked, key, now) {
            ask::Pressed::Taken => Some(Vec::new()),
            ask::Pressed::Said(words) => Some(self.say(words, now)),
            ask::Pressed::Answer(reply) => Some(self.answer(reply, now)),
            ask::Pressed::Reason => {
                // Before the answer: the turn may be over with it.
                let mut effects = vec![Effect::Hold(tab.id)];
                tab.reason = true;
                effects.extend(self.answer(Reply::Permission(Answer::Refuse), now));
                self.tab_mut().dock.blur();
                self.say("say why: it is sent first when the turn is over; the queue waits for it", now);
                Some(effects)
            }
            ask::Pressed::Back(numbers) => {
                let types = matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace);
                // Who types something and takes it back has not said that the question can wait.
                tab.left = (!types).then_some(asked.number);
                tab.dock.blur();
                for c in numbers.chars() {
                    tab.composer.key(KeyEvent::from(KeyCode::Char(c)), now);
                }
                Some(if types { self.compose(key, now) } else { Vec::new() })
            }
            ask::Pressed::Whole => {
                // Broken where it is shown.
                let lines = ask::matter(&asked.what, usize::from(u16::MAX));
                self.over = Some(Over::Read("What is decided on".into(), lines.iter().map(ask::text_of).collect(), 0));
                Some(Vec::new())
            }
            ask::Pressed::NotOurs => None,
        }
    }

    pub(super) fn answer(&mut self, reply: Reply, now: Instant) -> Vec<Effect> {
        let tab = self.tab_mut();
        if tab.questions.is_empty() {
            return Vec::new();
        }
        let asked = tab.questions.remove(0);
        tab.next_question(now);
        let browse = match (&asked.what, &reply) {
            (What::Page(page), Reply::Page(tieline_client::elicit::Consent::Accept)) => Some(page.url.clone()),
            _ => None,
        };
        let mut effects = vec![Effect::Reply(asked, reply)];
        effects.extend(browse.map(Effect::Browse));
        effects
    }

    pub(super) fn compose(&mut self, key: KeyEvent, now: Instant) -> Vec<Effect> {
        let deed = self.tab_mut().composer.key(key, now);
        self.composed(deed, now)
    }

    pub(super) fn composed(&mut self, deed: compose::Deed, now: Instant) -> Vec<Effect> {
        let tab = self.tab_mut();
        match deed {
            compose::Deed::None | compose::Deed::Pass => Vec::new(),
            compose::Deed::Say(words) => self.say(words, now),
            compose::Deed::Shell(line) => {
                tab.shells += 1;
                vec![Effect::Shell(tab.id, line)]
            }
            compose::Deed::Clipboard => vec![Effect::Clipboard(tab.id)],
            compose::Deed::Editor(text) => vec![Effect::Editor(text)],
            compose::Deed::Submit(parts) if !tab.is_open => {
                tab.composer.take_back(&parts);
                self.say("the session is not open yet", now)
            }
            compose::Deed::Submit(parts) => {
                tab.list.to_end();
                // The reason for a refusal goes before everything else that waits.
                let first = std::mem::take(&mut tab.reason);
                vec![if first { Effect::First(tab.id, parts) } else { Effect::Prompt(tab.id, parts) }]
            }
        }
    }

    /// Ctrl+C: keeps the draft and clears it; else stops the turn; else leaves, when it is pressed twice.
    pub(super) fn interrupt(&mut self, now: Instant) -> Vec<Effect> {
        let tab = self.tab_mut();
        if !tab.composer.is_empty() {
            // It goes into the history there.
            tab.composer.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), now);
            return self.say("the draft is in the history: Up brings it back", now);
        }
        if tab.runs() || tab.dock.since.is_some() {
            return self.deed(Deed::Cancel, now);
        }
        if self.leaving.is_some() {
            return vec![Effect::Quit];
        }
        self.leaving = Some(now);
        let words = self.leaves_behind().map_or("leaves".into(), |what| format!("{what} and leaves"));
        self.say(format!("Ctrl+C again {words}"), now)
    }
}
