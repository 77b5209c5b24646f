//! A service for tests: it echoes, waits, calls back, and fails as it is told.

#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use tieline_json::{Error as JsonError, Raw, Reader};
use tieline_rpc::{Connection, End, Error, IdRule, Limits, Peer, Responder, Service, Transport};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Notify;

pub struct Echo {
    pub peer: Peer,
    pub rule: IdRule,
    pub log: Mutex<Vec<String>>,
    pub gate: Notify,
}

pub struct Called {
    method: String,
    params: Raw,
}

impl Service for Echo {
    type Call = Called;

    fn decode(&self, method: &str, params: &mut Reader<'_>) -> Result<Option<Called>, JsonError> {
        let known =
            ["echo", "gate", "slow", "ask", "fail", "drop", "note", "panic", "initialize", "strict"].contains(&method);
        if method == "strict" {
            let mut object = params.object()?;
            while let Some(key) = object.key(params)? {
                if key == "n" { params.integer::<u32>().map(drop)? } else { params.skip()? }
            }
            return Ok(Some(Called { method: method.into(), params: Raw::new("{}")? }));
        }
        if !known {
            return Ok(None);
        }
        Ok(Some(Called { method: method.into(), params: params.keep()? }))
    }

    fn request(&self, call: Called, responder: Responder) {
        self.log.lock().unwrap().push(call.method.clone());
        let peer = self.peer.clone();
        match &*call.method {
            "drop" => drop(responder),
            "panic" => drop(tokio::spawn(async move {
                let _responder = responder;
                panic!("on purpose");
            })),
            "fail" => responder.fail_now(&Error::new(7, "as told")),
            "slow" => drop(tokio::spawn(async move {
                let cancel = responder.cancel().clone();
                cancel.cancelled().await;
                responder.fail(&Error::cancelled()).await;
            })),
            // Awaits the peer inside a handler.
            "ask" => drop(tokio::spawn(async move {
                let answer = peer.call("question", |out| out.extend_from_slice(b"{}"), keep).await.await;
                match answer {
                    Ok(raw) => responder.reply(|out| out.extend_from_slice(raw.get().as_bytes())).await,
                    Err(error) => responder.fail(&error.into()).await,
                }
            })),
            "initialize" => drop(tokio::spawn(async move {
                tokio::task::yield_now().await;
                peer.notify("initialized", |out| out.extend_from_slice(b"{}")).await.ok();
                responder.reply(|out| out.extend_from_slice(b"\"ready\"")).await;
            })),
            _ => drop(tokio::spawn(async move {
                responder.reply(|out| out.extend_from_slice(call.params.get().as_bytes())).await;
            })),
        }
    }

    fn notification(&self, call: Called, _: usize) {
        self.log.lock().unwrap().push(format!("{} {}", call.method, call.params));
    }

    fn id_rule(&self) -> IdRule {
        self.rule
    }

    fn is_lifecycle(&self, method: &str) -> bool {
        method == "initialize"
    }
}

/// The far end of a connection, as raw lines.
pub struct Wire {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: Option<WriteHalf<DuplexStream>>,
    pub service: Arc<Echo>,
    pub end: tokio::task::JoinHandle<End>,
}

pub fn start() -> Wire {
    start_with(IdRule::Liberal, Limits::default(), |t| t)
}

pub fn start_with(rule: IdRule, limits: Limits, with: impl FnOnce(Transport) -> Transport) -> Wire {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (peer, connection) = Connection::open(with(Transport::stream(near)), limits);
    let service = Arc::new(Echo { peer, rule, log: Mutex::default(), gate: Notify::new() });
    let end = tokio::spawn(connection.run(Arc::clone(&service)));
    let (read, write) = tokio::io::split(far);
    Wire { read: BufReader::new(read), write: Some(write), service, end }
}

impl Wire {
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.write.as_mut().unwrap().write_all(bytes.as_ref()).await.unwrap();
    }

    pub async fn line(&mut self, text: &str) {
        self.send(format!("{text}\n")).await;
    }

    /// The next line, which must come.
    pub async fn get(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(10), self.read.read_line(&mut line)).await;
        read.expect("an answer in time").unwrap();
        line.trim_end().to_owned()
    }

    /// Everything that was answered before the answer to a last probe.
    pub async fn answers(&mut self, line: &str) -> Vec<String> {
        self.line(line).await;
        self.probe().await
    }

    pub async fn probe(&mut self) -> Vec<String> {
        self.line(r#"{"jsonrpc":"2.0","id":"probe","method":"echo","params":{}}"#).await;
        let mut seen = Vec::new();
        loop {
            let line = self.get().await;
            if line == r#"{"jsonrpc":"2.0","id":"probe","result":{}}"# {
                return seen;
            }
            assert!(!line.is_empty(), "the connection ended");
            seen.push(line);
        }
    }

    /// Closes the way in and gives the rest of the way out.
    pub async fn finish(&mut self) -> String {
        self.write.take().unwrap().shutdown().await.unwrap();
        self.service.peer.closed().await;
        self.service.peer.idle().await;
        self.service.peer.close().await;
        let mut rest = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut self.read, &mut rest).await.unwrap();
        rest
    }
}

/// Reads any result.
pub fn keep(json: &mut Reader<'_>) -> Result<Raw, JsonError> {
    json.keep()
}
