//! A model made of a list, and a client made of lines.

#![allow(dead_code, reason = "each test uses a part")]

use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::Transport;
use tieline::agent::Server;
use tieline_coder::model::{Event, Finish, Message, Model, ModelError, Reply, Request, ToolRequest};
use tieline_coder::{Coder, Keep, Settings};
use tieline_host::rules::Preset;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

pub type Said = Vec<Result<Event, ModelError>>;

/// Gives one answer after the other, and remembers what it was asked.
#[derive(Clone, Default)]
pub struct Listed {
    pub answers: Arc<Mutex<Vec<Said>>>,
    pub asked: Arc<Mutex<Vec<Request>>>,
    pub context: u64,
}

impl Listed {
    pub fn new(answers: impl IntoIterator<Item = Said>) -> Self {
        let mut answers: Vec<Said> = answers.into_iter().collect();
        answers.reverse();
        Self { answers: Arc::new(Mutex::new(answers)), ..Self::default() }
    }

    pub fn last(&self) -> Request {
        self.asked.lock().unwrap().last().unwrap().clone()
    }

    /// The results in the last request: text and whether it failed.
    pub fn results(&self) -> Vec<(String, bool)> {
        let Some(Message::Results(results)) = self.last().messages.last().cloned() else { panic!("no results") };
        let text = |blocks: &[tieline::ContentBlock]| blocks.iter().filter_map(|block| block.as_text()).collect();
        results.iter().map(|result| (text(&result.content), result.is_error)).collect()
    }
}

impl Model for Listed {
    fn id(&self) -> &'static str {
        "listed"
    }

    fn name(&self) -> &'static str {
        "Listed"
    }

    fn context_size(&self) -> u64 {
        self.context
    }

    fn reply(&self, request: Request) -> Reply {
        self.asked.lock().unwrap().push(request);
        let answer = self.answers.lock().unwrap().pop().unwrap_or_else(|| vec![Ok(Event::Finish(Finish::Done))]);
        Reply::of(answer)
    }
}

pub fn call(name: &str, arguments: Value) -> Result<Event, ModelError> {
    let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
    Ok(Event::Call(ToolRequest { id: format!("id-{name}"), name: name.into(), arguments }))
}

pub fn calls(list: Vec<(&str, Value)>) -> Said {
    list.into_iter().map(|(name, input)| call(name, input)).chain([Ok(Event::Finish(Finish::Done))]).collect()
}

pub fn text(words: &str) -> Said {
    vec![Ok(Event::Text(words.into())), Ok(Event::Finish(Finish::Done))]
}

/// Something that happens while a question is open.
pub type Meanwhile = Box<dyn FnOnce() + Send>;

/// A client of version 1 with an editor: files that are not saved yet.
pub struct Editor {
    pub read: BufReader<ReadHalf<DuplexStream>>,
    pub write: WriteHalf<DuplexStream>,
    pub unsaved: Option<HashMap<String, String>>,
    pub updates: Vec<Value>,
    pub asked: Vec<Value>,
    /// The files that it was asked for.
    pub reads: Vec<String>,
    /// What is done when a question comes, and the option that answers it; `allow` if there is nothing.
    pub answers: Vec<(Meanwhile, &'static str)>,
    pub session: String,
    pub folder: tempfile::TempDir,
}

impl Editor {
    pub async fn open(model: &Listed, unsaved: Option<HashMap<String, String>>) -> Self {
        let files = unsaved.is_some();
        let fs = json!({"readTextFile": files, "writeTextFile": files});
        let can =
            json!({"fs": fs, "terminal": files, "elicitation": if files { json!({"form": {}}) } else { json!({}) }});
        Self::open_with(model, unsaved, can, |_| {}).await
    }

    /// The same with other capabilities, and settings that are changed first.
    pub async fn open_with(
        model: &Listed,
        unsaved: Option<HashMap<String, String>>,
        can: Value,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::new(model.clone());
        settings.mode = Some(Preset::AllowEdits);
        settings.keep = Keep::At(folder.path().join("state/store.db"));
        change(&mut settings);
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(Server::new(Coder::new(settings)).serve(Transport::stream(far).detect_framing()));
        let (read, write) = tokio::io::split(near);
        let read = BufReader::new(read);
        std::fs::create_dir(folder.path().join("p")).unwrap();
        let mut editor = Self {
            read,
            write,
            unsaved,
            updates: Vec::new(),
            asked: Vec::new(),
            reads: Vec::new(),
            answers: Vec::new(),
            session: String::new(),
            folder,
        };
        editor.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": can, "clientInfo": {"name": "editor", "version": "1"}})).await;
        let new = editor.call("session/new", json!({"cwd": editor.path(""), "mcpServers": []})).await;
        editor.session = new["result"]["sessionId"].as_str().unwrap().into();
        editor
    }

    pub fn path(&self, name: &str) -> String {
        let folder = self.folder.path().canonicalize().unwrap().join("p");
        if name.is_empty() { folder } else { folder.join(name) }.to_str().unwrap().into()
    }

    pub async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": params})).await;
        loop {
            let mut line = String::new();
            let reading = self.read.read_line(&mut line);
            tokio::time::timeout(Duration::from_secs(20), reading).await.expect("in time").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            let (id, params) = (message["id"].clone(), message["params"].clone());
            let path = params["path"].as_str().unwrap_or_default().to_owned();
            if message["method"] == "fs/read_text_file" {
                self.reads.push(path.clone());
            }
            let answer = match message["method"].as_str() {
                None => return message,
                Some("session/update") => {
                    self.updates.push(params["update"].clone());
                    continue;
                }
                Some("fs/read_text_file") if self.unsaved.is_none() => {
                    json!({"error": {"code": -32601, "message": "Method not found"}})
                }
                Some("fs/read_text_file") => match self.unsaved.as_ref().and_then(|files| files.get(&path)) {
                    Some(text) => json!({"result": {"content": text}}),
                    None => json!({"error": {"code": -32603, "message": "ENOENT: no such file"}}),
                },
                Some("fs/write_text_file") => {
                    let content = params["content"].as_str().unwrap().to_owned();
                    self.unsaved.as_mut().unwrap().insert(path, content);
                    json!({"result": null})
                }
                Some("terminal/create") => json!({"result": {"terminalId": "t1"}}),
                Some("terminal/wait_for_exit") => json!({"result": {"exitCode": 3}}),
                Some("terminal/output") => json!({"result": {"output": "seen in the editor", "truncated": false}}),
                Some("terminal/release") => json!({"result": {}}),
                Some("elicitation/create") => json!({"result": {"action": "accept", "content": {"answer": "blue"}}}),
                Some("session/request_permission") => {
                    self.asked.push(params);
                    let mut option = "allow";
                    if let Some((meanwhile, choice)) = self.answers.pop() {
                        meanwhile();
                        option = choice;
                    }
                    json!({"result": {"outcome": {"outcome": "selected", "optionId": option}}})
                }
                Some(other) => panic!("{other}"),
            };
            let mut answer = answer;
            answer["jsonrpc"] = "2.0".into();
            answer["id"] = id;
            self.send(answer).await;
        }
    }

    pub async fn prompt(&mut self, text: &str) -> Value {
        let params = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]});
        self.call("session/prompt", params).await
    }
}
