//! The servers of the tests: real ones from npm over all transports, and bad ones.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::common::{Client, Place, SOON};

const PACKAGE: (&str, &str) = ("package.json", include_str!("package.json"));

/// Opens a session with servers and waits until they are ready, however slow the machine is.
pub fn open(client: &mut Client, place: &Place, servers: &Value) {
    client.new_session(place, servers);
    settle(client);
}

/// Waits until no server is starting any more.
pub fn settle(client: &mut Client) {
    let start = Instant::now();
    loop {
        client.prompt("/mcp");
        if !client.said().contains(" is starting") {
            break;
        }
        assert!(start.elapsed() < SOON * 2, "the servers are still starting: {}", client.said());
        client.updates.clear();
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The program of a package.
pub fn program(package: &str) -> PathBuf {
    let folder = tieline_npm::install("npm-mcp-servers", &[PACKAGE]);
    folder.join(format!("node_modules/@modelcontextprotocol/{package}/dist/index.js"))
}

/// Where a program is that is found on the PATH.
pub fn which(name: &str) -> String {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is not on the PATH")).to_str().unwrap().to_owned()
}

/// The entry of a server that is started as a process.
pub fn stdio(name: &str, command: &str, args: &[&str], env: &[(&str, &str)]) -> Value {
    let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({"type": "stdio", "name": name, "command": command, "args": args, "env": env})
}

/// The server that has everything, as a process.
pub fn everything() -> Value {
    stdio("everything", &which("node"), &[program("server-everything").to_str().unwrap(), "stdio"], &[])
}

/// A bad server: see `bad.py`.
pub fn bad(way: &str, env: &[(&str, &str)]) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bad.py");
    stdio("bad", &which("python3"), &[script, way], env)
}

/// A server on the network.
pub struct Listening {
    child: Child,
    pub port: u16,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Listening {
    /// Starts the server that has everything, over `streamableHttp` or `sse`.
    pub fn everything(way: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self::everything_on(way, port)
    }

    /// The same at this port.
    pub fn everything_on(way: &str, port: u16) -> Self {
        let child = Command::new("node")
            .arg(program("server-everything"))
            .arg(way)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { child, port };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(server.child.try_wait().unwrap().is_none(), "the server ended at once");
            assert!(start.elapsed() < SOON, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Starts the server of `web.py`.
    pub fn web(way: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/web.py");
        let mut child =
            Command::new("python3").args([script, way]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }

    /// Its entry.
    pub fn entry(&self, kind: &str, path: &str) -> Value {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        json!({"type": kind, "name": "everything", "url": url, "headers": [{"name": "X-Key", "value": "hush-hush"}]})
    }
}
