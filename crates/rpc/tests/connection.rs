//! A whole connection: answers, order, cancellation, bad input, limits, the end of the peer.

#![allow(clippy::unwrap_used)]

mod common;

use common::{start, start_with};
use std::io::Write as _;
use std::time::Duration;

use tieline_rpc::framing::Framing;
use tieline_rpc::{CallError, IdRule, Limits};

const INVALID: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}"#;
const PARSE: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;

fn empty(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{}");
}

#[tokio::test]
async fn v1_rpc_02_each_request_gets_one_answer() {
    let mut wire = start();
    for (input, expect) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":[1, 2]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"a":[1, 2]}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":2,"method":"fail"}"#,
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":7,"message":"as told"}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"drop"}"#,
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"Internal error"}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"strict","params":{"n":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"Invalid params","data":{"reason":"expected a number"}}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"echo"}"#,
            r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"result":{}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":5,"method":"echo","params":[1]}"#,
            r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"Invalid params","data":{"reason":"parameters by position are not used here"}}}"#,
        ),
    ] {
        assert_eq!(wire.answers(input).await, [expect]);
    }
}

#[tokio::test]
async fn a_handler_that_panics_still_answers() {
    let mut wire = start();
    wire.line(r#"{"jsonrpc":"2.0","id":1,"method":"panic"}"#).await;
    assert_eq!(wire.get().await, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}"#);
    assert!(wire.probe().await.is_empty());
}

#[tokio::test]
async fn v1_rpc_03_tr_env_02_notifications_are_never_answered() {
    let mut wire = start();
    for input in [
        r#"{"jsonrpc":"2.0","method":"note","params":{"n":1}}"#,
        r#"{"jsonrpc":"2.0","method":"nobody"}"#,
        r#"{"jsonrpc":"2.0","method":"strict","params":{"n":"x"}}"#,
        r#"{"jsonrpc":"2.0","method":"note","params":[1]}"#,
        r#"{"jsonrpc":"2.0","method":"$/unknown"}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request"}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":42}}"#,
    ] {
        assert!(wire.answers(input).await.is_empty(), "{input}");
    }
}

#[tokio::test]
async fn tr_env_03_responses_are_never_answered() {
    let mut wire = start();
    for input in [
        r#"{"jsonrpc":"2.0","id":77,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601}}"#,
        r#"{"id":{},"result":1}"#,
        r#"{"id":1,"result":1,"error":1}"#,
    ] {
        assert!(wire.answers(input).await.is_empty(), "{input}");
    }
}

#[tokio::test]
async fn tr_stdio_11_bad_lines_are_answered_and_the_connection_lives() {
    let mut wire = start();
    wire.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n").await;
    assert_eq!(wire.get().await, PARSE);
    for input in ["rubbish", "{", "{}}", "\u{1}", "{\"a\":\u{7f}}"] {
        assert_eq!(wire.answers(input).await, [PARSE], "{input:?}");
    }
    let deep = "[".repeat(200) + &"]".repeat(200);
    let answers = wire.answers(&format!(r#"{{"jsonrpc":"2.0","id":8,"method":"echo","params":{{"a":{deep}}}}}"#)).await;
    assert_eq!(
        answers,
        [
            r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32600,"message":"Invalid Request","data":{"reason":"nested_too_deeply"}}}"#
        ]
    );
}

#[tokio::test]
async fn tr_stdio_12_a_last_line_without_its_end() {
    let mut wire = start();
    wire.send(r#"{"jsonrpc":"2.0","id":1,"method":"echo"}"#).await;
    assert_eq!(wire.finish().await, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    let mut wire = start();
    wire.send(r#"{"jsonrpc":"2.0","id":1,"meth"#).await;
    assert_eq!(wire.finish().await, "");
}

#[tokio::test]
async fn tr_stdio_13_over_long_messages() {
    let mut wire = start_with(IdRule::Liberal, Limits::default(), |t| t.limit(200));
    let too_large = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"message":"Invalid Request","data":{{"reason":"message_too_large"}}}}}}"#
        )
    };
    let long = "x".repeat(10_000);
    let input = format!(r#"{{"jsonrpc":"2.0","id":"big","method":"echo","params":"{long}"}}"#);
    assert_eq!(wire.answers(&input).await, [too_large("\"big\"")]);
    assert_eq!(wire.answers(&format!(r#"{{"params":"{long}","id":1}}"#)).await, [too_large("null")]);
    // An over-long response fails the call it names.
    let call = wire.service.peer.call("question", empty, common::keep).await;
    wire.get().await;
    wire.line(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{long}"}}"#)).await;
    assert!(matches!(call.await, Err(CallError::Unreadable(_))));
    assert!(wire.probe().await.is_empty());
}

#[tokio::test]
async fn handlers_may_await_the_peer_and_id_spaces_are_separate() {
    let mut wire = start();
    // V1-RPC-05: both sides use id 1 at the same time.
    wire.line(r#"{"jsonrpc":"2.0","id":1,"method":"ask"}"#).await;
    assert_eq!(wire.get().await, r#"{"jsonrpc":"2.0","id":1,"method":"question","params":{}}"#);
    assert!(wire.probe().await.is_empty(), "V1-RPC-06: other requests go on");
    wire.line(r#"{"jsonrpc":"2.0","id":1,"result":{"ok":true}}"#).await;
    assert_eq!(wire.get().await, r#"{"jsonrpc":"2.0","id":1,"result":{"ok":true}}"#);
}

#[tokio::test]
async fn v1_cancel_11_a_withdrawn_request_is_answered_once() {
    let mut wire = start();
    wire.line(r#"{"jsonrpc":"2.0","id":"s","method":"slow"}"#).await;
    assert!(wire.probe().await.is_empty());
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"s"}}"#;
    wire.line(cancel).await;
    assert_eq!(wire.get().await, r#"{"jsonrpc":"2.0","id":"s","error":{"code":-32800,"message":"Request cancelled"}}"#);
    assert!(wire.answers(cancel).await.is_empty());
}

#[tokio::test]
async fn dropping_a_pending_call_withdraws_it() {
    let mut wire = start();
    let call = wire.service.peer.call("question", empty, common::keep).await;
    assert_eq!(wire.get().await, r#"{"jsonrpc":"2.0","id":1,"method":"question","params":{}}"#);
    drop(call);
    assert_eq!(wire.get().await, r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
    assert!(wire.answers(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await.is_empty(), "a late answer is ignored");
    let call = wire.service.peer.call("question", empty, common::keep).await;
    wire.get().await;
    wire.line(r#"{"jsonrpc":"2.0","id":2,"result":5}"#).await;
    assert_eq!(call.await.unwrap().get(), "5");
    assert!(wire.probe().await.is_empty(), "an answered call is not withdrawn");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_withdraws_the_call() {
    let mut wire = start();
    let call = wire.service.peer.call("question", empty, common::keep).await;
    assert_eq!(call.within(Duration::from_secs(3)).await, Err(CallError::TimedOut));
    wire.get().await;
    assert!(wire.get().await.contains("$/cancel_request"));
}

#[tokio::test]
async fn errors_of_the_peer_reach_the_caller_even_if_odd() {
    let mut wire = start();
    for (error, code, message) in [
        (r#"{"code":-32000,"message":"Authentication required","data":{"x":1}}"#, -32000, "Authentication required"),
        (r#"{"message":"no code"}"#, -32603, "no code"),
        (r#"{"code":"400","message":5}"#, -32603, ""),
        (r#""text""#, -32603, "The peer sent an error that is not readable"),
    ] {
        let call = wire.service.peer.call("question", empty, common::keep).await;
        let id = call.id().unwrap();
        wire.get().await;
        wire.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)).await;
        let Err(CallError::Answered(error)) = call.await else { panic!("an error was expected") };
        assert_eq!((error.code, &*error.message), (code, message));
    }
}

#[tokio::test]
async fn an_answer_that_can_not_be_read_fails_its_call_and_is_not_answered() {
    let mut wire = start();
    let deep = "[".repeat(200) + &"]".repeat(200);
    for answer in [format!(r#""result":{deep}"#), format!(r#""error":{{"code":1,"message":"","data":{deep}}}"#)] {
        let call = wire.service.peer.call("question", empty, common::keep).await;
        let id = call.id().unwrap();
        wire.get().await;
        wire.line(&format!(r#"{{"jsonrpc":"2.0",{answer},"id":{id}}}"#)).await;
        assert!(matches!(call.await, Err(CallError::Unreadable(_))));
    }
    // One that nobody waits for, and a notification: nothing comes back before the answer to the next request.
    let odd =
        [format!(r#"{{"id":77,"result":{deep}}}"#), format!(r#"{{"jsonrpc":"2.0","method":"echo","params":{deep}}}"#)];
    for line in odd {
        wire.line(&line).await;
    }
    assert_eq!(
        wire.answers(r#"{"jsonrpc":"2.0","id":1,"method":"echo"}"#).await,
        [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]
    );
}

#[tokio::test]
async fn half_a_surrogate_pair_is_read() {
    let mut wire = start();
    let call = wire.service.peer.call("question", empty, common::keep).await;
    let id = call.id().unwrap();
    wire.get().await;
    wire.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"\ud83d"}}"#)).await;
    assert_eq!(call.await.unwrap().parse::<String>().unwrap(), "\u{fffd}");
}

/// Counts how often something is looked at.
struct Counted<F>(std::pin::Pin<Box<F>>, std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<F::Output> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.0.as_mut().poll(context)
    }
}

#[tokio::test]
async fn senders_that_wait_are_woken_when_there_is_room_for_them() {
    const SENDERS: usize = 5000;
    let mut wire = start();
    let polls = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..SENDERS {
        let peer = wire.service.peer.clone();
        let send = async move { peer.notify("note", |out| write!(out, "\"{}\"", "x".repeat(1000)).unwrap()).await };
        senders.spawn(Counted(Box::pin(send), std::sync::Arc::clone(&polls)));
    }
    for _ in 0..SENDERS {
        wire.get().await;
    }
    while let Some(sent) = senders.join_next().await {
        sent.unwrap().unwrap();
    }
    let polls = polls.load(std::sync::atomic::Ordering::Relaxed);
    assert!(polls < 4 * SENDERS, "{polls} looks for {SENDERS} messages");
}

#[tokio::test]
async fn tr_end_07_pending_calls_fail_when_the_peer_goes() {
    let mut wire = start();
    let peer = wire.service.peer.clone();
    let before = peer.call("question", empty, common::keep).await;
    wire.get().await;
    wire.finish().await;
    assert_eq!(before.await, Err(CallError::Closed));
    assert_eq!(peer.call("question", empty, common::keep).await.await, Err(CallError::Closed));
    assert!(peer.is_closed() && peer.notify("note", empty).await.is_err());
}

#[tokio::test]
async fn tr_end_04_requests_already_read_are_answered_after_the_end_of_input() {
    let mut wire = start();
    let mut expect = Vec::new();
    for id in 0..50 {
        wire.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo"}}"#)).await;
        expect.push(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n"));
    }
    assert_eq!(wire.finish().await, expect.concat());
}

#[tokio::test]
async fn too_many_open_requests() {
    let mut wire = start_with(IdRule::Liberal, Limits { open_requests: 2, ..Limits::default() }, |t| t);
    for id in [1, 2, 3] {
        wire.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"slow"}}"#)).await;
    }
    assert_eq!(
        wire.get().await,
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32001,"message":"Too many open requests","data":{"reason":"overloaded","retryAfter":1}}}"#
    );
}

#[tokio::test]
async fn tr_cl_02_03_08_11_headers_are_answered_in_kind() {
    let mut wire = start_with(IdRule::Liberal, Limits::default(), tieline_rpc::Transport::detect_framing);
    let frame = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
    wire.send(frame("{\n\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":{\"a\":\n\"é😀\"}\n}")).await;
    wire.send(frame("[]") + "\r\n" + &frame("nonsense")).await;
    wire.send(frame(r#"[{"jsonrpc":"2.0","id":2,"method":"echo"}]"#)).await;
    let rest = wire.finish().await;
    let mut decoder = tieline_rpc::framing::Decoder::new(Some(Framing::Headers), 10_000);
    decoder.space().extend_from_slice(rest.as_bytes());
    let mut bodies = Vec::new();
    while let tieline_rpc::framing::Step::Frame(at) = decoder.step() {
        bodies.push(String::from_utf8(decoder.bytes()[at].to_vec()).unwrap());
    }
    bodies.sort();
    let mut expect = vec![
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\n\"é😀\"}}".to_owned(),
        INVALID.to_owned(),
        PARSE.to_owned(),
        r#"[{"jsonrpc":"2.0","id":2,"result":{}}]"#.to_owned(),
    ];
    expect.sort();
    assert_eq!(bodies, expect);
}

#[tokio::test]
async fn tr_cl_09_a_broken_header_is_answered_and_ends_the_connection() {
    let mut wire = start_with(IdRule::Liberal, Limits::default(), tieline_rpc::Transport::detect_framing);
    wire.send("Content-Length: nine\r\n\r\n").await;
    let rest = wire.finish().await;
    assert!(rest.contains("\"code\":-32700") && rest.contains("\"id\":null"), "{rest}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tr_stdio_14_15_messages_never_mix_and_keep_their_order() {
    let mut wire = start();
    let mut tasks = Vec::new();
    for task in 0..20 {
        let peer = wire.service.peer.clone();
        tasks.push(tokio::spawn(async move {
            for n in 0..50 {
                let params = format!("{{\"task\":{task},\"n\":{n}}}");
                peer.notify("note", |out| out.extend_from_slice(params.as_bytes())).await.unwrap();
            }
        }));
    }
    let mut next = [0u64; 20];
    for _ in 0..1000 {
        let line: serde_json::Value = serde_json::from_str(&wire.get().await).unwrap();
        let task = usize::try_from(line["params"]["task"].as_u64().unwrap()).unwrap();
        assert_eq!(line["params"]["n"].as_u64(), Some(next[task]));
        next[task] += 1;
    }
}

#[tokio::test]
async fn tr_stdio_16_a_peer_that_does_not_read_holds_up_the_sender() {
    let wire = start();
    let peer = wire.service.peer.clone();
    let text = format!("\"{}\"", "x".repeat(1000));
    let mut sent = 0usize;
    // Nobody reads: sending must stop after a bounded amount (pipe, burst, buffer), not fail and not grow.
    while tokio::time::timeout(
        Duration::from_millis(200),
        peer.notify("note", |out| out.extend_from_slice(text.as_bytes())),
    )
    .await
    .is_ok()
    {
        sent += 1;
        assert!(sent < 2000, "memory would grow without bound");
    }
    assert!(sent > 10);
}

#[tokio::test]
async fn a_flood_of_rubbish_that_is_never_read_stops_the_reader() {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (peer, connection) = tieline_rpc::Connection::open(tieline_rpc::Transport::stream(near), Limits::default());
    let service = std::sync::Arc::new(common::Echo {
        peer,
        rule: IdRule::Liberal,
        log: std::sync::Mutex::default(),
        gate: tokio::sync::Notify::new(),
    });
    tokio::spawn(connection.run(service));
    let (_read, mut write) = tokio::io::split(far);
    let burst = "!\n".repeat(10_000);
    let mut sent = 0;
    while tokio::time::timeout(
        Duration::from_millis(300),
        tokio::io::AsyncWriteExt::write_all(&mut write, burst.as_bytes()),
    )
    .await
    .is_ok()
    {
        sent += burst.len();
        // Each two bytes make an answer of 75: the answers must stay far below 32 MiB.
        assert!(sent < 2 << 20, "the reader goes on answering although nobody reads");
    }
}

#[tokio::test]
async fn our_own_batches_go_out_as_one_array() {
    let mut wire = start();
    let mut batch = wire.service.peer.batch();
    let one = batch.call("a", empty, common::keep);
    batch.notify("b", empty);
    batch.send().await.unwrap();
    assert_eq!(
        wire.get().await,
        r#"[{"jsonrpc":"2.0","id":1,"method":"a","params":{}},{"jsonrpc":"2.0","method":"b","params":{}}]"#
    );
    wire.line(r#"[{"jsonrpc":"2.0","id":1,"result":1}]"#).await;
    assert_eq!(one.await.unwrap().get(), "1");
    wire.service.peer.batch().send().await.unwrap();
    assert!(wire.probe().await.is_empty(), "TR-BAT-10: an empty array is never sent");
}
