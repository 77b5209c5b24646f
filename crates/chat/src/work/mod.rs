//! Does what the state wants: opens sessions, passes on what they tell, looks things up. What comes of it are events.

mod look;

use crate::compose::clipboard_picture;
use crate::effect::Effect;
use crate::event::{About, Call, Event, OpenedFacts, TabId};
use crate::pick::Picker;
use crate::{Log, Opener, Ready, Which, screen, shown_size};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::rpc::sync::Lock as _;
use tieline::schema::{ConfigValue, Update};
use tieline_client::live::{self, Events, Link, Part, Queued, Session};
use tieline_client::{sanitize, services};
use tieline_host::run::{Size, View};
use tieline_process::{ChildProcess, Guard, Spec, Status};
use tokio::io::AsyncReadExt as _;
use tokio::sync::broadcast;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How long an agent may take to answer about an option.
const OPTION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a line of the user's shell may take.
const SHELL_TIMEOUT: Duration = Duration::from_mins(2);
/// So much of what it prints is shown, in bytes.
const MAX_SHELL_BYTES: usize = 64 << 10;
/// So often that is told while it runs.
const SHELL_EVERY: Duration = Duration::from_millis(50);
/// How long an agent gets to end.
const END_TIMEOUT: Duration = Duration::from_secs(3);

type Told<T> = Result<T, String>;

/// What works for the chat.
#[derive(Clone)]
pub struct Work {
    opener: Arc<dyn Opener>,
    events: Sender<Event>,
    tabs: Arc<Mutex<HashMap<TabId, Live>>>,
    /// Tells lines in the user's shell that their tab wants them to end.
    stop: broadcast::Sender<TabId>,
}

/// The session of a tab.
#[derive(Clone)]
struct Live {
    session: Session,
    link: Link,
    log: Arc<Log>,
    reader: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Work {
    pub fn new(opener: Arc<dyn Opener>, events: Sender<Event>) -> Self {
        Self { opener, events, tabs: Arc::default(), stop: broadcast::Sender::new(16) }
    }

    fn live(&self, tab: TabId) -> Option<Live> {
        self.tabs.locked().get(&tab).cloned()
    }

    /// Begins to do something. It is never waited for here.
    pub fn begin(&self, effect: Effect) {
        match effect {
            Effect::Open(id, which, prompt) => {
                tokio::spawn(self.clone().open(id, which, prompt));
            }
            Effect::Prompt(id, parts) => self.say(id, parts, Session::prompt),
            Effect::First(id, parts) => self.say(id, parts, Session::prompt_first),
            Effect::Before(id, parts, others) => {
                self.say(id, parts, |session, parts| session.prompt_before(parts, &others));
            }
            Effect::Hold(id) => self.with(id, |live| live.session.hold()),
            Effect::SetQueue(id, wanted) => self.with(id, |live| {
                set_queue(&live.session, wanted);
                self.tell([queue(id, &live.session)]);
            }),
            Effect::SendNow(id, number) => self.with(id, |live| {
                self.later(async move {
                    let said = live.session.send_now(number).await;
                    [queue(id, &live.session)].into_iter().chain(said.map(Event::Told))
                });
            }),
            Effect::Cancel(id) => self.with(id, |live| {
                tokio::spawn(async move { live.session.cancel().await });
            }),
            Effect::Kill(id) => self.with(id, |live| live.link.kill()),
            Effect::Restart(id) => self.with(id, |live| live.session.restart()),
            Effect::Revive(id) => self.with(id, |live| live.session.revive()),
            Effect::Close(id) => {
                let Some(live) = self.tabs.locked().remove(&id) else { return };
                tokio::spawn(end(live));
            }
            Effect::Reply(asked, reply) => {
                asked.reply(reply);
            }
            Effect::SetOption(id, option, value) => self.with(id, |live| {
                self.later(async move {
                    let said = set_option(&live.session, &option, value).await;
                    about(id, &live.session).into_iter().chain(said.map(Event::Told))
                });
            }),
            Effect::Look(id, source) => {
                let (opener, live) = (self.opener.clone(), self.live(id));
                self.later(async move {
                    let found = look::look(&*opener, live, source).await;
                    [found.unwrap_or_else(|why| Event::Found(Picker::new(sanitize::line(&why))))]
                });
            }
            Effect::Do(id, errand) => {
                let (opener, live) = (self.opener.clone(), self.live(id));
                self.later(async move {
                    let said = look::run(&*opener, live, errand).await.unwrap_or_else(|why| why);
                    [Event::Told(sanitize::line(&said))]
                });
            }
            Effect::Copy(text) => {
                let events = self.events.clone();
                tokio::task::spawn_blocking(move || events.blocking_send(Event::Told(screen::copy(&text))));
            }
            Effect::Clipboard(id) => {
                self.later(async move { [Event::Picture(id, clipboard_picture(&std::env::temp_dir()).await)] });
            }
            Effect::Shell(id, place, line) => {
                let (folder, mut stop, events) = (self.opener.folder(), self.stop.subscribe(), self.events.clone());
                tokio::spawn(async move {
                    let told = |output: &[u8], end: Option<String>| {
                        let text = sanitize::text(&String::from_utf8_lossy(output));
                        let text = format!("! {}\n{}", sanitize::line(&line), text.trim_end());
                        let over = end.is_some();
                        Event::Ran(id, place, format!("{}{}", text.trim_end(), end.unwrap_or_default()), over)
                    };
                    let mut output = Vec::new();
                    let stopped = async { while stop.recv().await.is_ok_and(|stopped| stopped != id) {} };
                    let end = tokio::select! {
                        end = shell(&line, &folder, &mut output, &events, |output| told(output, None)) => end,
                        () = stopped => "\n(you stopped it)".into(),
                    };
                    let _ = events.send(told(&output, Some(end))).await;
                });
            }
            Effect::Resize => {
                let Ok((columns, rows)) = crossterm::terminal::size() else { return };
                let size = shown_size(Size { columns, rows });
                self.tabs.locked().values().for_each(|live| live.link.services().terminals().resize(size));
            }
            // Nobody hears it if nothing runs.
            Effect::StopShell(id) => _ = self.stop.send(id),
            Effect::Browse(url) => {
                let mut browser = Command::new("xdg-open");
                browser.arg(&url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                if browser.spawn().is_err() {
                    self.tell([Event::Told(format!("open this address: {url}"))]);
                }
            }
            // The terminal is the loop's.
            Effect::Mouse(_)
            | Effect::Bell
            | Effect::Redraw
            | Effect::Suspend
            | Effect::Print(_)
            | Effect::Editor(_)
            | Effect::Lend(_)
            | Effect::Quit => {}
        }
    }

    /// Does something with the session of a tab, if it has one.
    fn with(&self, tab: TabId, what: impl FnOnce(Live)) {
        if let Some(live) = self.live(tab) {
            what(live);
        }
    }

    fn say(&self, id: TabId, parts: Vec<Part>, say: impl FnOnce(&Session, Vec<Part>) -> Option<u64>) {
        self.with(id, |live| {
            let full = say(&live.session, parts).is_none();
            let told = full.then(|| Event::Told("the queue is full: it was not taken".into()));
            self.tell([queue(id, &live.session)].into_iter().chain(told));
        });
    }

    fn tell<I: IntoIterator<Item = Event, IntoIter: Send> + Send + 'static>(&self, told: I) {
        self.later(async { told });
    }

    /// Tells what comes of something that takes its time.
    fn later<I: IntoIterator<Item = Event, IntoIter: Send>>(&self, work: impl Future<Output = I> + Send + 'static) {
        let events = self.events.clone();
        tokio::spawn(async move {
            for event in work.await {
                let _ = events.send(event).await;
            }
        });
    }

    async fn open(self, id: TabId, which: Which, mut prompt: Vec<Part>) {
        let Self { opener, events, tabs, .. } = self;
        let Ready { link, opening, frames, prompt: first } = match opener.open(which).await {
            Ok(ready) => ready,
            Err(failure) => return drop(events.send(Event::NotOpened(id, failure)).await),
        };
        prompt.extend(first);
        let (agent, cwd, resumed) = (opening.key.clone(), opening.cwd.clone(), opening.recording.is_some());
        let draft = opening.recording.as_ref().map_or_else(|| "new".to_owned(), |recording| recording.id().to_string());
        let state = opening.journal.as_ref().and_then(|journal| Some(journal.path().parent()?.to_path_buf()));
        let (session, told) = link.open(opening, prompt);
        let woken = events.clone();
        let wake = Call(Arc::new(move || _ = woken.try_send(Event::Woken)));
        let conversation = session.conversation().clone();
        let agents = opener.agents().into();
        let facts = OpenedFacts { agent, cwd, conversation, agents, resumed, state, draft, wake };
        // Whoever hears that it is open finds it.
        let mut tabs = tabs.locked();
        let more = pass_on(id, session.clone(), link.clone(), told, events.clone());
        let reader = tokio::spawn(async move {
            let _ = events.send(Event::Opened(id, Box::new(facts))).await;
            more.await;
        });
        let reader = Arc::new(Mutex::new(Some(reader)));
        tabs.insert(id, Live { session, link, log: frames, reader });
    }

    /// Ends all sessions and agents.
    pub async fn end(self) {
        let all: Vec<Live> = self.tabs.locked().drain().map(|(_, live)| live).collect();
        drop(self.events);
        let ends: Vec<_> = all.into_iter().map(|live| tokio::spawn(end(live))).collect();
        for end in ends {
            let _ = end.await;
        }
    }
}

fn queue(id: TabId, session: &Session) -> Event {
    let session = session.clone();
    Event::Queue(id, Call(Arc::new(move || session.queue())))
}

async fn set_option(session: &Session, option: &str, value: ConfigValue) -> Option<String> {
    Some(match timeout(OPTION_TIMEOUT, session.agent()?.set_option(option, value)).await {
        Ok(Ok(_)) => "chosen".to_owned(),
        Ok(Err(error)) => format!("not chosen: {}", sanitize::line(&error.to_string())),
        Err(_) => "the agent does not answer".to_owned(),
    })
}

fn about(id: TabId, session: &Session) -> Option<Event> {
    let agent = session.agent()?;
    let about = About { options: agent.options(), commands: agent.commands(), now: session.now() };
    Some(Event::About(id, Box::new(about)))
}

/// Asks a turn to stop, closes the session, ends the agent.
async fn end(live: Live) {
    live.session.cancel().await;
    live.session.close();
    let reader = live.reader.locked().take();
    if let Some(reader) = reader {
        let _ = timeout(END_TIMEOUT / 2, reader).await;
    }
    live.link.end(END_TIMEOUT).await;
}

/// Passes on what a session tells, and what can be chosen there when that changes.
async fn pass_on(id: TabId, session: Session, link: Link, mut told: Events, events: Sender<Event>) {
    while let Some(mut event) = told.next().await {
        // The words are in the transcript.
        if let live::Event::Said { news, .. } = &mut event {
            *news = live::News::Nothing;
        }
        let changed = match &event {
            live::Event::Session(_)
            | live::Event::GoesOn(_)
            | live::Event::Given(_)
            | live::Event::State(live::State::Idle) => true,
            live::Event::Update { update, .. } => {
                matches!(**update, Update::Commands(_) | Update::ConfigOptions(_) | Update::Mode(_))
            }
            _ => false,
        };
        if let live::Event::Note(services::Event::TerminalStarted { terminal, .. }) = &event
            && let Some(view) = link.services().terminals().watch(terminal)
        {
            tokio::spawn(follow(id, terminal.clone(), view, events.clone()));
        }
        let queue = matches!(event, live::Event::Ended { .. } | live::Event::State(_) | live::Event::Given(_));
        if events.send(Event::Live(id, Box::new(event))).await.is_err() {
            return;
        }
        let about = if changed { about(id, &session) } else { None };
        for event in about.into_iter().chain(queue.then(|| self::queue(id, &session))) {
            let _ = events.send(event).await;
        }
    }
}

/// Passes on what comes in a terminal, until it ends or nobody listens.
async fn follow(id: TabId, terminal: String, view: View, events: Sender<Event>) {
    let mut from = 0;
    while let Some(output) = view.more(from).await {
        from = output.next;
        if events.send(Event::Output(id, terminal.clone(), output.text)).await.is_err() {
            return;
        }
    }
}

/// Puts the queue into this order. What has begun meanwhile is not begun again.
fn set_queue(session: &Session, wanted: Vec<Queued>) {
    session.edit_queue(|queue| {
        let still: Vec<u64> = queue.iter().map(|queued| queued.number).collect();
        *queue = wanted.into_iter().filter(|queued| still.contains(&queued.number)).collect();
    });
}

/// Runs a line in the user's shell, in the user's folder, and tells what it printed so far, at most so much. Gives what is to be said
/// at its end. It ends with us, and everything that it started does.
async fn shell(
    line: &str,
    folder: &Path,
    output: &mut Vec<u8>,
    events: &Sender<Event>,
    told: impl Fn(&[u8]) -> Event,
) -> String {
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    // What it says is wrong is part of what it prints.
    let line = format!("exec 2>&1\n{line}");
    let spec = Spec::new(shell).args(["-c".into(), OsString::from(line)]).current_dir(folder).guard(Guard::IfPossible);
    let ran = async {
        let (pipes, child) = ChildProcess::spawn(&spec).await?;
        drop(pipes.input);
        output.reserve(MAX_SHELL_BYTES);
        let mut pipe = pipes.output.take(MAX_SHELL_BYTES as u64);
        while pipe.read_buf(output).await? > 0 {
            let _ = events.send(told(output)).await;
            sleep(SHELL_EVERY).await;
        }
        drop(pipe);
        std::io::Result::Ok(child.exit().await.status)
    };
    match timeout(SHELL_TIMEOUT, ran).await {
        Ok(Ok(Status::Code(0))) => String::new(),
        Ok(Ok(status)) => format!("\n(it {status})"),
        Ok(Err(error)) => format!("\nit can't be run: {error}"),
        Err(_) => "\nit took too long and was stopped".into(),
    }
}
