//! What a key, a paste and the mouse do, before anything else: who gets them.

use super::{Over, Reading, State};
use crate::ask;
use crate::compose;
use crate::effect::Effect;
use crate::keys::{self, Deed};
use crate::list::Mark;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;
use std::time::Instant;
use tieline_client::elicit::Consent;
use tieline_client::live::{Reply, State as Doing, What};
use tieline_client::permission::Answer;
use tieline_client::sanitize;

/// So many rows the wheel moves.
const WHEEL_ROWS: isize = 3;

impl State {
    pub(super) fn paste(&mut self, text: &str, now: Instant) {
        match &mut self.over {
            // A paste picks nothing and answers nothing.
            Some(Over::Line(_, line)) => line.push_str(&text.replace(['\n', '\r'], " ")),
            Some(_) => {}
            None => {
                let tab = self.tab_mut();
                if tab.questions.first().is_some_and(|asked| tab.dock.paste(asked, text)) {
                    return;
                }
                tab.dock.blur();
                let deed = tab.composer.paste(text, now);
                self.composed(deed, now);
            }
        }
    }

    /// The wheel scrolls, dragging selects and copies; a click on a question gives it the keys, and answers nothing.
    pub(super) fn mouse(&mut self, mouse: MouseEvent, now: Instant) {
        let at = Position { x: mouse.column, y: mouse.row };
        let docked = self.docked.contains(at);
        let rows = match mouse.kind {
            MouseEventKind::ScrollUp => -WHEEL_ROWS,
            MouseEventKind::ScrollDown => WHEEL_ROWS,
            _ => 0,
        };
        match &mut self.over {
            Some(Over::Read(reading)) => reading.scroll(rows),
            Some(_) => {}
            None => {
                let tab = self.tab_mut();
                tab.list.scroll(rows);
                match mouse.kind {
                    MouseEventKind::Down(MouseButton::Left) if docked && !tab.questions.is_empty() => {
                        tab.dock.focus(now);
                    }
                    MouseEventKind::Down(MouseButton::Left) => tab.list.press(at),
                    MouseEventKind::Drag(MouseButton::Left) => tab.list.drag(at),
                    MouseEventKind::Up(MouseButton::Left) => {
                        let text = tab.list.release(&tab.talk, &mut tab.cache);
                        self.wanted.extend(text.map(Effect::Copy));
                    }
                    _ => {}
                }
            }
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent, now: Instant) {
        if self.over.is_some() {
            return self.over_key(key, now);
        }
        if key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL {
            return self.interrupt(now);
        }
        if let (KeyCode::Char(c @ '1'..='9'), KeyModifiers::ALT) = (key.code, key.modifiers) {
            return self.show(c as usize - '1' as usize);
        }
        if self.dock_key(key, now) {
            return;
        }
        let tab = self.tab_mut();
        let empty = tab.composer.is_empty();
        match (key.code, key.modifiers, keys::find(key)) {
            (KeyCode::Tab, KeyModifiers::NONE, _) if !tab.questions.is_empty() => tab.dock.focus(now),
            (KeyCode::Char('?'), KeyModifiers::NONE | KeyModifiers::SHIFT, _) if empty => self.deed(Deed::Help, now),
            (KeyCode::Enter, KeyModifiers::NONE, _) if empty => self.enter(now),
            // These are the composer's first.
            (.., Some(Deed::Cancel)) => match tab.composer.key(key, now) {
                compose::Deed::Pass => self.deed(Deed::Cancel, now),
                deed => self.composed(deed, now),
            },
            (.., Some(Deed::Quit)) if !empty => {
                self.say("something is typed: Ctrl+C puts it into the history, then Ctrl+D leaves", now);
            }
            (.., Some(deed)) => self.deed(deed, now),
            _ => self.compose(key, now),
        }
    }

    /// Enter where nothing is typed: the first of the queue goes now, a lost agent comes back.
    fn enter(&mut self, now: Instant) {
        let tab = self.tab_mut();
        tab.list.to_end();
        match tab.state {
            _ if !tab.questions.is_empty() => self.say("a question waits: Tab answers it", now),
            _ if !tab.queue.is_empty() => self.deed(Deed::SendNow, now),
            Doing::Lost => self.deed(Deed::Revive, now),
            _ => {}
        }
    }

    /// A key for the docked question. False if it has not the keys, or not this one.
    fn dock_key(&mut self, key: KeyEvent, now: Instant) -> bool {
        let tab = self.tab_mut();
        let Some(asked) = tab.questions.first().filter(|_| tab.dock.since.is_some()).cloned() else { return false };
        match tab.dock.key(&asked, key, now) {
            ask::Pressed::Taken => {}
            ask::Pressed::Said(words) => self.say(words, now),
            ask::Pressed::Answer(reply) => self.answer(reply, now),
            ask::Pressed::Reason => {
                tab.reason = true;
                // Before the answer: the turn may be over with it.
                let hold = Effect::Hold(tab.id);
                self.want(hold);
                self.answer(Reply::Permission(Answer::Refuse), now);
                self.tab_mut().dock.blur();
                self.say("say why: it goes to the agent next, before all that waits", now);
            }
            ask::Pressed::Back(numbers) => {
                let types = matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace);
                // Who types something and takes it back has not said that the question can wait.
                tab.left = (!types).then_some(asked.number);
                tab.dock.blur();
                for c in numbers.chars() {
                    tab.composer.key(KeyEvent::from(KeyCode::Char(c)), now);
                }
                if types {
                    self.compose(key, now);
                }
            }
            ask::Pressed::Whole => {
                self.over = Some(Over::Read(Reading::new("What is decided on", ask::whole(&asked.what))));
            }
            ask::Pressed::NotOurs => return false,
        }
        true
    }

    fn answer(&mut self, reply: Reply, now: Instant) {
        let tab = self.tab_mut();
        if tab.questions.is_empty() {
            return;
        }
        let asked = tab.questions.remove(0);
        tab.next_question(now);
        let browse = match (&asked.what, &reply) {
            (What::Page(page), Reply::Page(Consent::Accept)) => Some(Effect::Browse(page.url.clone())),
            _ => None,
        };
        self.want(Effect::Reply(asked, reply));
        self.wanted.extend(browse);
    }

    fn compose(&mut self, key: KeyEvent, now: Instant) {
        let deed = self.tab_mut().composer.key(key, now);
        self.composed(deed, now);
    }

    pub(super) fn composed(&mut self, deed: compose::Deed, now: Instant) {
        let tab = self.tab_mut();
        let id = tab.id;
        match deed {
            compose::Deed::None | compose::Deed::Pass => {}
            compose::Deed::Say(words) => self.say(words, now),
            compose::Deed::Shell(line) => {
                tab.shells += 1;
                let place = tab.list.notice(&tab.talk, Mark::Info, format!("! {}", sanitize::line(&line)));
                self.want(Effect::Shell(id, place, line));
            }
            compose::Deed::Clipboard => self.want(Effect::Clipboard(id)),
            compose::Deed::Editor(text) => self.want(Effect::Editor(text)),
            compose::Deed::Submit(parts) if !tab.is_open => {
                tab.composer.take_back(&parts);
                self.say("the session is not open yet", now);
            }
            compose::Deed::Submit(parts) => {
                self.said = None;
                let tab = self.tab_mut();
                tab.list.to_end();
                // The reason for a refusal goes before everything else that waits.
                let first = std::mem::take(&mut tab.reason);
                let others = std::mem::take(&mut tab.edits);
                self.want(match first {
                    true => Effect::First(id, parts),
                    false if others.is_empty() => Effect::Prompt(id, parts),
                    false => Effect::Before(id, parts, others),
                });
            }
        }
    }

    /// Ctrl+C: keeps the draft and clears it; else stops the turn; else leaves, when it is pressed twice.
    fn interrupt(&mut self, now: Instant) {
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
            return self.want(Effect::Quit);
        }
        self.leaving = Some(now);
        let words = self.leaves_behind().map_or("leaves".into(), |what| format!("{what} and leaves"));
        self.say(format!("Ctrl+C again {words}"), now);
    }
}
