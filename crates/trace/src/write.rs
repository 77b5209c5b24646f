//! Writes a recording: one line per event, with one write, so that it is in the file before anything else happens.

use crate::Side;
use crate::filter::{Filter, Kept};
use crate::pieces::{Gathered, Pieces};
use std::io::{self, Write};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tieline_json::write_str;
use tieline_process::Status;
use tieline_schema::to_base64;

/// A frame that has to be filtered is held until it is whole, but never more of it than this.
const MAX_HELD_BYTES: usize = 16 * 1024 * 1024;

/// Writes a recording.
pub struct Writer {
    out: Box<dyn Write + Send>,
    start: Instant,
    filter: Filter,
    /// By [`Side`]: where its frames end, and one that is not whole yet, if it has to be filtered.
    lanes: [(Pieces, Gathered); 4],
    line: Vec<u8>,
}

impl Writer {
    /// Starts a recording of a command, and writes its header. `by` says who writes.
    pub fn new(out: impl Write + Send + 'static, kept: Kept, by: &str, command: &[String]) -> io::Result<Self> {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        // Arguments may be secrets, and are values.
        let command = if kept == Kept::Exact { command } else { command.get(..1).unwrap_or_default() };
        let (lanes, line) = Default::default();
        let (start, filter) = (Instant::now(), Filter::new(kept));
        let mut writer = Self { out: Box::new(out), start, filter, lanes, line };
        let header =
            serde_json::json!({"tieline-trace": 1, "started": started, "by": by, "kept": kept, "command": command});
        writer.out.write_all(format!("{header}\n").as_bytes())?;
        Ok(writer)
    }

    /// Bytes of a stream, as they are about to be passed on: they are cut where frames end.
    pub fn bytes(&mut self, from: Side, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (pieces, _) = &mut self.lanes[from as usize];
            let (here, end) = if from.talks() { pieces.next(bytes) } else { (bytes.len(), true) };
            self.piece(from, &bytes[..here], end)?;
            bytes = &bytes[here..];
        }
        Ok(())
    }

    /// One message without its line end or headers.
    pub fn message(&mut self, from: Side, message: &[u8]) -> io::Result<()> {
        self.piece(from, &[message, b"\n"].concat(), true)
    }

    /// A side has closed its end.
    pub fn end(&mut self, from: Side) -> io::Result<()> {
        if self.lanes[from as usize].1.size > 0 {
            self.piece(from, b"", true)?;
        }
        self.event(from, b"", r#","end":true"#)
    }

    /// The agent's process has ended.
    pub fn exit(&mut self, status: Status) -> io::Result<()> {
        let how = match status {
            Status::Code(code) => format!(r#","code":{code}"#),
            Status::Signal(signal) => format!(r#","signal":{signal}"#),
            _ => String::new(),
        };
        self.event(Side::Exit, status.to_string().as_bytes(), &how)
    }

    fn piece(&mut self, from: Side, bytes: &[u8], end: bool) -> io::Result<()> {
        if self.filter.kept == Kept::Exact {
            return self.event(from, bytes, if end { "" } else { r#","more":true"# });
        }
        let (_, held) = &mut self.lanes[from as usize];
        held.add(bytes, MAX_HELD_BYTES);
        if !end {
            return Ok(());
        }
        let whole = std::mem::take(held);
        let cut = whole.size > whole.bytes.len() as u64;
        match if cut { None } else { self.filter.keep(from, whole.bytes) } {
            Some(kept) => self.event(from, &kept, ""),
            None => self.event(from, b"", &format!(r#","dropped":{}"#, whole.size)),
        }
    }

    /// One line of the recording; `more` are its further keys.
    fn event(&mut self, from: Side, bytes: &[u8], more: &str) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        write!(line, r#"{{"at":{},"from":"{from}","raw":"#, self.start.elapsed().as_micros())?;
        let text = String::from_utf8_lossy(bytes);
        write_str(line, &text);
        if let std::borrow::Cow::Owned(_) = text {
            write!(line, r#","base64":"{}""#, to_base64(bytes))?;
        }
        line.extend_from_slice(more.as_bytes());
        line.extend_from_slice(b"}\n");
        self.out.write_all(line)
    }
}
