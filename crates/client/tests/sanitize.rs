//! The sanitiser: laws that hold for any text, and a corpus of what agents and commands have tried.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use proptest::prelude::*;
use tieline_client::sanitize::{Removed, Sanitizer, exact, exact_line, line, text};

/// Nothing that a terminal obeys, nothing that can't be seen.
fn assert_harmless(out: &str) {
    for c in out.chars() {
        assert!(!c.is_control() || c == '\n' || c == '\t', "{c:?} in {out:?}");
        assert!(!matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}' | '\u{feff}'), "{out:?}");
        assert!(!matches!(u32::from(c), 0xE0000..=0xE007F), "{out:?}");
    }
}

fn check(input: &str, expect: &str, (sequences, controls, hidden): (u64, u64, u64)) {
    let mut sanitizer = Sanitizer::new();
    let mut out = sanitizer.push(input);
    let (rest, removed) = sanitizer.finish();
    out.push_str(&rest);
    assert_eq!(out, expect, "of {input:?}");
    assert_eq!(removed, Removed { sequences, controls, hidden }, "of {input:?}");
    assert_harmless(&out);
    assert_eq!(text(&out), out, "again, of {input:?}");
}

#[test]
fn v2_termd_07_the_corpus_is_harmless() {
    for (input, expect, counts) in [
        // Clean text.
        ("", "", (0, 0, 0)),
        ("plain\ttext\n", "plain\ttext\n", (0, 0, 0)),
        ("naïve 日本語 🙂 e\u{301}", "naïve 日本語 🙂 e\u{301}", (0, 0, 0)),
        // Pictures and scripts that need joiners and selectors.
        ("👩\u{200d}💻 ❤\u{fe0f} 1\u{fe0f}", "👩\u{200d}💻 ❤\u{fe0f} 1\u{fe0f}", (0, 0, 0)),
        ("می\u{200c}خواهم", "می\u{200c}خواهم", (0, 0, 0)),
        ("pay\u{200d}pal a\u{fe0f}", "pay\\u{200d}pal a\\u{fe0f}", (0, 0, 2)),
        // Colours, cursor, screen, modes.
        ("\x1b[31mred\x1b[0m", "red", (2, 0, 0)),
        ("a\x1b[2J\x1b[1;1Hb", "ab", (2, 0, 0)),
        ("\x1b[?1049h\x1b[?25lx\x1b[?2004h", "x", (3, 0, 0)),
        ("\x1b[38:2::255:0:0mx", "x", (1, 0, 0)),
        ("\x1b7\x1b8\x1bcx\x1b(0y\x1b#8z", "xyz", (5, 0, 0)),
        ("\x1b[ q\x1b[!px", "x", (2, 0, 0)),
        // Title, clipboard, hyperlink, notification, colour query.
        ("\x1b]0;owned\x07x", "x", (1, 0, 0)),
        ("\x1b]52;c;cm0gLXJmIH4=\x1b\\x", "x", (1, 0, 0)),
        ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click", (2, 0, 0)),
        ("\x1b]777;notify;a;b\u{9c}x", "x", (1, 0, 0)),
        // Device strings, private messages, application commands, pictures.
        ("\x1bP+q544e\x1b\\x", "x", (1, 0, 0)),
        ("\x1b_Ga=T;AAAA\x1b\\x\x1b^pm\x1b\\y\x1bXsos\x1b\\z", "xyz", (3, 0, 0)),
        // The same in one character each.
        ("a\u{9b}2Jb", "ab", (1, 0, 0)),
        ("a\u{9d}52;c;AA\u{7}b", "ab", (1, 0, 0)),
        ("a\u{90}q\u{9c}b\u{9f}x\u{9c}c\u{9e}x\u{9c}d\u{98}x\u{9c}e", "abcde", (4, 0, 0)),
        ("a\u{85}b\u{84}c", "abc", (0, 2, 0)),
        // Cut off.
        ("a\x1b", "a", (1, 0, 0)),
        ("a\x1b[", "a", (1, 0, 0)),
        ("a\x1b[12;3", "a", (1, 0, 0)),
        ("a\x1b]0;title", "a", (1, 0, 0)),
        ("a\x1b]0;title\x1b", "a", (1, 0, 0)),
        // A line end ends what has no end, so that nothing more is swallowed.
        ("a\x1b]0;title\nnext", "a\nnext", (1, 0, 0)),
        ("a\x1b[31\nnext", "a\nnext", (1, 0, 0)),
        // One sequence in another.
        ("\x1b\x1b[31mx", "x", (2, 0, 0)),
        ("\x1b[3\x1b[31mx", "x", (2, 0, 0)),
        ("\x1b]0;a\x1b[31mx", "x", (2, 0, 0)),
        ("\x1b]0;a\x1b]0;b\x07x", "x", (2, 0, 0)),
        ("\x1b[3\u{18}x\x1b]0;\u{1a}y", "xy", (2, 0, 0)),
        ("\x1b[3\u{8}1mx", "x", (1, 1, 0)),
        ("\x1b[3é", "é", (1, 0, 0)),
        ("\x1b[3\u{9b}1mx", "x", (2, 0, 0)),
        // Single controls.
        ("\0a\x07b\x08c\x0bd\x0ce\x7ff", "abcdef", (0, 6, 0)),
        ("\x0e\x0f\x05", "", (0, 3, 0)),
        // A return that overwrites is shown; one before a line feed is none.
        ("safe\rrm -rf", "safe␍rm -rf", (0, 1, 0)),
        ("a\r\nb\r\r\nc\r", "a\nb\nc␍", (0, 1, 0)),
        ("a\r\x1b[Kb", "a␍b", (1, 1, 0)),
        // Direction and invisibility.
        ("a\u{202e}gpj.exe", "a\\u{202e}gpj.exe", (0, 0, 1)),
        ("\u{2066}x\u{2069}\u{200f}", "\\u{2066}x\\u{2069}\\u{200f}", (0, 0, 3)),
        ("a\u{200b}b\u{feff}\u{ad}\u{2060}", "a\\u{200b}b\\u{feff}\\u{ad}\\u{2060}", (0, 0, 4)),
        ("hi\u{e0068}\u{e0069}", "hi\\u{e0068}\\u{e0069}", (0, 0, 2)),
        ("a\u{2028}b", "a\\u{2028}b", (0, 0, 1)),
    ] {
        check(input, expect, counts);
    }
}

#[test]
fn one_line_stays_one_line() {
    for (input, expect) in [("ls\nrm -rf /\t#", "ls⏎rm -rf / #"), ("plain", "plain"), ("\x1b[1mx\r\ny", "x⏎y")] {
        assert_eq!(line(input), expect);
    }
}

#[test]
fn what_is_decided_on_is_shown_to_the_last_character() {
    for (input, expect) in [
        ("cargo test --all", "cargo test --all"),
        ("echo a\x1b]0;rm -rf ~\x07", "echo a\\u{1b}]0;rm -rf ~\\u{7}"),
        ("ls\x1b[31m\u{9b}2J", "ls\\u{1b}[31m\\u{9b}2J"),
        ("safe\rrm -rf", "safe\\u{d}rm -rf"),
        ("a\u{202e}gpj.exe\u{2069}", "a\\u{202e}gpj.exe\\u{2069}"),
        // Joiners too, and spaces that are none.
        ("👩\u{200d}💻 a\u{a0}b", "👩\\u{200d}💻 a\\u{a0}b"),
        // What only looks like a mark.
        ("printf '\\u{1b}\\n'", "printf '\\u{5c}u{1b}\\n'"),
    ] {
        assert_eq!(exact(input), expect);
        assert_eq!(exact_line(input), expect);
        assert_harmless(&exact(input));
    }
    assert_eq!((exact("a\n\tb"), exact_line("a\n\tb")), ("a\n\tb".to_owned(), "a\\u{a}\\u{9}b".to_owned()));
}

/// The text that an exact one stands for.
fn meant(shown: &str) -> String {
    let mut parts = shown.split("\\u{");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let (code, rest) = part.split_once('}').unwrap();
        out.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
        out.push_str(rest);
    }
    out
}

#[test]
fn a_sequence_without_an_end_does_not_swallow_for_ever() {
    let flood = format!("\x1b]0;{}shown", "x".repeat(1 << 20));
    let out = text(&flood);
    assert!(out.ends_with("shown") && out.len() < 100, "{}", out.len());
}

#[test]
fn marks_read_well() {
    let removed = Removed { sequences: 2, controls: 1, hidden: 1 };
    let expect = "2 escape sequences removed, 1 control character removed, 1 hidden character shown";
    assert_eq!(removed.to_string(), expect);
    assert!(Removed::default().is_empty() && Removed::default().to_string().is_empty());
}

#[test]
fn bytes_are_text_and_bad_ones_are_harmless() {
    for (input, expect) in [
        (&b"a\x9b2Jb"[..], "ab"),
        (b"a\xffb", "a\u{fffd}b"),
        (b"a\x9d0;t\x07b", "ab"),
        ("é€🙂".as_bytes(), "é€🙂"),
        (b"a\xe2\x82", "a\u{fffd}"),
        (b"\xc2\x9b31mx", "x"),
        (b"\x85x", "x"),
    ] {
        for cut in 0..=input.len() {
            let mut sanitizer = Sanitizer::new();
            let mut out = sanitizer.push_bytes(&input[..cut]);
            out += &sanitizer.push_bytes(&input[cut..]);
            out += &sanitizer.finish().0;
            assert_eq!(out, expect, "of {input:?} cut at {cut}");
        }
    }
}

/// Text that is mostly trouble.
fn trouble() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[ -~]{0,4}",
        3 => prop::sample::select(vec![
            "\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x1b\\", "\u{9b}", "\u{9c}", "\u{9d}", "\u{90}",
            "\x07", "\x18", "\r", "\n", "\r\n", "\t", "\0", "\u{202e}", "\u{200d}", "\u{fe0f}", "\u{e0061}", "m", ";",
            "👩", "é", "\u{feff}", "[", "]", "\\", "\\u{", "u{1b}",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_harmful_comes_out_and_again_changes_nothing(input in trouble()) {
        let out = text(&input);
        assert_harmless(&out);
        prop_assert_eq!(text(&out), out);
    }

    #[test]
    fn exact_text_is_harmless_and_tells_everything(input in trouble()) {
        assert_harmless(&exact(&input));
        prop_assert!(!exact_line(&input).contains(['\n', '\t']));
        prop_assert_eq!(meant(&exact(&input)), input.clone());
        prop_assert_eq!(meant(&exact_line(&input)), input);
    }

    #[test]
    fn where_it_is_cut_makes_no_difference(input in trouble(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let whole = {
            let mut sanitizer = Sanitizer::new();
            let mut out = sanitizer.push(&input);
            let (rest, removed) = sanitizer.finish();
            out += &rest;
            (out, removed)
        };
        let mut ends: Vec<usize> = cuts.iter().map(|cut| input.floor_char_boundary(cut.index(input.len() + 1))).collect();
        ends.push(input.len());
        ends.sort_unstable();
        let (mut sanitizer, mut out, mut from) = (Sanitizer::new(), String::new(), 0);
        for end in ends {
            out += &sanitizer.push(&input[from..end]);
            from = end;
        }
        let (rest, removed) = sanitizer.finish();
        out += &rest;
        prop_assert_eq!((out, removed), whole);
    }

    #[test]
    fn bytes_may_be_cut_anywhere(input in prop::collection::vec(any::<u8>(), 0..64), cut in any::<prop::sample::Index>()) {
        let at = cut.index(input.len() + 1);
        let show = |pieces: &[&[u8]]| {
            let mut sanitizer = Sanitizer::new();
            let mut out: String = pieces.iter().map(|piece| sanitizer.push_bytes(piece)).collect();
            let (rest, removed) = sanitizer.finish();
            out += &rest;
            (out, removed)
        };
        let whole = show(&[&input]);
        assert_harmless(&whole.0);
        prop_assert_eq!(show(&[&input[..at], &input[at..]]), whole);
    }

    #[test]
    fn clean_text_stays_as_it_is(input in "[ -~\n\tàéîöüß日本語🙂]{0,64}") {
        prop_assert_eq!(text(&input), input);
    }
}
