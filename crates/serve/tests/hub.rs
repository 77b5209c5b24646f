//! Several clients on live sessions, in memory, with a scripted agent: everything in every dialect.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tieline::client::{AgentHandle, Client, Handler, Session};
use tieline::rpc::Event;
use tieline::schema::{
    ClientCapabilities, CreateTerminalRequest, Dialect, ExitStatus, Item, ListRequest, McpServer, Meta,
    NewSessionRequest, PermissionOutcome, PermissionRequest, Protocol, ReadTextFileRequest, ResumeRequest, StopReason,
    TerminalRequest, Transcript, Update, WriteTextFileRequest,
};
use tieline::{Error, Transport};
use tieline_client::agents::AgentSpec;
use tieline_client::journal::{Begin, Journal};
use tieline_client::live::{Desk, Failure, Frames, Notes, OnLost, Opening, Parts, Setup};
use tieline_client::permission::{Engine, Preset};
use tieline_client::services::Services;
use tieline_host::store::Claim;
use tieline_serve::{Hub, Launched, Launcher, Role, Settings, Visitor, Wanted};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Nothing here takes longer, however busy the machine is.
const LONG: Duration = Duration::from_mins(1);
const DIALECTS: [Dialect; 3] = [Dialect::V1, Dialect::V2Seed, Dialect::V2];

/// Does what the last word of a prompt says. The tests of live sessions have the same.
const AGENT: &str = include_str!("../../client/tests/scripted.py");

struct Scripted {
    journal: Journal,
}

impl Launcher for Scripted {
    fn launch(&self, wanted: Wanted) -> Pin<Box<dyn Future<Output = Result<Launched, Box<Failure>>> + Send + '_>> {
        Box::pin(async move {
            let (mut cwd, mut recording) = (wanted.cwd, None);
            if let Some(id) = &wanted.resume {
                cwd = PathBuf::from(&self.journal.entry(id).await.unwrap().cwd);
                recording = Some(self.journal.reopen(id, Claim::IfFree).await.unwrap());
            }
            let notes = Notes::default();
            let desk = Arc::new(Desk(notes.clone()));
            let services = Services::builder(&cwd, &wanted.roots).unwrap().decider(desk.clone()).asker(desk.clone());
            let engine = Engine::new(Preset::Ask, tieline_host::rules::Config::default());
            let services = services.engine(engine).observer(Arc::new(notes.clone())).build();
            let mut offer = ClientCapabilities::default();
            services.offer(&mut offer);
            let command = ["python3", "-c", AGENT, "resume", "/dev/null"].map(str::to_owned).to_vec();
            let agent = AgentSpec { name: "scripted".into(), command, ..AgentSpec::default() };
            let setup = Setup { agent, cwd: cwd.clone(), offer, start_limit: LONG, ..Setup::default() };
            let frames = Arc::new(Frames::new(notes.clone()));
            let parts = Parts { services, notes, frames, chooser: Some(desk) };
            let journal = Some(self.journal.clone());
            let (key, on_lost) = ("scripted".into(), OnLost::HandOver);
            Ok(Launched {
                setup,
                parts,
                opening: Opening { cwd, journal, recording, key, on_lost, ..Opening::default() },
            })
        })
    }
}

/// A person who answers with one option, or with nothing until they are told to.
#[derive(Clone, Default)]
struct Person {
    option: Option<&'static str>,
    asked: Arc<Notify>,
    /// How many questions stand before them.
    open: Arc<Mutex<i32>>,
}

impl Handler for Person {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        struct Stands(Arc<Mutex<i32>>);
        impl Drop for Stands {
            fn drop(&mut self) {
                *self.0.lock().unwrap() -= 1;
            }
        }
        *self.open.lock().unwrap() += 1;
        let _stands = Stands(Arc::clone(&self.open));
        assert!(request.options.iter().any(|option| option.option_id == "yes"));
        self.asked.notify_one();
        match self.option {
            Some(option) => PermissionOutcome::selected(option),
            None => std::future::pending().await,
        }
    }
}

struct Place {
    folder: TempDir,
    hub: Hub,
}

fn place(idle: Duration) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().canonicalize().unwrap().join("work");
    std::fs::create_dir(&work).unwrap();
    let journal = Journal::open(folder.path().join("journal.db")).unwrap();
    let settings = Settings {
        folder: work.clone(),
        roots: vec![work],
        agents: vec!["scripted".into()],
        max_sessions: 8,
        max_sessions_each: 6,
        idle,
    };
    Place { hub: Hub::new(Scripted { journal: journal.clone() }, journal, settings), folder }
}

impl Place {
    fn work(&self) -> String {
        self.folder.path().canonicalize().unwrap().join("work").to_string_lossy().into_owned()
    }

    async fn visit(&self, dialect: Dialect, role: Role, person: Person) -> AgentHandle {
        self.visit_as("somebody", dialect, role, person).await
    }

    async fn visit_as(&self, name: &str, dialect: Dialect, role: Role, person: Person) -> AgentHandle {
        let (ours, theirs) = Transport::memory();
        let (hub, visitor) = (self.hub.clone(), Visitor { name: name.into(), role });
        tokio::spawn(async move { hub.serve(theirs, visitor).await });
        let client = Client::new("test", "1").handler(person).protocol(Protocol::Only(dialect));
        timeout(LONG, client.connect(ours)).await.unwrap().unwrap()
    }
}

async fn say(session: &Session, words: &str) -> (String, StopReason) {
    timeout(LONG, async { session.prompt(words).await.unwrap().text().await.unwrap() }).await.unwrap()
}

/// Takes a session up and gives what is told of it.
async fn join(client: &AgentHandle, id: &str, cwd: &str) -> (Session, Vec<String>) {
    let mut told = Transcript::new(client.dialect());
    let request = ResumeRequest {
        session_id: id.into(),
        cwd: cwd.to_owned(),
        replay: tieline::schema::Replay::Start,
        ..ResumeRequest::default()
    };
    let joining = client.resume_telling(request, |update| {
        told.apply(&update);
    });
    let session = timeout(LONG, joining).await.unwrap().unwrap();
    (session, lines(&told))
}

fn lines(told: &Transcript) -> Vec<String> {
    let line = |item: &Item| match item {
        Item::Message(message) => Some(format!("{:?}: {}", message.kind, message.text())),
        _ => None,
    };
    told.items().iter().filter_map(line).collect()
}

/// Reads what comes outside turns until all of it is there.
async fn heard(session: &Session, dialect: Dialect, expect: &[&str]) {
    let mut told = Transcript::new(dialect);
    let read = async {
        while lines(&told) != expect {
            if let Some(update) = session.next().await {
                told.apply(&update);
            }
        }
    };
    let done = timeout(LONG, read).await;
    assert!(done.is_ok(), "{dialect}: {expect:?} was never heard, but {:?}", lines(&told));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_later_is_told_all_and_hears_what_the_others_say() {
    for first in DIALECTS {
        for second in DIALECTS {
            let place = place(LONG);
            let one = place.visit(first, Role::Use, Person::default()).await;
            let opened = one.open(place.work()).await.unwrap();
            assert_eq!(say(&opened, "hello").await, ("heard: hello".into(), StopReason::EndTurn), "{first} {second}");
            let two = place.visit(second, Role::Use, Person::default()).await;
            let (joined, told) = join(&two, opened.id(), &place.work()).await;
            assert_eq!(told, ["User: hello", "Agent: heard: hello"], "{first} {second}");
            assert_eq!(say(&joined, "again").await.0, "heard: again");
            heard(&opened, first, &["User: again", "Agent: heard: again"]).await;
            // Both go on.
            assert_eq!(say(&opened, "third").await.0, "heard: third");
            heard(&joined, second, &["User: third", "Agent: heard: third"]).await;
            place.hub.stop().await;
        }
    }
}

/// The position beside what was told last.
fn position(meta: Option<Meta>) -> Option<String> {
    let meta: serde_json::Value = serde_json::from_str(meta?.0.get()).unwrap();
    Some(meta["tieline"]["event"].as_str()?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_says_what_it_has_is_told_the_rest_once() {
    for dialect in DIALECTS {
        for replay in [true, false] {
            let place = place(LONG);
            let one = place.visit(dialect, Role::Use, Person::default()).await;
            let opened = one.open(place.work()).await.unwrap();
            let id = opened.id().clone();
            let (mut turn, mut last) = (opened.prompt("hello").await.unwrap(), None);
            while turn.next().await.is_some() {
                last = position(turn.update_meta()).or(last);
            }
            drop(turn);
            one.close().await;
            let two = place.visit(dialect, Role::Use, Person::default()).await;
            let (other, _) = join(&two, &id, &place.work()).await;
            say(&other, "more").await;
            // It comes back, says what it has, and hears the rest.
            let again = place.visit(dialect, Role::Use, Person::default()).await;
            let after = serde_json::json!({ "tieline": { "after": last.expect("what is told has a position") } });
            let request = ResumeRequest {
                session_id: id.clone(),
                cwd: place.work(),
                replay: if replay { tieline::schema::Replay::Start } else { tieline::schema::Replay::None },
                meta: Some(Meta(after.into())),
                ..ResumeRequest::default()
            };
            let mut told = Transcript::new(dialect);
            let joining = again.resume_telling(request, |update| {
                told.apply(&update);
            });
            let joined = timeout(LONG, joining).await.unwrap().unwrap();
            let rest = ["User: more", "Agent: heard: more"];
            if replay {
                assert_eq!(lines(&told), rest, "{dialect}");
            } else {
                heard(&joined, dialect, &rest).await;
            }
            // What makes no sense is as good as nothing.
            for after in ["", "9999.0", "x.y", "~"] {
                let odd = place.visit(dialect, Role::Use, Person::default()).await;
                let meta = serde_json::json!({ "tieline": { "after": after } });
                let request = ResumeRequest {
                    session_id: id.clone(),
                    cwd: place.work(),
                    replay: tieline::schema::Replay::Start,
                    meta: Some(Meta(meta.into())),
                    ..ResumeRequest::default()
                };
                let mut told = Transcript::new(dialect);
                let joining = odd.resume_telling(request, |update| {
                    told.apply(&update);
                });
                timeout(LONG, joining).await.unwrap().unwrap();
                assert_eq!(lines(&told).len(), 4, "{dialect} {after}: {:?}", lines(&told));
            }
            place.hub.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_lost_cancels_nothing_and_another_one_can() {
    for dialect in DIALECTS {
        let place = place(LONG);
        let one = place.visit(dialect, Role::Use, Person::default()).await;
        let opened = one.open(place.work()).await.unwrap();
        let id = opened.id().clone();
        let mut turn = opened.prompt("work and wait").await.unwrap();
        while !matches!(turn.next().await.unwrap(), Update::Chunk(chunk) if chunk.content.as_text() == Some("working"))
        {
        }
        let two = place.visit(dialect, Role::Use, Person::default()).await;
        let (joined, told) = join(&two, &id, &place.work()).await;
        assert_eq!(told, ["User: work and wait", "Agent: working"], "{dialect}");
        turn.detach();
        one.close().await;
        // It works on: the next prompt waits for its end.
        let queued = joined.prompt("next").await.unwrap();
        let list = two.list(ListRequest::default()).await.unwrap();
        assert!(list.sessions[0].meta.as_ref().unwrap().0.get().contains("\"running\""), "{list:?}");
        let three = place.visit(dialect, Role::Use, Person::default()).await;
        let (other, _) = join(&three, &id, &place.work()).await;
        other.cancel().await.unwrap();
        assert_eq!(timeout(LONG, queued.text()).await.unwrap().unwrap().0, "heard: next", "{dialect}");
        place.hub.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_answer_counts_and_the_others_are_withdrawn() {
    for dialect in DIALECTS {
        let place = place(LONG);
        let (silent, looks_on) = (Person::default(), Person { option: Some("no"), ..Person::default() });
        let one = place.visit(dialect, Role::Use, silent.clone()).await;
        let opened = one.open(place.work()).await.unwrap();
        let reader = place.visit(dialect, Role::Read, looks_on.clone()).await;
        let (_reading, _) = join(&reader, opened.id(), &place.work()).await;
        let turn = opened.prompt("ask").await.unwrap();
        timeout(LONG, silent.asked.notified()).await.unwrap();
        // One that comes when the question stands already is asked, too.
        let answers = Person { option: Some("yes"), ..Person::default() };
        let two = place.visit(dialect, Role::Use, answers.clone()).await;
        let (_joined, _) = join(&two, opened.id(), &place.work()).await;
        assert_eq!(timeout(LONG, turn.text()).await.unwrap().unwrap().0, "answer: yes", "{dialect}");
        let withdrawn = async {
            while *silent.open.lock().unwrap() > 0 {
                tokio::task::yield_now().await;
            }
        };
        if dialect != Dialect::V2Seed {
            // Seed-era v2 has no way to withdraw a request.
            timeout(LONG, withdrawn).await.unwrap();
        }
        assert_eq!(*looks_on.open.lock().unwrap(), 0, "who may only look on is not asked");
        place.hub.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_nobody_is_on_sleeps_and_is_woken() {
    for dialect in DIALECTS {
        let place = place(Duration::ZERO);
        let one = place.visit(dialect, Role::Use, Person::default()).await;
        let opened = one.open(place.work()).await.unwrap();
        let id = opened.id().clone();
        say(&opened, "hello").await;
        one.close().await;
        let two = place.visit(dialect, Role::Admin, Person::default()).await;
        let asleep = async {
            loop {
                let list = two.list(ListRequest::default()).await.unwrap();
                if list.sessions[0].meta.as_ref().unwrap().0.get().contains("\"state\":null") {
                    return list;
                }
                tokio::task::yield_now().await;
            }
        };
        let list = timeout(LONG, asleep).await.unwrap();
        assert_eq!(list.sessions[0].session_id, id);
        let (joined, told) = join(&two, &id, &place.work()).await;
        assert_eq!(told, ["User: hello", "Agent: heard: hello"], "{dialect}");
        assert_eq!(say(&joined, "more").await.0, "heard: more");
        place.hub.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_dies_is_said_and_started_again() {
    for dialect in DIALECTS {
        let place = place(LONG);
        let one = place.visit(dialect, Role::Use, Person::default()).await;
        let opened = one.open(place.work()).await.unwrap();
        let turn = opened.prompt("die").await.unwrap();
        let error = timeout(LONG, turn.text()).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("exited"), "{dialect}: {error}");
        assert_eq!(say(&opened, "and now").await.0, "heard: and now", "{dialect}");
        place.hub.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_log_cannot_be_written_ends_and_says_so() {
    for dialect in DIALECTS {
        let place = place(LONG);
        let one = place.visit(dialect, Role::Use, Person::default()).await;
        let opened = one.open(place.work()).await.unwrap();
        say(&opened, "hello").await;
        // Its log is taken away from under it.
        Journal::open(place.folder.path().join("journal.db")).unwrap().delete(opened.id()).await.unwrap();
        let turn = opened.prompt("work and wait").await.unwrap();
        let error = timeout(LONG, turn.text()).await.unwrap().unwrap_err().to_string();
        assert!(error.contains("the session has ended"), "{dialect}: {error}");
        place.hub.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_visitor_may_not_do_is_refused() {
    for dialect in DIALECTS {
        let place = place(LONG);
        let one = place.visit(dialect, Role::Use, Person::default()).await;
        for folder in ["/", "/etc", &format!("{}/../", place.work())] {
            let refused = one.open(folder).await.err().unwrap();
            assert!(matches!(&refused, Error::Wire(error) if error.code == -32602), "{folder}: {refused}");
        }
        let opened = one.open(place.work()).await.unwrap();
        say(&opened, "hello").await;
        let reader = place.visit(dialect, Role::Read, Person::default()).await;
        assert!(reader.open(place.work()).await.is_err());
        let (reading, told) = join(&reader, opened.id(), &place.work()).await;
        assert_eq!(told.len(), 2);
        let turn = reading.prompt("hello").await;
        let refused = match turn {
            Ok(turn) => timeout(LONG, turn.text()).await.unwrap().err(),
            Err(error) => Some(error),
        };
        assert!(refused.unwrap().to_string().contains("may only look on"));
        assert!(reader.delete(opened.id().clone()).await.is_err());
        assert!(one.load("no-such-session", place.work()).await.is_err());
        // A session of a folder elsewhere, of the same user: not even the one who may do most deletes it here.
        let journal = Journal::open(place.folder.path().join("journal.db")).unwrap();
        let cwd = place.folder.path().to_string_lossy().into_owned();
        let begin = Begin { id: Some("elsewhere".into()), agent: "scripted".into(), cwd, ..Begin::default() };
        journal.begin(begin).await.unwrap().close().await.unwrap();
        let admin = place.visit(dialect, Role::Admin, Person::default()).await;
        let refused = admin.delete("elsewhere").await.unwrap_err();
        assert!(refused.to_string().contains("is no folder of this server"), "{refused}");
        assert!(journal.entry("elsewhere").await.is_ok());
        admin.delete("no-such-session").await.unwrap();
        place.hub.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_starts_no_program_of_its_own() {
    for dialect in DIALECTS {
        let place = place(LONG);
        let one = place.visit(dialect, Role::Admin, Person::default()).await;
        let mark = place.folder.path().join("mark").to_string_lossy().into_owned();
        for agent in
            [format!("touch {mark}"), "/bin/sh".into(), "ws://127.0.0.1:9".into(), "../x".into(), "tieline".into()]
        {
            let meta = serde_json::json!({ "tieline": { "agent": agent } });
            let request =
                NewSessionRequest { cwd: place.work(), meta: Some(Meta(meta.into())), ..NewSessionRequest::default() };
            let refused = one.open_with(request).await.err().unwrap();
            assert!(matches!(&refused, Error::Wire(error) if error.code == -32602), "{agent}: {refused}");
        }
        let server: McpServer = serde_json::from_value(serde_json::json!({
            "type": "stdio", "name": "x", "command": "/bin/sh", "args": ["-c", format!("touch {mark}")], "env": [],
        }))
        .unwrap();
        let request =
            NewSessionRequest { cwd: place.work(), mcp_servers: Some(vec![server]), ..NewSessionRequest::default() };
        if let Ok(opened) = one.open_with(request).await {
            say(&opened, "hello").await;
        }
        assert!(!std::path::Path::new(&mark).exists(), "{dialect}: a client started a program here");
        place.hub.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_makes_no_sense_refuses_and_a_server_ends_with_a_question_open() {
    for dialect in DIALECTS {
        let place = place(LONG);
        let odd = Person { option: Some("made up"), ..Person::default() };
        let one = place.visit(dialect, Role::Use, odd).await;
        let opened = one.open(place.work()).await.unwrap();
        assert_eq!(say(&opened, "ask").await.0, "answer: no", "{dialect}");
        let silent = Person::default();
        let two = place.visit(dialect, Role::Use, silent.clone()).await;
        let asked = two.open(place.work()).await.unwrap();
        let turn = asked.prompt("ask").await.unwrap();
        timeout(LONG, silent.asked.notified()).await.unwrap();
        timeout(LONG, place.hub.stop()).await.expect("a server ends although a question is open");
        drop(turn);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_visitor_has_a_share_of_the_sessions() {
    let place = place(LONG);
    let greedy = place.visit(Dialect::V2, Role::Use, Person::default()).await;
    let work = place.work();
    // All at once: none of them is counted too late.
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..9 {
        let (greedy, work) = (greedy.clone(), work.clone());
        opening.spawn(async move { greedy.open(work).await });
    }
    let opened = opening.join_all().await;
    let refused: Vec<String> = opened.iter().filter_map(|opened| Some(opened.as_ref().err()?.to_string())).collect();
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert!(refused.iter().all(|why| why.contains("your share")), "{refused:?}");
    let other = place.visit_as("another", Dialect::V2, Role::Use, Person::default()).await;
    let both = [other.open(&work).await.unwrap(), other.open(&work).await.unwrap()];
    let full = other.open(&work).await.unwrap_err().to_string();
    assert!(full.contains("this server has 8 sessions"), "{full}");
    drop((both, opened));
    place.hub.stop().await;
}

/// Messages by hand: what a client of a proposal says.
struct Wire {
    reader: tieline::rpc::FrameReader,
    writer: tieline::rpc::FrameWriter,
    /// What came beside answers.
    heard: Vec<Value>,
}

impl Wire {
    async fn hello(place: &Place, name: &str, dialect: Dialect, role: Role) -> (Self, Value) {
        let (ours, theirs) = Transport::memory();
        let (hub, visitor) = (place.hub.clone(), Visitor { name: name.into(), role });
        tokio::spawn(async move { hub.serve(theirs, visitor).await });
        let (reader, writer) = ours.open();
        let mut wire = Self { reader, writer, heard: Vec::new() };
        let about = json!({ "name": "by hand", "version": "1" });
        let params = if dialect == Dialect::V1 {
            json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": about })
        } else {
            json!({ "protocolVersion": 2, "capabilities": {}, "info": about })
        };
        let hello = wire.call("initialize", params).await.unwrap();
        (wire, hello)
    }

    async fn send(&self, message: Value) {
        self.writer.send(|out| out.extend_from_slice(message.to_string().as_bytes())).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        match timeout(LONG, self.reader.next()).await.unwrap() {
            Event::Frame(at) => serde_json::from_slice(self.reader.bytes(at)).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The answer, or the code of the error.
    async fn call(&mut self, method: &str, params: Value) -> Result<Value, i64> {
        self.send(json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params })).await;
        loop {
            let message = self.next().await;
            if message["id"] == method {
                return message["error"]["code"].as_i64().map_or_else(|| Ok(message["result"].clone()), Err);
            }
            self.heard.push(message);
        }
    }

    /// Waits for something of this kind, beside what was heard already.
    async fn hear(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(at) = self.heard.iter().position(&is) {
                return self.heard.remove(at);
            }
            let message = self.next().await;
            self.heard.push(message);
        }
    }
}

fn kind(message: &Value) -> &str {
    message["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_attaches_to_what_lives_and_detaches_from_it() {
    for dialect in [Dialect::V1, Dialect::V2] {
        let place = place(LONG);
        let one = place.visit_as("opener", dialect, Role::Use, Person::default()).await;
        let opened = one.open(place.work()).await.unwrap();
        say(&opened, "hello").await;
        let id = opened.id().to_string();
        let (mut wire, hello) = Wire::hello(&place, "dash", dialect, Role::Use).await;
        let can = if dialect == Dialect::V1 {
            &hello["agentCapabilities"]["sessionCapabilities"]
        } else {
            &hello["capabilities"]["session"]
        };
        assert_eq!(can["attach"]["roles"], json!(["controller", "observer"]), "{dialect}: {hello}");
        assert_eq!(wire.call("session/attach", json!({ "sessionId": "nobody" })).await, Err(-32001), "{dialect}");
        assert_eq!(wire.call("session/attach", json!({})).await, Err(-32602), "{dialect}");
        let attach = |role: &str, history: &str| {
            let about = json!({ "name": "x", "version": "1" });
            json!({ "sessionId": id, "role": role, "historyPolicy": history, "clientInfo": about })
        };
        let joined = wire.call("session/attach", attach("controller", "full")).await.unwrap();
        assert_eq!((&joined["sessionId"], &joined["role"]), (&json!(id), &json!("controller")), "{joined}");
        assert_eq!(joined["connectedClients"], json!([{ "name": "opener", "role": "controller" }]), "{joined}");
        let told = wire.heard.iter().map(Value::to_string).collect::<String>();
        assert!(told.contains("heard: hello"), "{dialect}: {told}");

        // A question that another answers: who attached is told who it was; who did not hears nothing that it does not know.
        let turn = opened.prompt("ask").await.unwrap();
        let asked = wire.hear(|message| message["method"] == "session/request_permission").await;
        let chosen = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
        let (mut reader, _) = Wire::hello(&place, "reader", dialect, Role::Read).await;
        let looked = reader.call("session/attach", attach("controller", "pending_only")).await.unwrap();
        assert_eq!(looked["role"], "observer", "a token that may only look on: {looked}");
        assert!(!reader.heard.iter().any(|message| message.to_string().contains("heard: hello")), "no history is told");
        let (mut plain, _) = Wire::hello(&place, "plain", dialect, Role::Use).await;
        let load = json!({ "sessionId": id, "cwd": place.work(), "mcpServers": [], "replayFrom": { "type": "start" } });
        let method = if dialect == Dialect::V1 { "session/load" } else { "session/resume" };
        plain.call(method, load).await.unwrap();
        wire.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": chosen })).await;
        assert_eq!(timeout(LONG, turn.text()).await.unwrap().unwrap().0, "answer: yes");
        for one in [&mut wire, &mut reader] {
            let told = one.hear(|message| kind(message) == "permission_resolved").await;
            let update = &told["params"]["update"];
            assert_eq!((&update["chosenOptionId"], &update["resolvedBy"]["name"]), (&json!("yes"), &json!("dash")));
            assert!(update["toolCallId"].is_string(), "{update}");
        }
        assert!(!reader.heard.iter().any(|message| message["method"] == "session/request_permission"));
        plain.hear(|message| message.to_string().contains("answer: yes")).await;
        assert!(!plain.heard.iter().any(|message| kind(message) == "permission_resolved"), "{dialect}");

        // Who looks on can't prompt, also if its token may.
        let prompt = json!({ "sessionId": id, "prompt": [{ "type": "text", "text": "hello" }] });
        assert!(reader.call("session/prompt", prompt.clone()).await.is_err(), "{dialect}");
        wire.call("session/attach", attach("observer", "none")).await.unwrap();
        assert!(wire.call("session/prompt", prompt.clone()).await.is_err(), "{dialect}");
        let left = wire.call("session/detach", json!({ "sessionId": id })).await.unwrap();
        assert_eq!(left, json!({ "sessionId": id, "status": "detached" }));
        assert!(wire.call("session/prompt", prompt).await.is_err(), "{dialect}: it has left");
        assert_eq!(say(&opened, "and on").await.0, "heard: and on", "{dialect}: the session goes on");
        place.hub.stop().await;
    }
}

/// Has files and terminals of its own, and says yes.
#[derive(Clone, Default)]
struct Editor {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Editor {
    fn note(&self, what: impl Into<String>) {
        self.asked.lock().unwrap().push(what.into());
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    async fn visit(&self, place: &Place, dialect: Dialect) -> AgentHandle {
        let (ours, theirs) = Transport::memory();
        let (hub, visitor) = (place.hub.clone(), Visitor { name: "editor".into(), role: Role::Use });
        tokio::spawn(async move { hub.serve(theirs, visitor).await });
        let client = Client::new("test", "1").handler(self.clone()).protocol(Protocol::Only(dialect));
        let client = client.offer(|can| (can.fs_read, can.fs_write, can.terminal) = (true, true, true));
        timeout(LONG, client.connect(ours)).await.unwrap().unwrap()
    }
}

impl Handler for Editor {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        PermissionOutcome::selected(
            request.options.iter().find(|option| option.kind.allows()).unwrap().option_id.clone(),
        )
    }

    async fn read_text_file(&self, _: ReadTextFileRequest) -> tieline::Result<String> {
        self.note("read");
        Ok("of the editor".into())
    }

    async fn write_text_file(&self, request: WriteTextFileRequest) -> tieline::Result<()> {
        self.note(format!("write {}", request.content));
        Ok(())
    }

    async fn create_terminal(&self, request: CreateTerminalRequest) -> tieline::Result<String> {
        self.note(format!("run {}", request.command));
        Ok("terminal-1".into())
    }

    async fn wait_for_terminal_exit(&self, request: TerminalRequest) -> tieline::Result<ExitStatus> {
        assert_eq!(request.terminal_id, "terminal-1");
        Ok(ExitStatus { exit_code: Some(7), ..ExitStatus::default() })
    }

    async fn release_terminal(&self, _: TerminalRequest) -> tieline::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_terminals_are_those_of_the_opener_while_it_is_there() {
    let place = place(LONG);
    let file = format!("{}/a.txt", place.work());
    let at_host = || std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, "of the host").unwrap();
    let (read, write) = (format!("read {file}"), format!("write {file} new"));
    let (first, second) = (Editor::default(), Editor::default());
    let one = first.visit(&place, Dialect::V1).await;
    let opened = one.open(place.work()).await.unwrap();
    let two = second.visit(&place, Dialect::V1).await;
    let (joined, _) = join(&two, opened.id(), &place.work()).await;
    let told = async |session: &Session, words: &str, expect: &str| {
        // What others were told meanwhile is read first.
        let (text, _) = say(session, words).await;
        assert!(text.ends_with(expect), "{words}: {text}");
    };
    // Whoever prompts.
    for session in [&opened, &joined] {
        told(session, &read, "did: of the editor").await;
        told(session, &write, "did: ").await;
        told(session, "run make", "exit: 7").await;
        assert_eq!(first.asked(), ["read", "write new", "run make"]);
    }
    assert_eq!(at_host(), "of the host");
    one.close().await;
    told(&joined, &read, "did: of the host").await;
    told(&joined, &write, "did: ").await;
    assert_eq!(at_host(), "new");
    // This machine is asked, and runs nothing: a test program can't be a supervisor.
    told(&joined, "run true", "refused: The command can't be started").await;
    assert_eq!((first.asked(), second.asked()), (Vec::new(), Vec::new()), "a second client is never asked");
    // Current version 2 has no words for them: such an opener is not asked.
    let newest = first.visit(&place, Dialect::V2).await;
    told(&newest.open(place.work()).await.unwrap(), &read, "did: new").await;
    assert!(first.asked().is_empty());
    place.hub.stop().await;
}
