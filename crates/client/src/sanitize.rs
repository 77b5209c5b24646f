//! The one sanitiser for everything that is shown: nothing from an agent, a file or a tool ever drives the terminal.
//!
//! There are two ways, and nothing that comes out of them holds a control character but tab and line feed:
//!
//! - **Running text** ([`text`], [`line()`], [`Sanitizer`]): what an agent says, what a command prints. It is to be read, so escape
//!   sequences go with their bodies, characters that are invisible or turn the direction of text become visible as `\u{…}`, a
//!   carriage return that overwrites a line becomes `␍`. What was taken out is counted, so that a mark can be shown.
//! - **Exact** ([`exact`], [`exact_line`]): whatever somebody decides on, such as commands, paths, diffs, addresses and the words of a
//!   question. Nothing is taken out: every character that can't be seen stands there as `\u{…}`.
//!
//! Clean text comes out as it went in, either way.

use std::fmt::{self, Write as _};
use tieline_host::rules::hidden;
use tieline_host::text::cut;
use tieline_json::{Seen, Sequences};

/// Running text of several lines, made safe.
pub fn text(input: &str) -> String {
    let mut sanitizer = Sanitizer::new();
    let mut out = sanitizer.push(input);
    sanitizer.finish_into(&mut out);
    out
}

/// So long is one line of others at most, in characters: names and ids can be megabytes.
const MAX_LINE_CHARACTERS: usize = 4000;

/// Running text for one line, made safe: line feeds become `⏎`, tabs become spaces. The end of a very long one is left out.
pub fn line(input: &str) -> String {
    let safe = text(&cut(input, MAX_LINE_CHARACTERS));
    if safe.contains(['\n', '\t']) { safe.replace('\n', "⏎").replace('\t', " ") } else { safe }
}

/// Text of several lines that somebody decides on: every character of it, those that can't be seen as `\u{…}`. What looks like
/// one of these marks is told apart from them: its backslash becomes `\u{5c}`. Only line feeds and tabs stay as they are.
pub fn exact(input: &str) -> String {
    visibly(input, |c| matches!(c, '\n' | '\t'))
}

/// The same in one line: line feeds and tabs become `\u{a}` and `\u{9}`.
pub fn exact_line(input: &str) -> String {
    visibly(input, |_| false)
}

/// The same of the first bytes; the end of one that is too long is counted.
pub fn clipped(input: &str, most: usize) -> String {
    let shown = &input[..input.floor_char_boundary(most)];
    let more = input.len() - shown.len();
    exact_line(shown) + &if more > 0 { format!("… [{more} more bytes]") } else { String::new() }
}

/// JSON in whose strings nothing hides: the same value, with escapes for what drives a terminal or turns the direction of text.
pub fn json(json: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(json.len()), json);
    while !rest.is_empty() {
        let head = plain(rest);
        out.push_str(head);
        rest = &rest[head.len()..];
        let Some(c) = rest.chars().next() else { break };
        if hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

fn visibly(input: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(input.len());
    for (at, c) in input.char_indices() {
        if (c == '\\' && input[at + 1..].starts_with("u{")) || (hidden(c) && !keep(c)) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// What was taken out or made visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Escape sequences.
    pub sequences: u64,
    /// Single control characters.
    pub controls: u64,
    /// Characters that can't be seen or turn the direction of text, shown as `\u{…}` now.
    pub hidden: u64,
}

impl Removed {
    /// True if the text was clean.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Removed {
    /// Such as "2 escape sequences removed, 1 hidden character shown".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.sequences, "escape sequence", "removed"),
            (self.controls, "control character", "removed"),
            (self.hidden, "hidden character", "shown"),
        ];
        let mut first = true;
        for (count, what, done) in parts.into_iter().filter(|(count, ..)| *count > 0) {
            let (comma, s) = (if first { "" } else { ", " }, if count == 1 { "" } else { "s" });
            write!(f, "{comma}{count} {what}{s} {done}")?;
            first = false;
        }
        Ok(())
    }
}

/// Makes text safe that comes in pieces. Where the pieces are cut makes no difference.
#[derive(Debug, Clone, Default)]
pub struct Sanitizer {
    sequences: Sequences,
    /// A carriage return; what follows tells what it means.
    returned: bool,
    /// What stands before, for joiners.
    before: Option<char>,
    /// The start of a character that is not complete; for bytes.
    partial: Vec<u8>,
    removed: Removed,
}

impl Sanitizer {
    /// At the beginning of a text.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was taken out so far.
    pub fn removed(&self) -> Removed {
        self.removed
    }

    /// Takes a piece of text, gives what can be shown of it now.
    pub fn push(&mut self, input: &str) -> String {
        let mut out = String::with_capacity(input.len());
        let mut rest = input;
        while let Some(c) = rest.chars().next() {
            // Most text is plain, and goes through in one go.
            let plain = if self.returned || self.sequences.is_inside() { "" } else { plain(rest) };
            if plain.is_empty() {
                self.take(c, &mut out);
                rest = &rest[c.len_utf8()..];
            } else {
                out.push_str(plain);
                self.before = plain.chars().next_back();
                rest = &rest[plain.len()..];
            }
        }
        out
    }

    /// Takes a piece of bytes, such as the output of a command. What is no UTF-8 is replaced.
    pub fn push_bytes(&mut self, input: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.partial);
        bytes.extend_from_slice(input);
        let mut out = String::with_capacity(bytes.len());
        let mut rest = &bytes[..];
        while let Some(chunk) = rest.utf8_chunks().next() {
            chunk.valid().chars().for_each(|c| self.take(c, &mut out));
            let invalid = chunk.invalid();
            rest = &rest[chunk.valid().len() + invalid.len()..];
            if rest.is_empty() && !invalid.is_empty() && is_start(invalid) {
                self.partial = invalid.to_vec();
                break;
            }
            self.bad_bytes(invalid, &mut out);
        }
        out
    }

    /// There is no more. Gives what was held back.
    pub fn finish(mut self) -> (String, Removed) {
        let mut out = String::new();
        self.finish_into(&mut out);
        (out, self.removed)
    }

    fn finish_into(&mut self, out: &mut String) {
        let partial = std::mem::take(&mut self.partial);
        self.bad_bytes(&partial, out);
        if self.returned {
            self.lone_return(out);
        }
        self.sequences.finish();
        self.removed.sequences = self.sequences.ended();
    }

    /// A byte of the upper control range means the same alone as in UTF-8.
    fn bad_bytes(&mut self, bytes: &[u8], out: &mut String) {
        match bytes {
            [] => {}
            [byte @ 0x80..=0x9f] => self.take(char::from(*byte), out),
            _ => self.take(char::REPLACEMENT_CHARACTER, out),
        }
    }

    fn lone_return(&mut self, out: &mut String) {
        self.removed.controls += 1;
        self.before = None;
        out.push('␍');
        self.returned = false;
    }

    fn take(&mut self, c: char, out: &mut String) {
        if self.returned {
            match c {
                '\r' => return,
                '\n' => self.returned = false,
                _ => self.lone_return(out),
            }
        }
        match self.sequences.take(c) {
            Seen::Text => self.show(c, out),
            Seen::Control => self.removed.controls += 1,
            Seen::Sequence => self.before = None,
        }
    }

    fn show(&mut self, c: char, out: &mut String) {
        let before = self.before.replace(c);
        match c {
            '\n' | '\t' | ' '..='~' => out.push(c),
            '\r' => self.returned = true,
            _ if c.is_control() => {
                self.removed.controls += 1;
                self.before = None;
            }
            _ if is_hidden(c) && !joins(before, c) => {
                self.removed.hidden += 1;
                self.before = None;
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
}

/// What a text begins with that needs no second look.
fn plain(text: &str) -> &str {
    let end = text.bytes().position(|byte| !matches!(byte, b' '..=b'~' | b'\n' | b'\t'));
    &text[..end.unwrap_or(text.len())]
}

/// Whether these bytes can be the start of a character.
fn is_start(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Whether a character can't be seen, or turns the direction of what follows.
fn is_hidden(c: char) -> bool {
    matches!(u32::from(c),
        0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
        | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB
        | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}

/// Joiners and selectors belong to the pictures and scripts that need them.
fn joins(before: Option<char>, c: char) -> bool {
    let Some(before) = before else { return false };
    let picture = matches!(u32::from(before), 0x203C..=0x3299 | 0x1F000..=0x1FAFF) && !is_hidden(before);
    match u32::from(c) {
        // As text or as a picture.
        0xFE0E | 0xFE0F => picture || matches!(before, '0'..='9' | '#' | '*' | '©' | '®'),
        0x200D => picture || before == '\u{fe0f}' || is_joined_script(before),
        0x200C => is_joined_script(before),
        _ => false,
    }
}

/// Arabic, Syriac, and the scripts of India.
fn is_joined_script(c: char) -> bool {
    matches!(u32::from(c), 0x600..=0x604 | 0x606..=0x61B | 0x61D..=0x85F | 0x8A0..=0xDFF | 0xFB50..=0xFDFF | 0xFE70..=0xFEFC)
}
