//! Bytes to frames and back: newline framing, `Content-Length` framing, and telling them apart. No I/O.

use std::ops::Range;

/// How messages are delimited on a byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// One message per line.
    #[default]
    Lines,
    /// `Content-Length: N`, an empty line, N bytes.
    Headers,
}

impl Framing {
    /// Appends one frame; `body` writes the message.
    pub fn write(self, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Framing::Lines => {
                body(out);
                out.push(b'\n');
            }
            Framing::Headers => {
                let mut text = Vec::new();
                body(&mut text);
                out.extend_from_slice(b"Content-Length: ");
                tieline_json::write_u64(out, text.len() as u64);
                out.extend_from_slice(b"\r\n\r\n");
                out.extend_from_slice(&text);
            }
        }
    }
}

/// What the decoder found.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    Need,
    /// A frame: bytes of [`Decoder::bytes`].
    Frame(Range<usize>),
    /// A frame over the limit is being passed over; this is how it starts.
    TooLong(Range<usize>),
    /// The stream can't be followed any more.
    Broken(&'static str),
}

/// How much of a frame over the limit is looked at to find its id.
const MAX_HEADER_LINE_BYTES: usize = 4096;
/// A block of headers longer than this is no block of headers.
const MAX_HEADERS_BYTES: usize = 8192;
/// Room that is asked of the buffer before each read.
const READ_BYTES: usize = 64 * 1024;
/// A byte order mark, which some put before the first message.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing but blank lines so far: the framing is open.
    Detect,
    Line,
    /// A line among headers that is a message: some senders forget the header of an answer that they write in haste.
    StrayLine,
    /// Passing over the rest of a line, or of a stray one.
    SkipLine,
    SkipStrayLine,
    Header,
    /// A body of so many bytes follows.
    Body(usize),
    /// A body over the limit follows: its head is wanted first.
    BigBody(usize),
    /// So many bytes are passed over.
    SkipBody(usize),
    Broken(&'static str),
}

/// Finds frames in a stream of bytes.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// Where the unread part starts.
    start: usize,
    /// Up to here there is no line end.
    scanned: usize,
    state: State,
    limit: usize,
    bom_possible: bool,
}

impl Decoder {
    /// A decoder for a known framing, or for one that the first line tells (`None`).
    pub fn new(framing: Option<Framing>, limit: usize) -> Self {
        let state = match framing {
            None => State::Detect,
            Some(Framing::Lines) => State::Line,
            Some(Framing::Headers) => State::Header,
        };
        Self { bytes: Vec::new(), start: 0, scanned: 0, state, limit, bom_possible: true }
    }

    /// The framing, once it is known.
    pub fn framing(&self) -> Option<Framing> {
        match self.state {
            State::Detect => None,
            State::Line | State::SkipLine => Some(Framing::Lines),
            _ => Some(Framing::Headers),
        }
    }

    /// Where to append what was read. Frames found before are gone after this.
    pub fn space(&mut self) -> &mut Vec<u8> {
        // Who looks on is shown the mark, too.
        let read = self.start - if self.bytes[..self.start].ends_with(BOM) { BOM.len() } else { 0 };
        if read > 0 {
            self.bytes.drain(..read);
            self.scanned -= read;
            self.start -= read;
        }
        // One huge message must not hold its memory for ever.
        if self.bytes.is_empty() && self.bytes.capacity() > 16 * READ_BYTES {
            self.bytes = Vec::new();
        }
        if self.bytes.capacity() - self.bytes.len() < READ_BYTES / 4 {
            self.bytes.reserve(READ_BYTES.max(self.bytes.len() / 2));
        }
        &mut self.bytes
    }

    /// The bytes that ranges refer to.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of the frame that was found last, taken out.
    pub(crate) fn take(&mut self, frame: Range<usize>) -> Vec<u8> {
        let behind = self.bytes.split_off(self.start);
        let mut taken = std::mem::replace(&mut self.bytes, behind);
        self.scanned -= self.start;
        self.start = 0;
        taken.truncate(frame.end);
        taken.drain(..frame.start);
        taken
    }

    /// The next frame, if it is complete.
    pub fn step(&mut self) -> Step {
        loop {
            let found = match self.state {
                State::Detect => self.detect(),
                State::Line => self.line(State::Line, State::SkipLine),
                State::StrayLine => self.line(State::Header, State::SkipStrayLine),
                State::SkipLine => self.skip_line(State::Line),
                State::SkipStrayLine => self.skip_line(State::Header),
                State::Header => self.header(),
                State::Body(size) => self.body(size),
                State::BigBody(size) => self.big_body(size),
                State::SkipBody(size) => self.skip_body(size),
                State::Broken(why) => Some(Step::Broken(why)),
            };
            if let Some(step) = found {
                return step;
            }
        }
    }

    /// At the end of the stream: a last line without its line end.
    pub fn rest(&mut self) -> Option<Range<usize>> {
        let rest = self.start..self.bytes.len();
        self.start = rest.end;
        let is_line = matches!(self.state, State::Line | State::StrayLine | State::Detect);
        (is_line && !is_blank(&self.bytes[rest.clone()])).then_some(rest)
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        self.scanned = self.scanned.max(self.start);
    }

    /// Passes over a byte order mark at the very start. False if it can't be told yet.
    fn skip_bom(&mut self) -> bool {
        if self.bom_possible {
            let seen = self.unread();
            if seen.len() < BOM.len() && BOM.starts_with(seen) {
                return false;
            }
            let bom = seen.starts_with(BOM);
            self.bom_possible = false;
            if bom {
                self.consume(BOM.len());
            }
        }
        true
    }

    fn detect(&mut self) -> Option<Step> {
        if !self.skip_bom() {
            return Some(Step::Need);
        }
        let blank = self.unread().iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.consume(blank);
        let seen = self.unread();
        if seen.is_empty() {
            return Some(Step::Need);
        }
        for name in [&b"content-length"[..], b"content-type"] {
            let common = seen.iter().zip(name).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
            if common == name.len() && matches!(seen.get(common), None | Some(b':' | b' ' | b'\t')) {
                if seen.len() == common {
                    return Some(Step::Need);
                }
                self.state = State::Header;
                return None;
            }
            if common == seen.len() {
                return Some(Step::Need);
            }
        }
        self.state = State::Line;
        None
    }

    /// The next line end at or after `self.scanned`.
    fn line_end(&mut self) -> Option<usize> {
        let from = self.scanned;
        match memchr::memchr(b'\n', &self.bytes[from..]) {
            Some(offset) => Some(from + offset),
            None => {
                self.scanned = self.bytes.len();
                None
            }
        }
    }

    /// A message in a line. `next` is what follows it, `skip` how the rest of one is passed over that is too long.
    fn line(&mut self, next: State, skip: State) -> Option<Step> {
        if !self.skip_bom() {
            return Some(Step::Need);
        }
        let Some(end) = self.line_end() else {
            if self.unread().len() > self.limit {
                self.state = skip;
                return Some(self.head(self.unread().len()));
            }
            return Some(Step::Need);
        };
        let mut line = self.start..end;
        self.state = next;
        self.consume(end + 1 - self.start);
        if line.len() > self.limit {
            return Some(Step::TooLong(line.start..line.start + MAX_HEADER_LINE_BYTES.min(line.len())));
        }
        if self.bytes[line.clone()].last() == Some(&b'\r') {
            line.end -= 1;
        }
        (!is_blank(&self.bytes[line.clone()])).then_some(Step::Frame(line))
    }

    fn skip_line(&mut self, next: State) -> Option<Step> {
        if let Some(end) = self.line_end() {
            self.consume(end + 1 - self.start);
            self.state = next;
            return None;
        }
        self.consume(self.unread().len());
        Some(Step::Need)
    }

    fn header(&mut self) -> Option<Step> {
        if !self.skip_bom() {
            return Some(Step::Need);
        }
        let blank = self.unread().iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.consume(blank);
        let mut length = None;
        let mut at = self.start;
        loop {
            // No header begins like that, but every message does.
            if let Some(b'{' | b'[') = self.bytes.get(at) {
                self.consume(at - self.start);
                self.state = State::StrayLine;
                return None;
            }
            let Some(end) = memchr::memchr(b'\n', &self.bytes[at..]).map(|offset| at + offset) else {
                if self.unread().len() > MAX_HEADERS_BYTES {
                    return self.broken("the header block does not end");
                }
                return Some(Step::Need);
            };
            let line = self.bytes[at..end].trim_ascii();
            at = end + 1;
            if at - self.start > MAX_HEADERS_BYTES {
                return self.broken("the header block does not end");
            }
            if line.is_empty() {
                break;
            }
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                return self.broken("a header line has no colon");
            };
            if line[..colon].trim_ascii().eq_ignore_ascii_case(b"content-length") {
                let value = std::str::from_utf8(line[colon + 1..].trim_ascii()).unwrap_or_default();
                let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                // A length that no machine can count is over every limit.
                let value = if digits { Some(value.parse().unwrap_or(usize::MAX)) } else { None };
                match (length, value) {
                    (_, None) => return self.broken("Content-Length is not a number"),
                    (Some(first), Some(second)) if first != second => {
                        return self.broken("two different Content-Length headers");
                    }
                    (_, Some(value)) => length = Some(value),
                }
            }
        }
        let Some(size) = length else { return self.broken("no Content-Length header") };
        self.consume(at - self.start);
        self.state = if size > self.limit { State::BigBody(size) } else { State::Body(size) };
        None
    }

    fn broken(&mut self, why: &'static str) -> Option<Step> {
        self.state = State::Broken(why);
        None
    }

    fn body(&mut self, size: usize) -> Option<Step> {
        if self.unread().len() < size {
            return Some(Step::Need);
        }
        let body = self.start..self.start + size;
        self.consume(size);
        self.state = State::Header;
        Some(Step::Frame(body))
    }

    fn big_body(&mut self, size: usize) -> Option<Step> {
        if self.unread().len() < MAX_HEADER_LINE_BYTES.min(size) {
            return Some(Step::Need);
        }
        self.state = State::SkipBody(size);
        Some(self.head(size))
    }

    fn skip_body(&mut self, size: usize) -> Option<Step> {
        let here = self.unread().len().min(size);
        self.consume(here);
        if here == size {
            self.state = State::Header;
            return None;
        }
        self.state = State::SkipBody(size - here);
        Some(Step::Need)
    }

    fn head(&self, size: usize) -> Step {
        Step::TooLong(self.start..self.start + MAX_HEADER_LINE_BYTES.min(size))
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.trim_ascii().is_empty()
}
