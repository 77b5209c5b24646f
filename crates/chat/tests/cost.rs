//! What a frame costs in long conversations, beside one in a short one: counted as bytes that are laid out and items that are looked up.
//! One test prints times instead; run it by hand, optimised: `cargo test --release -p tieline-chat --test cost -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod desk;

use crossterm::event::{KeyCode, KeyModifiers};
use desk::Chat;
use std::time::{Duration, Instant};
use tieline::schema::{Chunk, Diff, MessageKind, ToolCallContent, ToolCallUpdate, Update};
use tieline_chat::rows::{Cache, Detail, Look};
use tieline_client::live::{self, Conversation, Item, When};

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

const SIZE: (u16, u16) = (120, 40);
/// Of a message that is laid out, a frame may lay out so many bytes again: those of a screen.
const A_SCREEN_BYTES: usize = 16 << 10;
/// So often it may look an item up.
const A_SCREEN_ITEMS: u64 = 4 * SIZE.1 as u64;

/// What one frame costs: bytes, and items.
fn costs(chat: &mut Chat) -> (usize, u64) {
    let before = chat.state.tab().cache.work();
    // Each frame has its own time.
    chat.now += Duration::from_millis(33);
    chat.buffer(SIZE.0, SIZE.1);
    let after = chat.state.tab().cache.work();
    (after.0 - before.0, after.1 - before.1)
}

/// Frames until all is laid out; the bytes of the most expensive.
fn settled(chat: &mut Chat) -> usize {
    let mut most = costs(chat).0;
    while chat.state.tab().cache.is_behind() {
        most = most.max(costs(chat).0);
    }
    most
}

#[test]
fn complaint_10_a_key_costs_the_same_in_a_message_of_any_length() {
    let paragraph =
        "A sentence with `code` and **strong** words, long enough to be broken on a screen of many columns.\n\n";
    for (name, text) in [
        ("paragraphs", paragraph.repeat(20_000)),
        ("one block of code", format!("```\n{}", "x = 1\n".repeat(300_000))),
        ("one line", "word ".repeat(400_000)),
        ("names", "[a]: b\n".repeat(200_000)),
    ] {
        let mut chat = Chat::new();
        for start in (0..text.len()).step_by(100_000) {
            say(&chat.talk, &text[start..text.len().min(start + 100_000)]);
            chat.live(live::Event::State(live::State::Running));
            // While it comes, too: one step for a frame, whatever has come.
            let (bytes, _) = costs(&mut chat);
            assert!(bytes <= 80 << 10, "{name}: {bytes} bytes in a frame");
        }
        assert!(settled(&mut chat) <= 80 << 10, "{name}");
        for key in [KeyCode::Char('x'), KeyCode::PageUp, KeyCode::PageUp, KeyCode::PageDown] {
            chat.key(key);
            let (bytes, items) = costs(&mut chat);
            assert!(
                bytes <= 4 * A_SCREEN_BYTES && items <= A_SCREEN_ITEMS,
                "{name}, {key:?}: {bytes} bytes, {items} items"
            );
        }
        chat.key(KeyCode::Char('x'));
        assert_eq!(costs(&mut chat).0, 0, "{name}: a key lays out nothing that was said");
    }
}

#[test]
fn complaint_10_a_key_costs_the_same_in_a_session_of_50_000_items() {
    let mut chat = Chat::new();
    for number in 0..50_000 {
        let call = ToolCallUpdate::new(format!("c{number}")).title(format!("Read {number}"));
        for event in chat.talk.take(Update::ToolCall(Box::new(call)), When::Turn) {
            chat.live(event);
        }
    }
    costs(&mut chat);
    let (up, down) = (KeyCode::PageUp, KeyCode::PageDown);
    for key in [KeyCode::Char('x'), KeyCode::Backspace, up, up, down, KeyCode::Home, KeyCode::End] {
        let modifiers =
            if matches!(key, KeyCode::Home | KeyCode::End) { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
        chat.chord(key, modifiers);
        let (bytes, items) = costs(&mut chat);
        assert!(bytes <= A_SCREEN_BYTES && items <= A_SCREEN_ITEMS, "{key:?}: {bytes} bytes, {items} items");
    }
}
