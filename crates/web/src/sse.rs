//! Server-sent events cut out of bytes that come in any pieces.

use std::collections::VecDeque;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Its kind; empty if it has none, which means `message`.
    pub name: String,
    /// Its data, lines joined by a newline.
    pub data: String,
    /// Its id, or that of the last event that had one.
    pub id: String,
}

/// An event is larger than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is too long")]
pub struct TooLong;

/// Reads events. Bytes go in with [`push`](Parser::push), events come out with [`event`](Parser::event).
#[derive(Debug, Default)]
pub struct Parser {
    max_bytes: usize,
    /// The line that is being read, and whether there is anything in it.
    line: Vec<u8>,
    filled: bool,
    /// The last line ended with `\r`, whose `\n` may follow.
    after_return: bool,
    /// The event was too long: lines are passed over up to an empty one.
    skipping: bool,
    name: String,
    data: Option<String>,
    id: String,
    /// The id when the last event ended, whether it had data or not.
    last_id: String,
    /// How long the server wants us to wait before we connect again, in milliseconds.
    retry: Option<u64>,
    ready: VecDeque<Result<Event, TooLong>>,
}

impl Parser {
    /// Reads events of at most so many bytes.
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, ..Self::default() }
    }

    /// Takes bytes in. Lines may end in any of the three ways.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.grow(piece);
            let Some((mark, rest)) = rest.split_first() else { return };
            self.after_return = *mark == b'\r';
            self.end_line();
            bytes = rest;
        }
    }

    /// The wait before the next connection, if the server said so.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// The id of the last event that came whole, also of one without data: where a stream that is cut goes on.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// The next whole event. What is not ended by an empty line is never given out. Behind an event that is too long
    /// the next one follows.
    pub fn event(&mut self) -> Option<Result<Event, TooLong>> {
        self.ready.pop_front()
    }

    fn grow(&mut self, piece: &[u8]) {
        self.filled |= !piece.is_empty();
        if self.line.len() + piece.len() > self.max_bytes {
            self.skip();
        } else if !self.skipping {
            self.line.extend_from_slice(piece);
        }
    }

    /// Forgets the event that is being read; the rest of it is passed over.
    fn skip(&mut self) {
        if !std::mem::replace(&mut self.skipping, true) {
            self.ready.push_back(Err(TooLong));
        }
        self.line.clear();
        self.name.clear();
        self.data = None;
    }

    fn end_line(&mut self) {
        let filled = std::mem::take(&mut self.filled);
        if self.skipping {
            self.skipping = filled;
            return;
        }
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        // Some put a mark before the first line.
        let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
        if !line.is_empty() {
            return self.field(line);
        }
        let name = std::mem::take(&mut self.name);
        self.id.clone_into(&mut self.last_id);
        if let Some(data) = self.data.take() {
            self.ready.push_back(Ok(Event { name, data, id: self.id.clone() }));
        }
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                match &mut self.data {
                    Some(data) => data.extend(["\n", value]),
                    None => self.data = Some(value.to_owned()),
                }
                if self.data.as_ref().is_some_and(|data| data.len() > self.max_bytes) {
                    self.skip();
                }
            }
            "event" => value.clone_into(&mut self.name),
            "id" if !value.contains('\0') => value.clone_into(&mut self.id),
            "retry" => self.retry = value.parse().ok().or(self.retry),
            // A comment, or something that nobody knows.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::new(1 << 20);
        let mut events = Vec::new();
        for piece in pieces {
            parser.push(piece);
            while let Some(event) = parser.event() {
                events.push(event.unwrap());
            }
        }
        events
    }

    #[test]
    fn reads_what_the_standard_says() {
        let event = |name: &str, data: &str, id: &str| Event { name: name.into(), data: data.into(), id: id.into() };
        let check = |text: &str, expect: &[Event]| assert_eq!(read(&[text.as_bytes()]), expect, "{text:?}");
        check("data: a\n\n", &[event("", "a", "")]);
        check("data:a\r\rdata: b\r\n", &[event("", "a", "")]);
        check("data:a\r\rdata: b\r\n\r", &[event("", "a", ""), event("", "b", "")]);
        check("\u{feff}data:a\r\rdata: b\r\n\r\n", &[event("", "a", ""), event("", "b", "")]);
        check("data: a\ndata:  b\ndata\n\n", &[event("", "a\n b\n", "")]);
        check(": hush\nevent: x\nid: 7\ndata: {}\n\ndata: y\n\n", &[event("x", "{}", "7"), event("", "y", "7")]);
        check("event: lost\n\ndata: y\n\n", &[event("", "y", "")]);
        check("data: not ended\n", &[]);
        check("nonsense\ndatum: 1\ndata: z\n\n", &[event("", "z", "")]);
        let mut parser = Parser::new(1 << 20);
        parser.push(b"retry: 250\nretry: soon\n");
        assert_eq!((parser.event(), parser.retry()), (None, Some(250)));
        // An event that is cut off has not come.
        for (text, last) in [("id: 1\n\n", "1"), ("id: 2\ndata: x\n", "1"), ("\n", "2"), ("id: 3\n", "2")] {
            parser.push(text.as_bytes());
            assert_eq!(parser.last_id(), last, "{text:?}");
        }
    }

    #[test]
    fn has_a_limit() {
        let mut parser = Parser::new(10);
        parser.push(b"data: 0123456789012345");
        assert_eq!(parser.event(), Some(Err(TooLong)));
        let mut parser = Parser::new(10);
        parser.push(b"data: 012345\ndata: 012345\n");
        assert_eq!(parser.event(), Some(Err(TooLong)));
        // The next event follows, in whatever pieces all this comes; nothing of the long one is kept meanwhile.
        for end in ["\n", "\r\n", "\r"] {
            let text = format!("data: {}{end}event: x{end}{end}data: short{end}{end}:", "0123456789".repeat(20));
            for size in 1..text.len() {
                let mut parser = Parser::new(12);
                let mut found = Vec::new();
                for piece in text.as_bytes().chunks(size) {
                    parser.push(piece);
                    while let Some(event) = parser.event() {
                        found.push(event.map(|event| event.name + &event.data));
                    }
                    assert!(parser.line.len() <= 12, "{size}");
                }
                assert_eq!(found, [Err(TooLong), Ok("short".to_owned())], "{end:?} {size}");
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            lines in prop::collection::vec("(data|event|id|retry|:|): ?[a-zé€ :]{0,6}(\r|\n|\r\n){1,3}", 0..12),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let text = lines.concat();
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            let whole = read(&[bytes]);
            prop_assert_eq!(&read(&pieces), &whole);
            prop_assert_eq!(&read(&single), &whole);
        }
    }
}
