//! Every frame in both directions: judged, kept in a trace file, shown to whoever wants it; secrets are taken out first.

use super::Notes;
use super::judge::Judge;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use tieline::rpc::Direction;
use tieline::rpc::sync::Lock;
use tieline::schema::Dialect;
use tieline_host::store::Time;

/// What stands in the place of a secret.
const HIDDEN: &str = "(hidden)";
/// What stands before a line that is none, in a warning.
pub(crate) const NO_MESSAGE: &str = "the agent wrote a line that is no message: ";

type Show = Box<dyn Fn(Direction, &str) + Send + Sync>;

/// Looks at frames. To be used as a tap of the connection.
pub struct Frames {
    trace: Option<Mutex<BufWriter<File>>>,
    show: Option<Show>,
    notes: Notes,
    strict: Option<Mutex<Judge>>,
}

impl Frames {
    /// Only judges.
    pub fn new(notes: Notes) -> Self {
        Self { trace: None, show: None, notes, strict: None }
    }

    /// Also writes every frame into a file, one JSON object per line: `time`, `direction`, `frame`.
    pub fn trace(mut self, path: &Path) -> std::io::Result<Self> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        // One that was there may be readable for others.
        #[cfg(unix)]
        if file.metadata()?.is_file() {
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        }
        self.trace = Some(Mutex::new(BufWriter::new(file)));
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
            strict.locked().speaks(dialect);
        }
    }

    /// How the agent broke the protocol: the first times, and how often in all.
    pub(super) fn violations(&self) -> (Vec<String>, u64) {
        let Some(strict) = &self.strict else { return (Vec::new(), 0) };
        let judge = strict.locked();
        (judge.told.clone(), judge.count)
    }

    /// Looks at one frame.
    pub fn see(&self, direction: Direction, frame: &[u8]) {
        let json = json(frame);
        match (&self.strict, direction) {
            (Some(strict), Direction::Out) => strict.locked().sent(json.unwrap_or_default()),
            (Some(strict), Direction::In) => strict.locked().heard(json),
            (None, _) => {}
        }
        let Some(json) = json else {
            if direction == Direction::In {
                let text = String::from_utf8_lossy(&frame[..frame.len().min(80)]);
                self.notes.warn(format!("{NO_MESSAGE}{text}"));
            }
            return self.write(direction, "text", &serde_json::Value::from(String::from_utf8_lossy(frame)).to_string());
        };
        if self.trace.is_none() && self.show.is_none() {
            return;
        }
        let line = one_line(redact(json));
        if let Some(show) = &self.show {
            show(direction, &line);
        }
        self.write(direction, "frame", &line);
    }

    fn write(&self, direction: Direction, key: &str, json: &str) {
        let Some(trace) = &self.trace else { return };
        let direction = match direction {
            Direction::In => "from_agent",
            Direction::Out => "to_agent",
        };
        let mut file = trace.locked();
        let written = writeln!(file, "{{\"time\":\"{}\",\"direction\":\"{direction}\",\"{key}\":{json}}}", Time::now());
        let written = written.and_then(|()| file.flush());
        if let Err(error) = written {
            self.notes.warn(format!("the trace can't be written: {error}"));
        }
    }
}

/// The frame as text if it is one JSON value.
fn json(frame: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(frame).ok()?;
    let mut reader = tieline::json::Reader::new(text);
    (reader.skip().is_ok() && reader.end().is_ok()).then_some(text)
}

/// Line breaks between the parts of a value become spaces.
fn one_line(json: Cow<'_, str>) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ").into() } else { json }
}

/// The frame without the values of headers and environment variables.
pub fn redact(json: &str) -> Cow<'_, str> {
    if !json.contains("\"env\"") && !json.contains("\"headers\"") {
        return json.into();
    }
    let Ok(mut value) = serde_json::from_str(json) else { return json.into() };
    hide(&mut value, false);
    value.to_string().into()
}

fn hide(value: &mut serde_json::Value, secret: bool) {
    use serde_json::Value;
    match value {
        Value::Object(object) => {
            let named = object.contains_key("name") && object.contains_key("value");
            for (key, value) in object {
                hide(value, (secret && (!named || key == "value")) || key == "env" || key == "headers");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, secret)),
        Value::Null => {}
        value if secret => *value = HIDDEN.into(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expect: &str) {
        let (one, other): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(&redact(json)).unwrap_or_default(), serde_json::from_str(expect).unwrap_or_default());
        assert_eq!(one, other);
    }

    #[test]
    fn values_of_headers_and_variables_are_hidden() {
        check(
            r#"{"a":{"env":[{"name":"K","value":"s3cret"}],"headers":[{"name":"Authorization","value":"Bearer x"}]}}"#,
            r#"{"a":{"env":[{"name":"K","value":"(hidden)"}],"headers":[{"name":"Authorization","value":"(hidden)"}]}}"#,
        );
        check(r#"{"env":{"K":"s3cret"},"args":["x"]}"#, r#"{"env":{"K":"(hidden)"},"args":["x"]}"#);
        check(
            r#"{"env":["K=s3cret"],"headers":[["A","s3cret"]]}"#,
            r#"{"env":["(hidden)"],"headers":[["(hidden)","(hidden)"]]}"#,
        );
        check(
            r#"{"env":{"PIN":1234,"no":null,"deep":{"a":["s3cret"]}},"cwd":"/"}"#,
            r#"{"env":{"PIN":"(hidden)","no":null,"deep":{"a":["(hidden)"]}},"cwd":"/"}"#,
        );
        check(r#"{"text":"say \"env\" or not"}"#, r#"{"text":"say \"env\" or not"}"#);
    }

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
