//! The state of the chat: a pure reducer. It knows no terminal, no clock and no task; what is to be done comes out as effects.

use crate::ask::{self, IDLE};
use crate::compose;
use crate::effect::Effect;
use crate::event::{Event, TabId};
use crate::keys::{self, Deed};
use crate::list::Mark;
use crate::pick::{self, Pick, Picker, Source};
use crate::rows::Detail;
use crate::tab::Tab;
use crate::{Go, Which};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent, MouseEventKind};
use std::time::{Duration, Instant};
use tieline_client::live::{Part, Queued, Reply, State as Doing, What};
use tieline_client::permission::Answer;

/// Something that is said in passing goes away after this long.
const SAID: Duration = Duration::from_secs(6);
/// A second Ctrl+C within this time leaves.
const AGAIN: Duration = Duration::from_secs(3);
/// So many tabs there are at most.
const MAX_TABS: usize = 20;
/// So many rows the wheel moves.
const WHEEL_ROWS: i64 = 3;

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

/// Everything that is on the screen.
#[derive(Debug)]
pub struct State {
    /// The tabs.
    pub tabs: Vec<Tab>,
    /// The one that is shown.
    pub at: usize,
    /// What lies over it.
    pub over: Option<Over>,
    /// How much is shown.
    pub detail: Detail,
    /// The mouse is ours.
    pub mouse: bool,
    /// Said in passing, and since when.
    pub said: Option<(String, Instant)>,
    /// Since when a second Ctrl+C would leave.
    leaving: Option<Instant>,
    next: TabId,
}

impl State {
    /// A chat with one tab, and what opens it.
    pub fn new(which: Which, prompt: Vec<Part>, now: Instant) -> (Self, Vec<Effect>) {
        let mut state = Self {
            tabs: Vec::new(),
            at: 0,
            over: None,
            detail: Detail::default(),
            mouse: true,
            said: None,
            leaving: None,
            next: 1,
        };
        let effects = state.open(which, prompt, now);
        (state, effects)
    }

    /// The tab that is shown.
    pub fn tab(&self) -> &Tab {
        &self.tabs[self.at]
    }

    /// The same, to change it.
    pub fn tab_mut(&mut self) -> &mut Tab {
        &mut self.tabs[self.at]
    }

    /// Takes an event.
    pub fn handle(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let effects = match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
            Event::Key(key) => self.key(key, now),
            Event::Paste(text) => self.paste(&text, now),
            Event::Mouse(mouse) => self.mouse(mouse),
            // The next frame is one of the new size.
            Event::Resize | Event::Tick => Vec::new(),
            Event::Stop => vec![Effect::Quit],
            Event::Live(id, event) => {
                let seen = self.tab().id == id;
                self.find(id).map(|tab| tab.live(*event, seen, now)).unwrap_or_default()
            }
            Event::Opened(id, facts) => {
                if let Some(tab) = self.find(id) {
                    tab.opened(*facts);
                }
                Vec::new()
            }
            Event::NotOpened(id, failure) => {
                if let Some(tab) = self.find(id) {
                    tab.not_opened(&failure, now);
                }
                Vec::new()
            }
            Event::Queue(id, queue) => {
                if let Some(tab) = self.find(id) {
                    tab.queue = queue;
                }
                Vec::new()
            }
            Event::About(id, about) => {
                if let Some(tab) = self.find(id) {
                    tab.composer.set_commands(&about.commands);
                    tab.about = *about;
                }
                Vec::new()
            }
            Event::Told(text) => self.say(text, now),
            Event::Found(picker) => {
                // Whoever left it meanwhile does not want it any more.
                if matches!(&self.over, Some(Over::Pick(shown)) if shown.looking) {
                    self.over = Some(Over::Pick(picker));
                }
                Vec::new()
            }
            Event::Read(title, lines) => {
                self.over = Some(Over::Read(title, lines, 0));
                Vec::new()
            }
            Event::Edited(text) => {
                self.tab_mut().composer.set_text(text.trim_end_matches('\n'));
                Vec::new()
            }
            Event::Woken => {
                self.tabs.iter_mut().for_each(|tab| tab.composer.woken());
                Vec::new()
            }
            Event::Picture(id, picture) => match (self.find(id), picture) {
                (Some(tab), Ok(path)) => {
                    let deed = tab.composer.attach(&path);
                    self.composed(deed, now)
                }
                (_, Err(why)) => self.say(why, now),
                (None, _) => Vec::new(),
            },
            Event::Ran(id, line, output) => {
                if let Some(tab) = self.find(id) {
                    tab.notice(Mark::Info, format!("! {line}\n{output}"));
                }
                Vec::new()
            }
        };
        self.tick(now);
        let deed = self.tab_mut().composer.tick(now);
        let mut effects = effects;
        effects.extend(self.composed(deed, now));
        effects
    }

    fn find(&mut self, id: TabId) -> Option<&mut Tab> {
        self.tabs.iter_mut().find(|tab| tab.id == id)
    }

    /// Something is said in passing.
    fn say(&mut self, text: impl Into<String>, now: Instant) -> Vec<Effect> {
        self.said = Some((text.into(), now));
        Vec::new()
    }

    /// What time alone does: words go away, and a question takes the keys of an empty composer that was left alone.
    fn tick(&mut self, now: Instant) {
        let over = |since: Instant, time: Duration| now.saturating_duration_since(since) >= time;
        self.said.take_if(|(_, since)| over(*since, SAID));
        self.leaving.take_if(|since| over(*since, AGAIN));
        let free = self.over.is_none();
        let tab = self.tab_mut();
        tab.attention = false;
        let Some(asked) = tab.questions.first().filter(|_| free && tab.dock.since.is_none()) else { return };
        let alone = tab.composer.last_touched().is_none_or(|touched| over(touched, IDLE));
        // What is typed into a form is sent somewhere: it takes no key by itself.
        let is_form = matches!(asked.what, What::Form(_));
        if alone && !is_form && tab.composer.is_empty() && tab.left != Some(asked.number) {
            tab.dock.focus(now);
        }
    }

    /// When something moves by itself next; `None` if nothing does, so that there is no timer at all.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let tab = self.tab();
        let second = Duration::from_secs(1);
        let waits = tab.runs() || matches!(tab.state.0, Doing::Opening) || !tab.questions.is_empty();
        let clock = (waits && !tab.closed).then(|| {
            let age = now.saturating_duration_since(tab.state.1);
            now + second.saturating_sub(Duration::from_nanos(u64::from(age.subsec_nanos())))
        });
        let focus =
            tab.composer.last_touched().map(|touched| touched + IDLE).filter(|at| {
                *at > now && !tab.questions.is_empty() && tab.dock.since.is_none() && tab.composer.is_empty()
            });
        let said = self.said.as_ref().map(|(_, since)| *since + SAID);
        let leaving = self.leaving.map(|since| since + AGAIN);
        [clock, focus, said, leaving, tab.composer.due()].into_iter().flatten().min()
    }

    fn open(&mut self, which: Which, prompt: Vec<Part>, now: Instant) -> Vec<Effect> {
        if self.tabs.len() >= MAX_TABS {
            return self.say("there are too many tabs", now);
        }
        let id = self.next;
        self.next += 1;
        self.tabs.push(Tab::new(id, now));
        self.at = self.tabs.len() - 1;
        vec![Effect::Open(id, which, prompt)]
    }

    fn paste(&mut self, text: &str, now: Instant) -> Vec<Effect> {
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

    fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        let rows = match mouse.kind {
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

    fn key(&mut self, key: KeyEvent, now: Instant) -> Vec<Effect> {
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
        let empty = tab.composer.is_empty();
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
    fn enter(&mut self, now: Instant) -> Vec<Effect> {
        let tab = self.tab();
        match tab.state.0 {
            _ if !tab.queue.is_empty() => self.deed(Deed::SendNow, now),
            Doing::Lost => self.deed(Deed::Revive, now),
            _ => Vec::new(),
        }
    }

    /// A key for the docked question, if it has the keys.
    fn dock_key(&mut self, key: KeyEvent, now: Instant) -> Option<Vec<Effect>> {
        let tab = self.tab_mut();
        tab.dock.since?;
        let asked = tab.questions.first()?.clone();
        match tab.dock.key(&asked, key, now) {
            ask::Pressed::Taken => Some(Vec::new()),
            ask::Pressed::Said(words) => Some(self.say(words, now)),
            ask::Pressed::Answer(reply) => Some(self.answer(reply, now)),
            ask::Pressed::Reason => {
                let effects = self.answer(Reply::Permission(Answer::Refuse), now);
                let tab = self.tab_mut();
                tab.reason = true;
                tab.dock.blur();
                self.say("say why: it is sent first when the turn is over, or now with Enter twice", now);
                Some(effects)
            }
            ask::Pressed::Back(numbers) => {
                tab.left = Some(asked.number);
                tab.dock.blur();
                for c in numbers.chars() {
                    tab.composer.key(KeyEvent::from(KeyCode::Char(c)), now);
                }
                let types = matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace);
                Some(if types { self.compose(key, now) } else { Vec::new() })
            }
            ask::Pressed::Whole => {
                // Broken where it is shown.
                let lines = ask::matter(&asked.what, usize::from(u16::MAX));
                let line = |line: &ratatui::text::Line<'_>| line.spans.iter().map(|span| &*span.content).collect();
                self.over = Some(Over::Read("What is decided on".into(), lines.iter().map(line).collect(), 0));
                Some(Vec::new())
            }
            ask::Pressed::NotOurs => None,
        }
    }

    fn answer(&mut self, reply: Reply, now: Instant) -> Vec<Effect> {
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

    fn compose(&mut self, key: KeyEvent, now: Instant) -> Vec<Effect> {
        let deed = self.tab_mut().composer.key(key, now);
        self.composed(deed, now)
    }

    fn composed(&mut self, deed: compose::Deed, now: Instant) -> Vec<Effect> {
        let tab = self.tab_mut();
        match deed {
            compose::Deed::None | compose::Deed::Pass => Vec::new(),
            compose::Deed::Say(words) => self.say(words, now),
            compose::Deed::Shell(line) => vec![Effect::Shell(tab.id, line)],
            compose::Deed::Clipboard => vec![Effect::Clipboard(tab.id)],
            compose::Deed::Editor(text) => vec![Effect::Editor(text)],
            compose::Deed::Submit(parts) if !tab.is_open => {
                tab.take_back(&parts);
                self.say("the session is not open yet", now)
            }
            compose::Deed::Submit(parts) => {
                tab.list.to_end();
                let (id, first) = (tab.id, std::mem::take(&mut tab.reason));
                if first && tab.runs() {
                    // The reason for a refusal goes before everything else that waits.
                    let mut queue = vec![Queued { number: 0, parts }];
                    queue.append(&mut tab.queue);
                    return vec![Effect::SetQueue(id, queue)];
                }
                vec![Effect::Prompt(id, parts)]
            }
        }
    }

    /// Ctrl+C: keeps the draft and clears it; else stops the turn; else leaves, when it is pressed twice.
    fn interrupt(&mut self, now: Instant) -> Vec<Effect> {
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
        self.say("Ctrl+C again leaves", now)
    }

    fn show(&mut self, at: usize) -> Vec<Effect> {
        if at < self.tabs.len() {
            self.at = at;
        }
        Vec::new()
    }

    fn look(&mut self, title: &str, source: Source) -> Vec<Effect> {
        self.over = Some(Over::Pick(Picker::looking(title)));
        vec![Effect::Look(self.tab().id, source)]
    }

    /// Does what a key or the palette asks for.
    pub fn deed(&mut self, deed: Deed, now: Instant) -> Vec<Effect> {
        let count = self.tabs.len();
        let tab = &mut self.tabs[self.at];
        let id = tab.id;
        match deed {
            Deed::Palette => self.over = Some(Over::Pick(pick::palette())),
            Deed::Help => self.over = Some(Over::Read("Keys".into(), help(), 0)),
            Deed::Sessions => return self.look("Sessions", Source::Sessions),
            Deed::Agents => return self.look("Agents", Source::Agents),
            Deed::Undo => return self.look("Take changes back", Source::Turns),
            Deed::Traffic => return vec![Effect::Look(id, Source::Traffic)],
            Deed::Options if tab.about.options.is_empty() => {
                return self.say("the agent offers nothing to choose", now);
            }
            Deed::Options => self.over = Some(Over::Pick(pick::options(&tab.about.options))),
            Deed::Queue if tab.queue.is_empty() => return self.say("nothing waits", now),
            Deed::Queue => self.over = Some(Over::Pick(pick::queue(&tab.queue, tab.about.now.words()))),
            Deed::SendNow => {
                let Some(queued) = tab.queue.first().cloned() else { return self.say("nothing waits", now) };
                return if tab.runs() { vec![Effect::SendNow(id, queued)] } else { vec![Effect::Revive(id)] };
            }
            Deed::Cancel => return self.cancel(now),
            Deed::Kill => {
                tab.killed = true;
                return vec![Effect::Kill(id)];
            }
            Deed::Revive => return vec![Effect::Revive(id)],
            Deed::Detail => {
                self.detail = match self.detail {
                    Detail::Brief => Detail::Normal,
                    Detail::Normal => Detail::Full,
                    Detail::Full => Detail::Brief,
                };
                let words = format!("detail: {:?}", self.detail).to_lowercase();
                return self.say(words, now);
            }
            Deed::Open => tab.list.toggle(),
            Deed::ItemUp => tab.list.pick(false),
            Deed::ItemDown => tab.list.pick(true),
            Deed::Copy => {
                let source = tab.list.source(&tab.talk);
                return source
                    .map_or_else(|| self.say("there is nothing to copy", now), |text| vec![Effect::Copy(text)]);
            }
            Deed::PageUp => tab.list.page(-1),
            Deed::PageDown => tab.list.page(1),
            Deed::Top => tab.list.to_top(),
            Deed::End => tab.list.to_end(),
            Deed::Search => self.over = Some(Over::Line(For::Search, String::new())),
            Deed::NewTab => {
                let agent = Some(tab.agent.clone()).filter(|agent| !agent.is_empty());
                return self.open(Which { agent, session: Go::New }, Vec::new(), now);
            }
            Deed::NextTab => self.at = (self.at + 1) % count,
            Deed::PreviousTab => self.at = (self.at + count - 1) % count,
            Deed::CloseTab => return self.close_tab(),
            Deed::Mouse => {
                self.mouse = !self.mouse;
                let words = if self.mouse {
                    "the mouse scrolls here"
                } else {
                    "the mouse is the terminal's: select and paste as usual"
                };
                self.say(words, now);
                return vec![Effect::Mouse(self.mouse)];
            }
            Deed::Print => return vec![Effect::Print(id)],
            Deed::Redraw => return vec![Effect::Redraw],
            Deed::Suspend => return vec![Effect::Suspend],
            Deed::Quit => return vec![Effect::Quit],
        }
        Vec::new()
    }

    fn close_tab(&mut self) -> Vec<Effect> {
        if self.tabs.len() == 1 {
            return vec![Effect::Quit];
        }
        let tab = self.tabs.remove(self.at);
        self.at = self.at.min(self.tabs.len() - 1);
        vec![Effect::Close(tab.id)]
    }

    /// The ladder: first the agent is asked to stop; whoever asks again may kill it, and decides that.
    fn cancel(&mut self, now: Instant) -> Vec<Effect> {
        let tab = self.tab_mut();
        match tab.state.0 {
            Doing::Running | Doing::Asking => vec![Effect::Cancel(tab.id)],
            Doing::Cancelling => {
                let menu = Picker::new("The agent was asked to stop and did not yet", Vec::new())
                    .line("Wait on", "it may be putting something in order", Pick::Nothing)
                    .line(
                        "Kill it",
                        "its process and all that it started; the session can be taken up again",
                        Pick::Kill,
                    );
                self.over = Some(Over::Pick(menu));
                Vec::new()
            }
            _ if !tab.list.follows() => {
                tab.list.to_end();
                Vec::new()
            }
            _ => self.say("nothing runs; Ctrl+D leaves", now),
        }
    }

    fn over_key(&mut self, key: KeyEvent, now: Instant) -> Vec<Effect> {
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

    fn typed(&mut self, purpose: For, line: &str, now: Instant) -> Vec<Effect> {
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

    fn picked(&mut self, pick: Pick, now: Instant) -> Vec<Effect> {
        let id = self.tab().id;
        let place = |tab: &Tab, number: u64| tab.queue.iter().position(|queued| queued.number == number);
        match pick {
            Pick::Deed(deed) => self.deed(deed, now),
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
                        tab.take_back(&queued.parts);
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

fn help() -> Vec<String> {
    let typed = keys::TYPED.iter().map(|(key, help)| format!("  {key:<18} {help}"));
    let keys = keys::KEYS.iter().filter(|binding| !binding.name.is_empty());
    let keys = keys.map(|binding| format!("  {:<18} {}", binding.name, binding.help));
    let mut lines = vec!["What is typed".to_owned()];
    lines.extend(typed);
    lines.extend([String::new(), "Keys".to_owned()]);
    lines.extend(keys);
    lines.extend(
        ["", "A question of the agent", "  Tab                takes the keys, or gives them back"].map(str::to_owned),
    );
    lines
        .extend(["  1 … 9, ↑ ↓         choose; Enter answers, Esc refuses; Ctrl+O reads all of it"].map(str::to_owned));
    lines
}
