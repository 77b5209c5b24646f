//! Tells text from what a terminal would obey: escape sequences, and what they carry.

/// No sequence is longer, in characters, so that one without an end can't swallow everything.
const MAX_LENGTH: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate character: one final character ends it.
    Intermediate,
    /// In the parameters of a control sequence: a letter ends it.
    Parameters,
    /// In the body of an operating system command or the like: a terminator ends it.
    Body,
    /// After ESC in a body.
    BodyEscape,
}
use State::{Body, BodyEscape, Escape, Ground, Intermediate, Parameters};

/// Takes a text character by character, wherever it is cut, and says which of them are text.
///
/// ```
/// use tieline_json::{Seen, Sequences};
///
/// let mut sequences = Sequences::default();
/// let text: String = "\x1b[31mred\x1b[0m".chars().filter(|c| sequences.take(*c) == Seen::Text).collect();
/// assert_eq!(text, "red");
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Sequences {
    state: State,
    /// How long the sequence is so far.
    length: u32,
    ended: u64,
}

/// What a character is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Text. It may still be a control character, or one that can't be seen.
    Text,
    /// A part of a sequence.
    Sequence,
    /// A control character in the middle of a sequence: terminals obey it by itself.
    Control,
}

impl Sequences {
    /// Whether a sequence has begun and not ended.
    pub fn is_inside(&self) -> bool {
        self.state != Ground
    }

    /// How many sequences have ended.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// There is no more: what has begun ends.
    pub fn finish(&mut self) {
        if self.is_inside() {
            self.end();
        }
    }

    /// What the next character is.
    pub fn take(&mut self, c: char) -> Seen {
        let seen = self.step(c);
        if self.is_inside() {
            self.length += 1;
            if self.length > MAX_LENGTH {
                self.end();
            }
        }
        seen
    }

    fn step(&mut self, c: char) -> Seen {
        // A line end, a new sequence or too great a length ends a sequence, whatever it is.
        match (self.state, c) {
            (Ground, _) => return self.ground(c),
            (_, '\n') => {
                self.end();
                return Seen::Text;
            }
            (_, '\x18' | '\x1a' | '\u{9c}') | (Body, '\x07') | (BodyEscape, '\\') => self.end(),
            (Body, '\x1b') => self.state = BodyEscape,
            (Body, _) | (Intermediate, ' '..='/') | (Parameters, ' '..='?') => {}
            (BodyEscape, _) => {
                // The body was cut off by another sequence.
                self.end();
                self.begin(Escape);
                return self.step(c);
            }
            (_, '\x1b') => {
                self.end();
                self.begin(Escape);
            }
            (_, '\u{80}'..='\u{9f}') => {
                self.end();
                return self.ground(c);
            }
            (_, '\0'..='\x1f' | '\x7f') => return Seen::Control,
            (Escape, '[') => self.state = Parameters,
            (Escape, ']' | 'P' | 'X' | '^' | '_') => self.state = Body,
            (Escape, ' '..='/') => self.state = Intermediate,
            (_, ' '..='~') => self.end(),
            _ => {
                // No part of any sequence; it is text.
                self.end();
                return Seen::Text;
            }
        }
        Seen::Sequence
    }

    fn ground(&mut self, c: char) -> Seen {
        match c {
            '\x1b' => self.begin(Escape),
            '\u{9b}' => self.begin(Parameters),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.begin(Body),
            _ => return Seen::Text,
        }
        Seen::Sequence
    }

    fn begin(&mut self, state: State) {
        (self.state, self.length) = (state, 0);
    }

    fn end(&mut self) {
        self.state = Ground;
        self.ended += 1;
    }
}
/// Adds one line to a text. What would break it is written as an escape, so that nobody's words begin a line of their own.
pub fn push_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    for c in line.to_string().chars() {
        if matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}') {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text.push('\n');
}
