//! Frames out of bytes: each rule of the two framings, and every way to split the bytes gives the same frames.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tieline_rpc::framing::{Decoder, Framing, Step};

#[derive(Debug, PartialEq, Clone)]
enum Seen {
    Frame(String),
    TooLong(usize),
    Broken,
    Rest(String),
}
use Seen::{Broken, Frame, Rest, TooLong};

fn frame(text: &str) -> Seen {
    Frame(text.to_owned())
}

fn read(decoder: &mut Decoder, pieces: &[&[u8]]) -> Vec<Seen> {
    let mut seen = Vec::new();
    for piece in pieces {
        decoder.space().extend_from_slice(piece);
        loop {
            match decoder.step() {
                Step::Need => break,
                Step::Frame(at) => seen.push(Frame(String::from_utf8_lossy(&decoder.bytes()[at]).into_owned())),
                Step::TooLong(at) => seen.push(TooLong(at.len())),
                Step::Broken(_) => {
                    seen.push(Broken);
                    return seen;
                }
            }
        }
    }
    if let Some(at) = decoder.rest() {
        seen.push(Rest(String::from_utf8_lossy(&decoder.bytes()[at]).into_owned()));
    }
    seen
}

fn check(input: &str, expect: &[Seen]) {
    check_with(None, 100, input, expect);
}

fn check_with(framing: Option<Framing>, limit: usize, input: &str, expect: &[Seen]) {
    let whole = read(&mut Decoder::new(framing, limit), &[input.as_bytes()]);
    assert_eq!(whole, expect, "{input:?}");
    let bytes: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
    let split = read(&mut Decoder::new(framing, limit), &bytes);
    // How much of an over-long frame is seen depends on how it comes in; everything else must not.
    let plain = |list: &[Seen]| {
        list.iter().map(|s| if let TooLong(_) = s { TooLong(0) } else { s.clone() }).collect::<Vec<_>>()
    };
    assert_eq!(plain(&split), plain(expect), "byte by byte: {input:?}");
}

#[test]
fn tr_stdio_03_10_lines() {
    check("{}\n", &[frame("{}")]);
    check("{}\r\n[]\n", &[frame("{}"), frame("[]")]);
    check("\n \t\r\n{}\n\n", &[frame("{}")]);
    check("\u{feff}{}\n", &[frame("{}")]);
    check("{}\n\u{feff}{}\n", &[frame("{}"), frame("\u{feff}{}")]);
    check("rubbish\n{}\n", &[frame("rubbish"), frame("{}")]);
    check("", &[]);
}

#[test]
fn a_message_among_headers_is_a_message() {
    let head = "Content-Length: 2\r\n\r\n{}";
    check(&format!("{head}{{\"a\": 1}}\n{head}"), &[frame("{}"), frame("{\"a\": 1}"), frame("{}")]);
    check(&format!("{head}\r\n[1]\r\n"), &[frame("{}"), frame("[1]")]);
    check(&format!("{head}Content-Type: x\r\n[1]\n{head}"), &[frame("{}"), frame("[1]"), frame("{}")]);
    check(&format!("{head}{{\"a\": 1}}"), &[frame("{}"), Rest("{\"a\": 1}".into())]);
    let long = "[".repeat(200);
    check(&format!("{head}{long}\n{head}"), &[frame("{}"), TooLong(200), frame("{}")]);
}

#[test]
fn tr_stdio_12_last_line_without_end() {
    check("{}\n{\"a\":1}", &[frame("{}"), Rest("{\"a\":1}".into())]);
    check("{}\n  \r", &[frame("{}")]);
}

#[test]
fn tr_stdio_13_a_long_line_is_passed_over() {
    let long = "x".repeat(101);
    let fits = "y".repeat(100);
    check_with(
        Some(Framing::Lines),
        100,
        &format!("{long}\n{fits}\n{{}}\n"),
        &[TooLong(101), frame(&fits), frame("{}")],
    );
    let huge = "x".repeat(10_000);
    check_with(Some(Framing::Lines), 100, &format!("{huge}\n{{}}\n"), &[TooLong(4096), frame("{}")]);
    // The end of the stream in the middle of it.
    check_with(Some(Framing::Lines), 100, &huge, &[TooLong(4096)]);
}

#[test]
fn tr_cl_01_03_headers_are_detected() {
    check("Content-Length: 2\r\n\r\n{}", &[frame("{}")]);
    check("content-LENGTH:2\r\n\r\n{}", &[frame("{}")]);
    check("Content-Type: application/json; charset=utf-8\r\nContent-Length: 2\r\n\r\n[]", &[frame("[]")]);
    check("\r\n\nContent-Length: 2\r\n\r\n{}", &[frame("{}")]);
    check("Contentious\n{}\n", &[frame("Contentious"), frame("{}")]);
    check("Content-Lengthy: 2\n", &[frame("Content-Lengthy: 2")]);
    check("Content", &[Rest("Content".into())]);
    let e = "{\"é\":\"😀\"}";
    check(&format!("Content-Length: {}\r\n\r\n{e}", e.len()), &[frame(e)]);
}

#[test]
fn tr_cl_05_06_07_headers_are_read_liberally() {
    check("Content-Length: 2\nX-Other: 1\n\n{}", &[frame("{}")]);
    check("Content-Length: 2\r\n\r\n{}\r\n\r\nContent-Length: 2\r\n\r\n[]", &[frame("{}"), frame("[]")]);
    check("Content-Length: 5\r\n\r\n{\n\n\n}", &[frame("{\n\n\n}")]);
    check("Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", &[frame("{}")]);
    check("Content-Length: 0\r\n\r\nContent-Length: 2\r\n\r\n{}", &[frame(""), frame("{}")]);
}

#[test]
fn tr_cl_09_a_broken_header_ends_it() {
    check("Content-Type: x\r\n\r\n{}", &[Broken]);
    check("Content-Length: -2\r\n\r\n{}", &[Broken]);
    check("Content-Length: two\r\n\r\n{}", &[Broken]);
    check("Content-Length: \r\n\r\n{}", &[Broken]);
    check("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", &[Broken]);
    check("Content-Length: 2\r\nrubbish\r\n\r\n{}", &[Broken]);
    check("Content-Length: 2\r\n\r\n{}x\n\n", &[frame("{}"), Broken]);
    check(&format!("Content-Length: 2\r\nX: {}\r\n\r\n{{}}", "x".repeat(9000)), &[Broken]);
}

#[test]
fn tr_cl_09_a_long_body_is_passed_over() {
    let long = "x".repeat(101);
    check(&format!("Content-Length: 101\r\n\r\n{long}Content-Length: 2\r\n\r\n{{}}"), &[TooLong(101), frame("{}")]);
    let huge = "x".repeat(10_000);
    check(&format!("Content-Length: 10000\r\n\r\n{huge}Content-Length: 2\r\n\r\n{{}}"), &[TooLong(4096), frame("{}")]);
    check(&format!("Content-Length: 99999999999999999999999\r\n\r\n{huge}"), &[TooLong(4096)]);
}

#[test]
fn tr_cl_10_the_end_inside_a_frame_is_just_the_end() {
    check("Content-Length: 2\r\n", &[]);
    check("Content-Length: 5\r\n\r\n{}", &[]);
}

#[test]
fn memory_of_a_huge_frame_is_given_back() {
    let mut decoder = Decoder::new(Some(Framing::Lines), usize::MAX);
    let mut line = vec![b'x'; 8 << 20];
    line.push(b'\n');
    decoder.space().extend_from_slice(&line);
    assert!(matches!(decoder.step(), Step::Frame(_)));
    assert_eq!(decoder.step(), Step::Need);
    assert!(decoder.space().capacity() < 1 << 20);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// However the bytes are cut, the frames are the same (over-long ones aside, whose head may be shorter).
    #[test]
    fn splits_do_not_matter(
        input in prop::collection::vec(prop_oneof![
            Just("Content-Length: 3\r\n"), Just("\r\n"), Just("{}\n"), Just("abc"), Just("\n"), Just("é"), Just("Content-Type: x\n"),
            Just("{\"jsonrpc\":\"2.0\"}\n"), Just("\u{feff}"), Just(" "),
        ], 0..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        framing in prop_oneof![Just(None), Just(Some(Framing::Lines)), Just(Some(Framing::Headers))],
    ) {
        let input = input.concat().into_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(input.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts { pieces.push(&input[from..cut]); from = cut; }
        pieces.push(&input[from..]);
        let whole = read(&mut Decoder::new(framing, 1000), &[&input]);
        let split = read(&mut Decoder::new(framing, 1000), &pieces);
        prop_assert_eq!(whole, split);
    }

    /// What one side writes, the other reads.
    #[test]
    fn written_frames_are_read(bodies in prop::collection::vec("[a-zé{}\":]{1,50}", 0..10), headers in any::<bool>()) {
        let framing = if headers { Framing::Headers } else { Framing::Lines };
        let mut out = Vec::new();
        for body in &bodies {
            framing.write(&mut out, |out| out.extend_from_slice(body.as_bytes()));
        }
        let seen = read(&mut Decoder::new(Some(framing), 1000), &[&out]);
        prop_assert_eq!(seen, bodies.iter().map(|b| frame(b)).collect::<Vec<_>>());
    }
}

/// Who looks on sees the byte order mark that is passed over, however it was cut.
#[tokio::test]
async fn tr_stdio_10_a_tap_sees_the_byte_order_mark() {
    use std::sync::{Arc, Mutex};
    use tokio::io::AsyncWriteExt as _;
    for cut in 1..8 {
        let (mut near, far) = tokio::io::duplex(64);
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&seen);
        let tap = move |_, frame: &[u8]| log.lock().unwrap().push(String::from_utf8_lossy(frame).into_owned());
        let (mut reader, _writer) = tieline_rpc::Transport::stream(far).tap(tap).open();
        let bytes = "\u{feff}{\"a\":1}\n{}\n".as_bytes();
        let writing = tokio::spawn(async move {
            for part in bytes.chunks(cut) {
                near.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let mut frames = Vec::new();
        while let tieline_rpc::Event::Frame(at) = reader.next().await {
            frames.push(String::from_utf8_lossy(reader.bytes(at)).into_owned());
        }
        writing.await.unwrap();
        assert_eq!(frames, ["{\"a\":1}", "{}"], "{cut}");
        assert_eq!(*seen.lock().unwrap(), ["\u{feff}{\"a\":1}", "{}"], "{cut}");
    }
}
