//! How fast keys come: a paste of a terminal that does not say so is told from typing by that, and an Enter among such keys from one that
//! sends.

use std::time::{Duration, Instant};

/// Keys that come faster are no typing.
const BURST_GAP: Duration = Duration::from_millis(8);
/// So many of them, one after the other, are a paste.
const BURST_KEYS: usize = 3;
/// Who was busy for longer has let keys wait.
const BUSY: Duration = Duration::from_millis(50);
/// An Enter behind such a key sends, if nothing follows it for this long.
const BURST_END: Duration = Duration::from_millis(60);
/// Nobody types two keys in less; so many of them may have waited while we were busy.
const TYPED_GAP: Duration = Duration::from_millis(40);
/// Keys that waited come within this time.
const WAITED: Duration = Duration::from_millis(100);

/// How fast keys come.
#[derive(Debug, Default)]
pub struct Pace {
    touched: Option<Instant>,
    /// Keys that came right behind each other.
    burst: usize,
    /// A line was broken among them: it is a paste.
    lines: bool,
    /// An Enter behind such keys that may be the last: nobody knows yet if it breaks the line or sends.
    held: Option<Instant>,
    /// So many keys may have been typed while nobody took them, and when that was over.
    waited: Option<(Instant, u128)>,
}

/// What an Enter does.
pub enum Enter {
    /// It sends.
    Sends,
    /// It breaks the line.
    Breaks,
    /// That is known in a moment.
    Waits,
}

impl Pace {
    /// A key comes. True if an Enter before it has broken the line.
    pub fn key(&mut self, now: Instant) -> bool {
        let waited = self.waited.as_mut().filter(|(at, left)| *left > 0 && *at + WAITED > now);
        let fast =
            waited.is_none() && self.touched.is_some_and(|before| now.saturating_duration_since(before) < BURST_GAP);
        if let Some((_, left)) = waited {
            *left -= 1;
        }
        self.burst = if fast { self.burst + 1 } else { 0 };
        let broken = self.held.take().is_some();
        self.lines = (self.lines && fast) || broken;
        self.touched = Some(now);
        broken
    }

    /// True if the last key came right behind another one: nobody types like that.
    pub fn is_burst(&self) -> bool {
        self.burst > 0
    }

    /// Something is pasted, and the terminal says so.
    pub fn paste(&mut self, now: Instant) {
        self.touched = Some(now);
    }

    /// The key was an Enter. Among keys that nobody types so fast it is a line of a paste, unless it is the last of them: a machine that
    /// is slow, or a program that types, brings them together, too.
    pub fn enter(&mut self) -> Enter {
        match self.burst {
            0 => Enter::Sends,
            _ if self.lines => Enter::Breaks,
            _ => {
                self.held = self.touched;
                Enter::Waits
            }
        }
    }

    /// Nobody took keys for this long: those that come together now were typed one by one, unless a paste was on its way, which goes on.
    pub fn was_busy(&mut self, time: Duration, now: Instant) {
        if self.burst >= BURST_KEYS {
            self.touched = self.touched.map(|touched| touched + time);
        } else if time > BUSY {
            self.waited = Some((now, time.as_millis() / TYPED_GAP.as_millis()));
        }
        // What follows it may not have been looked for yet.
        self.held = self.held.map(|held| held + time);
    }

    /// When an Enter that nothing followed sends, if there is one.
    pub fn due(&self) -> Option<Instant> {
        self.held.map(|held| held + BURST_END)
    }

    /// True if it does now.
    pub fn sends(&mut self, now: Instant) -> bool {
        let due = self.due().is_some_and(|due| due <= now);
        self.held.take_if(|_| due).is_some()
    }

    /// When a key was last pressed or something pasted.
    pub fn last(&self) -> Option<Instant> {
        self.touched
    }
}
