//! The rules of a `WebSocket`, as far as a server can be asked about them. Numbers name the rules.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Open, Running, TOKEN, start, tokens};
use futures_util::{SinkExt as _, StreamExt as _};
use std::time::Duration;
use tieline_http::server::{Arrival, Kind, Limits, Rules};
use tieline_rpc::Event;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

const SOON: Duration = Duration::from_secs(20);
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;

/// Gives every message back, as the answer to itself if it has an id.
fn echo(arrival: Arrival) {
    assert_eq!(arrival.kind(), Kind::Socket);
    tokio::spawn(async move {
        let (mut reader, writer) = arrival.transport.open();
        while let Event::Frame(at) = reader.next().await {
            let text = String::from_utf8(reader.bytes(at).to_vec()).unwrap();
            let text = text.replace("\"method\"", "\"result\"");
            writer.send(|out| out.extend(text.bytes())).await.unwrap();
        }
        writer.close().await;
    });
}

type Socket = WebSocketStream<TcpStream>;

async fn open(running: &Running, headers: &[(&'static str, &str)]) -> Result<(Socket, Vec<(String, String)>), u16> {
    let mut request = running.url("ws").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(running.address).await.unwrap();
    match timeout(SOON, client_async(request, stream)).await.unwrap() {
        Ok((socket, answer)) => {
            let headers = answer.headers().iter();
            Ok((socket, headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()))
        }
        Err(Error::Http(answer)) => Err(answer.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

/// A rule, the headers, and the subprotocol or the status.
type Row<'a> = (&'a str, &'a [(&'static str, &'a str)], Result<&'a str, u16>);

async fn next(socket: &mut Socket) -> Message {
    timeout(SOON, socket.next()).await.expect("a frame in time").expect("not the end").unwrap()
}

async fn say(socket: &mut Socket, text: &str) -> String {
    socket.send(Message::text(text)).await.unwrap();
    next(socket).await.into_text().unwrap().to_string()
}

fn closed(message: Message) -> u16 {
    let Message::Close(Some(CloseFrame { code, .. })) = message else { panic!("{message:?}") };
    code.into()
}

#[tokio::test]
async fn the_handshake() {
    let running = start(Rules::default(), tokens(), echo).await;
    let bearer = format!("Bearer {TOKEN}");
    let (auth, ours) = (("authorization", &*bearer), ("sec-websocket-protocol", "acp.v1"));
    let rows: &[Row<'_>] = &[
        ("52", &[auth], Ok("")),
        ("53 ours", &[auth, ours], Ok("acp.v1")),
        ("53 ours among others", &[auth, ("sec-websocket-protocol", "x, acp.v1, y")], Ok("acp.v1")),
        ("48 the token beside it", &[("sec-websocket-protocol", "acp.v1, bearer.s3cret")], Ok("acp.v1")),
        ("48 a wrong token", &[("sec-websocket-protocol", "acp.v1, bearer.x")], Err(401)),
        ("48 none", &[ours], Err(401)),
        ("44 a page of another origin", &[auth, ("origin", "http://127.0.0.1:1")], Err(403)),
        ("46 another name", &[auth, ("host", "evil.example")], Err(403)),
        ("another version", &[auth, ("sec-websocket-version", "8")], Err(426)),
        ("no key", &[auth, ("sec-websocket-key", "x")], Err(400)),
    ];
    for (rule, headers, expect) in rows {
        match (open(&running, headers).await, expect) {
            (Ok((_, answer)), Ok(protocol)) => {
                let value = |name| answer.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value);
                assert_eq!(value("sec-websocket-protocol"), *protocol, "rule {rule}");
                assert_eq!(value("sec-websocket-extensions"), "", "rule 60: {rule}");
                assert_eq!(value("acp-connection-id").len(), 32, "rule 52: {rule}");
            }
            (Err(status), Err(expected)) => assert_eq!(status, *expected, "rule {rule}"),
            (found, _) => panic!("rule {rule}: {:?}", found.map(|_| ())),
        }
    }
    // One that offers others only gets none; what then becomes of the connection is its own decision.
    let mut request = running.url("ws").into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "other".parse().unwrap());
    request.headers_mut().insert("authorization", bearer.parse().unwrap());
    let stream = TcpStream::connect(running.address).await.unwrap();
    let refused = client_async(request, stream).await.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("no subprotocol"), "rule 53: {refused}");
}

#[tokio::test]
async fn frames_are_messages() {
    let mut limits = Limits::default();
    limits.message_bytes = 1000;
    let running = start(Rules { limits, ..Rules::default() }, Open, echo).await;
    let (mut socket, _) = open(&running, &[]).await.unwrap();
    for (rule, text, code) in [
        ("55 a request", r#"{"jsonrpc":"2.0","id":7,"method":"session/new"}"#, r#""id":7,"error":{"code":-32600"#),
        ("56 no JSON", "{", r#""id":null,"error":{"code":-32700"#),
        ("56 a scalar", "5", r#""id":null,"error":{"code":-32700"#),
    ] {
        let answer = say(&mut socket, text).await;
        assert!(answer.contains(code), "rule {rule}: {answer}");
    }
    // A notification is passed over in silence, binary frames are nothing.
    socket.send(Message::text(r#"{"jsonrpc":"2.0","method":"$/ping"}"#)).await.unwrap();
    socket.send(Message::binary(HELLO.as_bytes().to_vec())).await.unwrap();
    assert!(say(&mut socket, HELLO).await.contains("\"result\":\"initialize\""), "rules 54 and 55");
    assert!(say(&mut socket, HELLO).await.contains("-32600"), "rule 57");
    assert!(say(&mut socket, "{").await.contains("-32700"), "rule 56");
    // In pieces.
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#;
    let (one, two) = text.split_at(9);
    let piece = |part: &str, data, last| Message::Frame(Frame::message(part.to_owned(), OpCode::Data(data), last));
    socket.send(piece(one, Data::Text, false)).await.unwrap();
    socket.send(piece(two, Data::Continue, true)).await.unwrap();
    assert!(next(&mut socket).await.into_text().unwrap().contains("\"result\":\"x\""), "rule 54");
    socket.send(Message::text("x".repeat(1001))).await.unwrap();
    assert_eq!(closed(next(&mut socket).await), 1009, "rule 54");
}

#[tokio::test]
async fn who_never_says_hello_is_sent_away() {
    let running = start(Rules::default(), Open, echo).await;
    let (mut socket, _) = open(&running, &[]).await.unwrap();
    for id in 0..4 {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/new"}}"#);
        socket.send(Message::text(text)).await.unwrap();
    }
    for _ in 0..3 {
        assert!(next(&mut socket).await.is_text());
    }
    assert_eq!(closed(next(&mut socket).await), 1002, "rule 55");
}

#[tokio::test]
async fn a_server_that_stops_says_so() {
    let running = start(Rules::default(), Open, echo).await;
    let (mut socket, _) = open(&running, &[]).await.unwrap();
    assert!(say(&mut socket, HELLO).await.contains("initialize"));
    let server = running.server.clone();
    let stopping = tokio::spawn(async move { server.stop(SOON).await });
    assert_eq!(closed(next(&mut socket).await), 1001, "rule 37");
    drop(socket);
    timeout(SOON, stopping).await.expect("rule 37: it ends").unwrap();
}

/// Rule 58, seen by a client's own clock: who says nothing is asked, and given up in the end.
#[tokio::test(start_paused = true)]
async fn silence_is_tested() {
    let running = start(Rules::default(), Open, echo).await;
    let (mut socket, _) = open(&running, &[]).await.unwrap();
    assert!(say(&mut socket, HELLO).await.contains("initialize"));
    for _ in 0..3 {
        assert!(matches!(socket.next().await.unwrap().unwrap(), Message::Ping(_)), "rule 58");
    }
}
