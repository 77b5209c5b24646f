//! `tieline chat --plain`: the chat in lines. Nothing is ever drawn again, so that screen readers and the terminal's own scrollback
//! have all of it: the printer and the questions of `exec`, one prompt after the other.

use crate::chat::Sessions;
use crate::exec::arguments::Show;
use crate::exec::ask::Person;
use crate::exec::printer::Printer;
use crate::exec::signals;
use crate::exec::style::Style;
use crate::exec::text::Text;
use crate::shared::{Failed, WRONG, counted};
use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_chat::{Ready, Which, compose};
use tieline_client::agents::join_line;
use tieline_client::live::{Changed, Event, Events, Failure, Link, Part, Session, State};
use tieline_client::run::{Stop, Watch as _};
use tieline_client::sanitize;
use tieline_host::roots::shown;
use tieline_schema::StopReason;
use tokio::sync::{mpsc, watch};

/// How long the agent gets to end.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// So many changed files are named.
const MAX_NAMED_FILES: usize = 5;

/// True if lines are wanted (`ACCESSIBLE` is set to anything but nothing or `0`).
pub fn is_wanted() -> bool {
    std::env::var_os("ACCESSIBLE").is_some_and(|value| !value.is_empty() && value != "0")
}

/// True if a person can type lines here.
pub fn has_person() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Talks until the person leaves.
pub async fn chat(sessions: &Sessions, prompt: Vec<Part>) -> Result<(), Failed> {
    let wrong = |error: std::io::Error| (WRONG, error.to_string());
    let (printer, style) = (Printer::start().map_err(wrong)?, Style::detect());
    let Some(person) = Person::find(printer.clone(), style) else {
        let why = "there is no terminal to type at: /dev/tty can't be opened (below `su -c`, say, where `su -P -c` would give one)";
        return Err((WRONG, why.to_owned()));
    };
    let mut stops = signals::listen().map_err(wrong)?;
    let ready = sessions.ready(Which::default(), Some(person.clone())).await;
    let Ready { link, opening, .. } = match ready {
        Ok(ready) => ready,
        Err(failure) => return Err((failure.ending.code(), sanitize::line(&failure.message) + &hint(&failure))),
    };
    let text = Text::new(printer.clone(), style, false, Show::USUAL.to_vec());
    text.serve(link.services());
    let begin = format!("{} in {}: type and press Enter", sanitize::line(&opening.key), shown(&opening.cwd));
    text.say(&format!("{begin}. A line that ends with \\ goes on. Ctrl-C stops a turn, Ctrl-D leaves."));
    let folder = opening.cwd.clone();
    let said = !prompt.is_empty();
    let (session, events) = link.open(opening, prompt);
    let ours = RefCell::default();
    let (tell, mut state) = watch::channel(if said { Turn::Runs } else { Turn::Opens });
    tokio::select! {
        () = show(&text, events, &tell, &ours) => {}
        () = stop((&text, &printer), &session, &link, &mut stops, tell.subscribe()) => {}
        () = talk(&person, &session, &folder, &tell, &mut state) => {}
    }
    session.cancel().await;
    session.close();
    link.end(END_TIMEOUT).await;
    if let Some(id) = ours.take().filter(|_| sessions.keeps()) {
        text.say(&format!("To go on: {}", join_line(&["tieline", "chat", "--plain", "-r", &id])));
    }
    let _ = tokio::time::timeout(LAST_WORDS, printer.written()).await;
    Ok(())
}

/// What is known of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The session is being opened.
    Opens,
    /// A prompt was sent, and its end was not told.
    Runs,
    /// A prompt can be typed.
    Rests,
}

/// Prints what the session tells, to its end.
async fn show(text: &Text, mut events: Events, turn: &watch::Sender<Turn>, ours: &RefCell<Option<String>>) {
    let mut begun = Instant::now();
    while let Some(event) = events.next().await {
        match event {
            Event::Begun(_) => begun = Instant::now(),
            Event::Ended { stop, changed, remarks } => {
                text.end_turn();
                for remark in &remarks {
                    text.say(&format!("note: {}", sanitize::line(remark)));
                }
                text.say(&over(&stop, &changed, begun.elapsed()));
                if std::env::var_os("TIELINE_BELL").is_some_and(|value| !value.is_empty()) {
                    text.ring();
                }
                turn.send_replace(Turn::Rests);
            }
            Event::Lost(failure) => {
                text.end_turn();
                let why = sanitize::line(&failure.message);
                text.say(&format!("the agent is gone: {why}{}. The next prompt starts it again.", hint(&failure)));
                turn.send_replace(Turn::Rests);
            }
            Event::State(State::Idle) => {
                turn.send_if_modified(|turn| std::mem::replace(turn, rest(*turn)) != *turn);
            }
            Event::Closed => return,
            event => {
                if let Event::Session(facts) = &event {
                    // Ours: what the agent calls it is the agent's to choose.
                    ours.replace(facts.id.clone());
                }
                if text.see(event).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// A session that was opened can be typed to; one that was sent a prompt tells its end.
fn rest(turn: Turn) -> Turn {
    if turn == Turn::Opens { Turn::Rests } else { turn }
}

/// One line at the end of a turn.
fn over(stop: &Result<StopReason, Box<Failure>>, changed: &[Changed], took: Duration) -> String {
    let files: Vec<String> = changed.iter().take(MAX_NAMED_FILES).map(|file| shown(file.path.as_ref())).collect();
    let more = changed.len() - files.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let changed = match changed.len() {
        0 => String::new(),
        count => format!(", changed {}: {}{more}", counted(count, "file"), files.join(", ")),
    };
    let how = match stop {
        Ok(StopReason::EndTurn) => "done".to_owned(),
        Ok(stop) => format!("stopped ({})", sanitize::line(&stop.to_string())),
        Err(failure) => format!("failed: {}{}", sanitize::line(&failure.message), hint(failure)),
    };
    format!("{how}{changed} ({} s)", took.as_secs())
}

fn hint(failure: &Failure) -> String {
    failure.hint.as_ref().map(|hint| format!(" (try: {})", sanitize::line(hint))).unwrap_or_default()
}

/// Asks for one prompt after the other, each when the turn before it is over.
async fn talk(
    person: &Arc<Person>,
    session: &Session,
    folder: &std::path::Path,
    tell: &watch::Sender<Turn>,
    turn: &mut watch::Receiver<Turn>,
) {
    loop {
        if turn.wait_for(|turn| *turn == Turn::Rests).await.is_err() {
            return;
        }
        let Some(words) = person.prompt("> ").await else { return };
        if words.trim().is_empty() {
            continue;
        }
        if matches!(words.trim(), "/quit" | "/exit") {
            return;
        }
        tell.send_replace(Turn::Runs);
        if session.prompt(compose::parts(&words, folder)).is_none() {
            tell.send_replace(Turn::Rests);
        }
    }
}

/// Ctrl-C: asks the agent to stop, then kills it; where nothing runs it leaves, when it is pressed twice.
async fn stop(
    (text, printer): (&Text, &Printer),
    session: &Session,
    link: &Link,
    stops: &mut mpsc::Receiver<Stop>,
    turn: watch::Receiver<Turn>,
) {
    let mut pressed = None;
    while let Some(stop) = stops.recv().await {
        if matches!(stop, Stop::Terminate) {
            return;
        }
        let runs = *turn.borrow() == Turn::Runs;
        match (runs, pressed.replace(runs)) {
            (true, Some(true)) if session.state() == State::Cancelling => {
                text.say("killing the agent");
                link.kill();
            }
            (true, _) => {
                text.say("the agent was asked to stop; Ctrl-C again kills it");
                session.cancel().await;
            }
            (false, Some(false)) => return,
            // What is typed at stands there: only this comes between.
            (false, _) => {
                let mut held = printer.hold();
                held.say("\n· Ctrl-C again leaves, or Ctrl-D\n> ");
                held.answered();
            }
        }
    }
}
