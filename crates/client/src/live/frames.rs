//! Every frame in both directions: judged, kept in a trace file, shown to whoever wants it; secrets are taken out first.

use super::Notes;
use std::borrow::Cow;
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;
use tieline::rpc::sync::Lock;
use tieline::rpc::{Direction, Dropped};
use tieline::schema::Dialect;
use tieline_check::{Breach, Judge};
use tieline_host::whole::open_private;
use tieline_trace::{Kept, Side, Writer, redact};

/// What stands before a line that is none, in a warning.
pub(crate) const NO_MESSAGE: &str = "the agent wrote a line that is no message: ";

/// What stands before a message that nobody could use, in a warning.
pub(crate) const PASSED_OVER: &str = "passed over: ";

/// What is said about half of a surrogate pair.
const HALF_PAIR: &str =
    "a message of the agent has half a character in it (a lone surrogate), which was read as U+FFFD";

type Show = Box<dyn Fn(Direction, &str) + Send + Sync>;

/// Looks at frames. To be used as a tap of the connection.
pub struct Frames {
    trace: Option<Mutex<Writer>>,
    show: Option<Show>,
    notes: Notes,
    strict: Option<Mutex<Strict>>,
}

/// So many violations are told one by one.
const MAX_TOLD: usize = 20;

/// How the agent breaks the protocol.
#[derive(Default)]
struct Strict {
    judge: Judge,
    /// The first times.
    told: Vec<String>,
    /// How often.
    count: u64,
}

impl Strict {
    fn see(&mut self, from: Side, frame: &[u8]) {
        let found = self.judge.frame(from, frame);
        for breach in found.into_iter().filter(|breach| breach.side == Side::Agent && breach.is_must()) {
            let Breach { said, .. } = breach;
            self.breach(said);
        }
    }

    /// Takes note of one thing that is wrong.
    fn breach(&mut self, what: String) {
        self.count += 1;
        if self.told.len() < MAX_TOLD && !self.told.contains(&what) {
            self.told.push(what);
        }
    }
}

impl Frames {
    /// Only judges.
    pub fn new(notes: Notes) -> Self {
        Self { trace: None, show: None, notes, strict: None }
    }

    /// Also writes every frame into a recording, without the values of headers, variables and keys.
    pub fn trace(mut self, path: &Path) -> std::io::Result<Self> {
        let file = open_private(File::options().write(true).truncate(true), path)?;
        self.trace = Some(Mutex::new(Writer::new(file, Kept::Redacted, "tieline exec", &[])?));
        Ok(self)
    }

    /// Also shows every frame that is JSON, as one line.
    #[must_use]
    pub fn show(mut self, show: impl Fn(Direction, &str) + Send + Sync + 'static) -> Self {
        self.show = Some(Box::new(show));
        self
    }

    /// Also judges what the agent sends by the protocol, without mercy.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = Some(Mutex::default());
        self
    }

    /// The dialect is known now.
    pub(super) fn speaks(&self, dialect: Dialect) {
        if let Some(strict) = &self.strict {
            strict.locked().judge.dialect = Some(dialect);
        }
    }

    /// How the agent broke the protocol: the first times, and how often in all.
    pub(crate) fn violations(&self) -> (Vec<String>, u64) {
        let Some(strict) = &self.strict else { return (Vec::new(), 0) };
        let judge = strict.locked();
        (judge.told.clone(), judge.count)
    }

    /// Looks at one frame.
    pub fn see(&self, direction: Direction, frame: &[u8]) {
        let json = json(frame);
        if let Some(strict) = &self.strict {
            strict.locked().see(side(direction), frame);
        }
        if let (Some((_, true)), Direction::In) = (json, direction) {
            self.told(HALF_PAIR, true);
        }
        if let (Some(show), Some((json, _))) = (&self.show, json) {
            show(direction, &one_line(redact(json)));
        }
        self.write(direction, frame);
    }

    /// Tells of something of the agent's that was passed over.
    pub(super) fn dropped(&self, what: Dropped<'_>) {
        match what {
            Dropped::Line(line) => {
                let text = String::from_utf8_lossy(&line[..line.len().min(80)]);
                self.notes.warn(format!("{NO_MESSAGE}{text}"));
            }
            // Nobody else has seen it.
            Dropped::Over(what) => self.told(&format!("passed over, because it is more than is taken: {what}"), true),
            Dropped::Bad(what) => self.told(&format!("{PASSED_OVER}{what}"), false),
        }
    }

    /// A warning; `breach` if it is to be judged, too.
    fn told(&self, what: &str, breach: bool) {
        self.notes.warn(what);
        if let Some(strict) = self.strict.as_ref().filter(|_| breach) {
            strict.locked().breach(what.to_owned());
        }
    }

    fn write(&self, direction: Direction, frame: &[u8]) {
        let Some(trace) = &self.trace else { return };
        if let Err(error) = trace.locked().message(side(direction), frame) {
            self.notes.warn(format!("the trace can't be written: {error}"));
        }
    }
}

/// Who sends what goes this way.
fn side(direction: Direction) -> Side {
    if direction == Direction::In { Side::Agent } else { Side::Client }
}

/// The frame as text if it is one JSON value, and whether half of a character is in it.
fn json(frame: &[u8]) -> Option<(&str, bool)> {
    let text = std::str::from_utf8(frame).ok()?;
    let mut reader = tieline::json::Reader::new(text.trim_start_matches('\u{feff}'));
    (reader.skip().is_ok() && reader.end().is_ok()).then_some((text, reader.has_half_pair()))
}

/// Line breaks between the parts of a value become spaces.
fn one_line(json: Cow<'_, str>) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ").into() } else { json }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_trace_is_for_its_owner_alone_also_if_the_file_was_there() -> std::io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("trace");
        std::fs::write(&path, "old")?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
        let frames = Frames::new(Notes::default()).trace(&path)?;
        frames.see(Direction::Out, b"{}");
        assert_eq!(std::fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
        assert!(!std::fs::read_to_string(&path)?.contains("old"));
        Ok(())
    }
}
