//! An answer as bytes and pauses: events are written as server-sent events, and the faults are put in.

use crate::talk::{Asked, Format};
use crate::wire::error::Wrong;
use crate::wire::{Event, figures, messages};
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;
use tieline_script::{Fault, Late};

/// The sizes of odd splits, in turn.
const SPLITS: [usize; 8] = [1, 2, 1, 5, 3, 1, 13, 7];
/// What was written reaches the client before the connection is cut.
const BEFORE_CUT: Duration = Duration::from_millis(20);
/// The longest silence.
const FOREVER: Duration = Duration::from_hours(1);
/// Data that is no JSON.
const BROKEN: &str = "{\"broken\": [1, 2";

/// One thing that happens to the body of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    Write(Bytes),
    Wait(Duration),
    Cut,
}

/// A stream of events, with what goes wrong.
pub(crate) fn stream(asked: &Asked, mut events: Vec<Event>, faults: &[Fault], pace: Duration) -> VecDeque<Act> {
    for fault in faults {
        if let Fault::Figures(value) = fault {
            for event in &mut events {
                figures(event, value);
            }
        }
    }
    let mut play = Play { acts: Vec::new(), asked, written: 0 };
    let keep_alive = faults.contains(&Fault::KeepAlive);
    let contents = events.iter().filter(|event| event.content).count();
    // A fault behind the last piece happens at the last piece.
    let due = |after: usize, seen: usize| seen == after.min(contents.saturating_sub(1));
    let last = events.iter().rposition(|event| event.content).map_or(0, |at| at + 1);
    let mut seen = 0;
    for (at, event) in events.iter().enumerate() {
        if faults.contains(&Fault::Unfinished) && at >= last {
            return play.end(faults);
        }
        let content = event.content || contents == 0;
        for fault in faults.iter().filter(|_| content) {
            match fault {
                Fault::Cut { after } if due(*after, seen) => {
                    let text = play.text(event);
                    play.write(text.as_bytes()[..text.len() / 2].to_vec());
                    play.acts.extend([Act::Wait(BEFORE_CUT), Act::Cut]);
                    return play.end(faults);
                }
                Fault::Stall { after, time } if due(*after, seen) => play.acts.push(Act::Wait(time.unwrap_or(FOREVER))),
                Fault::StreamError { after, code } if due(*after, seen) => {
                    let event = Wrong::Status(*code).event(asked.format, &asked.model, at);
                    play.event(&event);
                    return play.end(faults);
                }
                Fault::OverflowLater { after } if due(*after, seen) => {
                    let event = Wrong::Overflow.event(asked.format, &asked.model, at);
                    play.event(&event);
                    return play.end(faults);
                }
                Fault::Malformed { after } if due(*after, seen) => play.event(&Event::raw(event.name, BROKEN)),
                _ => {}
            }
        }
        seen += usize::from(content);
        if keep_alive {
            play.keep_alive();
        }
        if event.content && !pace.is_zero() {
            play.acts.push(Act::Wait(pace));
        }
        play.event(event);
        let late = faults.iter().find_map(|fault| if let Fault::Late(late) = fault { Some(*late) } else { None });
        if let Some(late) = late.filter(|_| event.ends) {
            play.late(late, at);
            return play.end(faults);
        }
    }
    play.end(faults)
}

/// An answer in one piece, with what goes wrong.
pub(crate) fn whole(body: Vec<u8>, faults: &[Fault]) -> VecDeque<Act> {
    let mut acts = Vec::new();
    for fault in faults {
        match fault {
            Fault::Stall { time, .. } => acts.push(Act::Wait(time.unwrap_or(FOREVER))),
            Fault::Cut { .. } | Fault::Unfinished => {
                let half = body[..body.len() / 2].to_vec();
                acts.extend([Act::Write(half.into()), Act::Wait(BEFORE_CUT), Act::Cut]);
                return split(acts, faults);
            }
            Fault::Malformed { .. } => {
                acts.push(Act::Write(body[..body.len() / 2].to_vec().into()));
                return split(acts, faults);
            }
            _ => {}
        }
    }
    acts.push(Act::Write(body.into()));
    split(acts, faults)
}

struct Play<'a> {
    acts: Vec<Act>,
    asked: &'a Asked,
    written: usize,
}

impl Play<'_> {
    fn write(&mut self, bytes: impl Into<Bytes>) {
        self.acts.push(Act::Write(bytes.into()));
    }

    fn event(&mut self, event: &Event) {
        let text = self.text(event);
        self.written += 1;
        self.write(text);
    }

    /// The event as it is written in this format.
    fn text(&self, event: &Event) -> String {
        if self.asked.array {
            return format!("{}{}", if self.written == 0 { "[" } else { "\r\n,\r\n" }, event.data);
        }
        let name = event.name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        match self.asked.format {
            Format::Gemini => format!("data: {}\r\n\r\n", event.data),
            _ => format!("{name}data: {}\n\n", event.data),
        }
    }

    fn late(&mut self, late: Late, at: usize) {
        match late {
            Late::Cut => {
                self.write("data: {\"cut");
                self.acts.extend([Act::Wait(BEFORE_CUT), Act::Cut]);
            }
            Late::Stall => self.acts.push(Act::Wait(FOREVER)),
            Late::Error => {
                let event = Wrong::Status(500).event(self.asked.format, &self.asked.model, at);
                self.event(&event);
            }
            Late::Malformed => self.event(&Event::raw(None, BROKEN)),
        }
    }

    fn keep_alive(&mut self) {
        if self.asked.array {
            return;
        }
        self.write(": keep-alive\n\n");
        if self.asked.format == Format::Messages {
            let ping = messages::ping();
            self.event(&ping);
        }
    }

    fn end(mut self, faults: &[Fault]) -> VecDeque<Act> {
        if self.asked.array && !self.acts.contains(&Act::Cut) {
            self.write("]");
        }
        split(self.acts, faults)
    }
}

fn split(acts: Vec<Act>, faults: &[Fault]) -> VecDeque<Act> {
    if !faults.contains(&Fault::Split) {
        return acts.into();
    }
    let (mut out, mut sizes) = (VecDeque::new(), SPLITS.iter().cycle());
    for act in acts {
        let Act::Write(mut bytes) = act else {
            out.push_back(act);
            continue;
        };
        // Huge answers are split into larger pieces, else they would take minutes.
        let factor = 1 + bytes.len() / 65_536;
        while !bytes.is_empty() {
            let size = sizes.next().map_or(1, |size| size * factor).min(bytes.len());
            out.push_back(Act::Write(bytes.split_to(size)));
        }
    }
    out
}
