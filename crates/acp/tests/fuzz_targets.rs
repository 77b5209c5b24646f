//! The fuzz targets on a stable compiler: their seeds, cut and changed at random. The bodies are those of `fuzz/src`.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use proptest::prelude::*;
use proptest::sample::Index;
use std::path::Path;

/// `TIELINE_FUZZ_CASES` asks for more than the usual number of random cases.
fn cases() -> u32 {
    std::env::var("TIELINE_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(512)
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no seeds in {}", folder.display());
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// One change to a text: something is put in, taken out, replaced or repeated, or the end of another seed is put behind.
#[derive(Debug, Clone)]
enum Change {
    Replace(Index, Vec<u8>),
    Insert(Index, &'static str),
    Remove(Index, Index),
    Repeat(Index, Index),
    Splice(Index, Index, Index),
}

/// Pieces that mean something to one of the readers.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "null", "true", "0", "-1", "1.5", "1e9", "18446744073709551616", "\"\"", "\"x\"", "[]", "{}", "[null]", "{\"a\":null}",
    "\\u0000", "\\n", "\\ud800", "\"_x\"", "\"2.0\"", "\"id\":null,", "\"_meta\":{},", "\"_meta\":null,", "\"_meta\":{\"a\":1},",
    "\"type\":\"_x\",", "\"type\":\"text\",", "\"status\":\"_s\",", "\"title\":\"\",", "\"content\":null,",
    "\"messageId\":\"~1\",", "\r\n", "\n", "\n\n", "Content-Length: 3\r\n\r\n", "\u{feff}", "é", "🦀", " ",
];

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        2 => (at(), prop::collection::vec(any::<u8>(), 0..3)).prop_map(|(at, bytes)| Change::Replace(at, bytes)),
        4 => (at(), prop::sample::select(WORDS)).prop_map(|(at, word)| Change::Insert(at, word)),
        2 => (at(), at()).prop_map(|(from, to)| Change::Remove(from, to)),
        1 => (at(), at()).prop_map(|(from, to)| Change::Repeat(from, to)),
        2 => (at(), at(), at()).prop_map(|(seed, from, at)| Change::Splice(seed, from, at)),
    ]
}

fn place(index: Index, data: &[u8]) -> usize {
    index.index(data.len() + 1)
}

/// At most 24 bytes somewhere in `data`.
fn span(one: Index, other: Index, data: &[u8]) -> std::ops::Range<usize> {
    let (one, other) = (place(one, data), place(other, data));
    let from = one.min(other);
    from..one.max(other).min(from + 24)
}

fn apply(data: &mut Vec<u8>, change: &Change, seeds: &[Vec<u8>]) {
    match change {
        Change::Replace(at, bytes) => {
            let at = place(*at, data);
            let end = (at + bytes.len()).min(data.len());
            data.splice(at..end, bytes.iter().copied());
        }
        Change::Insert(at, word) => {
            // Where a value or a key could be: behind a bracket, a comma or a colon.
            let marks: Vec<usize> = (1..=data.len()).filter(|at| b"[{,:\n".contains(&data[at - 1])).collect();
            let at = if marks.is_empty() { place(*at, data) } else { marks[at.index(marks.len())] };
            data.splice(at..at, word.bytes());
        }
        Change::Remove(one, other) => {
            let span = span(*one, *other, data);
            data.drain(span);
        }
        Change::Repeat(one, other) => {
            let span = span(*one, *other, data);
            let piece = data[span.clone()].to_vec();
            data.splice(span.start..span.start, piece);
        }
        Change::Splice(seed, from, at) => {
            let other = &seeds[seed.index(seeds.len())];
            data.truncate(place(*at, data));
            data.extend_from_slice(&other[place(*from, other)..]);
        }
    }
}

fn drive(name: &str, target: fn(&[u8])) {
    let seeds = seeds(name);
    for seed in &seeds {
        target(seed);
        for end in (0..seed.len()).step_by(seed.len() / 128 + 1) {
            target(&seed[..end]);
        }
    }
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) };
    let input = (any::<Index>(), prop::collection::vec(change(), 0..6));
    proptest!(config, |((seed, changes) in input)| {
        let mut data = seeds[seed.index(seeds.len())].clone();
        for change in &changes {
            apply(&mut data, change, &seeds);
        }
        if let Err(panic) = std::panic::catch_unwind(|| target(&data)) {
            let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            prop_assert!(false, "{why}\n{name} fails on {:?}", String::from_utf8_lossy(&data));
        }
    });
}

#[test]
fn framing() {
    drive("framing", targets::framing::target);
}

#[test]
fn message() {
    drive("message", targets::message::target);
}

#[test]
fn v1() {
    drive("v1", targets::v1::target);
}

#[test]
fn v2() {
    drive("v2", targets::v2::target);
}

#[test]
fn transcript() {
    drive("transcript", targets::transcript::target);
}

#[test]
fn json() {
    drive("json", targets::json::target);
}
