//! What goes wrong goes wrong as the script says, in each format.

#![allow(clippy::unwrap_used)]

mod common;

use common::{FORMATS, HEADERS, ask, said};
use serde_json::json;
use std::time::Duration;
use tieline_model_server::{Answer, Call, Fault, Format, Late, ModelServer, Script};

const TEXT: &str = "grüß dich, 世界, 🦀: a text of some pieces";

async fn start(fault: Fault) -> ModelServer {
    ModelServer::start(Script::in_order(vec![Answer::text(TEXT).fault(fault)])).await.unwrap()
}

#[tokio::test]
async fn odd_splits_change_nothing_but_the_pieces() {
    for format in FORMATS {
        let server = start(Fault::Split).await;
        let heard = ask(&server, format, true, "x", &[]).await;
        assert!(heard.whole);
        assert_eq!(said(format, &heard.events()), TEXT);
        assert!(heard.chunks.iter().all(|chunk| chunk.len() <= 13), "{format:?}");
        assert!(
            heard.chunks.iter().any(|chunk| std::str::from_utf8(chunk).is_err()),
            "{format:?}: no split in a character"
        );
    }
}

#[tokio::test]
async fn a_cut_closes_the_connection_in_a_line() {
    for format in FORMATS {
        for stream in [true, false] {
            let server = start(Fault::Cut { after: 2 }).await;
            let heard = ask(&server, format, stream, "x", &[]).await;
            assert_eq!((heard.status, heard.whole), (200, false), "{format:?}");
            assert!(!heard.bytes().is_empty());
            if stream {
                assert_eq!(said(format, &heard.events()), "grüß dich, 世界, 🦀: a text");
                assert!(!heard.text().ends_with('\n'), "{format:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_can_stop_without_its_end() {
    for format in FORMATS {
        let server = start(Fault::Unfinished).await;
        let heard = ask(&server, format, true, "x", &[]).await;
        assert!(heard.whole);
        assert_eq!(said(format, &heard.events()), TEXT);
        for end in ["finish_reason\":\"stop", "message_stop", "response.completed", "finishReason"] {
            assert!(!heard.text().contains(end), "{format:?}");
        }
    }
}

#[tokio::test]
async fn silence_lasts_as_long_as_the_script_says() {
    let pause = Duration::from_millis(300);
    for format in FORMATS {
        for fault in [Fault::Stall { after: 1, time: Some(pause) }, Fault::Slow(pause)] {
            let server = start(fault).await;
            let begin = std::time::Instant::now();
            let heard = ask(&server, format, true, "x", &[]).await;
            assert!(begin.elapsed() >= pause);
            assert_eq!(said(format, &heard.events()), TEXT);
        }
    }
}

#[tokio::test]
async fn a_stall_gives_some_and_then_nothing() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = start(Fault::Stall { after: 1, time: None }).await;
    let mut stream = tokio::net::TcpStream::connect(server.url().trim_start_matches("http://")).await.unwrap();
    let body = common::question(Format::Chat, true, "x", &[]).to_string();
    let head =
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{HEADERS}content-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let mut wait = Duration::from_secs(10);
    while let Ok(read) = tokio::time::timeout(wait, stream.read_buf(&mut bytes)).await {
        assert!(read.unwrap() > 0, "the connection stays open");
        if String::from_utf8_lossy(&bytes).contains("grüß dich") {
            wait = Duration::from_millis(200);
        }
    }
    assert!(!String::from_utf8_lossy(&bytes).contains("a text"));
}

/// Status, where the kind of error stands in the body, and what it says; for each format.
type Row = [(u16, &'static str, &'static str); 4];

#[tokio::test]
async fn errors_have_the_vendors_shape() {
    let rows: [(Fault, Row); 5] = [
        (
            Fault::Status { code: 429, retry_after: Some(7) },
            [
                (429, "/error/code", "rate_limit_exceeded"),
                (429, "/error/code", "rate_limit_exceeded"),
                (429, "/error/type", "rate_limit_error"),
                (429, "/error/status", "RESOURCE_EXHAUSTED"),
            ],
        ),
        (
            Fault::Status { code: 401, retry_after: None },
            [
                (401, "/error/code", "invalid_api_key"),
                (401, "/error/code", "invalid_api_key"),
                (401, "/error/type", "authentication_error"),
                (400, "/error/details/0/reason", "API_KEY_INVALID"),
            ],
        ),
        (
            Fault::Status { code: 404, retry_after: None },
            [
                (404, "/error/code", "model_not_found"),
                (404, "/error/code", "model_not_found"),
                (404, "/error/type", "not_found_error"),
                (404, "/error/status", "NOT_FOUND"),
            ],
        ),
        (
            Fault::Status { code: 529, retry_after: None },
            [
                (529, "/error/type", "server_error"),
                (529, "/error/type", "server_error"),
                (529, "/error/type", "overloaded_error"),
                (529, "/error/status", "UNAVAILABLE"),
            ],
        ),
        (
            Fault::Overflow,
            [
                (400, "/error/code", "context_length_exceeded"),
                (400, "/error/code", "context_length_exceeded"),
                (400, "/error/type", "invalid_request_error"),
                (400, "/error/status", "INVALID_ARGUMENT"),
            ],
        ),
    ];
    for (fault, expected) in rows {
        for (format, (status, pointer, kind)) in FORMATS.into_iter().zip(expected) {
            let server = start(fault.clone()).await;
            let heard = ask(&server, format, false, "x", &[]).await;
            assert_eq!(heard.status, status, "{format:?} {fault:?}");
            assert_eq!(heard.json().pointer(pointer), Some(&json!(kind)), "{format:?} {}", heard.text());
            if matches!(fault, Fault::Status { code: 429, .. }) {
                assert_eq!(heard.header("retry-after"), Some("7"));
            }
        }
    }
}

#[tokio::test]
async fn a_stream_can_carry_an_error() {
    for (format, part) in
        FORMATS.into_iter().zip(["server_error", "response.failed", "overloaded_error", "UNAVAILABLE"])
    {
        let server = start(Fault::StreamError { after: 1, code: 529 }).await;
        let heard = ask(&server, format, true, "x", &[]).await;
        assert!(heard.whole && heard.status == 200);
        assert_eq!(said(format, &heard.events()), "grüß dich, 世");
        assert!(heard.text().contains(part), "{}", heard.text());
    }
    let server = start(Fault::Overflow).await;
    let heard = ask(&server, Format::Responses, true, "x", &[]).await;
    assert_eq!(heard.events()[0].pointer("/response/error/code"), Some(&json!("context_length_exceeded")));
}

#[tokio::test]
async fn a_broken_event_and_comments_are_only_added() {
    for format in FORMATS {
        let server = start(Fault::Malformed { after: 1 }).await;
        let heard = ask(&server, format, true, "x", &[]).await;
        assert!(heard.text().contains("data: {\"broken\": [1, 2"));
        assert_eq!(said(format, &heard.events()), TEXT);

        let server = start(Fault::KeepAlive).await;
        let heard = ask(&server, format, true, "x", &[]).await;
        assert!(heard.text().contains(": keep-alive\n\n"));
        assert_eq!(heard.text().contains("\"ping\""), format == Format::Messages);
        assert_eq!(said(format, &heard.events()), TEXT);
    }
}

#[tokio::test]
async fn faults_of_the_first_attempts_pass() {
    let answers = || {
        let busy = Fault::Status { code: 429, retry_after: Some(0) };
        vec![Answer::text(TEXT).fault_first(1, busy).fault_first(2, Fault::Status { code: 500, retry_after: None })]
    };
    for format in FORMATS {
        for script in [Script::new(answers()), Script::in_order(answers())] {
            let server = ModelServer::start(script).await.unwrap();
            let mut statuses = Vec::new();
            for _ in 0..3 {
                statuses.push(ask(&server, format, true, "x", &["read"]).await.status);
            }
            assert_eq!(statuses, [429, 500, 200], "{format:?}");
            assert_eq!(server.requests().len(), 3);
        }
    }
}

#[tokio::test]
async fn arguments_can_be_huge() {
    const SIZE: usize = 3 << 20;
    for format in FORMATS {
        let call = Call::named("read", json!({ "path": "0123456789" })).huge(SIZE);
        let server = ModelServer::start(Script::new(vec![Answer::call(call).chunk(4096)])).await.unwrap();
        let heard = ask(&server, format, true, "x", &["read"]).await;
        assert!(heard.whole && heard.bytes().len() > SIZE, "{format:?}");
    }
}

#[tokio::test]
async fn behind_its_end_an_answer_is_whole() {
    for format in FORMATS {
        for late in [Late::Cut, Late::Error, Late::Malformed] {
            let server = start(Fault::Late(late)).await;
            let heard = ask(&server, format, true, "x", &[]).await;
            assert_eq!(heard.whole, late != Late::Cut, "{format:?}");
            let text = heard.text();
            let ends = ["finish_reason\":\"stop", "\"stop_reason\":\"end_turn", "response.completed", "finishReason"];
            let end = ends.iter().find_map(|end| text.find(end)).unwrap_or_else(|| panic!("{format:?}: {text}"));
            let mark = match late {
                Late::Cut => "{\"cut",
                Late::Error => "error\":{",
                _ => "{\"broken\"",
            };
            assert!(text.rfind(mark).is_some_and(|at| at > end), "{format:?}, {late:?}: {text}");
            assert!(!text.contains("[DONE]") && !text.contains("message_stop"), "{format:?}, {late:?}: {text}");
        }
    }
}

#[tokio::test]
async fn an_overflow_can_come_later_and_figures_can_be_anything() {
    for format in FORMATS {
        let server = start(Fault::OverflowLater { after: 1 }).await;
        let heard = ask(&server, format, true, "x", &[]).await;
        assert_eq!(heard.status, 200);
        let text = heard.text();
        assert!(text.contains("grüß") && (text.contains("exceed") || text.contains("too long")), "{format:?}: {text}");
        let server = start(Fault::Figures(json!("many"))).await;
        let text = ask(&server, format, true, "x", &[]).await.text();
        let figures = text.matches("_tokens\":\"many").count() + text.matches("TokenCount\":\"many").count();
        // A chat tells figures only if it is asked for them.
        assert_eq!(figures > 0, format != Format::Chat, "{format:?}: {text}");
    }
}
