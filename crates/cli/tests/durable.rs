//! Connections cut at any byte, clients that leave, servers killed, nodes cut off from their database: a client goes on behind the last event
//! that it got, at whichever node; no event is lost or comes twice, no prompt is run twice. `TIELINE_CUTS` says how often, `TIELINE_SEED` which.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../../scripts/postgres.rs"]
mod postgres;
#[path = "../../../scripts/skipped.rs"]
mod skipped;

use postgres::Cluster;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Nothing here takes longer, however busy the machine is.
const LONG: Duration = Duration::from_mins(2);
/// How often without being told otherwise.
const CUTS: usize = 20;
/// How many nodes.
const NODES: usize = 3;
/// How long a node may be silent, in seconds.
const LEASE: &str = "3";
/// A client that was refused tries again after this time.
const AGAIN: Duration = Duration::from_millis(100);
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

/// The networks of a node: one to its clients, one to its database, which can be cut.
struct Network {
    space: String,
    /// Our ends of both, and our and the node's addresses.
    to_clients: (String, [String; 2]),
    to_database: (String, [String; 2]),
}

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

impl Network {
    /// Makes it, if this machine lets us.
    fn new(number: usize) -> Option<Self> {
        let us = std::process::id();
        let space = format!("tieline-{us}-{number}");
        let link = |net: usize| {
            let ends = [1, 2].map(|end| format!("10.{}.{}.{}", 200 + net, us % 250, 4 * number + end));
            (format!("tl{net}x{us}x{number}"), ends)
        };
        let network = Self { space: space.clone(), to_clients: link(1), to_database: link(2) };
        let made = ip(&format!("netns add {space}"))
            && ip(&format!("-n {space} link set lo up"))
            && [("in", &network.to_clients), ("db", &network.to_database)].iter().all(
                |(name, (ours, [here, there]))| {
                    ip(&format!("link add {ours} type veth peer name {name} netns {space}"))
                        && ip(&format!("addr add {here}/30 dev {ours}"))
                        && ip(&format!("link set {ours} up"))
                        && ip(&format!("-n {space} addr add {there}/30 dev {name}"))
                        && ip(&format!("-n {space} link set {name} up"))
                },
            );
        made.then_some(network)
    }

    /// Cuts the way to the database, or heals it.
    fn cut(&self, is_cut: bool) {
        assert!(ip(&format!("link set {} {}", self.to_database.0, if is_cut { "down" } else { "up" })));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for (ours, _) in [&self.to_clients, &self.to_database] {
            ip(&format!("link del {ours}"));
        }
        ip(&format!("netns del {}", self.space));
    }
}

struct Node {
    name: String,
    child: Child,
    /// Its host and port.
    address: String,
    network: Option<Network>,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One server with its file, or several on one database.
struct Service {
    folder: TempDir,
    nodes: Vec<Node>,
    /// The node that the client is at.
    at: usize,
    /// The database of several.
    cluster: Option<Cluster>,
    /// What opens the nodes of several.
    token: String,
}

impl Service {
    fn one() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        let mut service = Self { folder, nodes: Vec::new(), at: 0, cluster: None, token: String::new() };
        service.nodes.push(service.start("home", "127.0.0.1:0".into(), None));
        service
    }

    /// Nodes in networks of their own, if these can be had. `None`, and said so, without a database.
    fn several() -> Option<Self> {
        let networks: Vec<_> = (0..NODES).map_while(Network::new).collect();
        let apart = networks.len() == NODES;
        if !apart {
            skipped::skipped(
                "NETWORKS",
                "nodes that are cut off from their database: no network namespaces here (root, iproute2)",
            );
        }
        let ends: Vec<&str> = networks.iter().filter(|_| apart).map(|network| &*network.to_database.1[0]).collect();
        let cluster = Cluster::start_at(&ends)?;
        let database = cluster.database();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        let mut service = Self { folder, nodes: Vec::new(), at: 0, cluster: Some(cluster), token: String::new() };
        let mut networks = networks.into_iter().filter(|_| apart);
        for name in ["a", "b", "c"] {
            let network = networks.next();
            let host = network.as_ref().map_or("127.0.0.1", |network| &network.to_clients.1[1]);
            let way = network.as_ref().map_or("127.0.0.1", |network| &network.to_database.1[0]);
            let store = database.replace("127.0.0.1", way);
            let home = service.folder.path().join(name);
            std::fs::create_dir(&home).unwrap();
            std::fs::write(home.join("store"), store).unwrap();
            if service.token.is_empty() {
                let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
                command.env_clear().env("HOME", &home).args(["serve", "token", "add", "test", "--role", "use"]);
                let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
                said.split_whitespace().find(|word| word.starts_with("tl-")).unwrap().clone_into(&mut service.token);
            } else {
                let tokens =
                    |name: &str| service.folder.path().join(name).join(".local/state/tieline/serve-tokens.json");
                std::fs::create_dir_all(tokens(name).parent().unwrap()).unwrap();
                std::fs::copy(tokens("a"), tokens(name)).unwrap();
            }
            let node = service.start(name, format!("{host}:0"), network);
            service.nodes.push(node);
        }
        Some(service)
    }

    fn start(&self, name: &str, listen: String, network: Option<Network>) -> Node {
        let home = self.folder.path().join(name);
        let program = env!("CARGO_BIN_EXE_tieline");
        let mut command = match &network {
            Some(network) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &network.space, program]);
                command
            }
            None => Command::new(program),
        };
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", &home);
        command.current_dir(self.folder.path().join("project")).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::null()).args(["serve", "--listen", &listen]);
        if self.cluster.is_some() {
            let host = listen.split(':').next().unwrap();
            command.args(["--without-tls", "--allow-host", host, "--lease", LEASE]);
            command.arg("--store").arg(format!("@{}", home.join("store").display()));
        } else {
            command.arg("--no-auth");
        }
        let mut child =
            command.args(["--", "python3", "-c", AGENT]).arg(self.folder.path().join("runs")).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let link = lines.by_ref().map(Result::unwrap).find(|line| line.contains("http://")).expect("it starts");
        let address = link.trim().trim_start_matches("http://").split('/').next().unwrap().to_owned();
        // Nobody waits for its other lines, and it must not wait for us.
        std::thread::spawn(move || while let Some(Ok(_)) = lines.next() {});
        Node { name: name.to_owned(), child, address, network }
    }

    /// The end of a node without a word, and a new beginning at the same place.
    fn kill(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        node.child.kill().unwrap();
        node.child.wait().unwrap();
        let (name, address, network) = (node.name.clone(), node.address.clone(), node.network.take());
        self.nodes[number] = self.start(&name, address, network);
    }

    fn address(&self) -> &str {
        &self.nodes[self.at].address
    }

    /// What every request has.
    fn head(&self) -> String {
        let token =
            if self.token.is_empty() { String::new() } else { format!("Authorization: Bearer {}\r\n", self.token) };
        format!("Host: {}\r\n{token}", self.address())
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
    /// `None` if the server is busy with other things, or ends.
    async fn open(service: &Service, head: &str, left: usize) -> Option<Self> {
        let mut stream = TcpStream::connect(service.address()).await.ok()?;
        stream.write_all(format!("{head}{}\r\n", service.head()).as_bytes()).await.ok()?;
        let mut source = Self { stream, buffer: Vec::new(), left: usize::MAX };
        loop {
            if let Some(at) = source.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let answer = String::from_utf8_lossy(&source.buffer[..at]).into_owned();
                let (good, away) = (answer.contains(" 200 ") || answer.contains(" 101 "), answer.contains(" 503 "));
                assert!(good || away && service.cluster.is_some(), "{answer}");
                source.buffer.drain(..at + 4);
                source.left = left;
                return good.then_some(source);
            }
            if !source.more().await {
                return None;
            }
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

    /// False if the server can't have it now.
    async fn connect(&mut self, service: &Service, socket: bool, left: usize) -> bool {
        self.way = self.reach(service, socket, left).await;
        self.way.is_some()
    }

    async fn reach(&mut self, service: &Service, socket: bool, left: usize) -> Option<Way> {
        if socket {
            let head = "GET /acp HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n\
                        Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
            let mut source = Source::open(service, head, usize::MAX).await?;
            source.send(&hello()).await;
            assert!(source.message().await?["result"].is_object());
            source.left = left;
            return Some(Way::Socket(source));
        }
        let (head, _) = post(service, "POST /acp HTTP/1.0", &hello().to_string()).await?;
        let connection = head.lines().find_map(|line| line.strip_prefix("acp-connection-id: "))?.to_owned();
        let of_connection = events(service, &connection, None, None, usize::MAX).await?;
        Some(Way::Streams { connection, of_connection, of_session: None })
    }

    /// Opens the stream of the session, where there are streams, behind the last event.
    async fn open_stream(&mut self, service: &Service, left: usize) {
        if let Some(Way::Streams { connection, of_session, .. }) = &mut self.way {
            *of_session = events(service, connection, Some(&self.session), self.last.as_deref(), left).await;
        }
    }

    async fn send(&mut self, service: &Service, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        match &mut self.way {
            Some(Way::Socket(source)) => source.send(&message).await,
            Some(Way::Streams { connection, .. }) => {
                let head = format!("POST /acp HTTP/1.0\r\nAcp-Connection-Id: {connection}");
                match post(service, &head, &message.to_string()).await {
                    Some((status, _)) if status.contains(" 202 ") => {}
                    sent => {
                        assert!(service.cluster.is_some(), "{sent:?}");
                        self.way = None;
                    }
                }
            }
            None => {}
        }
    }

    async fn ask(&mut self, service: &Service, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(service, json!({"id": id, "method": method, "params": params})).await;
        id
    }

    /// Takes the session up. With `replay` what is behind the last event has come when the answer has.
    async fn take_up(&mut self, service: &Service, replay: bool) -> bool {
        let mut params = json!({"sessionId": self.session, "cwd": service.project(), "mcpServers": []});
        if let (Some(Way::Socket(_)), Some(last)) = (&self.way, &self.last) {
            params["_meta"] = json!({"tieline": {"after": last}});
        }
        if replay {
            params["replayFrom"] = json!({"type": "start"});
        }
        let id = self.ask(service, "session/resume", params).await;
        loop {
            match self.next(service).await {
                Some(message) if message["id"] == id && message["method"].is_null() => {
                    assert!(message["result"].is_object() || service.cluster.is_some(), "{message}");
                    return message["result"].is_object();
                }
                Some(_) => {}
                None => return false,
            }
        }
    }

    /// The next message; `None` if the connection was cut.
    async fn next(&mut self, service: &Service) -> Option<Value> {
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
            self.send(service, json!({"id": message["id"], "result": answer})).await;
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

async fn post(service: &Service, head: &str, body: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(service.address()).await.ok()?;
    let request = format!(
        "{head}\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        service.head(),
        body.len()
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    timeout(LONG, stream.read_to_string(&mut answer)).await.expect("nothing comes").ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.to_lowercase(), body.to_owned()))
}

async fn events(
    service: &Service,
    connection: &str,
    session: Option<&str>,
    last: Option<&str>,
    left: usize,
) -> Option<Source> {
    let session = session.map(|session| format!("Acp-Session-Id: {session}\r\n")).unwrap_or_default();
    let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
    let head =
        format!("GET /acp HTTP/1.0\r\nAccept: text/event-stream\r\nAcp-Connection-Id: {connection}\r\n{session}{last}");
    Source::open(service, &head, left).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_goes_on_behind_the_last_event_that_it_got() {
    cut(Service::one()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_goes_on_at_any_of_three_nodes() {
    if let Some(service) = Service::several() {
        cut(service).await;
    }
}

/// Somebody who has been told all of it.
async fn whole(service: &Service, session: &str) -> Client {
    let since = Instant::now();
    loop {
        let mut fresh = Client { session: session.to_owned(), ..Client::new() };
        if fresh.connect(service, false, usize::MAX).await {
            fresh.open_stream(service, usize::MAX).await;
            if fresh.take_up(service, true).await {
                return fresh;
            }
        }
        assert!(service.cluster.is_some() && since.elapsed() < LONG, "nobody takes the session up");
        tokio::time::sleep(AGAIN).await;
    }
}

/// Cuts, kills and comes back, as often as wanted.
async fn cut(mut service: Service) {
    let (cuts, seed) = (number("TIELINE_CUTS").unwrap_or(CUTS), number("TIELINE_SEED").unwrap_or(1));
    let (mut chance, mut client) = (Chance(seed as u64), Client::new());
    let nodes = service.nodes.len();
    assert!(client.connect(&service, false, usize::MAX).await);
    let id = client.ask(&service, "session/new", json!({"cwd": service.project(), "mcpServers": []})).await;
    while client.session.is_empty() {
        let message = client.next(&service).await.unwrap();
        if message["id"] == id && message["method"].is_null() {
            message["result"]["sessionId"].as_str().unwrap().clone_into(&mut client.session);
        }
    }
    client.open_stream(&service, MOST_BYTES).await;
    let (mut prompt, mut asked, mut sent, mut done) = (String::new(), 0, 0, 0);
    // Nodes killed, cut off from the database, and the database restarted.
    let (mut kills, mut cut_off, mut away, mut restarts) = (0, 0, None, 0);
    for _ in 0..cuts {
        // Turn by turn until it is cut.
        loop {
            let over = prompt.is_empty() || client.cut_off || client.has_heard(&format!("{prompt}:end"));
            if over {
                done += usize::from(!prompt.is_empty() && !client.cut_off);
                (prompt, client.cut_off) = (format!("{}{sent}", ["say", "ask"][sent % 2]), false);
                sent += 1;
                let words = json!([{"type": "text", "text": prompt}]);
                asked =
                    client.ask(&service, "session/prompt", json!({"sessionId": client.session, "prompt": words})).await;
            }
            match client.next(&service).await {
                // A node that is about to give up takes none.
                Some(message) if message["id"] == asked && message["error"].is_object() => client.cut_off = true,
                Some(_) => {}
                None => break,
            }
        }
        let left = 1 + chance.below(MOST_BYTES);
        let how = chance.below(if nodes > 1 { 8 } else { 4 });
        // Only the stream is gone; a socket is gone with all it had.
        if how == 0 && matches!(client.way, Some(Way::Streams { .. })) {
            client.open_stream(&service, left).await;
            continue;
        }
        client.way = None;
        let node = chance.below(nodes);
        match how {
            // One that can't reach its database does not start.
            1 | 5 if away != Some(node) => {
                service.kill(node);
                kills += 1;
            }
            4 if away.is_none() && service.nodes[node].network.is_some() => {
                service.nodes[node].network.as_ref().unwrap().cut(true);
                (away, cut_off) = (Some(node), cut_off + 1);
            }
            6 => {
                let cluster = service.cluster.as_ref().unwrap();
                cluster.stop();
                cluster.start_again();
                restarts += 1;
            }
            _ => {
                if let Some(node) = away.take() {
                    service.nodes[node].network.as_ref().unwrap().cut(false);
                }
            }
        }
        let since = Instant::now();
        loop {
            service.at = chance.below(nodes);
            let (socket, left) = (chance.below(2) == 0, 64 + chance.below(MOST_BYTES));
            if client.connect(&service, socket, left).await {
                client.open_stream(&service, 64 + chance.below(MOST_BYTES)).await;
                if client.take_up(&service, true).await {
                    break;
                }
            }
            assert!(since.elapsed() < LONG, "seed {seed}: nobody takes the session up");
            if nodes > 1 {
                tokio::time::sleep(AGAIN).await;
            }
        }
        if !prompt.is_empty() && !client.users.contains(&prompt) {
            // With a server that lives it may still be on its way.
            assert!(nodes > 1 || how != 1 || !service.runs().contains(&prompt), "{prompt} is run and nobody knows");
            prompt.clear();
        }
    }
    drop(client.way.take());
    if let Some(node) = away {
        service.nodes[node].network.as_ref().unwrap().cut(false);
    }
    // What it was told in pieces is what somebody is told who comes now.
    let fresh = whole(&service, &client.session).await;
    let known = client.told.len();
    let at = client.told.iter().zip(&fresh.told).take_while(|(one, other)| one == other).count();
    let around = |told: &[(String, String)]| format!("{:?}", &told[at.saturating_sub(2)..told.len().min(at + 3)]);
    assert_eq!(at, known, "seed {seed}: it was told {}, not {}", around(&client.told), around(&fresh.told));
    let runs = service.runs();
    assert_eq!(runs.iter().collect::<BTreeSet<_>>().len(), runs.len(), "a prompt was run twice: {runs:?}");
    println!(
        "{cuts} cuts: {kills} servers killed, {cut_off} cut off from the database, which was restarted {restarts} times; \
         {done} of {} turns to their end, {known} events",
        runs.len()
    );
    assert!(done > 0 && known > cuts);
}
