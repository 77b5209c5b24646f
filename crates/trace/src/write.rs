//! Writes a recording: one line per event, with one write, so that it is in the file before anything else happens.

use crate::Side;
use crate::filter::{Filter, Kept};
use crate::pieces::Pieces;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tieline_json::{write_i64, write_str, write_u64};
use tieline_process::Status;

/// A frame that has to be filtered is held until it is whole, but never more of it than this.
const MAX_HELD_BYTES: usize = 16 * 1024 * 1024;

/// Makes the file of a recording, for its owner alone, also if it was there for others.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}

/// Writes a recording.
pub struct Writer {
    out: Box<dyn Write + Send>,
    start: Instant,
    filter: Filter,
    client: Lane,
    agent: Lane,
    line: Vec<u8>,
}

/// One direction.
#[derive(Default)]
struct Lane {
    pieces: Pieces,
    /// A frame that is not whole yet, if it has to be filtered, and how much of it did not fit.
    held: Vec<u8>,
    over: u64,
}

impl Writer {
    /// Starts a recording of a command, and writes its header. `by` says who writes.
    pub fn new(out: impl Write + Send + 'static, kept: Kept, by: &str, command: &[String]) -> io::Result<Self> {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        // Arguments may be secrets, and are values.
        let command = if kept == Kept::Exact { command } else { command.get(..1).unwrap_or_default() };
        let (client, agent) = Default::default();
        let mut writer = Self {
            out: Box::new(out),
            start: Instant::now(),
            filter: Filter::new(kept),
            client,
            agent,
            line: Vec::new(),
        };
        let header = serde_json::json!({"tieline-trace": 1, "started": started, "by": by, "kept": kept.name(), "command": command});
        writer.out.write_all(format!("{header}\n").as_bytes())?;
        Ok(writer)
    }

    /// Bytes of a stream, as they are about to be passed on: they are cut where frames end.
    pub fn bytes(&mut self, from: Side, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (here, end) = match self.lane(from) {
                Some(lane) => lane.pieces.next(bytes),
                None => (bytes.len(), true),
            };
            self.piece(from, &bytes[..here], end)?;
            bytes = &bytes[here..];
        }
        Ok(())
    }

    /// One message without its line end or headers.
    pub fn message(&mut self, from: Side, message: &[u8]) -> io::Result<()> {
        let mut line = message.to_vec();
        line.push(b'\n');
        self.piece(from, &line, true)
    }

    /// A side has closed its end.
    pub fn end(&mut self, from: Side) -> io::Result<()> {
        if self.lane(from).is_some_and(|lane| lane.over > 0 || !lane.held.is_empty()) {
            self.piece(from, b"", true)?;
        }
        self.event(from, b"", |line| line.extend_from_slice(b",\"end\":true"))
    }

    /// The agent's process has ended.
    pub fn exit(&mut self, status: Status) -> io::Result<()> {
        self.event(Side::Exit, status.to_string().as_bytes(), |line| {
            let (key, number) = match status {
                Status::Code(code) => (&b",\"code\":"[..], code),
                Status::Signal(signal) => (&b",\"signal\":"[..], signal),
                _ => return,
            };
            line.extend_from_slice(key);
            write_i64(line, number.into());
        })
    }

    fn lane(&mut self, from: Side) -> Option<&mut Lane> {
        match from {
            Side::Client => Some(&mut self.client),
            Side::Agent => Some(&mut self.agent),
            Side::Stderr | Side::Exit => None,
        }
    }

    fn piece(&mut self, from: Side, bytes: &[u8], end: bool) -> io::Result<()> {
        if self.filter.kept() == Kept::Exact {
            return self.event(from, bytes, |line| {
                if !end {
                    line.extend_from_slice(b",\"more\":true");
                }
            });
        }
        let Some(lane) = self.lane(from) else {
            let kept = self.filter.text(bytes);
            return self.kept(from, kept, bytes.len() as u64);
        };
        let room = MAX_HELD_BYTES - lane.held.len();
        lane.held.extend_from_slice(&bytes[..bytes.len().min(room)]);
        lane.over += bytes.len().saturating_sub(room) as u64;
        if !end {
            return Ok(());
        }
        let (held, over) = (std::mem::take(&mut lane.held), std::mem::take(&mut lane.over));
        let kept = if over > 0 { None } else { self.filter.frame(&held) };
        self.kept(from, kept, held.len() as u64 + over)
    }

    fn kept(&mut self, from: Side, kept: Option<Vec<u8>>, size: u64) -> io::Result<()> {
        match kept {
            Some(kept) => self.event(from, &kept, |_| {}),
            None => self.event(from, b"", |line| {
                line.extend_from_slice(b",\"dropped\":");
                write_u64(line, size);
            }),
        }
    }

    fn event(&mut self, from: Side, bytes: &[u8], more: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        line.extend_from_slice(b"{\"at\":");
        write_u64(line, self.start.elapsed().as_micros() as u64);
        line.extend_from_slice(b",\"from\":\"");
        line.extend_from_slice(from.name().as_bytes());
        line.extend_from_slice(b"\",\"raw\":");
        let text = String::from_utf8_lossy(bytes);
        write_str(line, &text);
        if let std::borrow::Cow::Owned(_) = text {
            line.extend_from_slice(b",\"base64\":\"");
            line.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            line.push(b'"');
        }
        more(line);
        line.extend_from_slice(b"}\n");
        self.out.write_all(line)
    }
}
