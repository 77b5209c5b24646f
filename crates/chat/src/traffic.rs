//! The frames between us and an agent, the last ones, each with what it breaks of the protocol.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;
use tieline::rpc::Direction;
use tieline::rpc::sync::Lock as _;
use tieline_check::{Breach, Judge};
use tieline_client::sanitize;
use tieline_trace::Side;

/// So many frames are kept.
const MAX_FRAMES: usize = 500;
/// So much of each, in bytes.
const MAX_FRAME_BYTES: usize = 2000;

/// The last frames. Secrets are taken out before they come here.
#[derive(Debug)]
pub struct Log(Mutex<(VecDeque<Frame>, Judge, usize)>, Instant);

#[derive(Debug)]
struct Frame {
    millis: u128,
    mark: &'static str,
    text: String,
    breaches: Vec<String>,
}

impl Default for Log {
    fn default() -> Self {
        Self(Mutex::default(), Instant::now())
    }
}

impl Log {
    /// Takes a frame.
    pub fn push(&self, direction: Direction, json: &str) {
        let (frames, judge, count) = &mut *self.0.locked();
        let from = if direction == Direction::In { Side::Agent } else { Side::Client };
        let found = judge.frame(from, Some(json)).into_iter().filter(Breach::is_must);
        let breaches: Vec<String> = found.map(|breach| format!("{}: {}", breach.law, breach.said)).collect();
        *count += breaches.len();
        let mark = if direction == Direction::In { "◀" } else { "▶" };
        let text = sanitize::clipped(json, MAX_FRAME_BYTES);
        frames.push_back(Frame { millis: self.1.elapsed().as_millis(), mark, text, breaches });
        if frames.len() > MAX_FRAMES {
            frames.pop_front();
        }
    }

    /// What is shown of them: a line for each, what it breaks below it.
    pub fn lines(&self) -> Vec<String> {
        let (frames, _, count) = &*self.0.locked();
        let mut lines = vec![format!("the last {} frames; breaches of the protocol: {}", frames.len(), count)];
        for frame in frames {
            lines.push(format!("{:>8} ms {} {}", frame.millis, frame.mark, frame.text));
            lines
                .extend(frame.breaches.iter().map(|breach| format!("             ✗ {}", sanitize::exact_line(breach))));
        }
        lines
    }
}
