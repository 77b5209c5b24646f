//! The official TypeScript SDK on both ends, and ours between: its clients through our server, our client to its server, over
//! both transports, both versions, the whole scenario of the interop tests. And the Python SDK, either side.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Open, asker, expected, reach, start, with_agent};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tieline::{Dialect, StopReason};
use tieline_http::Remote;
use tieline_http::server::Rules;
use tieline_rpc::{Transport, join};
use tieline_web::{Http, Options};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const LONG: Duration = Duration::from_mins(2);
const PACKAGE: &str = r#"{
  "name": "tieline-http-peers",
  "private": true,
  "type": "module",
  "dependencies": { "@agentclientprotocol/sdk": "2.4.0", "ws": "8.18.3", "zod": "4.6.7" }
}
"#;

fn installed() -> PathBuf {
    let scripts = [
        ("package.json", PACKAGE),
        ("agent.mjs", include_str!("../../interop/ts/agent.mjs")),
        ("client.mjs", include_str!("../../interop/ts/client.mjs")),
        ("terminals.mjs", include_str!("../../interop/ts/terminals.mjs")),
    ];
    tieline_npm::install("http-peers", &scripts)
}

fn node(folder: &Path, script: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(folder.join(script)).current_dir(folder).kill_on_drop(true);
    command
}

/// The agent of the SDK on its own server, and its port.
async fn sdk_server(folder: &Path, version: &str) -> (Child, String) {
    let mut command = node(folder, "agent.mjs");
    let mut child = command.args([version, "listen"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = timeout(LONG, lines.next_line()).await.unwrap().unwrap().unwrap();
    (child, port)
}

async fn scenario(version: &'static str, front: &str, back: &'static str) {
    let folder = installed();
    let (_server, port) = sdk_server(&folder, version).await;
    let scripts = folder.clone();
    let running = start(Rules::default(), Open, move |arrival| {
        let (folder, port) = (scripts.clone(), port.clone());
        tokio::spawn(async move {
            if back == "stdio" {
                let mut agent = node(&folder, "agent.mjs");
                let mut agent = agent.arg(version).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
                let (output, input) = (agent.stdout.take().unwrap(), agent.stdin.take().unwrap());
                join(arrival.transport, Transport::new(output, input)).await;
            } else {
                let remote = Remote::new(&format!("{back}://127.0.0.1:{port}")).unwrap();
                let remote = remote.http(Http::new(Options::default()));
                join(arrival.transport, remote.connect().await.unwrap()).await;
                assert_eq!(remote.trouble(), None);
            }
        });
    })
    .await;
    let mut client = node(&folder, "client.mjs");
    let client = client.args([version, "--", &running.url(front)]).stdin(Stdio::null()).output();
    let done = timeout(LONG, client).await.expect("the scenario ends").unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let whole = out.lines().last() == Some(r#"{"step":"done","ok":true}"#);
    assert!(whole && done.status.success(), "version {version}, {front} in, {back} out:\n{out}{err}");
}

/// Rules 5 to 30 with a real client, and 61 to 65 with a real server: neither sees a difference to a process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_typescript_sdk_on_both_ends() {
    for version in ["1", "2"] {
        for (front, back) in [("http", "stdio"), ("ws", "stdio"), ("http", "http"), ("ws", "ws"), ("ws", "http")] {
            scenario(version, front, back).await;
        }
    }
}

/// The Python of an environment below the target folder, with the SDK.
async fn python() -> PathBuf {
    let folder = tieline_npm::target_folder().join("http-py-peers");
    let (python, list) = (folder.join("bin/python"), data("requirements.txt"));
    // Written last, so its presence means a whole installation.
    let mark = folder.join("installed.txt");
    let wanted = std::fs::read_to_string(&list).unwrap();
    if std::fs::read_to_string(&mark).is_ok_and(|text| text == wanted) {
        return python;
    }
    let _ = std::fs::remove_dir_all(&folder);
    let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status().await.unwrap();
    assert!(made.success(), "`python3 -m venv` failed; on Debian: apt-get install python3-venv");
    let pip = ["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--requirement"];
    assert!(
        Command::new(&python).args(pip).arg(&list).status().await.unwrap().success(),
        "pip could not install the SDK"
    );
    std::fs::write(&mark, wanted).unwrap();
    python
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/official_py").join(name)
}

/// Rules 14, 16 and 63: what this SDK leaves out, its clients may leave out; what its server refuses, our client does otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_on_either_side() {
    let python = python().await;
    let running = with_agent(Rules::default(), Open, asker).await;
    for scheme in ["http", "ws"] {
        let mut client = Command::new(&python);
        client.arg(data("peer.py")).args(["client", &running.url(scheme)]).kill_on_drop(true);
        let done = timeout(LONG, client.output()).await.unwrap_or_else(|_| panic!("{scheme} does not end")).unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_eq!(out.trim(), "done", "{scheme}: {err}");
    }
    let mut server = Command::new(&python);
    let mut server =
        server.arg(data("peer.py")).arg("server").stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let port = timeout(LONG, lines.next_line()).await.unwrap().unwrap().unwrap();
    for scheme in ["http", "ws"] {
        let remote = Remote::new(&format!("{scheme}://127.0.0.1:{port}")).unwrap().http(Http::new(Options::default()));
        let turns = async {
            let agent = reach(&remote, Dialect::V1).await;
            let session = agent.open("/").await.unwrap();
            let (said, stop) = session.prompt("go").await.unwrap().text().await.unwrap();
            assert_eq!((said, stop), (expected(), StopReason::EndTurn), "{scheme}");
            let mut turn = session.prompt("wait").await.unwrap();
            while !format!("{:?}", turn.next().await.unwrap()).contains("waiting") {}
            turn.cancel().await.unwrap();
            while turn.next().await.is_some() {}
            assert_eq!(turn.stop().unwrap(), StopReason::Cancelled, "{scheme}");
            let id = session.id().clone();
            agent.close().await;
            // On another connection, which does not know the session: its stream is refused until it is loaded.
            let agent = reach(&remote, Dialect::V1).await;
            let session = agent.load(id, "/").await.unwrap();
            let (said, _) = session.prompt("go").await.unwrap().text().await.unwrap();
            assert!(said.ends_with(&expected()), "{scheme}: {said}");
            agent.close().await;
        };
        timeout(LONG, turns).await.unwrap_or_else(|_| panic!("{scheme}: {:?}", remote.trouble()));
    }
    server.kill().await.unwrap();
}
