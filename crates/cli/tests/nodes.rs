//! Several `tieline serve` on one `PostgreSQL`: what is said at one is heard at all, the first answer counts over all of them, and a node, the
//! database, or its time can be lost without an event lost or doubled, or a prompt run twice.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../../scripts/postgres.rs"]
mod postgres;
#[path = "../../../scripts/skipped.rs"]
mod skipped;

use postgres::Cluster;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline::client::{AgentHandle, Client, Handler, Session, Turn};
use tieline::schema::{
    Dialect, Item, ListRequest, PermissionOutcome, PermissionRequest, Protocol, Replay, ResumeRequest, StopReason,
    Transcript, Update,
};
use tieline_http::Remote;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Nothing here takes longer, however busy the machine is.
const LONG: Duration = Duration::from_mins(2);
/// How long a node may be silent, in seconds: long enough for a busy machine.
const LEASE: u64 = 9;

/// Does what the first word of a prompt says; notes each prompt, and who it is itself.
const AGENT: &str = r#"
import json, os, sys, threading, time
asked, waiting, number, lock = {}, {}, 100, threading.Lock()
def send(body):
    with lock: print(json.dumps({"jsonrpc": "2.0", **body}), flush=True)
def say(session, text): send({"method": "session/update", "params": {"sessionId": session, "update": {
    "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}})
def count(id, session, most):
    for at in range(most):
        say(session, f"{at} ")
        time.sleep(0.01)
    send({"id": id, "result": {"stopReason": "end_turn"}})
for line in sys.stdin:
    message = json.loads(line)
    method, params, id = message.get("method"), message.get("params", {}), message.get("id")
    session = params.get("sessionId")
    if method == "initialize":
        send({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}}})
    elif method == "session/new":
        send({"id": id, "result": {"sessionId": "s"}})
    elif method == "session/resume":
        send({"id": id, "result": {}})
    elif method == "session/prompt":
        words = params["prompt"][-1]["text"]
        with open(sys.argv[1], "a") as file: file.write(f"{os.getpid()} {words}\n")
        if words.startswith("ask"):
            number += 1
            asked[number] = (id, session)
            send({"id": number, "method": "session/request_permission", "params": {"sessionId": session,
                "toolCall": {"toolCallId": words, "title": "Do it", "kind": "execute", "rawInput": {"command": "make"}},
                "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}]}})
        elif words.startswith("wait"):
            say(session, "working")
            waiting[session] = id
        elif words.startswith("count"):
            threading.Thread(target=count, args=(id, session, int(words.split()[1])), daemon=True).start()
        else:
            say(session, "heard: " + words)
            send({"id": id, "result": {"stopReason": "end_turn"}})
    elif method == "session/cancel" and session in waiting:
        send({"id": waiting.pop(session), "result": {"stopReason": "cancelled"}})
    elif method is None and id in asked:
        prompt, session = asked.pop(id)
        say(session, "answer: " + message["result"]["outcome"].get("optionId", "none"))
        send({"id": prompt, "result": {"stopReason": "end_turn"}})
"#;

struct Node {
    child: Child,
    address: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    async fn visit(&self, person: Person) -> AgentHandle {
        let remote = Remote::new(&format!("ws://{}/acp", self.address)).unwrap();
        let transport = remote.connect().await.unwrap();
        let client = Client::new("test", "1").handler(person).protocol(Protocol::Only(Dialect::V2));
        timeout(LONG, client.connect(transport)).await.unwrap().unwrap()
    }

    fn health(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        write!(stream, "GET /health HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

/// Several nodes, each with a home of its own, on one database and in one folder.
struct Place {
    cluster: Arc<Cluster>,
    database: String,
    folder: TempDir,
}

impl Place {
    fn new(cluster: Option<Arc<Cluster>>) -> Option<Self> {
        let cluster = cluster?;
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        Some(Self { database: cluster.database(), cluster, folder })
    }

    fn node(&self, name: &str, flags: &[&str]) -> Node {
        let home = self.folder.path().join(name);
        std::fs::create_dir_all(&home).unwrap();
        // An address with a password would be in such a file.
        let store = self.folder.path().join("store");
        std::fs::write(&store, format!("{}\n", self.database)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", &home);
        command.current_dir(self.folder.path().join("project")).stdin(Stdio::null()).stdout(Stdio::piped());
        if let Some(log) = std::env::var_os("TIELINE_LOG") {
            command.env("TIELINE_LOG", log);
        }
        command.args(["serve", "--no-auth", "--listen", "127.0.0.1:0", "--lease", &LEASE.to_string()]);
        command.arg("--store").arg(format!("@{}", store.display())).args(flags).args(["--", "python3", "-c", AGENT]);
        let mut child = command.arg(self.folder.path().join("runs")).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let link = lines.by_ref().map(Result::unwrap).find(|line| line.contains("http://")).expect("it starts");
        let address = link.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Node { child, address }
    }

    fn project(&self) -> String {
        self.folder.path().join("project").canonicalize().unwrap().to_string_lossy().into_owned()
    }

    /// The prompts that agents were given, with the agent's process.
    fn runs(&self) -> Vec<(u32, String)> {
        let text = std::fs::read_to_string(self.folder.path().join("runs")).unwrap_or_default();
        let run = |line: &str| line.split_once(' ').map(|(pid, words)| (pid.parse().unwrap(), words.to_owned()));
        text.lines().filter_map(run).collect()
    }

    /// Whether the agent has said something to the prompt, and that is stored.
    fn has_said(&self, prompt: &str) -> bool {
        let last = format!("SELECT max(seq) FROM tieline.event WHERE kind = 'prompt' AND body LIKE '%{prompt}%'");
        self.sql(&format!("SELECT count(*) > 2 OR bool_or(body LIKE '%working%') FROM tieline.event WHERE kind = 'update' AND body LIKE '%agent_message_chunk%' AND seq > ({last})")) == "t"
    }

    fn sql(&self, sql: &str) -> String {
        self.cluster.sql(&self.database, sql)
    }
}

/// A person who answers with one option, or with nothing.
#[derive(Clone, Default)]
struct Person {
    option: Option<&'static str>,
    asked: Arc<Notify>,
    /// How many questions stand before them.
    open: Arc<Mutex<i32>>,
}

impl Person {
    fn says(option: &'static str) -> Self {
        Self { option: Some(option), ..Self::default() }
    }
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
        assert_eq!(request.options.len(), 2, "the whole question comes to every node");
        self.asked.notify_one();
        match self.option {
            Some(option) => PermissionOutcome::selected(option),
            None => std::future::pending().await,
        }
    }
}

/// Takes a session up; gives what was said in it.
async fn join(client: &AgentHandle, id: &str, cwd: &str) -> (Arc<Session>, Vec<String>) {
    let mut told = Transcript::new(client.dialect());
    let request =
        ResumeRequest { session_id: id.into(), cwd: cwd.to_owned(), replay: Replay::Start, ..ResumeRequest::default() };
    let joining = client.resume_telling(request, |update| {
        told.apply(&update);
    });
    let session = timeout(LONG, joining).await.unwrap().unwrap();
    (Arc::new(session), lines(&told))
}

fn lines(told: &Transcript) -> Vec<String> {
    let line = |item: &Item| match item {
        Item::Message(message) => Some(format!("{:?}: {}", message.kind, message.text())),
        _ => None,
    };
    told.items().iter().filter_map(line).collect()
}

/// What a client hears outside its own turns, until this is dropped.
struct Heard(Arc<Mutex<Transcript>>, AbortHandle);

impl Heard {
    fn lines(&self) -> Vec<String> {
        lines(&self.0.lock().unwrap())
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.1.abort();
    }
}

fn listen(session: Arc<Session>) -> Heard {
    let told = Arc::new(Mutex::new(Transcript::new(Dialect::V2)));
    let heard = Arc::clone(&told);
    let task = tokio::spawn(async move {
        while let Some(update) = session.next().await {
            heard.lock().unwrap().apply(&update);
        }
    });
    Heard(told, task.abort_handle())
}

/// Waits until a client has heard this outside its own turns.
async fn hears(session: &Session, line: &str) {
    let mut told = Transcript::new(Dialect::V2);
    while lines(&told).last().is_none_or(|last| last != line) {
        let next = timeout(LONG, session.next()).await;
        told.apply(&next.unwrap_or_else(|_| panic!("{line} was never heard, but {:?}", lines(&told))).unwrap());
    }
}

/// Says something behind all that was heard.
async fn prompt(session: &Session, words: &str) -> Turn {
    while session.try_next().is_some() {}
    timeout(LONG, session.prompt(words)).await.unwrap().unwrap()
}

async fn say(session: &Session, words: &str) -> (String, StopReason) {
    timeout(LONG, prompt(session, words).await.text()).await.unwrap().unwrap()
}

/// Waits until something is so.
async fn until(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !look() {
        assert!(Instant::now() < deadline, "{what} never came");
        sleep(Duration::from_millis(20)).await;
    }
}

fn numbers(most: usize) -> String {
    (0..most).map(|at| format!("{at} ")).collect::<Vec<_>>().concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_here_is_heard_there_and_answered_at_a_third() {
    let Some(place) = Place::new(Cluster::get()) else { return };
    let [a, b, c] = ["a", "b", "c"].map(|name| place.node(name, &[]));
    let one = a.visit(Person::default()).await;
    let opened = one.open(place.project()).await.unwrap();
    assert_eq!(say(&opened, "hello").await, ("heard: hello".into(), StopReason::EndTurn));
    let silent = Person::default();
    let two = b.visit(silent.clone()).await;
    let (joined, told) = join(&two, opened.id(), &place.project()).await;
    assert_eq!(told, ["User: hello", "Agent: heard: hello"]);

    // Asked at the second, answered at the third, and withdrawn from the second.
    let turn = prompt(&opened, "ask").await;
    timeout(LONG, silent.asked.notified()).await.unwrap();
    let three = c.visit(Person::says("yes")).await;
    let (third, _) = join(&three, opened.id(), &place.project()).await;
    assert_eq!(timeout(LONG, turn.text()).await.unwrap().unwrap().0, "answer: yes");
    until("the withdrawal", || *silent.open.lock().unwrap() == 0).await;
    hears(&joined, "Agent: answer: yes").await;
    let answers = place.folder.path().join("a/.local/state/tieline/serve-answers.jsonl");
    assert_eq!(std::fs::read_to_string(answers).unwrap().lines().count(), 1);

    // A prompt at the second is run at the first and heard at the third.
    let heard = listen(Arc::clone(&third));
    assert_eq!(say(&joined, "count 30").await, (numbers(30), StopReason::EndTurn));
    let want = ["User: count 30".to_owned(), format!("Agent: {}", numbers(30))];
    until("what the second said", || heard.lines().ends_with(&want)).await;
    // One that waits is withdrawn by its client, one that runs cancelled from the third.
    let running = prompt(&joined, "wait").await;
    until("the turn", || place.runs().iter().any(|(_, words)| words == "wait")).await;
    let list = three.list(ListRequest::default()).await.unwrap();
    assert!(list.sessions[0].meta.as_ref().unwrap().0.get().contains("\"running\""), "{list:?}");
    let queued = prompt(&opened, "never").await;
    queued.taken().await.unwrap();
    queued.cancel().await.unwrap();
    assert_eq!(timeout(LONG, queued.text()).await.unwrap().unwrap().1, StopReason::Cancelled);
    third.cancel().await.unwrap();
    assert_eq!(timeout(LONG, running.text()).await.unwrap().unwrap().1, StopReason::Cancelled);
    let words: Vec<String> = place.runs().into_iter().map(|(_, words)| words).collect();
    assert_eq!(words, ["hello", "ask", "count 30", "wait"]);

    // A session that somebody is on is deleted by nobody; then from any node.
    three.delete(opened.id().clone()).await.unwrap_err();
    drop((joined, third));
    one.close().await;
    two.close().await;
    three.close().await;
    let admin = c.visit(Person::default()).await;
    let id = opened.id().clone();
    let deleted = async {
        while admin.delete(id.clone()).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LONG, deleted).await.unwrap();
    assert_eq!(place.sql("SELECT count(*) FROM tieline.session"), "0");
    assert_eq!(place.sql("SELECT count(*) FROM tieline.inbox"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_killed_in_a_turn_or_a_question_is_replaced() {
    let Some(place) = Place::new(Cluster::get()) else { return };
    for (words, by_other) in [("count 100000", false), ("ask", true), ("wait", true)] {
        let [mut a, b, c] = ["a", "b", "c"].map(|name| place.node(name, &[]));
        let one = a.visit(Person::default()).await;
        let opened = one.open(place.project()).await.unwrap();
        let id = opened.id().clone();
        say(&opened, "hello").await;
        let silent = Person::default();
        let two = b.visit(silent.clone()).await;
        let (joined, _) = join(&two, &id, &place.project()).await;
        // The turn is that of a client of the node that is killed, or of one of another node.
        let turn = prompt(if by_other { &joined } else { &opened }, words).await;
        let heard = (!by_other).then(|| listen(Arc::clone(&joined)));
        if words == "ask" {
            timeout(LONG, silent.asked.notified()).await.unwrap();
        } else {
            until("the turn", || place.has_said(words)).await;
        }
        a.child.kill().unwrap();
        a.child.wait().unwrap();
        let ended = timeout(LONG, turn.text()).await.unwrap().unwrap_err().to_string();
        if by_other {
            assert!(ended.contains("the server that ran it is gone"), "{words}: {ended}");
        }
        until("the end of the question", || *silent.open.lock().unwrap() == 0).await;
        // The session goes on at the second, by itself: somebody is on it. Nothing is run again.
        until("the take-over", || place.sql("SELECT bool_or(running) FROM tieline.session") == "f").await;
        let three = c.visit(Person::default()).await;
        let (third, whole) = join(&three, &id, &place.project()).await;
        if let Some(heard) = heard {
            // What one heard as it came is what the log has: each once.
            until("all of it", || heard.lines().last() == whole.last()).await;
            assert!(whole.last().unwrap().starts_with("Agent: 0 1 2 "), "{whole:?}");
        }
        assert_eq!(say(&joined, "more").await.0, "heard: more");
        hears(&third, "Agent: heard: more").await;
        assert_eq!(say(&third, "and more").await.0, "heard: and more");
        let runs: Vec<String> = place.runs().into_iter().map(|(_, words)| words).collect();
        assert_eq!(runs, ["hello", words, "more", "and more"]);
        std::fs::remove_file(place.folder.path().join("runs")).unwrap();
        place.sql("DELETE FROM tieline.session");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_clients_at_two_nodes_answer_at_once_and_one_counts() {
    let Some(place) = Place::new(Cluster::get()) else { return };
    let nodes = ["a", "b"].map(|name| place.node(name, &[]));
    let one = nodes[0].visit(Person::default()).await;
    let opened = one.open(place.project()).await.unwrap();
    say(&opened, "hello").await;
    let mut others = Vec::new();
    for at in 0..5 {
        let client = nodes[at % 2].visit(Person::says(if at % 3 == 0 { "no" } else { "yes" })).await;
        let (joined, _) = join(&client, opened.id(), &place.project()).await;
        others.push((client, joined));
    }
    for round in 1..=5 {
        let (answer, stop) = say(&opened, &format!("ask {round}")).await;
        assert!(matches!(&*answer, "answer: yes" | "answer: no") && stop == StopReason::EndTurn, "{answer}");
    }
    let kinds =
        "SELECT count(*) FILTER (WHERE kind = 'asked'), count(*) FILTER (WHERE kind = 'settled') FROM tieline.event";
    assert_eq!(place.sql(kinds), "5|5");
    let answers =
        std::fs::read_to_string(place.folder.path().join("a/.local/state/tieline/serve-answers.jsonl")).unwrap();
    assert_eq!(answers.lines().count(), 5, "{answers}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_is_restarted_in_a_turn_and_nothing_is_lost_or_doubled() {
    let Some(place) = Place::new(Cluster::start().map(Arc::new)) else { return };
    let [a, b] = ["a", "b"].map(|name| place.node(name, &[]));
    let one = a.visit(Person::default()).await;
    let opened = one.open(place.project()).await.unwrap();
    say(&opened, "hello").await;
    let two = b.visit(Person::default()).await;
    let (joined, _) = join(&two, opened.id(), &place.project()).await;
    let turn = prompt(&opened, "count 300").await;
    let heard = listen(joined);
    until("the turn", || heard.lines().len() > 1).await;
    place.cluster.stop();
    place.cluster.start_again();
    assert_eq!(timeout(LONG, turn.text()).await.unwrap().unwrap(), (numbers(300), StopReason::EndTurn));
    let want = ["User: count 300".to_owned(), format!("Agent: {}", numbers(300))];
    until("the rest at the other node", || heard.lines() == want).await;
    assert_eq!(place.runs().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stays_away_is_said_and_its_sessions_stop() {
    let Some(place) = Place::new(Cluster::start().map(Arc::new)) else { return };
    let a = place.node("a", &[]);
    let one = a.visit(Person::default()).await;
    let opened = one.open(place.project()).await.unwrap();
    say(&opened, "hello").await;
    assert!(a.health().contains(" 200 "));
    let turn = prompt(&opened, "count 100000").await;
    until("the turn", || place.has_said("count 100000")).await;
    let agent = place.runs().last().unwrap().0;
    place.cluster.stop();
    let ended = timeout(LONG, turn.text()).await.unwrap().unwrap_err().to_string();
    assert!(ended.contains("the database has not answered") || ended.contains("closed"), "{ended}");
    until("the end of the agent", || !std::path::Path::new(&format!("/proc/{agent}")).exists()).await;
    until("a word to the one in front", || a.health().contains(" 503 ")).await;
    assert!(a.health().contains("the database can't be reached"), "{}", a.health());
    place.cluster.start_again();
    until("health", || a.health().contains(" 200 ")).await;
    let again = a.visit(Person::default()).await;
    let (joined, told) = join(&again, opened.id(), &place.project()).await;
    assert!(told.last().unwrap().starts_with("Agent: 0 1 "), "{told:?}");
    assert_eq!(say(&joined, "more").await.0, "heard: more");
    assert_eq!(place.runs().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_slept_through_its_lease_stores_nothing() {
    let Some(place) = Place::new(Cluster::get()) else { return };
    let [a, b] = ["a", "b"].map(|name| place.node(name, &[]));
    let one = a.visit(Person::default()).await;
    let opened = one.open(place.project()).await.unwrap();
    say(&opened, "hello").await;
    let two = b.visit(Person::default()).await;
    let (joined, _) = join(&two, opened.id(), &place.project()).await;
    let turn = prompt(&opened, "count 100000").await;
    until("the turn", || place.has_said("count 100000")).await;
    let (agent, owner) = (place.runs().last().unwrap().0, place.sql("SELECT epoch FROM tieline.session"));
    // Its agent works on, and what it says waits for the node to wake up.
    a.signal("STOP");
    until("the take-over", || place.sql("SELECT epoch FROM tieline.session") != owner).await;
    until("the end of the turn", || place.sql("SELECT running FROM tieline.session") == "f").await;
    assert_eq!(say(&joined, "more").await.0, "heard: more");
    let rows = "SELECT string_agg(seq || kind || body, ',' ORDER BY seq) FROM tieline.event";
    let before = place.sql(rows);
    a.signal("CONT");
    // It notices, and ends what it should not do any more.
    let ended = timeout(LONG, turn.text()).await.unwrap();
    assert!(ended.is_err(), "{ended:?}");
    until("the end of its agent", || !std::path::Path::new(&format!("/proc/{agent}")).exists()).await;
    assert_eq!(place.sql(rows), before);
    // Who was there comes to the session where it is now.
    let again = a.visit(Person::default()).await;
    let (back, told) = join(&again, opened.id(), &place.project()).await;
    assert_eq!(told.last().unwrap(), "Agent: heard: more");
    assert_eq!(say(&back, "from a").await.0, "heard: from a");
    let runs: Vec<String> = place.runs().into_iter().map(|(_, words)| words).collect();
    assert_eq!(runs, ["hello", "count 100000", "more", "from a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_drained_ends_its_turns_and_lets_its_sessions_go() {
    let Some(place) = Place::new(Cluster::get()) else { return };
    let (mut a, b) = (place.node("a", &["--drain", "100"]), place.node("b", &[]));
    let one = a.visit(Person::default()).await;
    let opened = one.open(place.project()).await.unwrap();
    say(&opened, "hello").await;
    let two = b.visit(Person::default()).await;
    let (joined, _) = join(&two, opened.id(), &place.project()).await;
    let mut turn = prompt(&opened, "count 200").await;
    while !matches!(turn.next().await.unwrap(), Update::Chunk(_)) {}
    a.signal("TERM");
    until("a word to the one in front", || a.health().contains("drained")).await;
    let third = b.visit(Person::default()).await;
    let (late, _) = join(&third, opened.id(), &place.project()).await;
    let refused = timeout(LONG, prompt(&late, "too late").await.text()).await.unwrap();
    assert!(refused.unwrap_err().to_string().contains("about to end"));
    assert!(a.child.wait().unwrap().success());
    let ends = "SELECT count(*) FROM tieline.event WHERE kind = 'turn_end' AND body LIKE '%end_turn%'";
    assert_eq!(place.sql(ends), "2", "the turn has ended in its own way");
    assert_eq!(place.sql("SELECT until IS NULL FROM tieline.session"), "t");
    hears(&joined, &format!("Agent: {}", numbers(200))).await;
    assert_eq!(say(&joined, "more").await.0, "heard: more");
}

#[test]
fn what_is_no_store_is_refused_without_repeating_it() {
    for (store, want) in [
        ("mysql://u:s3cret@h/d", "postgres://"),
        ("@/none/there", "/none/there"),
        ("postgres://u:s3cret@127.0.0.1:1/d", "can't be reached"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", folder.path())
            .current_dir(folder.path());
        let done = command.args(["serve", "--no-auth", "--listen", "127.0.0.1:0", "--store", store]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && said.contains(want) && !said.contains("s3cret"), "{store}: {said}");
    }
}
