//! Messages become rows: what they look like, where they came from, and that nothing in them can harm.
#![allow(clippy::unwrap_used)]

use std::time::Instant;
use tieline::schema::{Chunk, MessageKind, Update};
use tieline_chat::rows::{Cache, Detail, Look, Row, colours_are_ready, wrap};
use tieline_client::live::{Conversation, Item, When};

/// All rows of an item; a screen asks for those that it shows.
fn item_rows(talk: &Conversation, item: &Item, look: &Look) -> Vec<Row> {
    let mut cache = Cache::default();
    let mut count = cache.count(talk, item, look);
    while cache.is_behind() {
        cache.catch_up(talk);
        count = cache.count(talk, item, look);
    }
    cache.rows(talk, item, look, 0..count)
}

fn look(width: u16) -> Look {
    Look { width, detail: Detail::Normal, open: false, side_by_side: false, now: Instant::now() }
}

fn say(talk: &Conversation, kind: MessageKind, text: &str) {
    let chunk = Chunk { kind, message_id: Some("m".into()), content: text.into(), ..Chunk::default() };
    talk.take(Update::Chunk(chunk), When::Turn);
}

fn agent(text: &str) -> Conversation {
    let talk = Conversation::default();
    say(&talk, MessageKind::Agent, text);
    talk
}

const FIRST: Item = Item::Message(MessageKind::Agent, 0);

fn shown(row: &Row) -> String {
    row.spans.iter().map(|span| &*span.content).collect()
}

fn page(text: &str, width: u16) -> Vec<String> {
    item_rows(&agent(text), &FIRST, &look(width)).iter().map(shown).collect()
}

/// The sources follow each other and are the whole text; no row is wider than the screen.
fn check(text: &str, rows: &[Row], width: u16) {
    let mut at = 0;
    for row in rows {
        assert_eq!(row.source.start, at, "a gap before {:?} of {text:?} at {width}", shown(row));
        at = row.source.end;
        assert!(text.is_char_boundary(at));
        let columns = wrap::width(&shown(row));
        assert!(columns <= usize::from(width), "{columns} of {width} columns: {:?}", shown(row));
        assert!(shown(row).starts_with("│ "), "no mark: {:?}", shown(row));
    }
    assert_eq!(at, text.len(), "not all of {text:?} at {width}");
}

const EVERYTHING: &str = "\
# A title with `code`

Some words that are *rather* long, **strong** and [linked](https://example.org/a), so that they break.
A second line.

- one
- two with words that go on for quite a while
  - inner
  1. first
  2. second

    more of two
- [x] done

> quoted words
> > deeper

```rust
fn main() {
    println!(\"hello, world, this is a long line of code\");
}
```

| name | what it is |
|---|---|
| a | the first letter of them all, and a long cell |
| b | 日本語のテキスト |

---

<div>html</div>

[ref]: https://example.org/ref \"t\"

See [ref] and <https://example.org>. Wide: 日本語のテキストはここで折り返されます。 e\u{301}tude 👩‍👩‍👧‍👦 \tTab

    indented code
";

#[test]
fn complaint_05_the_sources_of_all_rows_are_the_text() {
    for width in [3, 4, 8, 20, 40, 80, 200] {
        for text in [
            EVERYTHING,
            "",
            "x",
            "\n\n",
            "```\ncode",
            "```\n```\n",
            "a\n\n\n\nb\n",
            "- ",
            "| a |\n|-|",
            "[a]: b",
            "é\r\nx\ry",
            "\u{202e}x\u{1b}[31mred\u{1b}[0m\n\n* y",
        ] {
            check(text, &item_rows(&agent(text), &FIRST, &look(width)), width);
        }
    }
}

#[test]
fn markdown_at_three_widths() {
    let table: &[(&str, u16, &[&str])] = &[
        ("# Title\n\nWords here.", 20, &["│ Title", "│ ", "│ Words here."]),
        ("Some words that go on.", 20, &["│ Some words that go", "│ on."]),
        ("one\ntwo", 40, &["│ one", "│ two"]),
        ("- one\n- two words and more\n  - in", 20, &["│ • one", "│ • two words and", "│   more", "│   ◦ in"]),
        ("1. a\n2. b", 40, &["│ 1. a", "│ 2. b"]),
        ("- a\n\n- b", 40, &["│ • a", "│ ", "│ • b"]),
        ("> quote\n\nafter", 40, &["│ ▎ quote", "│ ", "│ after"]),
        ("a [word](http://x.y/z) b", 40, &["│ a word (http://x.y/z) b"]),
        ("<http://x.y/z>", 40, &["│ http://x.y/z"]),
        ("![alt](p.png)", 40, &["│ [image: alt] (p.png)"]),
        ("[n] is\n\n[n]: http://x.y", 40, &["│ n (http://x.y) is", "│ ", "│ [n]: http://x.y"]),
        ("```sh\nls -l\n\techo\n```\nend", 40, &["│ sh", "│ ls -l", "│     echo", "│ ", "│ end"]),
        ("|a|b|\n|-|-|\n|1|two|", 40, &["│ a │ b  ", "│ ──┼────", "│ 1 │ two"]),
        ("a  \nb", 80, &["│ a", "│ b"]),
        ("日本語のテキスト", 10, &["│ 日本語の", "│ テキスト"]),
        ("<b>x</b>", 40, &["│ <b>x</b>"]),
        ("x &amp; y &copy;", 40, &["│ x & y ©"]),
        ("* * *", 10, &["│ ────────"]),
    ];
    for (text, width, rows) in table {
        let page: Vec<String> = page(text, *width).iter().map(|row| row.trim_end().to_owned()).collect();
        let rows: Vec<&str> = rows.iter().map(|row| row.trim_end()).collect();
        assert_eq!(page, rows, "{text:?} at {width}");
    }
}

#[test]
fn hostile_text_is_harmless() {
    let table = [
        "\u{1b}]0;title\u{7}x",
        "\u{1b}[2J\u{1b}[H",
        "&#27;[31mred",
        "&#x1b;]52;c;aGk=&#7;",
        "&#x202e;abc",
        "a\u{202e}b\u{2066}c",
        "\u{9b}31m",
        "[x](http://a.b/\u{202e}moc)",
        "[x](http://a.b/&#27;c)",
        "```\u{1b}[31m\n\u{1b}[0m\n```",
        "| \u{1b}[1m |\n|-|\n| &#27; |",
        "\u{301}\u{301}alone",
        "x\rallow this?",
        "\u{0}\u{8}\u{8}",
        "<b \u{1b}[31m>",
        "`\u{1b}c`",
        "- \u{1b}c\n> \u{9d}x",
    ];
    for text in table {
        for width in [4, 20, 80] {
            let talk = agent(text);
            say(&talk, MessageKind::Thought, text);
            say(&talk, MessageKind::User, text);
            for item in talk.items(0, 10).0 {
                for open in [true, false] {
                    for row in item_rows(&talk, &item, &Look { open, ..look(width) }) {
                        let shown = shown(&row);
                        let bad = |c: char| {
                            c.is_control()
                                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}')
                        };
                        assert!(!shown.contains(bad), "{text:?} became {shown:?}");
                        assert!(["│ ", "┊ ", "› "].iter().any(|mark| shown.starts_with(mark)), "{shown:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_drives_terminals_goes_with_a_mark_and_colours_without() {
    assert_eq!(page("a\u{1b}]0;title\u{7}b \u{1b}[31mred\u{1b}[0m \u{1b}[2J\u{1b}[H.", 40), ["│ a␛b red ␛."]);
}

#[test]
fn a_very_long_line_is_laid_out_in_parts_and_is_whole() {
    let line = "word ".repeat(40_000);
    let texts = [
        line.clone(),
        format!("# Head\n\nbefore\n{line}\nafter **it**\n"),
        format!("```js\nlet a;\n{}\nlet b;\n```\n\nafter **it**\n", "x".repeat(200_000)),
    ];
    for text in texts {
        let talk = agent(&text);
        let rows = item_rows(&talk, &Item::Message(MessageKind::Agent, 0), &look(80));
        check(&text, &rows, 80);
        assert!(rows.len() > 2_000);
        let last = shown(&rows[rows.len() - 1]);
        assert!(!text.contains("after") || last == "│ after it", "{last}");
    }
    // One more word costs one part, not all of it.
    let talk = agent(&line);
    let (item, mut cache) = (Item::Message(MessageKind::Agent, 0), Cache::default());
    cache.count(&talk, &item, &look(80));
    while cache.is_behind() {
        cache.catch_up(&talk);
    }
    for _ in 0..20 {
        let before = cache.work().0;
        say(&talk, MessageKind::Agent, "more ");
        cache.count(&talk, &item, &look(80));
        assert!(cache.work().0 - before <= 17 << 10, "{} bytes for a word", cache.work().0 - before);
    }
}

#[test]
fn accents_in_heaps_lose_some_and_alone_have_a_place() {
    let rows = page(&format!("a{}b", "\u{301}".repeat(5000)), 20);
    assert!(rows[0].len() < 100 && rows[0].ends_with('b'), "{rows:?}");
    assert_eq!(page("\u{301}x", 20), ["│ ◌x"]);
}

/// They are loaded in a thread.
fn wait_for_colours() {
    let begun = Instant::now();
    while cfg!(feature = "highlight") && !colours_are_ready() {
        assert!(begun.elapsed().as_secs() < 60, "no colours");
        std::thread::yield_now();
    }
}

/// A message that comes in pieces has the same rows as one that comes at once, wherever it is cut.
#[test]
fn streaming_in_pieces_is_the_same_as_at_once() {
    wait_for_colours();
    let huge =
        format!("before\n\n```\n{}```\nafter\n\n{}\n\nend", "a line of code\n".repeat(18_000), "w".repeat(300_000));
    let mut seed = 7_u64;
    let mut random = |most: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % most + 1
    };
    for (text, most, rounds) in
        [(EVERYTHING, 7, 20), (EVERYTHING, 60, 20), (&huge, 150_000, 1), ("para\n#\n#tag\n-\nx\n===\ny", 1, 1)]
    {
        let at_once = item_rows(&agent(text), &FIRST, &look(40));
        check(text, &at_once, 40);
        for _ in 0..rounds {
            let (talk, mut cache, mut at) = (Conversation::default(), Cache::default(), 0);
            let mut count = 0;
            while at < text.len() {
                let end = text.ceil_char_boundary((at + random(most)).min(text.len()));
                say(&talk, MessageKind::Agent, &text[at..end]);
                at = end;
                count = cache.count(&talk, &FIRST, &look(40));
            }
            while cache.is_behind() {
                count = cache.count(&talk, &FIRST, &look(40));
            }
            let rows = cache.rows(&talk, &FIRST, &look(40), 0..count);
            assert_eq!(rows.len(), at_once.len());
            for (one, other) in rows.iter().zip(&at_once) {
                assert_eq!(one, other);
            }
        }
    }
}

#[test]
fn complaint_05_copied_text_is_the_source() {
    let code = "fn a() {\n    let long = \"a line that is broken on this screen\";\n}";
    let text = format!("Words that are long enough to be broken.\n\n```rust\n{code}\n```\n\nend  ");
    let (talk, mut cache) = (agent(&text), Cache::default());
    let count = cache.count(&talk, &FIRST, &look(20));
    let rows = cache.rows(&talk, &FIRST, &look(20), 0..count);
    let first = rows.iter().position(|row| shown(row).contains("fn a")).unwrap();
    let last = rows.iter().rposition(|row| shown(row) == "│ }").unwrap();
    assert_eq!(cache.text(&talk, &FIRST, &look(20), first..last + 1), code);
    assert_eq!(cache.text(&talk, &FIRST, &look(20), 0..3), "Words that are long enough to be broken.");
    assert_eq!(cache.text(&talk, &FIRST, &look(20), 0..count), text);
}

#[test]
fn complaint_10_a_frame_looks_at_the_screen_only() {
    let talk = agent("");
    let line = "A sentence of some words, and then a few more of them.\n\n";
    say(&talk, MessageKind::Agent, &line.repeat(40_000));
    let (mut cache, look) = (Cache::default(), look(80));
    let (mut rounds, mut before) = (0, 0);
    cache.count(&talk, &FIRST, &look);
    while cache.is_behind() {
        assert!(cache.work().0 - before <= 65 << 10, "{} bytes at once", cache.work().0 - before);
        before = cache.work().0;
        cache.catch_up(&talk);
        // In the same frame nothing more is laid out.
        let step = cache.work().0;
        cache.count(&talk, &FIRST, &look);
        assert!(cache.work().0 == step || cache.work().0 - before <= 65 << 10);
        rounds += 1;
    }
    assert!(rounds >= 20, "more than two megabytes are laid out in steps");
    let count = cache.count(&talk, &FIRST, &look);
    assert_eq!(count, 40_000 * 2 - 1);
    let rows = cache.rows(&talk, &FIRST, &look, 60_000..60_040);
    assert_eq!(rows.len(), 40);
    assert_eq!(rows[0].source, 30_000 * line.len()..30_001 * line.len());
}

#[test]
fn complaint_15_thoughts_are_folded_and_open_where_they_stand() {
    let talk = Conversation::default();
    say(&talk, MessageKind::Thought, "**Looking at it**\n\nThere is more\nto say.");
    let item = Item::Message(MessageKind::Thought, 0);
    let rows = |look: &Look| item_rows(&talk, &item, look).iter().map(shown).collect::<Vec<_>>();
    assert_eq!(rows(&look(40)), ["┊ Looking at it  4 lines"]);
    let opened = ["┊ Looking at it", "┊ ", "┊ There is more", "┊ to say."];
    assert_eq!(rows(&Look { open: true, ..look(40) }), opened);
    assert_eq!(rows(&Look { detail: Detail::Full, ..look(40) }), opened);
}

#[test]
fn complaint_19_only_the_palette_is_used() {
    use ratatui::style::Color;
    wait_for_colours();
    let rows = item_rows(&agent(EVERYTHING), &FIRST, &look(60));
    let keyword = rows.iter().flat_map(|row| &row.spans).find(|span| span.content == "fn").unwrap();
    assert_eq!(keyword.style.fg, Some(Color::Indexed(5)), "code has colours");
    for row in rows {
        for span in row.spans {
            assert!(!matches!(span.style.fg, Some(Color::Rgb(..) | Color::Indexed(16..))), "{span:?}");
            assert_eq!(span.style.bg, None, "{span:?}");
        }
    }
}

#[test]
fn one_empty_row_stands_between_words_and_code() {
    for (fence, before) in [("```", vec!["│ a", "│"]), ("```rust", vec!["│ a", "│", "│ rust"])] {
        let rows = page(&format!("a\n\n{fence}\nlet b;\n```\n\nc\n"), 40);
        let rows: Vec<_> = rows.iter().map(|row| row.trim_end()).collect();
        assert_eq!(rows, [&before[..], &["│ let b;", "│", "│ c"]].concat());
    }
}

#[test]
fn a_message_that_is_replaced_is_laid_out_anew() {
    let (talk, mut cache) = (agent("one\n\ntwo"), Cache::default());
    assert_eq!(cache.count(&talk, &FIRST, &look(40)), 3);
    let whole = tieline::schema::Message {
        kind: MessageKind::Agent,
        message_id: "m".into(),
        content: tieline::schema::Patch::Set(tieline::schema::Items(vec!["six words".into()])),
        ..Default::default()
    };
    talk.take(Update::Message(whole), When::Turn);
    let rows = cache.rows(&talk, &FIRST, &look(40), 0..10);
    assert_eq!(rows.iter().map(shown).collect::<Vec<_>>(), ["│ six words"]);
}
