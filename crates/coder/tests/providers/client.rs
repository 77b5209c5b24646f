//! A whole agent on a model of the local server, and a client of version 1 made of lines.

#![allow(dead_code)]

use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tieline::Transport;
use tieline::agent::Server;
use tieline_coder::http::{Http, Options};
use tieline_coder::model::provider::{Keys, Patience, Provider, Secret};
use tieline_coder::{Coder, Keep, Settings};
use tieline_host::config::Config;
use tieline_host::rules::Preset;
use tieline_host::sandbox::Level;
use tieline_model_server::{ModelServer, Script};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

/// How long a test waits for something that must come.
pub const SOON: Duration = Duration::from_secs(30);

/// The four formats: a provider that speaks each, what follows the address of a server, and a model.
pub const FORMATS: [(&str, &str, &str); 4] = [
    ("openai-chat", "/v1", "gpt-4.1"),
    ("openai", "/v1", "gpt-5.4"),
    ("anthropic", "", "claude-sonnet-5-5"),
    ("gemini", "", "gemini-2.5-pro"),
];

fn patience() -> Patience {
    Patience { tries: 3, pause: Duration::from_millis(1), longest: Duration::from_secs(2) }
}

/// A provider that is really the local server.
pub fn provider(name: &str, url: &str, http: Http) -> Arc<Provider> {
    let suffix = FORMATS.iter().find(|(known, ..)| *known == name).map_or("/v1", |(_, suffix, _)| suffix);
    let provider = Provider::resolve(name, Some(&format!("{url}{suffix}")), &Config::default(), http).unwrap();
    provider.use_key(Secret::new("sk-test-key").unwrap());
    let mut provider = patiently(provider, SOON);
    Arc::make_mut(&mut provider).keys = Keys::at("/nonexistent/keys.toml");
    provider
}

/// The same with little patience.
fn patiently(mut provider: Arc<Provider>, idle: Duration) -> Arc<Provider> {
    let own = Arc::make_mut(&mut provider);
    (own.patience, own.http) = (patience(), own.http.times(SOON, Some(idle)));
    provider
}

pub struct Client {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
    next: u64,
    pub server: ModelServer,
    pub updates: Vec<Value>,
    pub asked: Vec<Value>,
    pub session: String,
    pub folder: tempfile::TempDir,
    pub options: Value,
}

impl Client {
    /// A session with a model of this format.
    pub async fn open(format: &str, script: Script) -> Self {
        Self::waiting(format, script, SOON).await
    }

    /// The same with an end to silence.
    pub async fn waiting(format: &str, script: Script, idle: Duration) -> Self {
        let (_, _, model) = FORMATS.iter().find(|(known, ..)| *known == format).unwrap();
        let server = ModelServer::start(script).await.unwrap();
        let provider = provider(format, &server.url(), Http::new(Options::default()));
        let provider = patiently(provider, idle);
        let mut settings = Settings::new(provider.model(model));
        settings.models.push(Arc::new(provider.model("another")));
        Self::with(settings, server).await
    }

    pub async fn with(mut settings: Settings, server: ModelServer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("p")).unwrap();
        settings.mode = Some(Preset::Auto);
        settings.sandbox = Level::Off;
        settings.keep = Keep::At(folder.path().join("state/store.db"));
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(Server::new(Coder::new(settings)).serve(Transport::stream(far).detect_framing()));
        let (read, write) = tokio::io::split(near);
        let (updates, asked, session) = (Vec::new(), Vec::new(), String::new());
        let read = BufReader::new(read);
        let mut client = Self { read, write, next: 0, server, updates, asked, session, folder, options: Value::Null };
        let can = json!({"session": {"notices": {}, "compaction": {}}});
        // A client without a name is one of the first, which is told less.
        let info = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": 1, "clientCapabilities": can, "clientInfo": info});
        client.call("initialize", hello).await;
        let new = client.call("session/new", json!({"cwd": client.path(""), "mcpServers": []})).await;
        client.session = new["result"]["sessionId"].as_str().unwrap_or_default().into();
        client.options = new["result"]["configOptions"].clone();
        client
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("p").join(name)
    }

    pub async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// Handles messages until one fits.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            tokio::time::timeout(SOON, self.read.read_line(&mut line)).await.expect("in time").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            match message["method"].as_str() {
                Some("session/update") => self.updates.push(message["params"]["update"].clone()),
                Some("session/request_permission") => {
                    self.asked.push(message["params"].clone());
                    let outcome =
                        json!({"outcome": "selected", "optionId": message["params"]["options"][0]["optionId"]});
                    self.send(json!({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}})).await;
                }
                _ => {}
            }
            if fits(&message) {
                return message;
            }
        }
    }

    pub async fn answer(&mut self, id: u64) -> Value {
        self.until(|message| message.get("method").is_none() && message["id"] == id).await
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    pub async fn begin(&mut self, prompt: Value) -> u64 {
        let session = self.session.clone();
        self.ask("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// How a turn ended: its stop reason, or the error's message.
    pub async fn prompt(&mut self, text: &str) -> String {
        let id = self.begin(json!([{"type": "text", "text": text}])).await;
        self.end(id).await
    }

    /// The same for a turn that the user ends at its first word.
    pub async fn cancelled(&mut self, text: &str) -> String {
        let id = self.begin(json!([{"type": "text", "text": text}])).await;
        self.until(|message| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk").await;
        let params = json!({"sessionId": self.session});
        self.send(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params})).await;
        self.end(id).await
    }

    async fn end(&mut self, id: u64) -> String {
        let answer = self.answer(id).await;
        let (stop, error) = (&answer["result"]["stopReason"], &answer["error"]["message"]);
        stop.as_str().or_else(|| error.as_str()).unwrap_or_default().to_owned()
    }

    fn chunks(&self, kind: &str) -> String {
        let chunks = self.updates.iter().filter(|update| update["sessionUpdate"] == kind);
        chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    pub fn said(&self) -> String {
        self.chunks("agent_message_chunk")
    }

    pub fn thought(&self) -> String {
        self.chunks("agent_thought_chunk")
    }

    pub fn of(&self, kind: &str) -> Vec<&Value> {
        self.updates.iter().filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// The bodies of the requests so far.
    pub fn bodies(&self) -> Vec<Value> {
        self.server.requests().into_iter().map(|request| request.body).collect()
    }
}
