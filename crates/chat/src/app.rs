//! The loop: events in, effects out, a frame when something changed. All that is ready is taken before a frame is drawn, there are
//! at most 30 frames a second, and no timer when nothing moves.

use crate::event::Event;
use crate::screen::{self, Screen};
use crate::state::State;
use crate::work::Work;
use crate::{Opener, Which, effect::Effect, view};
use crossterm::event::{self, Event as Terminal, EventStream};
use crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate, SetTitle};
use futures_core::Stream as _;
use std::future::poll_fn;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_client::live::{self, Part};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// What is read from the terminal already is looked for this long: any time at all, but none that anybody waits for.
const AT_HAND: Duration = Duration::from_micros(500);
/// So many events wait; who tells more waits, too.
const MAX_WAITING: usize = 256;
/// So many events are taken before a key or a frame has its turn.
const MAX_AT_ONCE: usize = 256;
/// So many lines of the conversation are printed on leaving.
const MAX_PRINTED_LINES: usize = 10_000;
/// How long agents get to end when we leave.
const END: Duration = Duration::from_secs(4);

/// Runs the chat on this terminal until the user leaves.
pub async fn run(opener: Arc<dyn Opener>, which: Which, prompt: Vec<Part>) -> io::Result<()> {
    let (sender, mut events) = mpsc::channel(MAX_WAITING);
    let (first, agents) = (opener.first(), opener.agents());
    let work = Work::new(opener, sender);
    let (mut state, effects) = State::new(which, prompt, Instant::now());
    if let Some(agent) = first {
        state.tab_mut().welcome(agent, &agents);
    }
    state.mouse = !wants("TIELINE_NO_MOUSE");
    // The session is opened beside the screen.
    for effect in effects {
        work.begin(effect);
    }
    let mut app = App {
        screen: Screen::enter(state.mouse)?,
        work,
        keys: Some(EventStream::new()),
        lent: None,
        title: String::new(),
        ended: None,
    };
    let stops = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()];
    let (mut stops, mut suspend) =
        (stops.map(signal), signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?);
    let (mut effects, mut dirty, mut pressed, mut woken) = (Vec::new(), true, false, Instant::now());
    let mut frames = Frames(woken);
    let ended = loop {
        app.work(std::mem::take(&mut effects), &mut state);
        if let Some(ended) = app.ended.take() {
            break ended;
        }
        let now = Instant::now();
        let tab = state.tab_mut();
        tab.cache.catch_up(&tab.talk);
        if dirty && frames.due(pressed) <= now && app.lent.is_none() {
            app.draw(&mut state, now)?;
            frames.drawn(now);
            (dirty, pressed) = (state.tab().cache.is_behind(), false);
        }
        let now = Instant::now();
        let tab = state.tab_mut();
        tab.composer.was_busy(now - woken, now);
        tab.dock.was_busy(now - woken, now);
        let wake = match dirty {
            // What is not laid out yet is gone on with at once.
            _ if tab.cache.is_behind() => Some(now),
            true if app.lent.is_some() => None,
            true => Some(frames.due(pressed).max(now)),
            false => state.deadline(now),
        };
        let event = tokio::select! {
            biased;
            key = if_any(app.keys.as_mut().map(next_key)) => key,
            // Ctrl+C is for whoever has the terminal.
            () = stopped(&mut stops, app.lent.is_some()) => Event::Stop,
            _ = suspend.recv() => {
                if app.lent.is_some() { stop_here() } else { effects.push(Effect::Suspend) }
                Event::Tick
            }
            () = if_any(app.lent.as_ref().map(|over| over.notified())) => {
                (app.lent, app.keys) = (None, Some(EventStream::new()));
                app.screen.take_back()?;
                Event::Resize
            }
            Some(event) = events.recv() => event,
            () = if_any(wake.map(|at| tokio::time::sleep_until(at.into()))) => Event::Tick,
        };
        woken = Instant::now();
        dirty = true;
        let keyed = matches!(event, Event::Key(_) | Event::Paste(_) | Event::Mouse(_));
        pressed |= keyed;
        // Keys that came together are taken together: how many there are tells a paste from typing.
        let keys = std::iter::from_fn(|| (keyed && app.keys.is_some()).then(key_at_hand)?).take(MAX_AT_ONCE - 1);
        let more = std::iter::from_fn(|| events.try_recv().ok()).take(MAX_AT_ONCE - 1);
        for event in std::iter::once(event).chain(keys).chain(more) {
            effects.extend(state.handle(event, woken));
        }
    };
    leave(&state, app.screen, &app.title)?;
    let _ = tokio::time::timeout(END, app.work.end()).await;
    ended
}

/// When the next frame is due. A key is not kept waiting for it: its own comes before, and the one behind it later.
struct Frames(Instant);

impl Frames {
    fn due(&self, pressed: bool) -> Instant {
        if pressed { self.0.checked_sub(FRAME).unwrap_or(self.0) } else { self.0 }
    }

    fn drawn(&mut self, now: Instant) {
        self.0 = self.0.max(now) + FRAME;
    }
}

/// True if the user wants something by a variable.
fn wants(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Waits for something, if there is anything to wait for.
async fn if_any<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn next_key(keys: &mut EventStream) -> Event {
    poll_fn(|context| Pin::new(&mut *keys).poll_next(context)).await.map_or(Event::Stop, key_event)
}

/// The next key, if it is there already.
fn key_at_hand() -> Option<Event> {
    event::poll(AT_HAND).is_ok_and(|there| there).then(|| key_event(event::read()))
}

fn key_event(read: io::Result<Terminal>) -> Event {
    match read {
        Ok(Terminal::Key(key)) => Event::Key(key),
        Ok(Terminal::Paste(text)) => Event::Paste(text),
        Ok(Terminal::Mouse(mouse)) => Event::Mouse(mouse),
        Ok(Terminal::Resize(..)) => Event::Resize,
        Ok(Terminal::FocusGained | Terminal::FocusLost) => Event::Tick,
        // The terminal is gone.
        Err(_) => Event::Stop,
    }
}

/// Waits for a signal that ends us: one of the first two, or any if those that keys send are meant for us.
async fn stopped(signals: &mut [io::Result<tokio::signal::unix::Signal>; 4], keys_are_others: bool) {
    poll_fn(|context| {
        let mut come = false;
        for (at, signal) in signals.iter_mut().enumerate() {
            let Ok(signal) = signal else { continue };
            while signal.poll_recv(context).is_ready() {
                come |= at < 2 || !keys_are_others;
            }
        }
        if come { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// Stops like any job, as it is.
fn stop_here() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}

struct App {
    screen: Screen,
    work: Work,
    /// None while the terminal is somebody else's: nobody may eat their keys.
    keys: Option<EventStream>,
    /// The terminal is somebody else's until this is told.
    lent: Option<Arc<Notify>>,
    /// The title of the window, if we set one.
    title: String,
    /// The user leaves, or the terminal can't be used any more.
    ended: Option<io::Result<()>>,
}

impl App {
    fn draw(&mut self, state: &mut State, now: Instant) -> io::Result<()> {
        crossterm::queue!(io::stdout(), BeginSynchronizedUpdate)?;
        self.screen.terminal.draw(|frame| view::draw(frame, state, now))?;
        crossterm::execute!(io::stdout(), EndSynchronizedUpdate)?;
        let title = view::title(state);
        if wants("TIELINE_TITLE") && title != self.title {
            crossterm::execute!(io::stdout(), SetTitle(&title))?;
            self.title = title;
        }
        Ok(())
    }

    /// Does what is to be done: with the terminal here, all else elsewhere.
    fn work(&mut self, effects: Vec<Effect>, state: &mut State) {
        for effect in effects {
            if let Err(error) = self.perform(effect, state) {
                self.ended = Some(Err(error));
            }
        }
    }

    fn perform(&mut self, effect: Effect, state: &mut State) -> io::Result<()> {
        match effect {
            Effect::Quit => self.ended = Some(Ok(())),
            // Only whoever wants it hears it.
            Effect::Bell if wants("TIELINE_BELL") => Screen::bell(),
            Effect::Redraw => self.screen.redraw()?,
            Effect::Mouse(on) => self.screen.set_mouse(on)?,
            Effect::Suspend => self.lend(stop_here)?,
            Effect::Lend(asked) => {
                if let (live::What::Terminal(over), None) = (&asked.what, &self.lent) {
                    (self.lent, self.keys) = (Some(Arc::clone(over)), None);
                    Screen::give("The agent's own program logs you in here; the chat comes back when it ends.");
                    asked.reply(live::Reply::Terminal);
                } else {
                    asked.reply(live::Reply::Login(None));
                }
            }
            Effect::Print(id) => {
                let (width, height) = crossterm::terminal::size().unwrap_or((80, 24));
                if let Some(tab) = state.tabs.iter().find(|tab| tab.id == id) {
                    self.screen.print(&tab.list.print(&tab.talk, width, MAX_PRINTED_LINES), height)?;
                }
            }
            Effect::Editor(text) => {
                let edited = self.lend(|| screen::edit(&text))?;
                let event = edited.map_or_else(|why| Event::Told(format!("the editor failed: {why}")), Event::Edited);
                let effects = state.handle(event, Instant::now());
                self.work(effects, state);
            }
            effect => self.work.begin(effect),
        }
        Ok(())
    }

    fn lend<T>(&mut self, work: impl FnOnce() -> T) -> io::Result<T> {
        self.keys = None;
        let lent = self.screen.lend(work);
        self.keys = Some(EventStream::new());
        lent
    }
}

/// Leaves the screen, and prints what was said on it.
fn leave(state: &State, screen: Screen, title: &str) -> io::Result<()> {
    let (width, _) = crossterm::terminal::size().unwrap_or((80, 24));
    let printed = state.print(width, MAX_PRINTED_LINES);
    drop(screen);
    let mut out = io::stdout().lock();
    if !title.is_empty() {
        crossterm::queue!(out, SetTitle(""))?;
    }
    for line in printed {
        writeln!(out, "{line}")?;
    }
    out.flush()
}
