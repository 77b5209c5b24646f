//! What a frame costs in long conversations, beside one in a short one. Prints ratios; run it by hand, optimised:
//! `cargo test --release -p tieline-chat --test cost -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::{Duration, Instant};
use tieline::schema::{Chunk, Diff, MessageKind, ToolCallContent, ToolCallUpdate, Update};
use tieline_chat::rows::{Cache, Detail, Look};
use tieline_client::live::{Conversation, Item, When};

const SCREEN: usize = 50;

fn look() -> Look {
    Look { width: 120, detail: Detail::Full, open: false, side_by_side: false, now: Instant::now() }
}

fn say(talk: &Conversation, text: &str) {
    let chunk =
        Chunk { kind: MessageKind::Agent, message_id: Some("m".into()), content: text.into(), ..Chunk::default() };
    talk.take(Update::Chunk(chunk), When::Turn);
}

/// One frame: how many rows there are, and the last of them. The longest of a few.
fn frame(cache: &mut Cache, talk: &Conversation, item: &Item) -> Duration {
    let begun = Instant::now();
    let count = cache.count(talk, item, &look());
    let rows = cache.rows(talk, item, &look(), count.saturating_sub(SCREEN)..count);
    assert!(!rows.is_empty());
    begun.elapsed()
}

/// Frames until all is laid out: how many, and the longest.
fn frames(cache: &mut Cache, talk: &Conversation, item: &Item) -> (usize, Duration) {
    let (mut number, mut longest) = (0, Duration::ZERO);
    while number == 0 || cache.is_behind() {
        longest = longest.max(frame(cache, talk, item));
        number += 1;
    }
    (number, longest)
}

fn told(what: &str, time: Duration, short: Duration) {
    println!("{what}: {time:?}, {:.1} times a frame of a short message", time.as_secs_f64() / short.as_secs_f64());
}

#[test]
#[ignore = "measures"]
fn a_frame_costs_a_screen() {
    let first = Item::Message(MessageKind::Agent, 0);
    let paragraph =
        "A sentence with `code` and **strong** words, long enough to be broken on a screen of many columns, too.\n\n";
    let (talk, mut cache) = (Conversation::default(), Cache::default());
    say(&talk, &paragraph.repeat(20));
    frame(&mut cache, &talk, &first);
    say(&talk, "more");
    let short = frame(&mut cache, &talk, &first);
    told("short message, one more word", short, short);

    // 100,000 updates, a frame after each hundredth.
    let (talk, mut cache, mut longest) = (Conversation::default(), Cache::default(), Duration::ZERO);
    for number in 0..100_000 {
        say(&talk, if number % 20 == 19 { "end.\n\n" } else { "some words " });
        if number % 100 == 0 {
            longest = longest.max(frame(&mut cache, &talk, &first));
        }
    }
    told("100,000 updates, the longest frame", longest, short);

    // 60 MB in paragraphs, then as one line of code.
    for (name, text) in [
        ("paragraphs", paragraph.repeat(60_000_000 / paragraph.len())),
        ("one block", format!("```\n{}", "x = 1\n".repeat(10_000_000))),
    ] {
        let (talk, mut cache) = (Conversation::default(), Cache::default());
        say(&talk, &text);
        drop(text);
        let (number, longest) = frames(&mut cache, &talk, &first);
        told(&format!("60 MB, {name}: the longest of {number} frames until its end"), longest, short);
        say(&talk, "more\n");
        told(&format!("60 MB, {name}: one more line"), frame(&mut cache, &talk, &first), short);
        let begun = Instant::now();
        let count = cache.count(&talk, &first, &look());
        cache.rows(&talk, &first, &look(), count / 2..count / 2 + SCREEN);
        told(&format!("60 MB, {name}: its middle"), begun.elapsed(), short);
    }

    // A diff of 10,000 lines.
    let lines = |end: &str| {
        (0..10_000).map(|n| format!("line {n}{}\n", if n % 4 == 0 { end } else { "" })).collect::<Vec<_>>().concat()
    };
    let diff = ToolCallContent::Diff(Diff::of("/p/a.txt", Some(lines("")), lines(" changed")));
    let talk = Conversation::default();
    talk.take(Update::ToolCall(Box::new(ToolCallUpdate::new("c").content(vec![diff]))), When::Turn);
    let (call, mut cache) = (Item::Call("c".into()), Cache::default());
    told("a diff of 10,000 lines, the first frame", frame(&mut cache, &talk, &call), short);
    told("a diff of 10,000 lines, the next", frame(&mut cache, &talk, &call), short);
}
