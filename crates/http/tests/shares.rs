//! No guest and no stranger takes what is there for all: sockets, connections, memory.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Running, TOKEN, start, tokens};
use std::time::Duration;
use tieline_http::server::{Arrival, Limits, Rules};
use tieline_rpc::Event;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);
const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;

/// Says hello, and then as many megabytes as it is asked for.
fn serve(arrival: Arrival) {
    tokio::spawn(async move {
        let (mut reader, writer) = arrival.transport.open();
        while let Event::Frame(at) | Event::Last(at) = reader.next().await {
            let message: serde_json::Value = serde_json::from_slice(reader.bytes(at)).unwrap();
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, message["id"]);
            if writer.send(|out| out.extend(answer.bytes())).await.is_err() {
                return;
            }
            for _ in 0..message["params"]["megabytes"].as_u64().unwrap_or(0) {
                let more = format!(r#"{{"jsonrpc":"2.0","method":"_more","params":"{}"}}"#, "x".repeat(1 << 20));
                if writer.send(|out| out.extend(more.bytes())).await.is_err() {
                    return;
                }
            }
        }
    });
}

/// The status, and the name of the connection, of one request.
async fn post(running: &Running, token: &str, headers: &str, body: &str) -> (String, String, TcpStream) {
    let mut socket = TcpStream::connect(running.address).await.unwrap();
    let head = format!(
        "POST /acp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {token}\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    while !answer.contains("\r\n\r\n") {
        let mut some = [0; 1024];
        let count = timeout(SOON, socket.read(&mut some)).await.unwrap().unwrap();
        assert_ne!(count, 0, "{answer}");
        answer += &String::from_utf8_lossy(&some[..count]);
    }
    let name = answer.lines().find_map(|line| line.strip_prefix("acp-connection-id: ")).unwrap_or_default();
    (answer[9..12].to_owned(), name.to_owned(), socket)
}

#[tokio::test]
async fn half_requests_of_strangers_keep_nobody_out() {
    let mut limits = Limits::default();
    (limits.sockets, limits.strangers, limits.guest_sockets) = (12, 4, 4);
    let running = start(Rules { limits, ..Rules::default() }, tokens().with("you", "other"), serve).await;
    let mut halves = Vec::new();
    for number in 0..40 {
        let mut half = TcpStream::connect(running.address).await.unwrap();
        // Half a head, nothing at all, or one whole request and then silence.
        let bytes = ["POST /acp HTTP/1.1\r\nhost: local", "", "GET /page HTTP/1.1\r\nhost: localhost\r\n\r\n"];
        half.write_all(bytes[number % 3].as_bytes()).await.unwrap();
        halves.push(half);
    }
    // Long before any of them has run out of time.
    let limit = limits.head_time / 3;
    let (status, ..) = timeout(limit, post(&running, TOKEN, "", HELLO)).await.unwrap();
    assert_eq!(status, "200");
    // Whoever has a token can have only so many sockets.
    let mut mine = Vec::new();
    for _ in 0..3 {
        mine.push(post(&running, TOKEN, "", "{").await);
    }
    let codes: Vec<&str> = mine.iter().map(|(status, ..)| &**status).collect();
    assert!(codes[..2].iter().all(|code| *code == "400"), "{codes:?}");
    let mut late = Vec::new();
    while !late.iter().any(|(status, ..): &(String, String, TcpStream)| status == "429") {
        late.push(post(&running, TOKEN, "", "{").await);
        assert!(late.len() < 10);
    }
    assert_eq!(timeout(limit, post(&running, "other", "", HELLO)).await.unwrap().0, "200");
}

#[tokio::test]
async fn each_guest_has_a_share_of_the_connections() {
    let mut limits = Limits::default();
    (limits.connections, limits.guest_connections) = (4, 2);
    let running = start(Rules { limits, ..Rules::default() }, tokens().with("you", "other"), serve).await;
    let mut codes = Vec::new();
    for token in [TOKEN, TOKEN, TOKEN, "other", "other", "other"] {
        codes.push(post(&running, token, "", HELLO).await.0);
    }
    assert_eq!(codes, ["200", "200", "429", "200", "200", "429"]);
}

#[tokio::test]
async fn those_who_read_nothing_share_a_budget_and_hold_up_nobody() {
    let mut limits = Limits::default();
    (limits.connections, limits.guest_connections) = (8, 8);
    (limits.waiting_bytes, limits.all_waiting_bytes) = (64 << 20, 16 << 20);
    let running = start(Rules { limits, ..Rules::default() }, tokens(), serve).await;
    let more = r#"{"jsonrpc":"2.0","id":2,"method":"_flood","params":{"megabytes":40}}"#;
    let mut last = String::new();
    for _ in 0..8 {
        let (status, name, _socket) = post(&running, TOKEN, "", HELLO).await;
        assert_eq!(status, "200");
        last = format!("acp-connection-id: {name}\r\n");
        assert_eq!(post(&running, TOKEN, &last, more).await.0, "202");
    }
    // The last one reads, and gets all of it.
    let mut socket = TcpStream::connect(running.address).await.unwrap();
    let head = format!(
        "GET /acp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nauthorization: Bearer {TOKEN}\r\n{last}\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut some) = (0, vec![0; 1 << 20]);
    while read < 40 << 20 {
        let count = timeout(SOON, socket.read(&mut some)).await.unwrap().unwrap();
        assert_ne!(count, 0, "after {read} bytes");
        read += count;
    }
    // What waits for the others is in this process: their share of the budget, and a message or two more.
    let waiting = running.server.waiting_bytes();
    assert!(waiting <= (16 << 20) + 8 * (3 << 20), "{waiting}");
}

/// A WebSocket by hand.
async fn socket(running: &Running, token: &str) -> TcpStream {
    let mut socket = TcpStream::connect(running.address).await.unwrap();
    let head = format!(
        "GET /acp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    while !answer.contains("\r\n\r\n") {
        let mut some = [0; 1024];
        let count = timeout(SOON, socket.read(&mut some)).await.unwrap().unwrap();
        answer += &String::from_utf8_lossy(&some[..count]);
    }
    assert!(answer.contains(" 101 "), "{answer}");
    socket
}

/// Sends the first part of a message that does not end, with a pong after every part. False if the other side has enough.
async fn pour(socket: &mut TcpStream, parts: usize) -> bool {
    for number in 0..parts {
        let length = 1_u64 << 18;
        let mut bytes = vec![u8::from(number == 0), 0x80 | 127];
        bytes.extend(length.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.resize(bytes.len() + length as usize, b' ');
        bytes.extend([0x8a, 0x80, 0, 0, 0, 0]);
        if timeout(SOON, socket.write_all(&bytes)).await.unwrap().is_err() {
            return false;
        }
    }
    true
}

/// Whether a socket was ended by the other side.
async fn is_over(socket: &mut TcpStream) -> bool {
    let read = async {
        let mut some = [0; 1024];
        while let Ok(count) = socket.read(&mut some).await {
            if count == 0 {
                break;
            }
        }
    };
    timeout(SOON, read).await.is_ok()
}

#[tokio::test]
async fn messages_that_never_end_have_a_share_of_the_memory() {
    let mut limits = Limits::default();
    (limits.guest_coming_bytes, limits.all_coming_bytes) = (8 << 20, 12 << 20);
    let running = start(Rules { limits, ..Rules::default() }, tokens().with("you", "other"), serve).await;
    let mut first = socket(&running, TOKEN).await;
    assert!(pour(&mut first, 24).await);
    let mut second = socket(&running, TOKEN).await;
    assert!(!pour(&mut second, 40).await || is_over(&mut second).await, "it may have all the memory");
    // What was given up is there again, also for others, and requests have the same share.
    let mut third = socket(&running, "other").await;
    assert!(pour(&mut third, 16).await);
    assert!(is_refused(&running).await);
    drop((first, third));
    let again = async {
        while is_refused(&running).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, again).await.unwrap();
}

/// Whether there is no room for a body of 4 MiB. None is sent: it is refused before, or waited for.
async fn is_refused(running: &Running) -> bool {
    let mut socket = TcpStream::connect(running.address).await.unwrap();
    let head = format!(
        "POST /acp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {}\r\n\r\n",
        4 << 20
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    match timeout(Duration::from_secs(1), socket.read_exact(&mut answer)).await {
        Ok(read) => {
            read.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 429");
            true
        }
        Err(_) => false,
    }
}

#[tokio::test]
async fn a_message_that_takes_too_long_ends_its_socket() {
    let mut limits = Limits::default();
    limits.body_time = Duration::from_millis(200);
    let running = start(Rules { limits, ..Rules::default() }, tokens(), serve).await;
    let mut slow = socket(&running, TOKEN).await;
    assert!(pour(&mut slow, 2).await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!pour(&mut slow, 1).await || is_over(&mut slow).await);
}
