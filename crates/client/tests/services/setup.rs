//! A project folder, services for it, and a raw wire that plays the agent.

use crate::common::{Wire, wire};
use crate::harness::block_on;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tieline::client::{AgentHandle, Client, Session};
use tieline::{Dialect, Protocol};
use tieline_client::permission::{Answer, Decider, Question, Record};
use tieline_client::services::{Builder, Event, Observer, Services};

/// A folder that is the project, with a neighbour that is not.
pub struct Project {
    _folder: tempfile::TempDir,
    pub root: PathBuf,
    pub outside: PathBuf,
}

impl Project {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (root, outside) = (base.join("project"), base.join("outside"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret.txt"), "secret").unwrap();
        Self { _folder: folder, root, outside }
    }

    pub fn path(&self, name: &str) -> String {
        self.root.join(name).to_str().unwrap().to_owned()
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.root.join(name), text).unwrap();
        self.path(name)
    }

    pub fn services(&self) -> Builder {
        Services::builder(&self.root, [] as [&Path; 0]).unwrap()
    }
}

/// Keeps everything that it hears.
#[derive(Default)]
pub struct Log(pub Mutex<Vec<Event>>);

impl Observer for Log {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Log {
    pub fn decisions(&self) -> Vec<Record> {
        let all = self.0.lock().unwrap();
        all.iter()
            .filter_map(|event| if let Event::Decided(record) = event { Some((**record).clone()) } else { None })
            .collect()
    }

    pub fn last(&self) -> Record {
        self.decisions().pop().expect("a decision")
    }
}

/// Answers every question in the same way, and keeps them.
pub struct Person {
    pub answer: Answer,
    pub asked: Mutex<Vec<Question>>,
}

impl Person {
    pub fn who_says(answer: Answer) -> Arc<Self> {
        Arc::new(Self { answer, asked: Mutex::default() })
    }

    pub fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Decider for Person {
    fn decide<'a>(&'a self, question: &'a Question) -> tieline_client::Future<'a, Answer> {
        self.asked.lock().unwrap().push(question.clone());
        Box::pin(std::future::ready(self.answer.clone()))
    }
}

/// A client with services, and the agent's end of the wire. One session is open: `s`.
pub struct Scene {
    pub wire: Wire,
    /// Keeps the connection.
    handle: AgentHandle,
    pub session: Session,
    pub services: Services,
    pub dialect: Dialect,
}

/// What an agent answers to a hello.
pub fn hello(dialect: Dialect, auth_methods: &Value) -> Value {
    match dialect {
        Dialect::V1 => json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": auth_methods}),
        Dialect::V2Seed => {
            json!({"protocolVersion": 2, "capabilities": {"session": {}}, "authMethods": auth_methods})
        }
        Dialect::V2 => {
            json!({"protocolVersion": 2, "info": {"name": "scripted", "version": "1"}, "capabilities": {"session": {}},
                "authMethods": auth_methods})
        }
    }
}

pub async fn connect(services: &Services, dialect: Dialect, auth_methods: Value) -> (Wire, AgentHandle) {
    let (mut wire, transport) = wire();
    let client = Client::new("test", "1").offer(|can| services.offer(can)).handler(services.clone());
    let client = client.protocol(Protocol::Only(dialect));
    let answer = async {
        let (request, _) = wire.request("initialize").await;
        wire.reply(&request, hello(dialect, &auth_methods)).await;
    };
    let (handle, ()) = tokio::join!(client.connect(transport), answer);
    (wire, handle.unwrap())
}

impl Scene {
    pub async fn new(project: &Project, services: Services, dialect: Dialect) -> Self {
        let (mut wire, handle) = connect(&services, dialect, json!([])).await;
        let answer = async {
            let (request, _) = wire.request("session/new").await;
            wire.reply(&request, json!({"sessionId": "s"})).await;
        };
        let (session, ()) = tokio::join!(handle.open(project.root.to_str().unwrap()), answer);
        Self { wire, handle, session: session.unwrap(), services, dialect }
    }

    /// Opens one more session.
    pub async fn open(&mut self, id: &str, cwd: &Path) -> Session {
        let answer = async {
            let (request, _) = self.wire.request("session/new").await;
            self.wire.reply(&request, json!({"sessionId": id})).await;
        };
        let (session, ()) = tokio::join!(self.handle.open(cwd.to_str().unwrap()), answer);
        session.unwrap()
    }

    /// The result of a request of the agent in the session.
    pub async fn result(&mut self, method: &str, params: Value) -> Value {
        self.wire.result(method, in_session(params)).await
    }

    /// The error of a request of the agent in the session.
    pub async fn error(&mut self, method: &str, params: Value) -> Value {
        let answer = self.wire.call(method, in_session(params.clone())).await;
        assert!(answer.get("error").is_some(), "{method} {params} should fail: {answer}");
        answer["error"].clone()
    }

    /// Asks for permission about a tool call; gives the outcome.
    pub async fn permission(&mut self, call: Value, options: Value) -> Value {
        let params = match self.dialect {
            Dialect::V2 => {
                json!({"title": "May I?", "subject": {"type": "tool_call", "toolCall": call}, "options": options})
            }
            _ => json!({"toolCall": call, "options": options}),
        };
        self.result("session/request_permission", params).await["outcome"].clone()
    }
}

pub fn in_session(mut params: Value) -> Value {
    params["sessionId"] = json!("s");
    params
}

/// Runs a test with a project and services in version 1, where the agent can ask for files and terminals.
pub fn in_version_1(build: impl FnOnce(Builder) -> Builder, test: impl AsyncFnOnce(&Project, &mut Scene)) {
    block_on(async {
        let project = Project::new();
        let services = build(project.services()).build();
        let mut scene = Scene::new(&project, services, Dialect::V1).await;
        test(&project, &mut scene).await;
    });
}
