//! The loop: events in, effects out, a frame when something changed. All that is ready is taken before a frame is drawn, there are
//! at most 30 frames a second, and no timer when nothing moves.

use crate::event::{Event, TabId};
use crate::rows::Cache;
use crate::screen::{self, Screen};
use crate::state::State;
use crate::work::Work;
use crate::{Opener, Which, effect::Effect, view};
use crossterm::event::{Event as Terminal, EventStream};
use futures_core::Stream as _;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline::schema::{Update, from_base64};
use tieline_client::live::{self, Part};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// A loop that took longer has let keys wait.
const BUSY: Duration = Duration::from_millis(50);
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
    let mut work = Work::new(opener, sender);
    let (mut state, effects) = State::new(which, prompt, Instant::now());
    if let Some(agent) = first {
        state.tab_mut().welcome(agent, &agents);
    }
    state.mouse = !wants("TIELINE_NO_MOUSE");
    // The session is opened beside the screen.
    for effect in effects {
        work.begin(effect);
    }
    let mut screen = Screen::enter(state.mouse)?;
    let mut app = App {
        keys: Some(EventStream::new()),
        caches: HashMap::new(),
        todo: VecDeque::new(),
        leaves: false,
        title: String::new(),
        error: None,
        ready: VecDeque::new(),
        lent: None,
    };
    let stops = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()];
    let (mut stops, mut suspend) =
        (stops.map(signal), signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?);
    let (mut dirty, mut pressed, mut woken) = (true, false, Instant::now());
    let mut frames = Frames(woken);
    loop {
        app.work(&mut state, &mut work, &mut screen);
        if app.leaves {
            break;
        }
        let now = Instant::now();
        let cache = app.caches.entry(state.tab().id).or_default();
        cache.catch_up(&state.tab().talk);
        if dirty && frames.due(pressed) <= now && app.lent.is_none() {
            draw(&mut screen, &mut state, cache, now)?;
            frames.drawn(now);
            (dirty, pressed) = (cache.is_behind(), false);
            let title = wants("TIELINE_TITLE").then(|| view::title(&state)).filter(|title| *title != app.title);
            if let Some(title) = title {
                crossterm::execute!(io::stdout(), crossterm::terminal::SetTitle(&title))?;
                app.title = title;
            }
        }
        let now = Instant::now();
        if now - woken > BUSY {
            let tab = state.tab_mut();
            tab.composer.was_busy(now - woken, now);
            tab.dock.was_busy(now - woken, now);
        }
        // What is not laid out yet is gone on with at once.
        let behind = app.caches.get(&state.tab().id).is_some_and(Cache::is_behind);
        let wake = match (behind, dirty) {
            (true, _) => Some(now),
            (false, true) if app.lent.is_some() => None,
            (false, true) => Some(frames.due(pressed).max(now)),
            (false, false) => state.deadline(now),
        };
        let event = tokio::select! {
            biased;
            key = next_key(&mut app.keys) => key,
            // Ctrl+C is for whoever has the terminal.
            () = stopped(&mut stops, app.lent.is_some()) => Event::Stop,
            _ = suspend.recv() => {
                if app.lent.is_some() { stop_here() } else { app.todo.push_back(Effect::Suspend) }
                Event::Tick
            }
            () = given_back(app.lent.as_ref()) => {
                (app.lent, app.keys) = (None, Some(EventStream::new()));
                screen.take_back()?;
                Event::Resize
            }
            Some(event) = events.recv() => event,
            () = sleep_until(wake), if wake.is_some() => Event::Tick,
        };
        woken = Instant::now();
        dirty |= !matches!(event, Event::Tick) || !dirty;
        pressed |= matches!(event, Event::Key(_) | Event::Paste(_) | Event::Mouse(_));
        app.ready.push_back(event);
        while app.ready.len() < MAX_AT_ONCE
            && let Ok(event) = events.try_recv()
        {
            app.ready.push_back(event);
        }
        let now = Instant::now();
        for event in app.ready.drain(..) {
            heard(&event, &mut app.caches, now);
            app.todo.extend(state.handle(event, now));
        }
    }
    leave(&state, screen, &app.title)?;
    let _ = tokio::time::timeout(END, work.end()).await;
    app.error.map_or(Ok(()), Err)
}

/// Leaves the screen, and prints what was said on it.
fn leave(state: &State, screen: Screen, title: &str) -> io::Result<()> {
    let (width, _) = crossterm::terminal::size().unwrap_or((80, 24));
    let printed = state.print(width, MAX_PRINTED_LINES);
    drop(screen);
    let mut out = io::stdout().lock();
    if !title.is_empty() {
        crossterm::queue!(out, crossterm::terminal::SetTitle(""))?;
    }
    for line in printed {
        writeln!(out, "{line}")?;
    }
    out.flush()
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

/// What the rows have to know of a session: ages of calls, output of the agent's own terminals.
fn heard(event: &Event, caches: &mut HashMap<TabId, Cache>, now: Instant) {
    let (id, event) = match event {
        Event::Live(id, event) => (id, event),
        Event::Output(id, terminal, text) => {
            return caches.entry(*id).or_default().screens.feed(terminal, text.as_bytes());
        }
        _ => return,
    };
    let live::Event::Update { update, tool, .. } = &**event else { return };
    let cache = caches.entry(*id).or_default();
    if let Some(tool) = tool {
        cache.heard(tool, now);
    }
    match &**update {
        Update::TerminalOutput(chunk) => {
            cache.screens.feed(&chunk.terminal_id, &from_base64(&chunk.data).unwrap_or_default());
        }
        Update::ToolCall(call) => {
            // An extension of agents of version 1 that run their own terminals.
            let meta = call.meta.set().and_then(|meta| serde_json::from_str::<serde_json::Value>(meta.0.get()).ok());
            for output in
                ["terminal_output", "terminal_output_delta"].iter().filter_map(|name| meta.as_ref()?.get(name))
            {
                if let (Some(id), Some(data)) = (output["terminal_id"].as_str(), output["data"].as_str()) {
                    cache.screens.feed(id, data.as_bytes());
                }
            }
        }
        Update::Terminal(terminal) => {
            if let Some(output) = terminal.output.set() {
                cache.screens.set(&terminal.terminal_id, &from_base64(&output.data).unwrap_or_default());
            }
        }
        _ => {}
    }
}

fn draw(screen: &mut Screen, state: &mut State, cache: &mut Cache, now: Instant) -> io::Result<()> {
    use crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
    crossterm::queue!(io::stdout(), BeginSynchronizedUpdate)?;
    screen.terminal.draw(|frame| view::draw(frame, state, cache, now))?;
    crossterm::execute!(io::stdout(), EndSynchronizedUpdate)
}

async fn next_key(keys: &mut Option<EventStream>) -> Event {
    let Some(stream) = keys else { return std::future::pending().await };
    match poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await {
        Some(Ok(Terminal::Key(key))) => Event::Key(key),
        Some(Ok(Terminal::Paste(text))) => Event::Paste(text),
        Some(Ok(Terminal::Mouse(mouse))) => Event::Mouse(mouse),
        Some(Ok(Terminal::Resize(..))) => Event::Resize,
        Some(Ok(Terminal::FocusGained | Terminal::FocusLost)) => Event::Tick,
        // The terminal is gone.
        Some(Err(_)) | None => Event::Stop,
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

async fn given_back(lent: Option<&Arc<Notify>>) {
    match lent {
        Some(over) => over.notified().await,
        None => std::future::pending().await,
    }
}

/// Stops like any job, as it is.
fn stop_here() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

struct App {
    /// None while the terminal is somebody else's: nobody may eat their keys.
    keys: Option<EventStream>,
    caches: HashMap<TabId, Cache>,
    todo: VecDeque<Effect>,
    ready: VecDeque<Event>,
    leaves: bool,
    /// The terminal is somebody else's until this is told.
    lent: Option<Arc<Notify>>,
    /// The title of the window, if we set one.
    title: String,
    /// Why the terminal can't be used any more.
    error: Option<io::Error>,
}

impl App {
    /// Does what is to be done: with the terminal here, all else elsewhere.
    fn work(&mut self, state: &mut State, work: &mut Work, screen: &mut Screen) {
        while let Some(effect) = self.todo.pop_front() {
            let done = match effect {
                Effect::Quit => {
                    self.leaves = true;
                    Ok(())
                }
                Effect::Bell => {
                    // Only whoever wants it hears it.
                    if wants("TIELINE_BELL") {
                        Screen::bell();
                    }
                    Ok(())
                }
                Effect::Select(id) => {
                    let (tab, cache) = (state.tabs.iter().find(|tab| tab.id == id), self.caches.entry(id).or_default());
                    if let Some(text) = tab.and_then(|tab| tab.list.selection(&tab.talk, cache)) {
                        work.begin(Effect::Copy(text));
                    }
                    Ok(())
                }
                Effect::Redraw => screen.redraw(),
                Effect::Mouse(on) => screen.set_mouse(on),
                Effect::Suspend => self.lend(screen, stop_here),
                Effect::Lend(asked) => {
                    if let (live::What::Terminal(over), None) = (&asked.what, &self.lent) {
                        (self.lent, self.keys) = (Some(Arc::clone(over)), None);
                        Screen::give("The agent's own program logs you in here; the chat comes back when it ends.");
                        asked.reply(live::Reply::Terminal);
                    } else {
                        asked.reply(live::Reply::Login(None));
                    }
                    Ok(())
                }
                Effect::Print(id) => match state.tabs.iter().find(|tab| tab.id == id) {
                    Some(tab) => {
                        let (width, height) = crossterm::terminal::size().unwrap_or((80, 24));
                        let lines = tab.list.print(&tab.talk, width, MAX_PRINTED_LINES);
                        screen.print(&lines, height)
                    }
                    None => Ok(()),
                },
                Effect::Editor(text) => {
                    let mut edited = Ok(text.clone());
                    let lent = self.lend(screen, || edited = screen::edit(&text));
                    let event =
                        edited.map_or_else(|why| Event::Told(format!("the editor failed: {why}")), Event::Edited);
                    self.todo.extend(state.handle(event, Instant::now()));
                    lent
                }
                effect => {
                    work.begin(effect);
                    Ok(())
                }
            };
            if let Err(error) = done {
                (self.leaves, self.error) = (true, Some(error));
            }
        }
    }

    fn lend(&mut self, screen: &mut Screen, work: impl FnOnce()) -> io::Result<()> {
        self.keys = None;
        let lent = screen.lend(work);
        self.keys = Some(EventStream::new());
        lent
    }
}
