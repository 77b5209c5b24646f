//! The scenarios in which the peer is an agent and the driver its client.

use std::time::{Duration, Instant};

use crate::probe::Reading;
use crate::process::{Failure, Running};
use crate::scenario::Sample;
use crate::wire::{self, Incoming};

/// Ids of the requests that are measured start here; those of the preparation are below.
const FIRST_ID: usize = 10_000;

/// An agent that is ready to work: initialized, with one open session.
pub struct Agent {
    peer: Running,
    session: String,
}

/// The part of a run that counts.
struct Stretch {
    before: Reading,
    start: Instant,
}

impl Stretch {
    fn begin(peer: &Running) -> Result<Self, Failure> {
        Ok(Self { before: peer.read()?, start: Instant::now() })
    }

    /// Ends the stretch and the peer.
    fn end(self, peer: Running, ops: usize) -> Result<Sample, Failure> {
        let wall = self.start.elapsed();
        let after = peer.read()?;
        peer.finish();
        Ok(Sample {
            cpu_us: after.cpu_ns.saturating_sub(self.before.cpu_ns) as f64 / 1e3 / ops as f64,
            wall,
            ops,
            peak_mib: after.peak_mib,
            threads: Some(after.threads),
            first_ms: None,
        })
    }
}

fn expect(what: &str, expected: usize, got: usize) -> Result<(), Failure> {
    if expected == got { Ok(()) } else { Err(Failure::Wrong(format!("expected {expected} {what}, got {got}"))) }
}

/// From the start of the process to the answer to `initialize`.
pub fn startup(command: &[String], deadline: Duration) -> Result<Sample, Failure> {
    let start = Instant::now();
    let mut peer = Running::start(command, deadline)?;
    wire::initialize(&mut peer)?;
    let nothing = Reading { cpu_ns: 0, peak_mib: 0.0, threads: 0 };
    Stretch { before: nothing, start }.end(peer, 1)
}

impl Agent {
    /// Starts an agent and opens its first session.
    pub fn start(command: &[String], deadline: Duration) -> Result<Self, Failure> {
        let mut peer = Running::start(command, deadline)?;
        wire::initialize(&mut peer)?;
        peer.send(wire::new_session(1).as_bytes())?;
        let (_, result) = wire::answer(&mut peer, 1)?;
        Ok(Self { session: wire::session_of(&result)?, peer })
    }

    /// Sends a prompt.
    fn prompt(&mut self, id: usize, text: &str) -> Result<(), Failure> {
        self.peer.send(wire::prompt(id, &self.session, text).as_bytes())
    }

    /// A turn before the measured one, so that caches and buffers are at their usual size.
    fn warm_up(&mut self, prompt: &str) -> Result<(), Failure> {
        self.prompt(2, prompt)?;
        self.permit(2).map(drop)
    }

    /// Small requests, `in_flight` of them at any time.
    pub fn round_trips(mut self, count: usize, in_flight: usize) -> Result<Sample, Failure> {
        self.exchange(FIRST_ID, count.min(500), in_flight)?;
        let stretch = Stretch::begin(&self.peer)?;
        self.exchange(FIRST_ID + count, count, in_flight)?;
        stretch.end(self.peer, count)
    }

    fn exchange(&mut self, first: usize, count: usize, in_flight: usize) -> Result<(), Failure> {
        let (mut sent, mut answered) = (0, 0);
        let mut lines = String::new();
        while answered < count {
            lines.clear();
            while sent < count && sent - answered < in_flight {
                lines.push_str(&wire::set_mode(first + sent, &self.session));
                sent += 1;
            }
            self.peer.send(lines.as_bytes())?;
            // Take all answers that are here, so that the next requests go out together as well.
            loop {
                if let Incoming::Answer { .. } = wire::incoming(self.peer.line()?)? {
                    answered += 1;
                }
                if answered == sent || !self.peer.has_line() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One turn that sends updates as fast as it can.
    pub fn stream(mut self, count: usize, size: usize) -> Result<Sample, Failure> {
        self.warm_up(&format!("stream {} {size}", count.min(2_000)))?;
        let stretch = Stretch::begin(&self.peer)?;
        self.prompt(FIRST_ID, &format!("stream {count} {size}"))?;
        let first = self.peer.line()?;
        let first_ms = stretch.start.elapsed().as_secs_f64() * 1e3;
        expect("bytes in the first update", size, wire::chunk_text(first)?.len())?;
        let (others, _) = wire::answer(&mut self.peer, FIRST_ID)?;
        expect("updates before the answer", count, others + 1)?;
        Ok(Sample { first_ms: Some(first_ms), ..stretch.end(self.peer, count)? })
    }

    /// One turn that sends updates at the pace of a model.
    pub fn drip(mut self, count: usize, size: usize, pause_us: usize) -> Result<Sample, Failure> {
        self.warm_up(&format!("stream 500 {size}"))?;
        let stretch = Stretch::begin(&self.peer)?;
        self.prompt(FIRST_ID, &format!("drip {count} {size} {pause_us}"))?;
        let (updates, _) = wire::answer(&mut self.peer, FIRST_ID)?;
        expect("updates before the answer", count, updates)?;
        stretch.end(self.peer, count)
    }

    /// One prompt with a lot of text; not warmed up, because the memory it needs is part of the question.
    pub fn big_prompt(mut self, bytes: usize) -> Result<Sample, Failure> {
        let line = wire::prompt(FIRST_ID, &self.session, &big_text(bytes));
        let stretch = Stretch::begin(&self.peer)?;
        self.peer.send(line.as_bytes())?;
        let length = wire::chunk_text(self.peer.line()?)?;
        expect("bytes seen by the agent", bytes, length.parse().unwrap_or(0))?;
        wire::answer(&mut self.peer, FIRST_ID)?;
        stretch.end(self.peer, 1)
    }

    /// Many sessions, opened at once and then prompted at once.
    pub fn sessions(mut self, count: usize, updates: usize) -> Result<Sample, Failure> {
        let peer = &mut self.peer;
        let stretch = Stretch::begin(peer)?;
        let lines: String = (FIRST_ID..).take(count).map(wire::new_session).collect();
        let writer = peer.send_aside(lines.into_bytes());
        let mut sessions = Vec::with_capacity(count);
        while sessions.len() < count {
            if let Incoming::Answer { result, .. } = wire::incoming(peer.line()?)? {
                sessions.push(wire::session_of(result)?);
            }
        }
        peer.sent(writer)?;
        let text = format!("stream {updates} 64");
        let ids = FIRST_ID + count..;
        let lines: String = ids.zip(&sessions).map(|(id, session)| wire::prompt(id, session, &text)).collect();
        let writer = peer.send_aside(lines.into_bytes());
        let (mut ended, mut seen) = (0, 0);
        while ended < count {
            match wire::incoming(peer.line()?)? {
                Incoming::Update => seen += 1,
                Incoming::Answer { .. } => ended += 1,
                _ => {}
            }
        }
        peer.sent(writer)?;
        expect("updates before the last answer", count * updates, seen)?;
        stretch.end(self.peer, count)
    }

    /// One turn that asks again and again.
    pub fn permission(mut self, count: usize) -> Result<Sample, Failure> {
        self.warm_up(&format!("perm {}", count.min(300)))?;
        let stretch = Stretch::begin(&self.peer)?;
        self.prompt(FIRST_ID, &format!("perm {count}"))?;
        let asked = self.permit(FIRST_ID)?;
        expect("permission requests", count, asked)?;
        stretch.end(self.peer, count)
    }

    /// Allows everything until the turn ends; returns how often it was asked.
    fn permit(&mut self, id: usize) -> Result<usize, Failure> {
        let expected = id.to_string();
        let mut asked = 0;
        loop {
            let reply = match wire::incoming(self.peer.line()?)? {
                Incoming::Request { id, method } if method == "session/request_permission" => wire::allow(id),
                Incoming::Answer { id, .. } if id == expected => return Ok(asked),
                _ => continue,
            };
            asked += 1;
            self.peer.send(reply.as_bytes())?;
        }
    }
}

/// Text like source code: newlines, tabs and quotes that JSON must escape.
fn big_text(bytes: usize) -> String {
    const UNIT: &str = "// Adds two numbers.\nfn add(a: i32, b: i32) -> i32 {\n\ttracing::info!(\"adding {a} and {b}\");\n\ta + b\n}\n\n";
    let mut text = String::with_capacity(bytes + UNIT.len());
    text.push_str("len ");
    while text.len() < bytes {
        text.push_str(UNIT);
    }
    text.truncate(bytes);
    text
}
