//! What the benchmark's programs share: the prompt vocabulary, the filler text and a client's report.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// A message as an agent without a library reads it.
#[derive(Deserialize)]
pub struct Message<'a> {
    /// The version of JSON-RPC.
    pub jsonrpc: &'a str,
    /// The id of a request or an answer.
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    /// What is called.
    #[serde(borrow)]
    pub method: Option<Cow<'a, str>>,
    /// With what.
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
}

/// The params of `session/prompt`, as far as they count here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    /// Which session.
    pub session_id: String,
    /// What is asked.
    pub prompt: Vec<Block>,
}

/// A text block.
#[derive(Deserialize)]
pub struct Block {
    /// Its text.
    pub text: String,
}

/// One unit of filler text: 64 bytes with exactly one newline, so that every unit needs one JSON escape.
const UNIT: &str = "a tie line joins two places and carries whatever you send there\n";

/// What a prompt asks an agent to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// `stream N SIZE`: send `count` updates of `size` bytes.
    Stream {
        /// How many updates.
        count: usize,
        /// Bytes of text in each.
        size: usize,
    },
    /// `drip N SIZE US`: the same with a pause after each update.
    Drip {
        /// How many updates.
        count: usize,
        /// Bytes of text in each.
        size: usize,
        /// The pause after each.
        pause: Duration,
    },
    /// `perm N`: ask for permission `count` times, one call after the other.
    Perm {
        /// How many calls.
        count: usize,
    },
    /// `len …`: send one update with the length of the whole prompt in bytes.
    Len(
        /// The length to send.
        usize,
    ),
    /// `fan N SIZE K`: spread `count` updates over the first `sessions` sessions, in turn.
    Fan {
        /// How many updates over all sessions.
        count: usize,
        /// Bytes of text in each.
        size: usize,
        /// How many sessions share them.
        sessions: usize,
    },
}

impl Task {
    /// Reads a prompt; `None` when it is none of the known forms.
    pub fn parse(prompt: &str) -> Option<Self> {
        // First, because such a prompt can be megabytes long and must not be split into words.
        if prompt.starts_with("len ") {
            return Some(Self::Len(prompt.len()));
        }
        let mut words = prompt.split(' ');
        let verb = words.next()?;
        let numbers = words.map(|word| word.parse().ok()).collect::<Option<Vec<usize>>>()?;
        match (verb, numbers.as_slice()) {
            ("stream", &[count, size]) => Some(Self::Stream { count, size }),
            ("drip", &[count, size, us]) => {
                Some(Self::Drip { count, size, pause: Duration::from_micros(u64::try_from(us).ok()?) })
            }
            ("perm", &[count]) => Some(Self::Perm { count }),
            ("fan", &[count, size, sessions]) if sessions > 0 => Some(Self::Fan { count, size, sessions }),
            _ => None,
        }
    }
}

/// Filler text of exactly `size` bytes.
pub fn text(size: usize) -> String {
    let mut text = UNIT.repeat(size.div_ceil(UNIT.len()));
    text.truncate(size);
    text
}

/// The id of the session an agent opens as its `number`th, counted from 1.
pub fn session_id(number: usize) -> String {
    format!("sess-{number:08}")
}

/// Measures a client from just before its prompt to just after the last update.
pub struct Meter {
    start: Instant,
    cpu: Duration,
}

impl Meter {
    /// Starts to measure this process.
    #[must_use]
    pub fn start() -> Self {
        Self { cpu: own_cpu(), start: Instant::now() }
    }

    /// The report line that the driver expects, without a newline.
    pub fn report(&self, updates: usize, bytes: usize) -> String {
        let secs = self.start.elapsed().as_secs_f64();
        let cpu = own_cpu().saturating_sub(self.cpu).as_secs_f64();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status_number(&status, "VmHWM:").unwrap_or(0);
        format!(r#"{{"updates":{updates},"bytes":{bytes},"secs":{secs},"cpu":{cpu},"peak_kib":{peak}}}"#)
    }
}

/// CPU time of all threads of this process, ended ones included.
fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    // The kernel's process clock is never negative.
    Duration::try_from(time).unwrap_or_default()
}

/// A number from the text of a `/proc/PID/status` file.
pub fn status_number(status: &str, field: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_one_newline_in_64_bytes() {
        assert_eq!(UNIT.len(), 64);
        assert_eq!(UNIT.matches('\n').count(), 1);
        for size in [0, 1, 64, 65, 4096] {
            assert_eq!(text(size).len(), size);
        }
        assert_eq!(text(4096).matches('\n').count(), 64);
    }

    #[test]
    fn prompts_are_understood() {
        assert_eq!(Task::parse("stream 3 64"), Some(Task::Stream { count: 3, size: 64 }));
        let pause = Duration::from_millis(1);
        assert_eq!(Task::parse("drip 3 64 1000"), Some(Task::Drip { count: 3, size: 64, pause }));
        assert_eq!(Task::parse("perm 7"), Some(Task::Perm { count: 7 }));
        assert_eq!(Task::parse("len x y"), Some(Task::Len(7)));
        assert_eq!(Task::parse("fan 10 64 2"), Some(Task::Fan { count: 10, size: 64, sessions: 2 }));
        for wrong in ["", "stream", "stream x 64", "fan 10 64 0", "dance 3"] {
            assert_eq!(Task::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn status_fields_are_read() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nThreads:\t5\n";
        assert_eq!(status_number(status, "VmHWM:"), Some(2048));
        assert_eq!(status_number(status, "Threads:"), Some(5));
        assert_eq!(status_number(status, "VmRSS:"), None);
    }
}
