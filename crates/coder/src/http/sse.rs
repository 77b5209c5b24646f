//! Server-sent events cut out of bytes that come in any pieces.

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

/// What is passed over because an event was too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skip {
    Nothing,
    /// Lines up to an empty one.
    Lines,
    /// The rest of a line whose beginning was dropped, then lines.
    Rest,
}

/// Reads events. Bytes go in with [`push`](Parser::push), events come out with [`event`](Parser::event).
#[derive(Debug)]
pub struct Parser {
    bytes: Vec<u8>,
    /// Everything before is taken.
    taken: usize,
    /// From here to `taken` on nothing was found; a long line is not searched again.
    searched: usize,
    started: bool,
    most: usize,
    event: Event,
    has_data: bool,
    skip: Skip,
    /// How long the server wants us to wait before we connect again, in milliseconds.
    retry: Option<u64>,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new(32 << 20)
    }
}

impl Parser {
    /// Reads events of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        let event = Event::default();
        Self {
            bytes: Vec::new(),
            taken: 0,
            searched: 0,
            started: false,
            most,
            event,
            has_data: false,
            skip: Skip::Nothing,
            retry: None,
        }
    }

    /// Takes bytes in.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.searched -= self.taken;
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The wait before the next connection, if the server said so.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// The next whole event. What is not ended by an empty line is never given out. Behind an event that is too long
    /// the next one follows.
    pub fn event(&mut self) -> Option<Result<Event, TooLong>> {
        if !self.started {
            const MARK: &[u8] = b"\xef\xbb\xbf";
            let start = &self.bytes[self.taken..];
            if start.len() < MARK.len() && MARK.starts_with(start) {
                return None;
            }
            if start.starts_with(MARK) {
                self.taken += MARK.len();
                self.searched = self.taken;
            }
            self.started = true;
        }
        while let Some((start, end)) = self.line() {
            if self.skip != Skip::Nothing {
                let over = self.skip == Skip::Lines && start == end;
                self.skip = if over { Skip::Nothing } else { Skip::Lines };
                continue;
            }
            if start == end {
                let id = self.event.id.clone();
                let event = std::mem::replace(&mut self.event, Event { id, ..Event::default() });
                if std::mem::take(&mut self.has_data) {
                    return Some(Ok(event));
                }
                continue;
            }
            let line = String::from_utf8_lossy(&self.bytes[start..end]).into_owned();
            self.field(&line);
            if self.event.data.len() > self.most {
                return Some(Err(self.skip()));
            }
        }
        let long = self.skip == Skip::Nothing && self.bytes.len() - self.taken > self.most;
        let error = long.then(|| self.skip());
        if self.skip != Skip::Nothing && self.searched > self.taken {
            self.taken = self.searched;
            self.skip = Skip::Rest;
        }
        error.map(Err)
    }

    /// Forgets the event that is being read; the rest of it is passed over.
    fn skip(&mut self) -> TooLong {
        let id = std::mem::take(&mut self.event.id);
        self.event = Event { id, ..Event::default() };
        self.has_data = false;
        self.skip = Skip::Lines;
        TooLong
    }

    /// The next line, ended by any of the three endings. A `\r` at the very end waits for what follows.
    fn line(&mut self) -> Option<(usize, usize)> {
        let found = self.bytes[self.searched..].iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let Some(end) = found.map(|at| self.searched + at) else {
            self.searched = self.bytes.len();
            return None;
        };
        self.searched = end;
        let next = match (self.bytes[end], self.bytes.get(end + 1)) {
            (b'\r', None) => return None,
            (b'\r', Some(b'\n')) => end + 2,
            _ => end + 1,
        };
        let start = self.taken;
        (self.taken, self.searched) = (next, next);
        Some((start, end))
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.event.name),
            "id" if !value.contains('\0') => value.clone_into(&mut self.event.id),
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
        let mut parser = Parser::default();
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
        check("data:a\r\rdata: b\r\n\r", &[event("", "a", "")]);
        check("\u{feff}data:a\r\rdata: b\r\n\r\n", &[event("", "a", ""), event("", "b", "")]);
        check("data: a\ndata:  b\ndata\n\n", &[event("", "a\n b\n", "")]);
        check(": hush\nevent: x\nid: 7\ndata: {}\n\ndata: y\n\n", &[event("x", "{}", "7"), event("", "y", "7")]);
        check("event: lost\n\ndata: y\n\n", &[event("", "y", "")]);
        check("data: not ended\n", &[]);
        check("nonsense\ndatum: 1\ndata: z\n\n", &[event("", "z", "")]);
        let mut parser = Parser::default();
        parser.push(b"retry: 250\nretry: soon\n");
        assert_eq!((parser.event(), parser.retry()), (None, Some(250)));
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
                    assert!(parser.bytes.len() - parser.taken <= 12, "{size}");
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
            // One more line, because an ending that could go on is not an ending yet.
            let text = lines.concat() + ":\n";
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
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
