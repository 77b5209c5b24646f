//! Reads recordings, ours and those of others, event by event or frame by frame.

use crate::filter::{Filter, Kept};
use crate::foreign::Foreign;
use crate::pieces::body;
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

/// Reads a recording.
pub struct Reader<R> {
    input: R,
    line: usize,
    kept: Kept,
    command: Vec<String>,
    foreign: Foreign,
    ready: VecDeque<Event>,
    /// The start of a line whose end is not written yet.
    partial: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// Reads from here.
    pub fn new(input: R) -> Self {
        let (foreign, ready, partial) = Default::default();
        Self { input, line: 0, kept: Kept::Exact, command: Vec::new(), foreign, ready, partial }
    }

    /// What was kept, as the header says.
    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// The recorded command, as far as it is known.
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// How many messages of another format were left out because they did not go between client and agent.
    pub fn left_out(&self) -> usize {
        self.foreign.left_out
    }

    /// The next event; `None` at the end, which may move while somebody writes. A last line without its line end is the
    /// trace of a recorder that was killed, and is not read.
    pub fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
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
            let words = value["command"].as_array().into_iter().flatten();
            self.command = words.filter_map(|word| word.as_str().map(str::to_owned)).collect();
            return Ok(());
        }
        if let Some(event) = own(&value) {
            self.ready.push_back(event);
            return Ok(());
        }
        match value {
            Value::Array(items) if self.line == 1 => {
                for item in &items {
                    let events =
                        self.foreign.read(item).ok_or_else(|| self.wrong("it has entries of no known kind"))?;
                    self.ready.extend(events);
                }
            }
            value => {
                let events = self.foreign.read(&value).ok_or_else(|| self.wrong("it is of no known kind"))?;
                self.ready.extend(events);
            }
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
    reader: Reader<R>,
    filter: Filter,
    open: [(Vec<u8>, u64); 2],
}

impl<R: BufRead> Frames<R> {
    /// Reads from here, and keeps so much of each frame.
    pub fn new(input: R, kept: Kept) -> Self {
        Self { reader: Reader::new(input), filter: Filter::new(kept), open: Default::default() }
    }

    /// The reader behind it.
    pub fn reader(&self) -> &Reader<R> {
        &self.reader
    }

    /// The next frame; `None` at the end, which may move while somebody writes.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, ReadError> {
        while let Some(event) = self.reader.next_event()? {
            let lane = match event.from {
                Side::Client => &mut self.open[0],
                Side::Agent => &mut self.open[1],
                Side::Stderr | Side::Exit => {
                    return Ok(Some(self.whole(&event, event.bytes.clone(), event.bytes.len() as u64)));
                }
            };
            let room = MAX_FRAME_BYTES.saturating_sub(lane.0.len());
            lane.0.extend_from_slice(&event.bytes[..event.bytes.len().min(room)]);
            lane.1 += event.bytes.len() as u64;
            if event.more {
                continue;
            }
            let (bytes, size) = std::mem::take(lane);
            // Blank lines between frames are nothing.
            if event.end || event.dropped > 0 || !bytes.trim_ascii().is_empty() {
                return Ok(Some(self.whole(&event, bytes, size)));
            }
        }
        Ok(None)
    }

    fn whole(&mut self, event: &Event, bytes: Vec<u8>, size: u64) -> Frame {
        let is_text = matches!(event.from, Side::Stderr | Side::Exit);
        let kept = match self.filter.kept() {
            Kept::Exact => Some(bytes),
            _ if event.from == Side::Exit => Some(bytes),
            _ if is_text => self.filter.text(&bytes),
            _ => self.filter.frame(&bytes),
        };
        let (body, headers) = kept.as_deref().map_or((&b""[..], false), body);
        let message = (!is_text).then(|| std::str::from_utf8(body).ok()).flatten();
        let message = message.and_then(|text| tieline_json::Raw::new(text).ok()?.parse().ok());
        Frame {
            at: event.at,
            from: event.from,
            body: body.to_vec(),
            size: size + event.dropped,
            headers,
            end: event.end,
            dropped: event.dropped > 0 || kept.is_none(),
            message,
        }
    }
}
