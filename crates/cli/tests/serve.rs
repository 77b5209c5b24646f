//! `tieline serve` as a whole: the real binary, the built-in agent, clients over HTTP and WebSocket in every dialect, the page's door.
#![allow(clippy::unwrap_used)]

#[path = "../../../scripts/skipped.rs"]
mod skipped;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tieline::client::{AgentHandle, Client, Handler};
use tieline::schema::{
    Dialect, ListRequest, PermissionOptionKind, PermissionOutcome, PermissionRequest, Protocol, Replay, ResumeRequest,
    State, StopReason, Transcript,
};
use tieline_http::Remote;
use tieline_model_server::{ModelServer, builtin};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Nothing here takes longer, however busy the machine is.
const LONG: Duration = Duration::from_mins(2);
const DIALECTS: [Dialect; 3] = [Dialect::V1, Dialect::V2Seed, Dialect::V2];

struct Server {
    folder: TempDir,
    child: Child,
    /// `127.0.0.1:PORT`
    address: String,
    /// The one-time link's code.
    code: Option<String>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tieline(folder: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder.path().join("home"));
    command.current_dir(folder.path().join("project")).stdin(Stdio::null());
    command
}

impl Server {
    fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self::start_in(folder, flags)
    }

    fn start_in(folder: TempDir, flags: &[&str]) -> Self {
        let mut command = tieline(&folder);
        let mut child =
            command.args(["serve", "--listen", "127.0.0.1:0"]).args(flags).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = || lines.next().unwrap().unwrap();
        assert!(next().starts_with("Page"));
        let link = next().trim().to_owned();
        let (address, query) = link.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let code = query.strip_prefix("?code=").map(str::to_owned);
        Self { address: address.to_owned(), code, folder, child }
    }

    fn token(&self, name: &str, role: &str) -> String {
        let made = tieline(&self.folder).args(["serve", "token", "add", name, "--role", role]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    }

    fn project(&self) -> String {
        self.folder.path().join("project").canonicalize().unwrap().to_string_lossy().into_owned()
    }

    async fn connect(
        &self,
        scheme: &str,
        token: &str,
        dialect: Dialect,
        person: Person,
    ) -> tieline::Result<AgentHandle> {
        let remote = Remote::new(&format!("{scheme}://{}/acp", self.address)).unwrap();
        let remote = remote.header("Authorization", &format!("Bearer {token}")).unwrap();
        let transport = remote.connect().await.map_err(|error| tieline::Error::Start(error.to_string()))?;
        let client = Client::new("test", "1").handler(person).protocol(Protocol::Only(dialect));
        timeout(LONG, client.connect(transport)).await.unwrap()
    }

    /// One request by hand: the head and the body of the answer.
    fn ask(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        write!(stream, "{request}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_lowercase(), body.to_owned())
    }

    fn get(&self, path: &str, headers: &str) -> (String, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {}{headers}", self.address))
    }
}

/// Says yes, or waits.
#[derive(Clone, Default)]
struct Person {
    silent: bool,
    asked: Arc<Notify>,
}

impl Handler for Person {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        self.asked.notify_one();
        if self.silent {
            return std::future::pending().await;
        }
        let once = request.options.iter().find(|option| option.kind == PermissionOptionKind::AllowOnce).unwrap();
        PermissionOutcome::selected(&*once.option_id)
    }
}

async fn say(session: &tieline::client::Session, words: &str) -> (String, StopReason) {
    timeout(LONG, async { session.prompt(words).await.unwrap().text().await.unwrap() }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_with_a_question_by_every_way_and_in_every_dialect() {
    let server = Server::start(&[]);
    let token = server.token("test", "use");
    for scheme in ["ws", "http"] {
        for dialect in DIALECTS {
            let client = server.connect(scheme, &token, dialect, Person::default()).await.unwrap();
            let session = client.open(server.project()).await.unwrap();
            let name = format!("{scheme}-{dialect}.txt");
            let (_, stop) = say(&session, &format!("write {name}: hello")).await;
            assert_eq!(stop, StopReason::EndTurn, "{scheme} {dialect}");
            let path = server.folder.path().join("project").join(&name);
            assert_eq!(std::fs::read_to_string(path).unwrap(), "hello\n", "{scheme} {dialect}");
            client.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_outlives_the_client_and_the_session_outlives_the_server() {
    for dialect in DIALECTS {
        let mut server = Server::start(&[]);
        let token = server.token("test", "use");
        let silent = Person { silent: true, ..Person::default() };
        let one = server.connect("ws", &token, dialect, silent.clone()).await.unwrap();
        let session = one.open(server.project()).await.unwrap();
        let id = session.id().clone();
        let turn = session.prompt("write a.txt: hello").await.unwrap();
        timeout(LONG, silent.asked.notified()).await.unwrap();
        turn.detach();
        one.close().await;
        let path = server.folder.path().join("project/a.txt");
        assert!(!path.exists());
        // The question waits for whoever comes; the answer of another connection counts.
        let two = server.connect("http", &token, dialect, Person::default()).await.unwrap();
        let joined = timeout(LONG, two.load(id.clone(), server.project())).await.unwrap().unwrap();
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(say(&joined, "read a.txt").await.0.contains("Read `a.txt`"), "{dialect}");
        two.close().await;
        // Another server finds it as it was.
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let folder = std::mem::replace(&mut server.folder, tempfile::tempdir().unwrap());
        let server = Server::start_in(folder, &[]);
        let three = server.connect("ws", &token, dialect, Person::default()).await.unwrap();
        let list = three.list(ListRequest::default()).await.unwrap();
        assert_eq!(list.sessions.len(), 1, "{dialect}: {list:?}");
        let mut told = Transcript::new(three.dialect());
        let request =
            ResumeRequest { session_id: id, cwd: server.project(), replay: Replay::Start, ..ResumeRequest::default() };
        let again = three.resume_telling(request, |update| {
            told.apply(&update);
        });
        let again = timeout(LONG, again).await.unwrap().unwrap();
        let all = format!("{:?}", told.items());
        assert!(all.contains("write a.txt: hello") && all.contains("read a.txt"), "{dialect}: {all}");
        assert_eq!(say(&again, "list the files").await.1, StopReason::EndTurn, "{dialect}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_no_token_is_not_let_in_and_a_token_ends_when_it_is_revoked() {
    let server = Server::start(&[]);
    let refused = server.connect("ws", "tl-wrong", Dialect::V2, Person::default()).await;
    assert!(refused.unwrap_err().to_string().contains("401"));
    let (head, _) = server.get("/acp", "\r\nAccept: text/event-stream");
    assert!(head.starts_with("http/1.1 401"), "{head}");
    let token = server.token("reader", "read");
    let reader = server.connect("ws", &token, Dialect::V2, Person::default()).await.unwrap();
    assert!(reader.open(server.project()).await.unwrap_err().to_string().contains("may not open"));
    let other = server.token("other", "read");
    let stays = server.connect("ws", &other, Dialect::V2, Person::default()).await.unwrap();
    let streams = server.connect("http", &token, Dialect::V1, Person::default()).await.unwrap();
    let revoked = tieline(&server.folder).args(["serve", "token", "revoke", "reader"]).status().unwrap();
    assert!(revoked.success());
    // Who is connected with it is let go, and nobody else.
    timeout(LONG, reader.closed()).await.expect("the socket ends");
    timeout(LONG, streams.closed()).await.expect("the streams end");
    assert!(stays.list(ListRequest::default()).await.is_ok());
    assert!(server.connect("ws", &token, Dialect::V2, Person::default()).await.is_err());
    let list = tieline(&server.folder).args(["serve", "token", "list"]).output().unwrap();
    assert!(String::from_utf8(list.stdout).unwrap().starts_with("other"));
}

/// What somebody else's server hears: each request, which is refused once and taken then.
fn listening() -> (String, std::sync::mpsc::Receiver<serde_json::Value>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook?secret=s3cret", listener.local_addr().unwrap());
    let (tell, hears) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut length, mut line) = (0, String::new());
            while stream.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let status = if number == 0 { "503 Later" } else { "204 Taken" };
            write!(stream.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            let _ = tell.send(serde_json::from_slice(&body).unwrap());
        }
    });
    (address, hears)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_watched_from_outside() {
    let (address, hears) = listening();
    let server = Server::start(&["--webhook", &address]);
    let token = server.token("laptop", "use");
    let client = server.connect("ws", &token, Dialect::V2, Person::default()).await.unwrap();
    let session = client.open(server.project()).await.unwrap();
    // Who waits is told that somebody is asked, and then that it goes on.
    let mut turn = session.prompt("write a.txt: something secret").await.unwrap();
    let mut states = Vec::new();
    while let Some(update) = timeout(LONG, turn.next()).await.unwrap() {
        if let tieline::schema::Update::State(update) = update {
            states.push(update.state);
        }
    }
    let asked = states.iter().position(|state| *state == State::RequiresAction).expect("it waits for somebody");
    assert_eq!(states.get(asked + 1), Some(&State::Running), "{states:?}");
    // Somebody is called, again if that failed; what was said is not told.
    let next = || hears.recv_timeout(LONG).unwrap();
    let (first, again, ended) = (next(), next(), next());
    assert_eq!(first, again);
    assert_eq!((first["event"].as_str(), first["session"].as_str()), (Some("question"), Some(&**session.id())));
    assert_eq!((&ended["event"], &ended["stop_reason"]), (&"turn_ended".into(), &"end_turn".into()));
    assert!(!format!("{first}{ended}").contains("something secret"));
    // Who answered what is written down, for the user alone.
    let log = server.folder.path().join("home/.local/state/tieline/serve-answers.jsonl");
    let line: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&log).unwrap()).unwrap();
    assert_eq!((&line["who"], &line["question"]), (&"laptop".into(), &"permission".into()), "{line}");
    // By what it does, in our words: the option's name and id are the agent's.
    assert_eq!(line["answer"], "allowed once", "{line}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&log.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    // Everybody may know that it runs; figures are for those who have a token.
    assert_eq!(server.get("/health", "").1, "ok\n");
    assert!(server.get("/metrics", "").0.starts_with("http/1.1 401"));
    assert!(server.get("/metrics", "\r\nAuthorization: Bearer tl-wrong").0.starts_with("http/1.1 401"));
    let (head, figures) = server.get("/metrics", &format!("\r\nAuthorization: Bearer {token}"));
    assert!(head.starts_with("http/1.1 200"), "{head}");
    for wanted in
        ["sessions 1", "questions 0", "clients 1", "turns_total 1", "answers_total 1", "webhook_calls_total 2"]
    {
        assert!(figures.contains(&format!("\ntieline_{wanted}\n")), "{wanted}: {figures}");
    }
    assert!(!figures.contains("secret") && !figures.contains(&**session.id()), "{figures}");
}

#[test]
fn the_page_has_a_strict_policy_and_its_link_is_good_once() {
    let server = Server::start(&[]);
    let (head, body) = server.get("/", "");
    assert!(head.starts_with("http/1.1 200") && body.contains("app.js"), "{head}");
    for wanted in
        ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for", "nosniff"]
    {
        assert!(head.contains(wanted), "{wanted}: {head}");
    }
    assert!(!head.contains("unsafe-"), "{head}");
    for path in ["/style.css", "/app.js", "/vendor/preact.js", "/vendor/LICENSES"] {
        assert!(server.get(path, "").0.starts_with("http/1.1 200"), "{path}");
    }
    for path in ["/nothing", "/../Cargo.toml", "/vendor/", "/%2e%2e/x", "//app.js"] {
        assert!(!server.get(path, "").0.starts_with("http/1.1 200"), "{path}");
    }
    assert!(server.get("/whoami", "").0.starts_with("http/1.1 401"));
    assert!(server.get("/?code=0000", "").0.starts_with("http/1.1 403"));
    let link = format!("/?code={}", server.code.as_ref().unwrap());
    let (head, body) = server.get(&link, "");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains("httponly; samesite=strict") && !body.contains("tl-"), "{head}");
    let cookie = head.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap().to_owned();
    // What other ports of this machine are sent as well is not enough; the page has the rest.
    let half = body.split("#half=").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let who = |headers: &str| server.get("/whoami", headers).0;
    assert!(cookie.starts_with(&format!("tieline-{}=", server.address.rsplit(':').next().unwrap())), "{cookie}");
    assert!(who(&format!("\r\nCookie: {cookie}")).starts_with("http/1.1 401"));
    assert!(who(&format!("\r\nTieline-Half: {half}")).starts_with("http/1.1 401"));
    assert!(who(&format!("\r\nCookie: {cookie}\r\nTieline-Half: {half}")).starts_with("http/1.1 200"));
    let upgrade = "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==";
    let socket = |more: &str| {
        server.get("/acp", &format!("{upgrade}\r\nCookie: {cookie}\r\nSec-WebSocket-Protocol: acp.v1{more}")).0
    };
    assert!(socket("").starts_with("http/1.1 401"));
    assert!(socket(", half.0000").starts_with("http/1.1 401"));
    // A page of another server brings a token as a subprotocol; a browser wants one of those that it offers back.
    let token = server.token("page", "use");
    let offers = |offered: &str| {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let asks = format!("GET /acp HTTP/1.1\r\nHost: {}{upgrade}", server.address);
        write!(stream, "{asks}\r\nSec-WebSocket-Protocol: {offered}\r\n\r\n").unwrap();
        let lines = BufReader::new(stream).lines().map(Result::unwrap);
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n").to_lowercase()
    };
    let (alone, beside) = (offers(&format!("bearer.{token}")), offers(&format!("bearer.{token}, acp.v1")));
    assert!(alone.starts_with("http/1.1 101") && alone.contains(&format!("protocol: bearer.{token}")), "{alone}");
    assert!(beside.starts_with("http/1.1 101") && beside.contains("protocol: acp.v1\n"), "{beside}");
    assert!(offers("bearer.tl-wrong").starts_with("http/1.1 401"));
    assert!(server.get(&link, "").0.starts_with("http/1.1 403"), "it is good once");
    // A name that somebody made to lead here, and a page of somebody else.
    let (head, _) = server.ask("GET /acp HTTP/1.1\r\nHost: evil.example\r\nAccept: text/event-stream");
    assert!(head.starts_with("http/1.1 4"), "{head}");
    let (head, _) = server
        .get("/acp", &format!("\r\nAccept: text/event-stream\r\nCookie: {cookie}\r\nOrigin: http://evil.example"));
    assert!(head.starts_with("http/1.1 403"), "{head}");
}

#[test]
fn what_makes_no_sense_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["home", "project"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    for (flags, code, words) in [
        (&["--listen", "0.0.0.0:0"][..], 2, "needs TLS"),
        (&["--listen", "0.0.0.0:0", "--without-tls", "--no-auth"], 2, "--no-auth is for"),
        (&["--tls-cert", "a.pem"], 2, "--tls-key"),
        (&["--tls-cert", "a.pem", "--tls-key", "b.pem"], 2, "no TLS"),
        (&["-C", "nowhere"], 2, "nowhere"),
        (&["--webhook", "s3cret.example"], 2, "--webhook takes"),
        (&["--agent", "no-such-agent"], 1, "no-such-agent"),
        (&["token", "revoke", "nobody"], 1, "there is no token"),
        (&["token", "add", "a\u{1b}[2J"], 1, "a name has"),
    ] {
        let output = tieline(&folder).arg("serve").args(flags).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && said.contains(words), "{flags:?}: {:?} {said}", output.status);
    }
}

/// What the browser is driven with.
const PACKAGE: &str =
    r#"{"private": true, "type": "module", "dependencies": {"axe-core": "4.14.0", "puppeteer-core": "24.43.1"}}"#;

#[test]
fn the_page_in_a_browser() {
    let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok_and(|done| done.status.success());
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"].iter().find(is_there) else {
        return skipped::skipped("BROWSER", "the page was not tried in a browser: there is no chromium");
    };
    let folder = tieline_npm::install(
        "browser",
        &[
            ("package.json", PACKAGE),
            ("drive.mjs", include_str!("browser/drive.mjs")),
            ("page.mjs", include_str!("browser/page.mjs")),
            ("attacks.mjs", include_str!("browser/attacks.mjs")),
            ("hostile.mjs", include_str!("browser/hostile.mjs")),
        ],
    );
    let found = Command::new("sh").args(["-c", &format!("command -v {browser}")]).output().unwrap();
    let chromium = String::from_utf8(found.stdout).unwrap();
    let drive = |script: &str, server: &Server, more: &[&str]| {
        let link = format!("http://{}/?code={}", server.address, server.code.as_ref().unwrap());
        let mut command = Command::new("node");
        command.arg(script).args([chromium.trim(), &link, &server.project()]).args(more);
        // It may start the server again.
        command.env("HOME", server.folder.path().join("home"));
        let done = command.current_dir(&folder).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
    };
    drive("page.mjs", &Server::start(&[]), &[]);
    // As the script names it when it starts the server again: a session goes on with the very agent that it began with.
    let hostile = folder.join("hostile.mjs").canonicalize().unwrap();
    let server = Server::start(&["--", "node", hostile.to_str().unwrap()]);
    let answers = server.folder.path().join("home/.local/state/tieline/serve-answers.jsonl");
    let (answers, pid) = (answers.to_str().unwrap(), server.child.id().to_string());
    drive("attacks.mjs", &server, &[answers, &pid, env!("CARGO_BIN_EXE_tieline")]);
}

#[test]
fn exec_asks_an_agent_at_an_address_and_goes_on_with_it() {
    let server = Server::start(&[]);
    let token = server.token("exec", "use");
    std::fs::write(server.folder.path().join("project/a.txt"), "some words\n").unwrap();
    for scheme in ["ws", "http"] {
        let address = format!("{scheme}://{}", server.address);
        let exec = |token: &str, words: &[&str]| {
            let mut command = tieline(&server.folder);
            command.env("TIELINE_AGENT_TOKEN", token).args(["exec", "--agent", &address]).args(words);
            let done = command.output().unwrap();
            let said = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            (done.status.code().unwrap(), said.concat())
        };
        let (code, said) = exec(&token, &["read a.txt"]);
        assert!(code == 0 && said.contains("some words"), "{scheme} {code}: {said}");
        let (code, said) = exec(&token, &["-c", "--allow-all", &format!("write {scheme}.txt: done")]);
        assert!(code == 0 && said.contains("Wrote"), "{scheme} {code}: {said}");
        let path = server.folder.path().join("project").join(format!("{scheme}.txt"));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "done\n");
        // Nobody could be asked there, and nobody is blamed.
        let (code, said) = exec(&token, &["write no.txt: x"]);
        assert!(code == 5 && said.contains("nobody could be asked"), "{scheme} {code}: {said}");
        assert!(!said.contains("The user rejected"), "{scheme}: {said}");
        let (code, said) = exec("tl-wrong", &["read a.txt"]);
        assert!(
            code == 6 && said.contains("401") && said.contains("TIELINE_AGENT_TOKEN") && !said.contains("tl-wrong"),
            "{scheme} {code}: {said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_end_does_so_with_a_question_open() {
    let mut server = Server::start(&[]);
    let token = server.token("test", "use");
    let silent = Person { silent: true, ..Person::default() };
    let remote = Remote::new(&format!("ws://{}/acp", server.address)).unwrap();
    let remote = remote.header("Authorization", &format!("Bearer {token}")).unwrap();
    let client = Client::new("test", "1").handler(silent.clone()).protocol(Protocol::Only(Dialect::V2));
    let client = client.connect(remote.connect().await.unwrap()).await.unwrap();
    let streams = server.connect("http", &token, Dialect::V1, silent.clone()).await.unwrap();
    let session = client.open(server.project()).await.unwrap();
    let turn = session.prompt("write a.txt: hello").await.unwrap();
    timeout(LONG, silent.asked.notified()).await.unwrap();
    let told = Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let status = tokio::task::spawn_blocking(move || {
        let status = server.child.wait().unwrap();
        (status, server)
    });
    let (status, server) = timeout(LONG, status).await.expect("it ends").unwrap();
    assert!(status.success(), "{status}");
    assert!(!server.folder.path().join("project/a.txt").exists());
    timeout(LONG, client.closed()).await.unwrap();
    assert!(remote.trouble().is_some_and(|why| why.contains("(1001) the server stops")), "{:?}", remote.trouble());
    timeout(LONG, streams.closed()).await.unwrap();
    drop(turn);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_woken_and_was_lost_goes_on_at_the_address_that_was_named_for_it() {
    let start = || ModelServer::start(builtin("directives").unwrap());
    let (meant, trap) = (start().await.unwrap(), start().await.unwrap());
    let folder = tempfile::tempdir().unwrap();
    for name in ["home/.config/tieline", "project"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    let config = format!("[providers.ollama]\nbase_url = '{}'\n[models]\ndefault = 'ollama/m'\n", trap.url());
    std::fs::write(folder.path().join("home/.config/tieline/config.toml"), config).unwrap();
    let exec = ["exec", "--model", "ollama/m2", "--base-url", &meant.url(), "-F", "json", "model: say one"];
    let told = tieline(&folder).args(exec).output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let id = told["session"]["id"].as_str().unwrap().to_owned();
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.path().join(format!("home/.local/state/tieline/store.db{end}")));
    }
    let server = Server::start_in(folder, &[]);
    let token = server.token("test", "use");
    let client = server.connect("ws", &token, Dialect::V2, Person::default()).await.unwrap();
    let session = timeout(LONG, client.load(id, server.project())).await.unwrap().unwrap();
    assert!(say(&session, "model: say two").await.0.contains("two"));
    assert!(meant.requests().len() > 1, "the record went to nobody");
    assert_eq!(trap.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_takes_too_much_is_ended_and_woken_by_the_next_prompt() {
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/greedy.py");
    let limits = ["--max-memory", "100", "--max-processes", "20", "--max-sessions", "2"];
    let server = Server::start(&[&limits[..], &["--", "python3", agent]].concat());
    let token = server.token("test", "use");
    let (one, two) = (server.connect("ws", &token, Dialect::V1, Person::default()).await.unwrap(), Person::default());
    let two = server.connect("http", &token, Dialect::V2, two).await.unwrap();
    let opened = one.open(server.project()).await.unwrap();
    let other = two.open(server.project()).await.unwrap();
    let refused = two.open(server.project()).await.unwrap_err().to_string();
    assert!(refused.contains("python3 has 2 sessions here, which is its limit"), "{refused}");
    for (prompt, expect) in [
        ("eat 400", "took more memory than it may (100 MiB, max_memory)"),
        ("fork 60", "started more processes than it may (20, max_processes)"),
    ] {
        let turn = opened.prompt(prompt).await.unwrap();
        let ended = timeout(LONG, turn.text()).await.unwrap().unwrap_err().to_string();
        assert!(ended.contains(expect), "{prompt}: {ended}");
        // The other session has an agent of its own, and this one has a new one.
        assert!(say(&other, "hello").await.0.ends_with("heard: hello"));
        assert!(say(&opened, "and now").await.0.ends_with("and now"), "{prompt}");
    }
    // A session that is closed makes room.
    opened.close().await.unwrap();
    two.open(server.project()).await.unwrap();
}

/// What the configuration says of an agent counts as well, and what can't be held is said at the start.
#[test]
fn limits_that_cannot_be_held_are_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["home/.config/tieline", "project"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    let config = "[agents.mine]\ncommand = [\"false\"]\nmax_cpu = 50\n\
        [agents.far]\nurl = \"ws://127.0.0.1:9/acp\"\nmax_memory = 100\n";
    std::fs::write(folder.path().join("home/.config/tieline/config.toml"), config).unwrap();
    let mut command = tieline(&folder);
    command.args(["serve", "--listen", "127.0.0.1:0", "--agent", "mine", "--agent", "far"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap().starts_with("Page"));
    let stopped = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(stopped.success());
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("The limits of the agent far: it runs elsewhere"), "{said}");
    // Not by a server alone.
    let run = tieline(&folder).args(["exec", "--agent", "mine", "hello"]).output().unwrap();
    let said = said + &String::from_utf8(run.stderr).unwrap();
    // Where the machine lets us have a control group, there is nothing to say.
    let holds = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default().contains("cpu");
    let mine = said.matches("The limits of the agent mine: CPU is not limited:").count();
    assert!(holds || mine == 2, "{mine}: {said}");
}

/// An agent that notes that it was started.
const NOTED: &str = r#"
import json, sys
open(sys.argv[1], "a").write("started\n")
for line in sys.stdin:
    message = json.loads(line)
    result = {"initialize": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}, "session/new": {"sessionId": "s"},
        "session/load": {}, "session/prompt": {"stopReason": "end_turn"}}.get(message.get("method"))
    if result is not None: print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_an_agent_that_is_not_offered_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["home", "project"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let note = folder.path().join("note").to_string_lossy().into_owned();
    let agent = ["python3", "-c", NOTED, &note];
    let told = tieline(&folder).args(["exec", "-F", "json", "a secret word", "--"]).args(agent).output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let id = told["session"]["id"].as_str().unwrap().to_owned();
    let starts = || std::fs::read_to_string(&note).unwrap().lines().count();
    assert_eq!(starts(), 1);
    let server = Server::start_in(folder, &[]);
    let token = server.token("test", "use");
    let client = server.connect("ws", &token, Dialect::V1, Person::default()).await.unwrap();
    let refused = timeout(LONG, client.load(id.clone(), server.project())).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("which this server does not offer"), "{refused}");
    assert_eq!(starts(), 1, "a client started it");
    // Who may look on at what lives finds no words of what does not.
    let search = async |role: &str| {
        let token = server.token(role, role);
        let client = server.connect("ws", &token, Dialect::V1, Person::default()).await.unwrap();
        let query = serde_json::json!({"query": "secret"});
        let found: serde_json::Value = timeout(LONG, client.call("_tieline/search", &query)).await.unwrap().unwrap();
        found["hits"].as_array().unwrap().len()
    };
    assert_eq!((search("read").await, search("use").await), (0, 1));
    // Where it is offered, it goes on.
    let Server { folder, .. } = &server;
    let mut other = tieline(folder);
    other.args(["serve", "--no-auth", "--listen", "127.0.0.1:0", "--"]).args(agent).stdout(Stdio::piped());
    let mut other = other.spawn().unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    let link = lines.map(Result::unwrap).find(|line| line.contains("http://")).unwrap();
    let remote = Remote::new(&format!("{}acp", link.trim().replace("http:", "ws:"))).unwrap();
    let client = Client::new("test", "1").protocol(Protocol::Only(Dialect::V1));
    let client = client.connect(remote.connect().await.unwrap()).await.unwrap();
    timeout(LONG, client.load(id, server.project())).await.unwrap().unwrap();
    assert_eq!(starts(), 2);
    let _ = other.kill();
    let _ = other.wait();
}
