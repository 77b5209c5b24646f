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
use tokio::sync::mpsc;

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// A loop that took longer has let keys wait.
const BUSY: Duration = Duration::from_millis(50);
/// So many events wait; who tells more waits, too.
const MAX_WAITING: usize = 256;
/// So many events are taken before a frame has its turn.
const MAX_AT_ONCE: usize = 4096;
/// So many lines of the conversation are printed on leaving.
const MAX_PRINTED_LINES: usize = 10_000;
/// How long agents get to end when we leave.
const END: Duration = Duration::from_secs(4);

/// Runs the chat on this terminal until the user leaves.
pub async fn run(opener: Arc<dyn Opener>, which: Which, prompt: Vec<Part>) -> io::Result<()> {
    let (sender, mut events) = mpsc::channel(MAX_WAITING);
    let mut work = Work::new(opener, sender);
    let (mut state, effects) = State::new(which, prompt, Instant::now());
    state.mouse = !wants("TIELINE_NO_MOUSE");
    let mut screen = Screen::enter(state.mouse)?;
    let mut app = App {
        keys: Some(EventStream::new()),
        caches: HashMap::new(),
        todo: effects.into(),
        leaves: false,
        title: String::new(),
        error: None,
        ready: VecDeque::new(),
    };
    let stops = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()];
    let (mut stops, mut suspend) =
        (stops.map(signal), signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?);
    let (mut dirty, mut drawn, mut woken) = (true, None::<Instant>, Instant::now());
    loop {
        app.work(&mut state, &mut work, &mut screen);
        if app.leaves {
            break;
        }
        let now = Instant::now();
        let due = drawn.map_or(now, |at| at + FRAME);
        if dirty && due <= now {
            let cache = app.caches.entry(state.tab().id).or_default();
            draw(&mut screen, &mut state, cache, now)?;
            (dirty, drawn) = (cache.is_behind(), Some(Instant::now()));
            let title = wants("TIELINE_TITLE").then(|| view::title(&state)).filter(|title| *title != app.title);
            if let Some(title) = title {
                crossterm::execute!(io::stdout(), crossterm::terminal::SetTitle(&title))?;
                app.title = title;
            }
        }
        let now = Instant::now();
        if now - woken > BUSY {
            state.tab_mut().composer.was_busy(now - woken, now);
        }
        let wake = if dirty { Some(due.max(now)) } else { state.deadline(now) };
        let event = tokio::select! {
            biased;
            key = next_key(&mut app.keys) => key,
            () = stopped(&mut stops) => Event::Stop,
            _ = suspend.recv() => {
                app.todo.push_back(Effect::Suspend);
                Event::Tick
            }
            Some(event) = events.recv() => event,
            () = sleep_until(wake), if wake.is_some() => Event::Tick,
        };
        woken = Instant::now();
        dirty |= !matches!(event, Event::Tick) || !dirty;
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
    let (width, _) = crossterm::terminal::size().unwrap_or((80, 24));
    let printed = state.print(width, MAX_PRINTED_LINES);
    drop(screen);
    let mut out = io::stdout().lock();
    if !app.title.is_empty() {
        crossterm::queue!(out, crossterm::terminal::SetTitle(""))?;
    }
    for line in printed {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    drop(out);
    let _ = tokio::time::timeout(END, work.end()).await;
    app.error.map_or(Ok(()), Err)
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

async fn stopped(signals: &mut [io::Result<tokio::signal::unix::Signal>; 4]) {
    poll_fn(|context| {
        let come = signals.iter_mut().flatten().any(|signal| signal.poll_recv(context).is_ready());
        if come { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
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
                Effect::Suspend => self.lend(screen, || {
                    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
                }),
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
                    self.ready.push_back(event);
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
