//! The rules of the client, against a server that does as it is told and writes down what it was asked. Numbers name the rules.

#![allow(clippy::unwrap_used)]

use futures_util::{StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline_http::Remote;
use tieline_rpc::{Event, FrameReader, FrameWriter};
use tieline_web::{Http, Options};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(30);

type Headers = &'static [(&'static str, &'static str)];

#[derive(Default)]
struct Script {
    /// What was asked: the method or `GET`, `DELETE`, and all headers.
    asked: Vec<(String, HashMap<String, String>)>,
    /// What the next messages with this method get instead of 202.
    odd: HashMap<String, Vec<(u16, Headers)>>,
    streams: HashMap<String, mpsc::Sender<String>>,
}

type Shared = Arc<Mutex<Script>>;
type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

fn plain(status: u16, headers: &[(&'static str, &'static str)], body: String) -> Answer {
    let mut answer = Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    answer.body(Full::new(Bytes::from(body)).boxed_unsync()).unwrap()
}

async fn serve(request: Request<Incoming>, script: Shared) -> Answer {
    let (head, body) = request.into_parts();
    let headers: HashMap<String, String> =
        head.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    let session = headers.get("acp-session-id").cloned().unwrap_or_default();
    if head.method == "GET" {
        let (sender, events) = mpsc::channel(8);
        let mut script = script.lock().unwrap();
        script.asked.push(("GET".to_owned(), headers));
        script.streams.insert(session, sender);
        let events = stream::unfold(events, |mut events| async move { Some((events.recv().await?, events)) });
        let events = events.map(|text: String| Ok(Frame::data(Bytes::from(format!("id: 1\ndata: {text}\n\n")))));
        return Response::new(StreamBody::new(events).boxed_unsync());
    }
    if head.method == "DELETE" {
        script.lock().unwrap().asked.push(("DELETE".to_owned(), headers));
        return plain(202, &[], String::new());
    }
    let body = body.collect().await.unwrap().to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let method = message["method"].as_str().unwrap_or("answer").to_owned();
    let odd = {
        let mut script = script.lock().unwrap();
        script.asked.push((method.clone(), headers));
        script.odd.get_mut(&method).filter(|odd| !odd.is_empty()).map(|odd| odd.remove(0))
    };
    if let Some((status, headers)) = odd {
        return plain(status, headers, String::new());
    }
    let id = &message["id"];
    if method == "initialize" {
        let headers =
            &[("acp-connection-id", "c1"), ("content-type", "application/json"), ("set-cookie", "lb=7; Path=/")];
        return plain(200, headers, json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string());
    }
    let answer = match method.as_str() {
        "session/new" => json!({"jsonrpc": "2.0", "id": id, "result": {"sessionId": "s1"}}),
        "session/prompt" => {
            json!({"jsonrpc": "2.0", "id": 77, "method": "session/request_permission", "params": {"sessionId": "s1"}})
        }
        _ => json!({"jsonrpc": "2.0", "id": id, "result": method}),
    };
    let stream = script.lock().unwrap().streams.get(&session).cloned();
    stream.expect("its stream is open").send(answer.to_string()).await.unwrap();
    plain(202, &[], String::new())
}

struct Talk {
    script: Shared,
    remote: Remote,
    reader: FrameReader,
    writer: FrameWriter,
}

impl Talk {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Shared::default();
        let serving = Arc::clone(&script);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let script = Arc::clone(&serving);
                let service = service_fn(move |request| {
                    let script = Arc::clone(&script);
                    async move { Ok::<_, Infallible>(serve(request, script).await) }
                });
                let connection =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
                tokio::spawn(connection);
            }
        });
        let remote = Remote::new(&format!("http://{address}")).unwrap().http(Http::new(Options::default()));
        let remote = remote.header("X-Secret-Key", "k").unwrap();
        let (reader, writer) = remote.connect().await.unwrap().open();
        let mut talk = Self { script, remote, reader, writer };
        assert!(talk.ask(0, "initialize").await.unwrap()["result"].is_object());
        talk.until("GET").await;
        talk
    }

    async fn say(&self, message: Value) {
        self.writer.send(|out| out.extend(message.to_string().bytes())).await.unwrap();
    }

    /// The next message; `None` at the end.
    async fn hear(&mut self) -> Option<Value> {
        match timeout(SOON, self.reader.next()).await.expect("something comes") {
            Event::Frame(at) => Some(serde_json::from_slice(self.reader.bytes(at)).unwrap()),
            _ => None,
        }
    }

    async fn ask(&mut self, id: u64, method: &str) -> Option<Value> {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}})).await;
        self.hear().await
    }

    fn count(&self, method: &str) -> usize {
        self.script.lock().unwrap().asked.iter().filter(|(asked, _)| asked == method).count()
    }

    async fn until(&self, method: &str) {
        let seen = async {
            while self.count(method) == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, seen).await.expect("it is asked");
    }
}

/// Rule 66: what an answer means, and rules 67 and 71: what is never done.
#[tokio::test]
async fn statuses_mean_something() {
    // The status, its headers, how often the message is sent, and what comes of it.
    let rows: &[(u16, Headers, usize, &str)] = &[
        (200, &[], 1, "silence"),
        (500, &[], 1, "fails"),
        (502, &[], 1, "fails"),
        (400, &[], 1, "fails"),
        (409, &[], 1, "fails"),
        (307, &[("location", "http://127.0.0.1:1/")], 1, "fails"),
        (503, &[], 1, "fails"),
        (503, &[("retry-after", "0")], 2, "works"),
        (429, &[("retry-after", "0")], 2, "works"),
        (401, &[], 1, "lost"),
        (403, &[], 1, "lost"),
        (404, &[], 1, "lost"),
        (410, &[], 1, "lost"),
    ];
    for (status, headers, times, expect) in rows {
        let mut talk = Talk::new().await;
        talk.script.lock().unwrap().odd.insert("_x".to_owned(), vec![(*status, headers)]);
        talk.say(json!({"jsonrpc": "2.0", "id": 1, "method": "_x"})).await;
        let found = if *expect == "silence" { None } else { talk.hear().await };
        match *expect {
            "fails" => assert_eq!(found.unwrap()["error"]["code"], -32000, "{status}"),
            "works" => assert_eq!(found.unwrap()["result"], "_x", "{status}"),
            "lost" => {
                assert!(found.is_none() && talk.remote.trouble().unwrap().contains(&status.to_string()), "{status}");
            }
            _ => {}
        }
        if *expect != "lost" {
            assert_eq!(talk.ask(2, "_y").await.unwrap()["result"], "_y", "{status}: the connection lives");
        }
        assert_eq!(talk.count("_x"), *times, "{status}");
    }
}

/// Rules 61 to 64 and 70: what is sent with every request.
#[tokio::test]
async fn headers_cookies_and_sessions() {
    let mut talk = Talk::new().await;
    assert_eq!(talk.ask(1, "session/new").await.unwrap()["result"]["sessionId"], "s1");
    talk.say(json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"sessionId": "s1"}})).await;
    assert_eq!(talk.hear().await.unwrap()["id"], 77);
    talk.say(json!({"jsonrpc": "2.0", "id": 77, "result": {}})).await;
    talk.say(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2, "sessionId": "s1"}}))
        .await;
    talk.until("$/cancel_request").await;
    talk.writer.close().await;
    talk.until("DELETE").await;
    let script = talk.script.lock().unwrap();
    let value = |asked: &str, name: &str| {
        let (_, headers) = script.asked.iter().find(|(method, _)| method == asked).unwrap();
        headers.get(name).cloned().unwrap_or_default()
    };
    for (asked, session) in
        [("session/new", ""), ("session/prompt", "s1"), ("answer", "s1"), ("$/cancel_request", ""), ("DELETE", "")]
    {
        assert_eq!(value(asked, "acp-session-id"), session, "rule 63: {asked}");
        assert_eq!(value(asked, "acp-connection-id"), "c1", "{asked}");
        assert_eq!(value(asked, "cookie"), "lb=7", "rule 62: {asked}");
        assert_eq!(value(asked, "x-secret-key"), "k", "rule 70: {asked}");
    }
    // The stream of a session is open before something is said there.
    let order: Vec<&str> = script.asked.iter().map(|(asked, _)| asked.as_str()).collect();
    let prompt = order.iter().position(|asked| *asked == "session/prompt").unwrap();
    assert_eq!(order[..prompt].iter().filter(|asked| **asked == "GET").count(), 2, "rule 64: {order:?}");
}

/// Rule 61: which address is meant.
#[test]
fn addresses() {
    for (address, host) in [
        ("http://h", Some("h:80")),
        ("wss://h/", Some("h:443")),
        ("ws://127.0.0.1:9000/acp?x=1", Some("127.0.0.1:9000")),
        ("https://user:secret@h:1/x", Some("h:1")),
        ("ftp://h", None),
        ("h/acp", None),
        ("http://", None),
        ("", None),
    ] {
        let remote = Remote::new(address);
        assert_eq!(remote.as_ref().ok().map(Remote::host).as_deref(), host, "{address}");
        assert!(!format!("{remote:?}").contains("secret"), "{address}");
        assert_eq!(tieline_http::client::is_address(address), address.contains("://") && !address.starts_with("ftp"));
    }
    assert!(Remote::new("http://h").unwrap().header("a b", "x").is_err());
    assert!(Remote::new("http://h").unwrap().header("a", "x\ny").is_err());
}
