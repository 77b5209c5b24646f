//! Connections cut at any byte, clients that leave, servers killed: a client goes on behind the last event that it got; no event is
//! lost or comes twice, no prompt is run twice. `TIELINE_CUTS` says how often, `TIELINE_SEED` which.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Nothing here takes longer, however busy the machine is.
const LONG: Duration = Duration::from_mins(2);
/// How often without being told otherwise.
const CUTS: usize = 20;
/// A connection is cut after at most so many bytes.
const MOST_BYTES: usize = 6000;

/// Counts, or asks first; notes each prompt that it is given.
const AGENT: &str = r#"
import json, sys, time
asked, number = {}, 100
def send(body): print(json.dumps({"jsonrpc": "2.0", **body}), flush=True)
def say(session, text): send({"method": "session/update", "params": {"sessionId": session, "update": {
    "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}})
def count(id, session, words):
    for at in range(40):
        say(session, f"{words}:{at} ")
        time.sleep(0.004)
    say(session, f"{words}:end ")
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
        with open(sys.argv[1], "a") as file:
            file.write(words + "\n")
        if words.startswith("ask"):
            number += 1
            asked[number] = (id, session, words)
            send({"id": number, "method": "session/request_permission", "params": {"sessionId": session,
                "toolCall": {"toolCallId": words, "title": "Do it", "kind": "execute", "rawInput": {"command": "make"}},
                "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]}})
        else:
            count(id, session, words)
    elif method is None and id in asked:
        count(*asked.pop(id))
"#;

/// Numbers that look random and are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

struct Server {
    folder: TempDir,
    port: u16,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(folder: &TempDir, port: u16) -> (Child, u16) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder.path().join("home"));
    command.current_dir(folder.path().join("project")).stdin(Stdio::null()).stdout(Stdio::piped());
    command.args(["serve", "--no-auth", "--listen", &format!("127.0.0.1:{port}"), "--", "python3", "-c", AGENT]);
    let mut child = command.arg(folder.path().join("runs")).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let link = lines.by_ref().map(Result::unwrap).find(|line| line.contains("http://")).expect("it starts");
    let port = link.trim().trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    (child, port)
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let (child, port) = start(&folder, 0);
        Self { folder, port, child }
    }

    /// The end without a word, and a new beginning at the same place.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = start(&self.folder, self.port).0;
    }

    fn runs(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("runs")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn project(&self) -> String {
        self.folder.path().join("project").canonicalize().unwrap().to_string_lossy().into_owned()
    }
}

/// A socket on which something comes, until it is cut.
struct Source {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// So many bytes come through.
    left: usize,
}

impl Source {
    async fn open(port: u16, head: &str, left: usize) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(format!("{head}Host: 127.0.0.1:{port}\r\n\r\n").as_bytes()).await.unwrap();
        let mut source = Self { stream, buffer: Vec::new(), left: usize::MAX };
        loop {
            if let Some(at) = source.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let answer = String::from_utf8_lossy(&source.buffer[..at]).into_owned();
                assert!(answer.contains(" 200 ") || answer.contains(" 101 "), "{answer}");
                source.buffer.drain(..at + 4);
                source.left = left;
                return source;
            }
            assert!(source.more().await, "no answer to {head}");
        }
    }

    /// Reads some more. False if it is cut, or ends.
    async fn more(&mut self) -> bool {
        let mut piece = [0; 4096];
        let most = self.left.min(piece.len());
        if most == 0 {
            return false;
        }
        let count = timeout(LONG, self.stream.read(&mut piece[..most])).await.expect("nothing comes").unwrap_or(0);
        self.left -= count;
        self.buffer.extend_from_slice(&piece[..count]);
        count > 0
    }

    /// The next event of an event stream: its id, and what it holds.
    async fn event(&mut self) -> Option<(String, Option<Value>)> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..at + 2).collect();
                let event = String::from_utf8(event).unwrap();
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                if let Some(id) = field("id: ") {
                    return Some((id.to_owned(), field("data: ").map(|data| serde_json::from_str(data).unwrap())));
                }
                continue;
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// The next message of a WebSocket.
    async fn message(&mut self) -> Option<Value> {
        loop {
            if self.buffer.len() >= 2 {
                let (kind, short) = (self.buffer[0] & 0xf, usize::from(self.buffer[1]));
                let (start, length) = match short {
                    126 if self.buffer.len() >= 4 => {
                        (4, usize::from(u16::from_be_bytes([self.buffer[2], self.buffer[3]])))
                    }
                    126 => (usize::MAX, 0),
                    127 => panic!("a huge message"),
                    short => (2, short),
                };
                if start != usize::MAX && self.buffer.len() >= start + length {
                    let frame: Vec<u8> = self.buffer.drain(..start + length).skip(start).collect();
                    match kind {
                        1 => return Some(serde_json::from_slice(&frame).unwrap()),
                        8 => return None,
                        _ => continue,
                    }
                }
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let length = u16::try_from(text.len()).unwrap().to_be_bytes();
        // A mask of zeros changes nothing.
        let mut frame = vec![0x81, 0x80 | 0x7e, length[0], length[1], 0, 0, 0, 0];
        frame.extend_from_slice(text.as_bytes());
        let _ = self.stream.write_all(&frame).await;
    }
}

enum Way {
    Streams { connection: String, of_connection: Source, of_session: Option<Source> },
    Socket(Source),
}

/// A client that remembers what it was told, over all of its connections.
struct Client {
    way: Option<Way>,
    session: String,
    /// The last position that it got.
    last: Option<String>,
    next: u64,
    /// What the agent said, with the positions; and what users said.
    told: Vec<(String, String)>,
    users: BTreeSet<String>,
    cut_off: bool,
}

fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": 2, "info": {"name": "cuts", "version": "1"}, "capabilities": {}}})
}

impl Client {
    fn new() -> Self {
        Self {
            way: None,
            session: String::new(),
            last: None,
            next: 0,
            told: Vec::new(),
            users: BTreeSet::new(),
            cut_off: false,
        }
    }

    async fn connect(&mut self, server: &Server, socket: bool, left: usize) {
        self.way = Some(if socket {
            let head = "GET /acp HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n\
                        Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
            let mut source = Source::open(server.port, head, usize::MAX).await;
            source.send(&hello()).await;
            assert!(source.message().await.unwrap()["result"].is_object());
            source.left = left;
            Way::Socket(source)
        } else {
            let (head, _) = post(server, "POST /acp HTTP/1.0", &hello().to_string()).await;
            let connection = head.lines().find_map(|line| line.strip_prefix("acp-connection-id: ")).unwrap().to_owned();
            let of_connection = events(server, &connection, None, None, usize::MAX).await;
            let of_session = None;
            Way::Streams { connection, of_connection, of_session }
        });
    }

    /// Opens the stream of the session, where there are streams, behind the last event.
    async fn open_stream(&mut self, server: &Server, left: usize) {
        if let Some(Way::Streams { connection, of_session, .. }) = &mut self.way {
            *of_session = Some(events(server, connection, Some(&self.session), self.last.as_deref(), left).await);
        }
    }

    async fn send(&mut self, server: &Server, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        match self.way.as_mut().unwrap() {
            Way::Socket(source) => source.send(&message).await,
            Way::Streams { connection, .. } => {
                let head = format!("POST /acp HTTP/1.0\r\nAcp-Connection-Id: {connection}");
                let (status, body) = post(server, &head, &message.to_string()).await;
                assert!(status.contains(" 202 "), "{status} {body}");
            }
        }
    }

    async fn ask(&mut self, server: &Server, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(server, json!({"id": id, "method": method, "params": params})).await;
        id
    }

    /// Takes the session up. With `replay` what is behind the last event has come when the answer has.
    async fn take_up(&mut self, server: &Server, replay: bool) -> bool {
        let mut params = json!({"sessionId": self.session, "cwd": server.project(), "mcpServers": []});
        if let (Some(Way::Socket(_)), Some(last)) = (&self.way, &self.last) {
            params["_meta"] = json!({"tieline": {"after": last}});
        }
        if replay {
            params["replayFrom"] = json!({"type": "start"});
        }
        let id = self.ask(server, "session/resume", params).await;
        loop {
            match self.next(server).await {
                Some(message) if message["id"] == id && message["method"].is_null() => {
                    assert!(message["result"].is_object(), "{message}");
                    return true;
                }
                Some(_) => {}
                None => return false,
            }
        }
    }

    /// The next message; `None` if the connection was cut.
    async fn next(&mut self, server: &Server) -> Option<Value> {
        let message = match self.way.as_mut()? {
            Way::Socket(source) => source.message().await?,
            Way::Streams { of_connection, of_session: None, .. } => loop {
                if let Some(message) = of_connection.event().await?.1 {
                    break message;
                }
            },
            Way::Streams { of_connection, of_session: Some(of_session), .. } => loop {
                tokio::select! {
                    biased;
                    event = of_session.event() => {
                        let (id, message) = event?;
                        self.last = Some(id);
                        if let Some(message) = message {
                            break message;
                        }
                    }
                    event = of_connection.event() => {
                        if let Some(message) = event?.1 {
                            break message;
                        }
                    }
                }
            },
        };
        self.take(&message);
        if message["method"] == "session/request_permission" {
            let answer = json!({"outcome": {"outcome": "selected", "optionId": "yes"}});
            self.send(server, json!({"id": message["id"], "result": answer})).await;
        }
        Some(message)
    }

    fn take(&mut self, message: &Value) {
        let update = &message["params"]["update"];
        let position = message.pointer("/params/_meta/tieline/event").and_then(Value::as_str);
        if let (Some(position), Some(Way::Socket(_))) = (position, &self.way) {
            self.last = Some(position.to_owned());
        }
        match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk") => {
                let text = update["content"]["text"].as_str().unwrap().to_owned();
                self.told.push((position.expect("what the agent says has a position").to_owned(), text));
            }
            Some("user_message") => {
                self.users.insert(update["content"][0]["text"].as_str().unwrap().to_owned());
            }
            // Told once, of whichever prompt: the next one is said.
            _ if update["title"]
                .as_str()
                .is_some_and(|words| words.contains("the turn was cut off") || words.contains("A prompt was lost")) =>
            {
                self.cut_off = true;
            }
            _ => {}
        }
    }

    fn has_heard(&self, words: &str) -> bool {
        self.told.iter().any(|(_, text)| text.contains(words))
    }
}

async fn post(server: &Server, head: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let request = format!(
        "{head}\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        server.port,
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(LONG, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

async fn events(server: &Server, connection: &str, session: Option<&str>, last: Option<&str>, left: usize) -> Source {
    let session = session.map(|session| format!("Acp-Session-Id: {session}\r\n")).unwrap_or_default();
    let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
    let head =
        format!("GET /acp HTTP/1.0\r\nAccept: text/event-stream\r\nAcp-Connection-Id: {connection}\r\n{session}{last}");
    Source::open(server.port, &head, left).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_goes_on_behind_the_last_event_that_it_got() {
    let (cuts, seed) = (number("TIELINE_CUTS").unwrap_or(CUTS), number("TIELINE_SEED").unwrap_or(1));
    let (mut chance, mut server, mut client) = (Chance(seed as u64), Server::start(), Client::new());
    client.connect(&server, false, usize::MAX).await;
    let id = client.ask(&server, "session/new", json!({"cwd": server.project(), "mcpServers": []})).await;
    while client.session.is_empty() {
        let message = client.next(&server).await.unwrap();
        if message["id"] == id && message["method"].is_null() {
            message["result"]["sessionId"].as_str().unwrap().clone_into(&mut client.session);
        }
    }
    client.open_stream(&server, MOST_BYTES).await;
    let (mut prompt, mut done, mut kills) = (String::new(), 0, 0);
    let mut sent = 0;
    for _ in 0..cuts {
        // Turn by turn until it is cut.
        loop {
            let over = prompt.is_empty() || client.cut_off || client.has_heard(&format!("{prompt}:end"));
            if over {
                done += usize::from(!prompt.is_empty() && !client.cut_off);
                (prompt, client.cut_off) = (format!("{}{sent}", ["say", "ask"][sent % 2]), false);
                sent += 1;
                let words = json!([{"type": "text", "text": prompt}]);
                client.ask(&server, "session/prompt", json!({"sessionId": client.session, "prompt": words})).await;
            }
            if client.next(&server).await.is_none() {
                break;
            }
        }
        let left = 1 + chance.below(MOST_BYTES);
        match chance.below(4) {
            // Only the stream is gone; a socket is gone with all it had.
            0 if matches!(client.way, Some(Way::Streams { .. })) => client.open_stream(&server, left).await,
            how => {
                client.way = None;
                if how == 1 {
                    server.kill();
                    kills += 1;
                }
                loop {
                    client.connect(&server, chance.below(2) == 0, 64 + chance.below(MOST_BYTES)).await;
                    client.open_stream(&server, 64 + chance.below(MOST_BYTES)).await;
                    if client.take_up(&server, true).await {
                        break;
                    }
                }
                if !prompt.is_empty() && !client.users.contains(&prompt) {
                    // With a server that lives it may still be on its way.
                    assert!(how != 1 || !server.runs().contains(&prompt), "{prompt} is run and nobody knows");
                    prompt.clear();
                }
            }
        }
    }
    drop(client.way.take());
    // What it was told in pieces is what somebody is told who comes now.
    let mut fresh = Client { session: client.session.clone(), ..Client::new() };
    fresh.connect(&server, false, usize::MAX).await;
    fresh.open_stream(&server, usize::MAX).await;
    assert!(fresh.take_up(&server, true).await);
    let known = client.told.len();
    let at = client.told.iter().zip(&fresh.told).take_while(|(one, other)| one == other).count();
    let around = |told: &[(String, String)]| format!("{:?}", &told[at.saturating_sub(2)..told.len().min(at + 3)]);
    assert_eq!(at, known, "seed {seed}: it was told {}, not {}", around(&client.told), around(&fresh.told));
    let runs = server.runs();
    assert_eq!(runs.iter().collect::<BTreeSet<_>>().len(), runs.len(), "a prompt was run twice: {runs:?}");
    println!("{cuts} cuts, {kills} servers killed, {done} of {} turns to their end, {known} events", runs.len());
    assert!(done > 0 && known > cuts);
}
