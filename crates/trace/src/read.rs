//! Reads recordings, ours and those of others, frame by frame.

use crate::filter::{Filter, Kept, parse};
use crate::foreign::Foreign;
use crate::pieces::{Gathered, body};
use crate::{Event, Side};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{self, BufRead, Read as _};

/// A line of a recording, or a file that is one value, may be this long.
const MAX_LINE_BYTES: u64 = 256 * 1024 * 1024;
/// Of a longer frame only the start is kept.
const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// Why a recording can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file can't be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("line {line} is no part of a recording: {why}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// Something whole: a message, a line of standard error, an end.
#[derive(Debug, Clone)]
pub struct Frame {
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

/// Reads a recording frame by frame.
pub struct Frames<R> {
    input: R,
    line: usize,
    /// What the header says.
    kept: Kept,
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
        let (foreign, ready, partial, open) = Default::default();
        Self { input, line: 0, kept: Kept::Exact, foreign, ready, partial, filter: Filter::new(kept), open }
    }

    /// What was kept, as the header says.
    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// How many messages of another format were left out because they did not go between client and agent.
    pub fn left_out(&self) -> usize {
        self.foreign.left_out
    }

    /// The next frame; `None` at the end, which may move while somebody writes.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, ReadError> {
        while let Some(event) = self.next_event()? {
            let open = &mut self.open[event.from as usize];
            open.add(&event.bytes, MAX_FRAME_BYTES);
            if event.more {
                continue;
            }
            let whole = std::mem::take(open);
            // Blank lines between frames are nothing.
            let blank = event.from.talks() && whole.bytes.trim_ascii().is_empty();
            if event.end || event.dropped > 0 || !blank {
                return Ok(Some(self.whole(&event, whole)));
            }
        }
        Ok(None)
    }

    fn whole(&mut self, event: &Event, whole: Gathered) -> Frame {
        let kept = self.filter.keep(event.from, whole.bytes);
        let (body, headers) = kept.as_deref().map_or((&b""[..], false), body);
        let text = std::str::from_utf8(body).ok().filter(|_| event.from.talks());
        let message = text.and_then(parse);
        Frame {
            at: event.at,
            from: event.from,
            body: body.to_vec(),
            size: whole.size + event.dropped,
            headers,
            end: event.end,
            dropped: event.dropped > 0 || kept.is_none(),
            message,
        }
    }

    /// The next event; `None` at the end, which may move while somebody writes. A last line without its line end is the
    /// trace of a recorder that was killed, and is not read.
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
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

    fn wrong(&self, why: impl ToString) -> ReadError {
        ReadError::Line { line: self.line.max(1), why: why.to_string() }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), ReadError> {
        let value: Value = serde_json::from_slice(line).map_err(|error| self.wrong(error))?;
        if !value["tieline-trace"].is_null() {
            self.kept = value["kept"].as_str().and_then(Kept::named).unwrap_or_default();
            return Ok(());
        }
        if let Some(event) = own(&value) {
            self.ready.push_back(event);
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

/// An event of our own format.
fn own(value: &Value) -> Option<Event> {
    let raw = value["raw"].as_str()?;
    let bytes = match value["base64"].as_str() {
        Some(coded) => STANDARD.decode(coded).ok()?,
        None => raw.as_bytes().to_vec(),
    };
    Some(Event {
        at: value["at"].as_u64()?,
        from: Side::named(value["from"].as_str()?)?,
        bytes,
        more: value["more"] == true,
        end: value["end"] == true,
        dropped: value["dropped"].as_u64().unwrap_or(0),
    })
}
