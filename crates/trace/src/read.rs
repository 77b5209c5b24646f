//! Reads recordings, ours and those of others, frame by frame.

use crate::filter::{Filter, Kept, parse};
use crate::foreign::Foreign;
use crate::pieces::{Gathered, body};
use crate::{Event, Side};
use serde::Deserialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, BufRead, Read as _};
use tieline_schema::from_base64;

/// A line of a recording, or a file that is one value, may be this long.
const MAX_LINE_BYTES: u64 = 256 * 1024 * 1024;
/// Of a longer frame only the start is kept.
const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// Something whole: a message, a line of standard error, an end.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// Its place in the recording, from 1; what is no frame, as a blank line, does not count.
    pub number: usize,
    /// When its last byte was passed on, in microseconds since the start.
    pub at: u64,
    /// Who sent it.
    pub from: Side,
    /// What stands in it, without line end and headers.
    pub body: Vec<u8>,
    /// How many bytes it had on the wire.
    pub size: u64,
    /// It had `Content-Length` headers.
    pub headers: bool,
    /// The side has closed its end.
    pub end: bool,
    /// It could not be redacted, so only its length is known.
    pub dropped: bool,
    /// The message, if it is one.
    pub message: Option<Value>,
}

/// What a recording says of itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Header {
    /// What was kept.
    pub kept: Kept,
    /// The agent's program and arguments, if it was started for the recording.
    pub command: Vec<String>,
}

/// Reads a recording frame by frame.
pub struct Frames<R> {
    input: R,
    line: usize,
    /// How many frames were read.
    count: usize,
    /// What the recording says of itself, as far as it is read.
    pub header: Header,
    foreign: Foreign,
    /// Events that are read and not looked at yet.
    ready: VecDeque<Event>,
    /// The start of a line whose end is not written yet.
    partial: Vec<u8>,
    filter: Filter,
    /// By [`Side`].
    open: [Gathered; 4],
}

impl<R: BufRead> Frames<R> {
    /// Reads from here, and keeps so much of each frame.
    pub fn new(input: R, kept: Kept) -> Self {
        let (line, count, header, foreign, ready, partial, open) = Default::default();
        Self { input, line, count, header, foreign, ready, partial, filter: Filter::new(kept), open }
    }

    /// How many messages of another format were left out because they did not go between client and agent.
    pub fn left_out(&self) -> usize {
        self.foreign.left_out
    }

    /// The next frame; `None` at the end, which may move while somebody writes.
    pub fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        while let Some(Event { at, from, raw, base64, more, end, dropped }) = self.next_event()? {
            let bytes = match base64 {
                Some(coded) => from_base64(&coded).ok_or_else(|| self.wrong("it is of no known kind"))?,
                None => raw.into_bytes(),
            };
            let open = &mut self.open[from as usize];
            open.add(&bytes, MAX_FRAME_BYTES);
            if more == Some(true) {
                continue;
            }
            let whole = std::mem::take(open);
            let (end, dropped) = (end == Some(true), dropped.unwrap_or(0));
            // Blank lines between frames are nothing.
            if from.talks() && !end && dropped == 0 && whole.bytes.trim_ascii().is_empty() {
                continue;
            }
            let kept = self.filter.keep(from, whole.bytes);
            let (body, headers) = kept.as_deref().map_or((&b""[..], false), body);
            let text = std::str::from_utf8(body).ok().filter(|_| from.talks());
            let (size, dropped) = (whole.size.saturating_add(dropped), dropped > 0 || kept.is_none());
            let (body, message) = (body.to_vec(), text.and_then(parse));
            self.count += 1;
            return Ok(Some(Frame { number: self.count, at, from, body, size, headers, end, dropped, message }));
        }
        Ok(None)
    }

    /// The next event; `None` at the end, which may move while somebody writes. A last line without its line end is the
    /// trace of a recorder that was killed, and is not read.
    fn next_event(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let room = MAX_LINE_BYTES.saturating_sub(self.partial.len() as u64);
            let size = (&mut self.input).take(room).read_until(b'\n', &mut self.partial)?;
            let whole = self.partial.ends_with(b"\n");
            if !whole && room == size as u64 {
                return Err(self.wrong("it is too long"));
            }
            if self.line == 0 && self.partial.trim_ascii_start().starts_with(b"[") {
                // One value over many lines.
                (&mut self.input).take(room - size as u64).read_to_end(&mut self.partial)?;
            } else if !whole {
                return Ok(None);
            }
            let line = std::mem::take(&mut self.partial);
            self.line += 1;
            if !line.trim_ascii().is_empty() {
                self.take(&line)?;
            }
        }
    }

    fn wrong(&self, why: impl Display) -> io::Error {
        let what = format!("line {} is no part of a recording: {why}", self.line.max(1));
        io::Error::new(io::ErrorKind::InvalidData, what)
    }

    fn take(&mut self, line: &[u8]) -> io::Result<()> {
        let value: Value = serde_json::from_slice(line).map_err(|error| self.wrong(error))?;
        if !value["tieline-trace"].is_null() {
            self.header = Header::deserialize(value).unwrap_or_default();
            return Ok(());
        }
        let (entries, unknown) = match value {
            Value::Array(entries) if self.line == 1 => (entries, "it has entries of no known kind"),
            value => (vec![value], "it is of no known kind"),
        };
        for entry in &entries {
            let events = self.foreign.read(entry).ok_or_else(|| self.wrong(unknown))?;
            self.ready.extend(events);
        }
        Ok(())
    }
}
