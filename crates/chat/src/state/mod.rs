//! The state of the chat: a pure reducer. It knows no terminal, no clock and no task; what is to be done comes out as effects.

mod deeds;
mod over;
mod press;

use crate::Which;
use crate::ask::IDLE;
use crate::compose;
use crate::effect::Effect;
use crate::event::{Event, TabId};
use crate::rows::Detail;
use crate::tab::{FIRST, Tab};
use crossterm::event::KeyEventKind;
pub use over::{For, Over, Reading};
use ratatui::layout::Rect;
use std::time::{Duration, Instant};
use tieline_client::live::{Part, State as Doing, What};
use tieline_client::sanitize;
use tieline_host::roots::shown;
use tieline_host::text::counted;

/// Something that is said in passing goes away after this long.
const SAID: Duration = Duration::from_secs(6);
/// A second Ctrl+C or Ctrl+D within this time leaves: as long as it is said.
const AGAIN: Duration = SAID;
/// So many tabs there are at most.
const MAX_TABS: usize = 20;

/// Everything that is on the screen.
#[derive(Debug, Default)]
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
    /// Where the question was drawn last.
    pub docked: Rect,
    /// Said in passing, and since when.
    pub said: Option<(String, Instant)>,
    /// Since when a second Ctrl+C or Ctrl+D would leave.
    leaving: Option<Instant>,
    next: TabId,
    /// What is to be done, until it is handed over.
    wanted: Vec<Effect>,
}

impl State {
    /// A chat with one tab, and what opens it.
    pub fn new(which: Which, prompt: Vec<Part>, now: Instant) -> (Self, Vec<Effect>) {
        let mut state = Self { mouse: true, next: FIRST, ..Self::default() };
        state.open(which, prompt, now);
        let wanted = std::mem::take(&mut state.wanted);
        (state, wanted)
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
        match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => {}
            Event::Key(key) => self.key(key, now),
            Event::Paste(text) => self.paste(&text, now),
            Event::Mouse(mouse) => self.mouse(mouse, now),
            // The next frame is one of the new size, and what agents run in terminals has to fit in it.
            Event::Resize => self.want(Effect::Resize),
            Event::Tick => {}
            Event::Stop => self.want(Effect::Quit),
            Event::Live(id, event) => {
                let seen = self.tab().id == id;
                let wanted = self.find(id).map(|tab| tab.live(*event, seen, now));
                self.wanted.extend(wanted.into_iter().flatten());
            }
            Event::Opened(id, facts) => self.tell(id, |tab| tab.opened(*facts)),
            Event::NotOpened(id, failure) => self.tell(id, |tab| tab.not_opened(&failure, now)),
            Event::Queue(id, queue) => self.tell(id, |tab| tab.queue = (queue.0)()),
            Event::About(id, about) => self.tell(id, |tab| {
                tab.composer.set_commands(&about.commands);
                tab.about = *about;
            }),
            Event::Output(id, terminal, text) => {
                self.tell(id, |tab| tab.cache.screens.feed(&terminal, text.as_bytes()));
            }
            Event::Ran(id, place, text, over) => self.tell(id, |tab| {
                tab.shells = tab.shells.saturating_sub(over.into());
                tab.list.retell(place, text);
            }),
            Event::Told(text) => self.say(text, now),
            Event::Found(picker) => {
                // Whoever left it meanwhile does not want it any more.
                if matches!(&self.over, Some(Over::Pick(shown)) if shown.looking) {
                    self.over = Some(Over::Pick(picker));
                }
            }
            Event::Read(title, lines) => self.over = Some(Over::Read(Reading::new(title, lines))),
            Event::Edited(text) => self.tab_mut().composer.set_text(text.trim_end_matches('\n')),
            Event::Woken => self.tabs.iter_mut().for_each(|tab| tab.composer.woken()),
            Event::Picture(_, Err(why)) => self.say(why, now),
            Event::Picture(id, Ok(path)) => {
                let deed = self.find(id).map(|tab| tab.composer.attach(&path));
                self.composed(deed.unwrap_or(compose::Deed::None), now);
            }
        }
        self.tick(now);
        self.tabs.iter_mut().for_each(|tab| tab.count_waits(now));
        let deed = self.tab_mut().composer.tick(now);
        self.composed(deed, now);
        // What was being edited is not any more.
        let tab = self.tab_mut();
        if tab.composer.is_empty() {
            tab.edits.clear();
        }
        std::mem::take(&mut self.wanted)
    }

    /// The tab in which a session is open.
    fn tab_of(&self, session: &str) -> Option<usize> {
        self.tabs.iter().position(|tab| tab.session.as_deref() == Some(session))
    }

    fn find(&mut self, id: TabId) -> Option<&mut Tab> {
        self.tabs.iter_mut().find(|tab| tab.id == id)
    }

    /// Does something to a tab, unless it was closed meanwhile.
    fn tell(&mut self, id: TabId, what: impl FnOnce(&mut Tab)) {
        if let Some(tab) = self.find(id) {
            what(tab);
        }
    }

    fn want(&mut self, effect: Effect) {
        self.wanted.push(effect);
    }

    /// Something is said in passing.
    fn say(&mut self, text: impl Into<String>, now: Instant) {
        self.said = Some((text.into(), now));
    }

    /// What time alone does: words go away, and a question takes the keys of an empty composer that was left alone.
    fn tick(&mut self, now: Instant) {
        let over = |since: Instant, time: Duration| now.saturating_duration_since(since) >= time;
        self.said.take_if(|(_, since)| over(*since, SAID));
        self.leaving.take_if(|since| over(*since, AGAIN));
        let stopped = self.tab().state != Doing::Cancelling;
        self.over.take_if(|over| stopped && matches!(over, Over::Pick(menu) if menu.title == deeds::ASKED_TO_STOP));
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
        let waits = tab.runs() || matches!(tab.state, Doing::Opening) || !tab.questions.is_empty();
        let clock = (waits && !tab.closed)
            .then(|| now + second.saturating_sub(Duration::from_nanos(u64::from(tab.age(now).subsec_nanos()))));
        let focus =
            tab.composer.last_touched().map(|touched| touched + IDLE).filter(|at| {
                *at > now && !tab.questions.is_empty() && tab.dock.since.is_none() && tab.composer.is_empty()
            });
        let said = self.said.as_ref().map(|(_, since)| *since + SAID);
        let leaving = self.leaving.map(|since| since + AGAIN);
        [clock, focus, said, leaving, tab.composer.due()].into_iter().flatten().min()
    }

    /// All conversations as plain lines, with how to go on with each; the one that is shown comes last.
    pub fn print(&self, width: u16, most: usize) -> Vec<String> {
        let (single, mut lines) = (self.tabs.len() == 1, Vec::new());
        let others = self.tabs.iter().enumerate().filter(|(at, _)| *at != self.at).map(|(_, tab)| tab);
        for tab in others.chain([self.tab()]).filter(|tab| single || !tab.list.is_fresh()) {
            if !single {
                lines.push(format!("── {} · {}", sanitize::line(&tab.agent), shown(&tab.cwd)));
            }
            lines.extend(tab.list.print(&tab.talk, width, most));
            if let Some(session) = &tab.session {
                let waits = match tab.queue.len() {
                    0 => String::new(),
                    waits => format!(" ({} in the queue)", counted(waits, "prompt")),
                };
                lines.extend([String::new(), format!("To go on: tieline chat -r {session}{waits}")]);
            }
        }
        lines
    }

    fn open(&mut self, which: Which, prompt: Vec<Part>, now: Instant) {
        if self.tabs.len() >= MAX_TABS {
            return self.say("there are too many tabs", now);
        }
        let id = self.next;
        self.next += 1;
        self.tabs.push(Tab::new(id, now));
        self.at = self.tabs.len() - 1;
        self.want(Effect::Open(id, which, prompt));
    }
}
