//! Each rule of the transport that a server can be asked about, as a table: what is sent, and the answer. Numbers name the rules.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Open, Running, TOKEN, start, tokens};
use serde_json::{Value, json};
use std::time::Duration;
use tieline_http::server::{Arrival, Gate, Guest, Limits, Rules, Visitor};
use tieline_rpc::{Event, Transport};
use tieline_web::sse::Parser;
use tieline_web::{Body, Bytes, Http, Options, Request, Response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);

/// An agent that answers everything by a fixed rule, so that only the transport is tested.
async fn puppet(transport: Transport) {
    let (mut reader, writer) = transport.open();
    let say = async |value: Value| {
        let _ = writer.send(|out| out.extend(value.to_string().bytes())).await;
    };
    let update = |session: &Value, text: &str| json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "text": text}});
    loop {
        let (Event::Frame(at) | Event::Last(at)) = reader.next().await else { break };
        let message: Value = serde_json::from_slice(reader.bytes(at)).unwrap();
        if let Value::Array(all) = &message {
            let answers = all.iter().filter(|one| one["id"].is_number());
            say(answers.map(|one| json!({"jsonrpc": "2.0", "id": one["id"], "result": {"batch": true}})).collect())
                .await;
            continue;
        }
        let (id, params) = (&message["id"], &message["params"]);
        let session = &params["sessionId"];
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        match message["method"].as_str() {
            Some("initialize") if params["refuse"] == true => {
                say(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "not this version"}}))
                    .await;
            }
            Some("initialize") if params["silent"] == true => {}
            Some("initialize") => {
                // Before its answer the agent may say something else.
                say(json!({"jsonrpc": "2.0", "method": "_early"})).await;
                say(answer(json!({"protocolVersion": 1}))).await;
            }
            Some("session/new") => say(answer(json!({"sessionId": "s1"}))).await,
            Some("session/load") => {
                for number in 0..3 {
                    say(update(session, &format!("replay {number}"))).await;
                }
                say(answer(json!({"loaded": session}))).await;
            }
            Some("session/prompt") if params["flood"].is_number() => {
                for number in 0..params["flood"].as_u64().unwrap() {
                    say(update(session, &format!("{number} {}", "x".repeat(1000)))).await;
                }
                say(answer(json!({"stopReason": "end_turn"}))).await;
            }
            Some("session/prompt") if params["positions"].is_array() => {
                for position in params["positions"].as_array().unwrap() {
                    let mut update = update(session, "x");
                    update["params"]["_meta"] = json!({"other": {"event": "1.1"}, "tieline": {"event": position}});
                    say(update).await;
                }
                say(answer(json!({"stopReason": "end_turn"}))).await;
            }
            Some("session/prompt") => {
                say(json!({"jsonrpc": "2.0", "id": 900, "method": "session/request_permission", "params": {"sessionId": session}})).await;
            }
            Some("_crash") => break,
            Some(_) if id.is_null() => {}
            Some(method) => say(answer(json!({"done": method}))).await,
            // An answer of the client: to the permission, which ends the turn.
            None if id == 900 => say(update(&json!("s1"), &message["result"].to_string())).await,
            None => {}
        }
    }
    writer.close().await;
}

fn serve(arrival: Arrival) {
    tokio::spawn(puppet(arrival.transport));
}

fn http() -> Http {
    Http::new(Options::default())
}

/// One request: `POST`, `GET` and so on, headers as `name: value`.
async fn ask(url: &str, method: &str, headers: &[&str], body: &str) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers.iter().map(|header| header.split_once(": ").unwrap()) {
        request = request.header(name, value);
    }
    let request = request.body(Bytes::from(body.to_owned())).unwrap();
    timeout(SOON, http().send(request)).await.expect("an answer in time").unwrap()
}

fn header(answer: &Response<Body>, name: &str) -> String {
    answer.headers().get(name).map_or(String::new(), |value| value.to_str().unwrap().to_owned())
}

const JSON: &str = "content-type: application/json";
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;

struct Client {
    url: String,
    connection: String,
}

impl Client {
    async fn new(running: &Running) -> Self {
        let url = running.url("http");
        let answer = ask(&url, "POST", &[JSON], HELLO).await;
        assert_eq!(answer.status(), 200);
        let connection = format!("acp-connection-id: {}", header(&answer, "acp-connection-id"));
        Self { url, connection }
    }

    async fn post(&self, headers: &[&str], message: &Value) -> u16 {
        let headers = [&[JSON, &self.connection], headers].concat();
        ask(&self.url, "POST", &headers, &message.to_string()).await.status().as_u16()
    }

    async fn get(&self, headers: &[&str]) -> Response<Body> {
        let accept = if headers.iter().any(|header| header.starts_with("accept")) {
            "x-none: 1"
        } else {
            "accept: text/event-stream"
        };
        ask(&self.url, "GET", &[&[accept, &self.connection], headers].concat(), "").await
    }

    async fn stream(&self, headers: &[&str]) -> Stream {
        let answer = self.get(headers).await;
        assert_eq!(answer.status(), 200);
        Stream { body: answer.into_body(), parser: Parser::new(1 << 20) }
    }
}

struct Stream {
    body: Body,
    parser: Parser,
}

impl Stream {
    /// The next message; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.parser.event() {
                return Some(serde_json::from_str(&event.unwrap().data).unwrap());
            }
            let chunk = timeout(SOON, self.body.chunk()).await.expect("an event in time").ok()??;
            self.parser.push(&chunk);
        }
    }

    /// Bytes until the first event is over.
    async fn start(&mut self) -> String {
        let chunk = timeout(SOON, self.body.chunk()).await.unwrap().unwrap().unwrap();
        self.parser.push(&chunk);
        String::from_utf8(chunk.to_vec()).unwrap()
    }
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Rules 1 to 6, 10 to 12, 19 to 22: what is answered to a request that is not right, in the liberal and the strict way.
#[tokio::test]
async fn requests_are_judged() {
    for strict in [false, true] {
        let running = start(Rules { strict, ..Rules::default() }, Open, serve).await;
        let client = Client::new(&running).await;
        let (url, mine) = (client.url.as_str(), client.connection.as_str());
        let long = format!("acp-connection-id: {}", "x".repeat(1025));
        let ping = r#"{"jsonrpc":"2.0","method":"$/ping"}"#;
        let batch = r#"[{"jsonrpc":"2.0","id":5,"method":"_x"}]"#;
        let rows: &[(&str, &str, &[&str], &str, u16)] = &[
            ("1 another method", "PUT", &[JSON, mine], ping, 405),
            ("1 another method", "PATCH", &[JSON, mine], ping, 405),
            ("2 another kind of body", "POST", &["content-type: text/plain", mine], ping, 415),
            ("2 no kind of body", "POST", &[mine], ping, 415),
            ("2 with parameters", "POST", &["content-type: Application/JSON; charset=utf-8", mine], ping, 202),
            ("4 no JSON", "POST", &[JSON, mine], "{", 400),
            ("4 a scalar", "POST", &[JSON, mine], "5", 400),
            ("4 nothing", "POST", &[JSON, mine], "", 400),
            ("4 two values", "POST", &[JSON, mine], "{}{}", 400),
            ("5 a batch", "POST", &[JSON, mine], batch, if strict { 501 } else { 202 }),
            ("10 initialize on a connection", "POST", &[JSON, mine], HELLO, 400),
            ("11 no connection", "POST", &[JSON], ping, 400),
            ("11 an unknown connection", "POST", &[JSON, "acp-connection-id: nobody"], ping, 404),
            ("17 about messages", "POST", &[JSON, mine, "acp-session-id: other"], ping, 202),
            ("19 a name that is none", "POST", &[JSON, &long], ping, 400),
            ("20 what is accepted", "GET", &[mine, "accept: application/json"], "", 406),
            ("20 nothing is accepted", "GET", &[mine], "", 406),
            ("21 no connection", "GET", &["accept: text/event-stream"], "", 400),
            ("21 an unknown one", "GET", &["accept: text/event-stream", "acp-connection-id: nobody"], "", 404),
            ("33 no connection", "DELETE", &[], "", 400),
            ("33 an unknown connection", "DELETE", &["acp-connection-id: nobody"], "", 404),
            ("33 the end", "DELETE", &[mine], "", 202),
            ("33 it is gone", "POST", &[JSON, mine], ping, 404),
        ];
        for (rule, method, headers, body, status) in rows {
            let mut answer = ask(url, method, headers, body).await;
            assert_eq!(answer.status(), *status, "rule {rule}, strict {strict}");
            if *status == 202 {
                assert_eq!(answer.body_mut().bytes(10).await.unwrap(), b"", "rule 12: {rule}");
            }
            if *status == 405 {
                assert_eq!(header(&answer, "allow"), "GET, POST, DELETE, OPTIONS", "rule {rule}");
            }
        }
        assert_eq!(ask(&url.replace("/acp", "/other"), "GET", &[], "").await.status(), 404);
        let curl = Client::new(&running).await;
        assert_eq!(curl.get(&["accept: */*"]).await.status(), 200, "rule 20");
    }
}

/// Rules 13 to 18: which session a message belongs to.
#[tokio::test]
async fn sessions_are_named_by_header_or_body() {
    struct Hidden;
    impl Gate for Hidden {
        fn admit(&self, _: &Visitor<'_>) -> Option<Guest> {
            Some(Guest("me".into()))
        }
        fn may_see(&self, _: &Guest, session: &str) -> bool {
            session != "hidden"
        }
    }
    for strict in [false, true] {
        let running = start(Rules { strict, ..Rules::default() }, Hidden, serve).await;
        let client = Client::new(&running).await;
        let of = |session: &str| json!({"sessionId": session});
        let answer = |id: u64| json!({"jsonrpc": "2.0", "id": id, "result": {}});
        let here: &[&str] = &["acp-session-id: s1"];
        let liberal = if strict { 400 } else { 202 };
        let rows: &[(&str, &[&str], Value, u16)] = &[
            ("13 with header", here, request(1, "session/prompt", of("s1")), 202),
            ("13 without", &[], request(2, "session/set_mode", of("s1")), liberal),
            ("14 load without", &[], request(3, "session/load", of("s1")), liberal),
            ("15 header and body differ", here, request(4, "session/prompt", of("s2")), 400),
            ("18 hidden in the body", &[], request(5, "session/load", of("hidden")), if strict { 400 } else { 404 }),
            ("18 hidden", &["acp-session-id: hidden"], request(6, "session/load", of("hidden")), 404),
        ];
        for (rule, headers, message, status) in rows {
            assert_eq!(client.post(headers, message).await, *status, "rule {rule}, strict {strict}");
        }
        // The agent asks about the session s1 under the id 900.
        let mut stream = client.stream(here).await;
        assert_eq!(stream.next().await.unwrap()["id"], 900);
        assert_eq!(client.post(&["acp-session-id: other"], &answer(900)).await, 400, "rule 16: another session");
        assert_eq!(client.post(&[], &answer(900)).await, 202, "rule 16: no header");
        // Until it arrives.
        while stream.next().await.expect("rule 16")["params"]["text"] != "{}" {}
        assert_eq!(client.get(&["acp-session-id: hidden"]).await.status(), 404, "rule 18");
    }
}

/// Rules 7, 22 to 25, 29, 30, 39: which stream a message comes on, and how it looks.
#[tokio::test]
async fn messages_come_on_their_streams() {
    let running = start(Rules::default(), Open, serve).await;
    let client = Client::new(&running).await;
    let answer = client.get(&[]).await;
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(header(&answer, name), value, "rule 30");
    }
    let mut own = Stream { body: answer.into_body(), parser: Parser::new(1 << 20) };
    let start = own.start().await;
    assert!(start.starts_with("id: ") && start.ends_with(".0\n\n"), "rule 39: {start:?}");
    assert_eq!(own.next().await.unwrap()["method"], "_early", "rule 7");
    client.post(&[], &request(1, "session/new", json!({}))).await;
    assert_eq!(own.next().await.unwrap()["result"]["sessionId"], "s1", "rule 22");
    let mut session = client.stream(&["acp-session-id: s1"]).await;
    client.post(&["acp-session-id: s1"], &request(2, "session/set_mode", json!({"sessionId": "s1"}))).await;
    assert_eq!(session.next().await.unwrap()["id"], 2, "rule 23");
    // The answer to a load is on the connection's stream, and never before what it is about.
    client.post(&["acp-session-id: s1"], &request(3, "session/load", json!({"sessionId": "s1"}))).await;
    assert_eq!(own.next().await.unwrap()["id"], 3, "rule 24");
    for number in 0..3 {
        assert_eq!(session.next().await.unwrap()["params"]["text"], format!("replay {number}"), "rule 24");
    }
    client.post(&[], &request(4, "session/resume", json!({"sessionId": "s1"}))).await;
    assert_eq!(own.next().await.unwrap()["id"], 4, "rule 24: asked without a header");
    client.post(&["acp-session-id: s9"], &request(5, "session/prompt_x", json!({"sessionId": "s9"}))).await;
    assert_eq!(own.next().await.unwrap()["id"], 5, "rule 25");
    let batch = |sessions: [&str; 2]| {
        json!([
            request(6, "_a", json!({"sessionId": sessions[0]})),
            request(7, "_b", json!({"sessionId": sessions[1]}))
        ])
    };
    client.post(&[], &batch(["s1", "s1"])).await;
    assert_eq!(session.next().await.unwrap()[1]["id"], 7, "rule 5: one session");
    client.post(&[], &batch(["s1", "s2"])).await;
    assert_eq!(own.next().await.unwrap()[1]["id"], 7, "rule 5: several");
}

/// Rules 8 and 9: an agent that refuses, that says nothing, that goes.
#[tokio::test]
async fn a_hello_has_an_end() {
    let mut limits = Limits::default();
    limits.hello_time = Duration::from_millis(50);
    let rules = Rules { limits, ..Rules::default() };
    let running = start(rules, Open, serve).await;
    let url = running.url("http");
    let hello = |what: &str| request(0, "initialize", json!({what: true})).to_string();
    let mut answer = ask(&url, "POST", &[JSON], &hello("refuse")).await;
    assert_eq!((answer.status().as_u16(), header(&answer, "content-type").as_str()), (200, "application/json"));
    assert_eq!(header(&answer, "acp-connection-id").len(), 32, "rules 8 and 49");
    assert!(answer.body_mut().start(1000).await.contains("not this version"), "rule 8");
    assert_eq!(ask(&url, "POST", &[JSON], &hello("silent")).await.status(), 504, "rule 9");
}

/// Rules 26 and 28: streams of sessions that nobody knows, and a second reader.
#[tokio::test]
async fn streams_have_one_reader() {
    for strict in [false, true] {
        let running = start(Rules { strict, ..Rules::default() }, Open, serve).await;
        let client = Client::new(&running).await;
        let mut open = Vec::new();
        for number in 0..16 {
            open.push(client.stream(&[&format!("acp-session-id: x{number}")]).await);
        }
        assert_eq!(client.get(&["acp-session-id: x16"]).await.status(), 404, "rule 26");
        let mut first = client.stream(&[]).await;
        first.start().await;
        assert_eq!(first.next().await.unwrap()["method"], "_early");
        let second = client.get(&[]).await;
        if strict {
            assert_eq!(second.status(), 409, "rule 28");
        } else {
            assert_eq!(first.next().await, None, "rule 28: the old one ends");
            client.post(&[], &request(1, "_x", json!({}))).await;
            let mut second = Stream { body: second.into_body(), parser: Parser::new(1 << 20) };
            assert_eq!(second.next().await.unwrap()["id"], 1, "rule 28: the new one goes on");
        }
    }
}

/// Rules 40 and 41, on the same connection: what was sent and not read is sent again, once, in order.
#[tokio::test]
async fn a_stream_goes_on_where_it_was_cut() {
    let running = start(Rules::default(), Open, serve).await;
    let client = Client::new(&running).await;
    let mut stream = client.stream(&["acp-session-id: s1"]).await;
    client.post(&["acp-session-id: s1"], &request(1, "session/prompt", json!({"sessionId": "s1", "flood": 40}))).await;
    let (mut seen, mut last) = (Vec::new(), String::new());
    while seen.len() < 41 {
        let Some(event) = stream.parser.event() else {
            let chunk = timeout(SOON, stream.body.chunk()).await.unwrap().unwrap().unwrap();
            stream.parser.push(&chunk);
            continue;
        };
        let event = event.unwrap();
        seen.push(event.data);
        last = event.id;
        // What came in the same piece is thrown away with the rest of the stream.
        if seen.len() % 7 == 0 {
            drop(stream);
            stream = client.stream(&["acp-session-id: s1", &format!("last-event-id: {last}")]).await;
        }
    }
    for (number, data) in seen[..40].iter().enumerate() {
        let data: Value = serde_json::from_str(data).unwrap();
        assert!(data["params"]["text"].as_str().unwrap().starts_with(&format!("{number} ")), "{number}: {data}");
    }
    assert!(seen[40].contains("end_turn") && !last.is_empty(), "rule 40: answers too");
    // One that makes no sense, or is of another connection: from now on.
    for odd in ["nonsense", "0.0", "deadbeef.3"] {
        let mut stream = client.stream(&["acp-session-id: s1", &format!("last-event-id: {odd}")]).await;
        client.post(&["acp-session-id: s1"], &request(2, "_x", json!({"sessionId": "s1"}))).await;
        assert_eq!(stream.next().await.unwrap()["id"], 2, "rule 40: {odd}");
    }
}

/// Rules 38 to 40: the position of a message is its id, what has none counts behind it; where a client stopped on an earlier
/// connection is told above, once.
#[tokio::test]
async fn positions_from_above_are_ids() {
    let (tell, mut told) = mpsc::channel(1);
    let each = move |mut arrival: Arrival| {
        tell.try_send(arrival.streams.take()).unwrap();
        serve(arrival);
    };
    let running = start(Rules::default(), Open, each).await;
    let client = Client::new(&running).await;
    let streams = told.recv().await.unwrap().unwrap();
    let mut stream = client.stream(&["acp-session-id: s1", "last-event-id: 7.0~2"]).await;
    assert_eq!(stream.start().await, "id: 7.0~2\n\n");
    assert_eq!(
        (streams.stopped("s1").as_deref(), streams.stopped("s1"), streams.stopped("s2")),
        (Some("7.0~2"), None, None)
    );
    let positions = json!([null, "8.0", null, 5, "9.0", "10.0\nid: 11.0", "1 2", "", "x".repeat(200)]);
    let prompt = request(1, "session/prompt", json!({"sessionId": "s1", "positions": positions}));
    client.post(&["acp-session-id: s1"], &prompt).await;
    let expect = ["7.0~1", "8.0", "8.0~1", "8.0~2", "9.0", "9.0~1", "9.0~2", "9.0~3", "9.0~4", "9.0~5"];
    // Cut before anything was read, it goes on from the beginning.
    for _ in 0..2 {
        let mut ids = Vec::new();
        while ids.len() < expect.len() {
            if let Some(event) = stream.parser.event() {
                ids.push(event.unwrap().id);
                continue;
            }
            let chunk = timeout(SOON, stream.body.chunk()).await.unwrap().unwrap().unwrap();
            stream.parser.push(&chunk);
        }
        assert_eq!(ids, expect);
        stream = client.stream(&["acp-session-id: s1", "last-event-id: 7.0~2"]).await;
    }
}

/// Rule 27: what nobody reads is bounded, the agent waits, and in the end the connection goes.
#[tokio::test]
async fn what_nobody_reads_is_bounded() {
    let mut limits = Limits::default();
    (limits.waiting_bytes, limits.stall_time) = (20_000, Duration::from_millis(100));
    let running = start(Rules { limits, ..Rules::default() }, Open, serve).await;
    let client = Client::new(&running).await;
    let mut own = client.stream(&[]).await;
    assert_eq!(own.next().await.unwrap()["method"], "_early");
    let flood = request(1, "session/prompt", json!({"sessionId": "s1", "flood": 100_000}));
    assert_eq!(client.post(&["acp-session-id: s1"], &flood).await, 202);
    assert_eq!(own.next().await, None, "the connection ends");
    assert_eq!(client.post(&[], &request(2, "_x", json!({}))).await, 404);
}

/// Rule 31: there is always a sign of life. Rule 35: a connection without readers ends after its time.
#[tokio::test]
async fn silence_is_told_and_ends() {
    let mut limits = Limits::default();
    (limits.keep_alive, limits.grace) = (Duration::from_millis(20), Duration::from_millis(50));
    let (gone, mut ended) = mpsc::channel(1);
    let running = start(Rules { limits, ..Rules::default() }, Open, move |arrival| {
        let gone = gone.clone();
        tokio::spawn(async move {
            puppet(arrival.transport).await;
            gone.send(()).await.unwrap();
        });
    })
    .await;
    let client = Client::new(&running).await;
    let mut stream = client.stream(&[]).await;
    let mut text = String::new();
    while !text.contains(":\n\n:\n\n:\n\n") {
        text += &stream.start().await;
    }
    drop(stream);
    timeout(SOON, ended.recv()).await.expect("rule 35").unwrap();
    assert_eq!(client.post(&[], &json!({"jsonrpc": "2.0", "method": "_x"})).await, 404, "rule 35");
}

/// Rules 44 to 49: pages, names and credentials.
#[tokio::test]
async fn who_may_ask() {
    let rules =
        Rules { hosts: vec!["box.lan".into()], origins: vec!["https://app.example".into()], ..Rules::default() };
    let running = start(rules, tokens(), serve).await;
    let url = running.url("http");
    let own = format!("origin: http://{}", running.address);
    let bearer = &*format!("authorization: Bearer {TOKEN}");
    let port = running.address.port();
    let [cookie, wrong, half] = ["s3cret", "x", "s3c"].map(|value| format!("cookie: a=b; tieline-{port}={value}"));
    let rows: &[(&str, &[&str], u16)] = &[
        ("44 no page", &[bearer], 200),
        ("44 its own page", &[bearer, &own], 200),
        ("44 a page in the list", &[bearer, "origin: https://app.example"], 200),
        ("44 a page of another port", &[bearer, "origin: http://127.0.0.1:1"], 403),
        ("44 a page of another scheme", &[bearer, "origin: http://app.example"], 403),
        ("44 no origin at all", &[bearer, "origin: null"], 403),
        ("44 another page", &[bearer, "origin: https://evil.example"], 403),
        ("46 this machine", &[bearer, "host: localhost:1"], 200),
        ("46 its name", &[bearer, "host: box.lan"], 200),
        ("46 another name", &[bearer, "host: evil.example"], 403),
        ("46 another name with ours in front", &[bearer, "host: 127.0.0.1@evil.example"], 403),
        ("46 another name behind our port", &[bearer, "host: 127.0.0.1:7717.evil.example"], 403),
        ("46 another address", &[bearer, "host: 10.0.0.1"], 403),
        ("47 no credential", &[], 401),
        ("48 a wrong one", &["authorization: Bearer wrong"], 401),
        ("48 another kind", &["authorization: Basic czNjcmV0"], 401),
        ("48 in a cookie", &[&cookie], 200),
        ("48 a wrong cookie", &[&wrong], 401),
        ("48 the cookie of another port", &["cookie: tieline-1=s3cret; tieline=s3cret"], 401),
        ("48 half of it in a cookie", &[&half], 401),
        ("48 half of it in a cookie, half of it from the page", &[&half, "tieline-half: ret"], 200),
        ("48 the page's half alone", &["tieline-half: s3cret"], 401),
    ];
    for (rule, headers, status) in rows {
        let answer = ask(&url, "POST", &[&[JSON], *headers].concat(), HELLO).await;
        assert_eq!(answer.status(), *status, "rule {rule}");
        if *status == 401 {
            assert_eq!(header(&answer, "www-authenticate"), "Bearer", "rule {rule}");
        }
        let page = headers.iter().find_map(|header| header.strip_prefix("origin: ")).filter(|_| *status == 200);
        assert_eq!(header(&answer, "access-control-allow-origin"), page.unwrap_or_default(), "rule 45: {rule}");
        let exposed = if page.is_some() { "acp-connection-id, acp-session-id" } else { "" };
        assert_eq!(header(&answer, "access-control-expose-headers"), exposed, "rule 45: {rule}");
    }
    // A browser asks first, without a credential.
    let answer =
        ask(&url, "OPTIONS", &["origin: https://app.example", "access-control-request-method: POST"], "").await;
    assert_eq!(answer.status(), 204, "rule 45");
    assert_eq!(header(&answer, "access-control-allow-credentials"), "true", "rule 45");
    assert_eq!(header(&answer, "vary"), "origin", "rule 45");
    for name in ["authorization", "acp-connection-id", "acp-session-id", "last-event-id", "content-type"] {
        assert!(header(&answer, "access-control-allow-headers").contains(name), "rule 45: {name}");
    }
    assert_eq!(ask(&url, "OPTIONS", &["origin: https://evil.example"], "").await.status(), 403, "rule 45");
}

/// Rules 18 and 49: the name of a connection is no credential.
#[tokio::test]
async fn a_connection_belongs_to_its_guest() {
    let gate = tokens().with("you", "other");
    let running = start(Rules::default(), gate, serve).await;
    let url = running.url("http");
    let answer = ask(&url, "POST", &[JSON, "authorization: Bearer s3cret"], HELLO).await;
    let connection = format!("acp-connection-id: {}", header(&answer, "acp-connection-id"));
    for (token, status) in [("s3cret", 202), ("other", 404)] {
        let bearer = format!("authorization: Bearer {token}");
        let answer = ask(&url, "POST", &[JSON, &connection, &bearer], r#"{"jsonrpc":"2.0","method":"_x"}"#).await;
        assert_eq!(answer.status(), status, "{token}");
    }
}

/// Rules 3 and the limits: large, slow and many.
#[tokio::test]
async fn requests_have_limits() {
    let mut limits = Limits::default();
    (limits.body_bytes, limits.connections) = (1000, 2);
    (limits.head_time, limits.body_time) = (Duration::from_millis(100), Duration::from_millis(100));
    let running = start(Rules { limits, ..Rules::default() }, Open, serve).await;
    let client = Client::new(&running).await;
    let large = "x".repeat(1001);
    assert_eq!(ask(&client.url, "POST", &[JSON, &client.connection], &large).await.status(), 413, "rule 3");
    let rows = [
        (
            "a body that is said to be large",
            format!("POST /acp HTTP/1.1\r\nhost: localhost\r\n{JSON}\r\ncontent-length: 9999999\r\n\r\n"),
            "HTTP/1.1 413",
        ),
        (
            "a body that never ends",
            format!(
                "POST /acp HTTP/1.1\r\nhost: localhost\r\n{JSON}\r\ntransfer-encoding: chunked\r\n\r\nfff\r\n{}",
                "x".repeat(0xfff)
            ),
            "HTTP/1.1 413",
        ),
        (
            "a body that does not come",
            format!("POST /acp HTTP/1.1\r\nhost: localhost\r\n{JSON}\r\ncontent-length: 10\r\n\r\n{{"),
            "HTTP/1.1 408",
        ),
        ("a head that does not come", "POST /acp HTTP/1.1\r\nhost: local".to_owned(), ""),
        ("half a head of HTTP/2", "PRI * HT".to_owned(), ""),
        ("nothing", String::new(), ""),
        ("no host", "GET /acp HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 403"),
        ("two hosts", "GET /acp HTTP/1.1\r\nhost: localhost\r\nhost: evil\r\n\r\n".to_owned(), "HTTP/1.1 403"),
        (
            "not UTF-8",
            format!("POST /acp HTTP/1.1\r\nhost: localhost\r\n{JSON}\r\ncontent-length: 2\r\n\r\n\"\u{e9}"),
            "HTTP/1.1 400",
        ),
        ("noise", "\u{1}\u{2}\u{3}\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n".to_owned(), "HTTP/1.1 400"),
    ];
    for (what, bytes, expect) in rows {
        let mut socket = TcpStream::connect(running.address).await.unwrap();
        socket.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = vec![0; 12];
        // Either an answer or the end; never a socket that stays.
        let read = timeout(SOON, socket.read_exact(&mut answer)).await.unwrap_or_else(|_| panic!("{what}"));
        let answer = if read.is_ok() { String::from_utf8_lossy(&answer).into_owned() } else { String::new() };
        // A head that does not come in time may have an answer that says so.
        assert!(answer == expect || expect.is_empty() && answer == "HTTP/1.1 408", "{what}: {answer:?}");
    }
    let second = Client::new(&running).await;
    let answer = ask(&client.url, "POST", &[JSON], HELLO).await;
    assert_eq!((answer.status().as_u16(), header(&answer, "retry-after").as_str()), (503, "1"), "too many clients");
    assert_eq!(ask(&second.url, "DELETE", &[&second.connection], "").await.status(), 202);
    // Its place is free when its agent has seen the end.
    while ask(&client.url, "POST", &[JSON], HELLO).await.status() != 200 {
        tokio::task::yield_now().await;
    }
}

/// Rule 37: the server stops although streams are open.
#[tokio::test]
async fn a_server_stops() {
    let running = start(Rules::default(), Open, serve).await;
    let client = Client::new(&running).await;
    let mut stream = client.stream(&[]).await;
    assert_eq!(stream.next().await.unwrap()["method"], "_early");
    timeout(SOON, running.server.stop(SOON / 2)).await.unwrap();
    assert_eq!(stream.next().await, None);
}

/// The agent ends: so does its client's connection.
#[tokio::test]
async fn an_agent_that_goes_ends_the_connection() {
    let running = start(Rules::default(), Open, serve).await;
    let client = Client::new(&running).await;
    let mut stream = client.stream(&[]).await;
    assert_eq!(stream.next().await.unwrap()["method"], "_early");
    assert_eq!(client.post(&[], &json!({"jsonrpc": "2.0", "method": "_crash"})).await, 202);
    assert_eq!(stream.next().await, None);
    while client.post(&[], &json!({"jsonrpc": "2.0", "method": "_x"})).await != 404 {
        tokio::task::yield_now().await;
    }
}
