//! Live sessions with a scripted agent: several on one link, several turns in one, questions, the queue, crashes, the end.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tieline::schema::{ClientCapabilities, MessageKind, StopReason, ToolCallStatus};
use tieline_client::agents::AgentSpec;
use tieline_client::journal::Journal;
use tieline_client::live::{
    Desk, Event, Events, Frames, Item, Link, Notes, OnLost, Opening, Part, Parts, Reply, Session, Setup, State,
};
use tieline_client::permission::{Answer, Engine, Preset};
use tieline_client::services::Services;
use tokio::time::timeout;

/// Nothing here takes longer, however busy the machine is.
const LONG: Duration = Duration::from_mins(1);

/// Does what each prompt says; given how it takes sessions up again, and a file for how much it has sent.
const AGENT: &str = include_str!("scripted.py");

struct Place {
    folder: TempDir,
    link: Link,
}

fn place(how: &str) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let (cwd, notes) = (folder.path().join("work"), Notes::default());
    std::fs::create_dir(&cwd).unwrap();
    let none: [&Path; 0] = [];
    let desk = Desk(notes.clone());
    let services = Services::builder(&cwd, none).unwrap().decider(Arc::new(desk.clone())).asker(Arc::new(desk.clone()));
    let engine = Engine::new(Preset::Ask, tieline_host::rules::Config::default());
    let services = services.engine(engine).observer(Arc::new(notes.clone())).build();
    let mut offer = ClientCapabilities::default();
    services.offer(&mut offer);
    let count = folder.path().join("count").to_string_lossy().into_owned();
    let command = ["python3", "-c", AGENT, how, &count].map(str::to_owned).to_vec();
    let agent = AgentSpec { name: "scripted".into(), command, ..AgentSpec::default() };
    let setup = Setup { agent, cwd, offer, start_limit: LONG, ..Setup::default() };
    let frames = Arc::new(Frames::new(notes.clone()));
    let link = Link::new(setup, Parts { services, notes, frames, chooser: Some(Arc::new(desk)) });
    Place { folder, link }
}

fn text(words: &str) -> Vec<Part> {
    vec![Part::Text(words.to_owned())]
}

impl Place {
    fn opening(&self) -> Opening {
        Opening {
            cwd: self.folder.path().join("work"),
            key: "scripted".into(),
            on_lost: OnLost::HandOver,
            ..Opening::default()
        }
    }

    fn open(&self, words: &str) -> (Session, Events) {
        let prompt = if words.is_empty() { Vec::new() } else { text(words) };
        self.link.open(self.opening(), prompt)
    }
}

/// Reads until an event fits.
async fn until<T>(events: &mut Events, fits: impl Fn(&Event) -> Option<T>) -> T {
    let read = async {
        loop {
            let event = events.next().await.unwrap();
            if let Some(found) = fits(&event) {
                return found;
            }
        }
    };
    timeout(LONG, read).await.unwrap()
}

async fn ended(events: &mut Events) -> Result<StopReason, String> {
    until(events, |event| match event {
        Event::Ended { stop, .. } => Some(stop.clone().map_err(|failure| failure.message)),
        _ => None,
    })
    .await
}

async fn state(events: &mut Events, wanted: State) {
    until(events, |event| matches!(event, Event::State(now) if *now == wanted).then_some(())).await;
}

/// The whole transcript, one message a line.
fn transcript(session: &Session) -> Vec<String> {
    let conversation = session.conversation();
    let (items, count) = conversation.items(0, usize::MAX);
    assert_eq!(items.len(), count);
    let line = |item: Item| match item {
        Item::Message(kind, number) => {
            let mut text = format!("{}: ", if kind == MessageKind::User { "user" } else { "agent" });
            conversation.text(kind, number, |piece| text.push_str(piece)).unwrap();
            text
        }
        Item::Call(id) => format!("call: {id}"),
    };
    items.into_iter().map(line).collect()
}

#[tokio::test]
async fn a_question_in_one_session_does_not_hold_up_the_other() {
    let place = place("none");
    let (one, mut events) = place.open("ask");
    let asked = until(&mut events, |event| match event {
        Event::Asked(asked) => Some(Arc::clone(asked)),
        _ => None,
    })
    .await;
    state(&mut events, State::Asking).await;
    assert_eq!((one.state(), one.questions().len()), (State::Asking, 1));
    // The other one has a whole turn and even a question of its own meanwhile.
    let (two, mut others) = place.open("hello");
    assert_eq!(ended(&mut others).await, Ok(StopReason::EndTurn));
    two.prompt(text("ask")).unwrap();
    state(&mut others, State::Asking).await;
    assert!(two.questions()[0].reply(Reply::Permission(Answer::Refuse)));
    assert_eq!(ended(&mut others).await, Ok(StopReason::EndTurn));
    assert_eq!(transcript(&two), ["user: hello", "agent: heard: hello", "user: ask", "call: c1", "agent: answer: no"]);
    assert_ne!(one.id(), two.id());
    assert_eq!(one.state(), State::Asking);
    assert!(asked.reply(Reply::Permission(Answer::Allow)) && !asked.reply(Reply::Permission(Answer::Refuse)));
    assert_eq!(ended(&mut events).await, Ok(StopReason::EndTurn));
    assert_eq!(transcript(&one), ["user: ask", "call: c1", "agent: answer: yes"]);
    state(&mut events, State::Idle).await;
    assert!(one.questions().is_empty());
}

#[tokio::test]
async fn prompts_are_sent_in_the_order_of_the_queue() {
    let place = place("none");
    let (session, mut events) = place.open("");
    state(&mut events, State::Idle).await;
    for words in ["wait", "b", "c", "d", "e"] {
        session.prompt(text(words)).unwrap();
    }
    state(&mut events, State::Running).await;
    session.edit_queue(|queue| {
        queue.remove(1);
        queue.swap(1, 2);
    });
    // A cancel ends the turn; what waits, waits on.
    session.cancel().await;
    state(&mut events, State::Cancelling).await;
    assert_eq!(ended(&mut events).await, Ok(StopReason::Cancelled));
    state(&mut events, State::Idle).await;
    assert_eq!(session.queue().len(), 3);
    session.revive();
    for _ in 0..3 {
        assert_eq!(ended(&mut events).await, Ok(StopReason::EndTurn));
    }
    let said =
        ["b", "e", "d"].into_iter().flat_map(|words| [format!("user: {words}"), format!("agent: heard: {words}")]);
    let said: Vec<String> = std::iter::once("user: wait".to_owned()).chain(said).collect();
    assert_eq!(transcript(&session), said);
    session.close();
    until(&mut events, |event| matches!(event, Event::Closed).then_some(())).await;
}

#[tokio::test]
async fn what_is_held_waits_for_the_reason_of_a_refusal() {
    let place = place("none");
    let (session, mut events) = place.open("ask");
    state(&mut events, State::Asking).await;
    session.prompt(text("b")).unwrap();
    session.hold();
    assert!(session.questions()[0].reply(Reply::Permission(Answer::Refuse)));
    assert_eq!(ended(&mut events).await, Ok(StopReason::EndTurn));
    state(&mut events, State::Idle).await;
    assert_eq!(session.queue().len(), 1);
    session.prompt_first(text("why")).unwrap();
    for _ in 0..2 {
        assert_eq!(ended(&mut events).await, Ok(StopReason::EndTurn));
    }
    let said = transcript(&session);
    assert_eq!(said[3..], ["user: why", "agent: heard: why", "user: b", "agent: heard: b"], "{said:?}");
}

/// Neither is thrown after the other: what would fail in the same way waits for who decides.
#[tokio::test]
async fn what_waits_is_kept_when_a_turn_fails_or_the_agent_dies() {
    for (how, dies) in [("none", false), ("resume", true), ("none", true)] {
        let place = place(how);
        let (session, mut events) = place.open("");
        state(&mut events, State::Idle).await;
        session.prompt(text(if dies { "die" } else { "fail" })).unwrap();
        session.prompt(text("b")).unwrap();
        ended(&mut events).await.unwrap_err();
        if dies {
            state(&mut events, State::Lost).await;
            session.restart();
        }
        state(&mut events, State::Idle).await;
        assert_eq!(session.queue().len(), 1, "{how}, {dies}");
        session.revive();
        assert_eq!(ended(&mut events).await, Ok(StopReason::EndTurn), "{how}, {dies}");
        let said = transcript(&session);
        assert_eq!(said.iter().filter(|line| line.ends_with('b')).count(), 2, "{how}, {dies}: {said:?}");
    }
}

#[tokio::test]
async fn a_call_of_an_agent_that_died_runs_no_longer() {
    let place = place("none");
    let (session, mut events) = place.open("work and die");
    ended(&mut events).await.unwrap_err();
    assert_eq!(session.conversation().call("c9").unwrap().status, ToolCallStatus::Failed);
}

#[tokio::test]
async fn the_queue_is_in_the_journal_and_waits_for_who_comes_back() {
    let place = place("resume");
    let journal = Journal::open(place.folder.path().join("state/journal.db")).unwrap();
    let file = place.folder.path().join("work/notes.txt");
    std::fs::write(&file, "noted").unwrap();
    let opening = Opening { journal: Some(journal.clone()), ..place.opening() };
    let (session, mut events) = place.link.open(opening, text("wait"));
    state(&mut events, State::Running).await;
    for parts in [text("a"), text("dropped"), vec![Part::Text("b".into()), Part::file(&file).unwrap()]] {
        session.prompt(parts).unwrap();
    }
    session.edit_queue(|queue| drop(queue.remove(1)));
    let waits = async {
        loop {
            let entry = journal.last(None, None).await.unwrap();
            if let Some(entry) = entry
                && journal.story(&entry.id).await.unwrap().waiting.len() == 2
            {
                return entry;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let entry = timeout(LONG, waits).await.unwrap();
    // Nobody says goodbye.
    drop(events);
    let reopened = async {
        loop {
            match journal.reopen(&entry.id, tieline_host::store::Claim::IfFree).await {
                Ok(recording) => return recording,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let recording = timeout(LONG, reopened).await.unwrap();
    // What is said at once is sent at once; what waited before waits on behind it.
    let opening = Opening { journal: Some(journal.clone()), recording: Some(recording), ..place.opening() };
    let (session, mut events) = place.link.open(opening, text("now"));
    assert_eq!(ended(&mut events).await, Ok(StopReason::EndTurn));
    state(&mut events, State::Idle).await;
    let queue = session.queue();
    assert!(matches!(&queue[0].parts[..], [Part::Text(text)] if text == "a"));
    assert!(matches!(&queue[1].parts[..], [Part::Text(_), Part::File { text: Some(text), .. }] if text == "noted"));
    session.revive();
    for _ in 0..2 {
        assert_eq!(ended(&mut events).await, Ok(StopReason::EndTurn));
    }
    session.close();
    until(&mut events, |event| matches!(event, Event::Closed).then_some(())).await;
    assert!(journal.story(&entry.id).await.unwrap().waiting.is_empty());
}

#[tokio::test]
async fn a_crashed_agent_is_started_again_with_its_session() {
    for (how, anew) in [("resume", false), ("load", false), ("none", true)] {
        let place = place(how);
        let journal = Journal::open(place.folder.path().join("state/journal.db")).unwrap();
        let opening = Opening { journal: Some(journal.clone()), ..place.opening() };
        let (session, mut events) = place.link.open(opening, text("one"));
        assert_eq!(ended(&mut events).await, Ok(StopReason::EndTurn));
        let before = session.id();
        session.prompt(text("die"));
        assert!(ended(&mut events).await.unwrap_err().contains("exited with status 3"), "{how}");
        let lost = until(&mut events, |event| match event {
            Event::Lost(failure) => Some(failure.exit.clone()),
            _ => None,
        });
        assert_eq!(lost.await.as_deref(), Some("exited with status 3"), "{how}");
        assert_eq!(session.state(), State::Lost, "{how}");
        session.prompt(text("two"));
        let facts = until(&mut events, |event| match event {
            Event::Session(facts) => Some(facts.clone()),
            _ => None,
        })
        .await;
        assert_eq!((facts.resumed, facts.handed_over, facts.anew.is_some()), (!anew, anew, anew), "{how}");
        assert_eq!(session.id() != before, anew, "{how}");
        assert_eq!(ended(&mut events).await, Ok(StopReason::EndTurn), "{how}");
        let heard = if anew { "agent: heard: a record, two" } else { "agent: heard: two" };
        let said = transcript(&session);
        assert_eq!(said[..4], ["user: one", "agent: heard: one", "user: die", "agent: half a sen"], "{how}");
        // A record that the agent is given stands before what the user said.
        assert!(said.len() == 6 && said[4].starts_with("user: ") && said[4].ends_with("two"), "{how}: {said:?}");
        assert_eq!(said[5], heard, "{how}");
        session.close();
        until(&mut events, |event| matches!(event, Event::Closed).then_some(())).await;
        events.end().await;
        // The journal has the same, in one session; who takes it up sees it.
        let entry = journal.last(None, None).await.unwrap().unwrap();
        assert_eq!(entry.turns, 3, "{how}");
        let recording = journal.reopen(&entry.id, tieline_host::store::Claim::IfFree).await.unwrap();
        let opening = Opening { journal: Some(journal), recording: Some(recording), ..place.opening() };
        let (again, mut events) = place.link.open(opening, Vec::new());
        state(&mut events, State::Idle).await;
        assert_eq!(transcript(&again), said, "{how}");
    }
}

#[tokio::test]
async fn who_drops_a_session_leaves_no_process() {
    let place = place("none");
    let (session, mut events) = place.open("wait");
    let pid = until(&mut events, |event| match event {
        Event::Started(pid) => Some(*pid),
        _ => None,
    })
    .await;
    state(&mut events, State::Running).await;
    drop((session, events, place));
    let gone = async {
        while Path::new(&format!("/proc/{pid}")).exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, gone).await.unwrap();
}

#[tokio::test]
async fn what_nobody_reads_is_bounded_and_nothing_of_it_is_lost() {
    let place = place("none");
    let (session, mut events) = place.open("flood");
    let count = place.folder.path().join("count");
    // 200 MB would come; the agent has to wait for us after a part of it.
    let mut sent = (0, 0);
    let waits = async {
        while sent.0 == 0 || sent.1 < 20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = std::fs::read_to_string(&count).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            sent = if now == sent.0 { (now, sent.1 + 1) } else { (now, 0) };
        }
    };
    timeout(LONG, waits).await.unwrap();
    assert!(sent.0 < 15_000, "{sent:?}");
    assert_eq!(ended(&mut events).await, Ok(StopReason::EndTurn));
    let mut bytes = 0;
    session.conversation().text(MessageKind::Agent, 0, |piece| bytes += piece.len()).unwrap();
    assert_eq!(bytes, 200_000_000);
}
