//! What two sides said to each other, as evidence, and what the laws make of it.

use crate::laws::{Breach, Judge};
use crate::sheet::{Finding, Line, Log, Sheet, Verdict};
use crate::table::{self, Kind};
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;
use tieline_trace::{Frame, Header, Side};

/// So many frames are kept, and so much of each.
const MAX_FRAMES: usize = 20_000;
const MAX_BYTES: usize = 4096;

/// Hears both sides.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// When the first frame was heard.
    start: Option<Instant>,
    pub log: Vec<Line>,
    pub judge: Judge,
    breaches: Vec<Breach>,
}

impl Witness {
    /// Hears a frame now. Gives the message, if it is one.
    pub fn hear(&mut self, from: Side, frame: &[u8]) -> Option<Value> {
        self.breaches.extend(self.judge.frame(from, frame));
        let at = self.start.get_or_insert_with(Instant::now).elapsed().as_micros() as u64;
        let text = String::from_utf8_lossy(frame);
        self.keep(self.log.len() + 1, at, from, &text);
        tieline_trace::parse(&text)
    }

    /// Hears a frame of a recording that says this of itself.
    pub fn recorded(&mut self, frame: &Frame, header: &Header) {
        if let Some(found) = self.judge.recorded(frame, header) {
            self.breaches.extend(found);
            self.keep(frame.number, frame.at, frame.from, &String::from_utf8_lossy(&frame.body));
        }
    }

    fn keep(&mut self, frame: usize, at: u64, from: Side, text: &str) {
        if self.log.len() < MAX_FRAMES {
            let end = text.floor_char_boundary(MAX_BYTES);
            let more = if end < text.len() { format!("… ({} bytes)", text.len()) } else { String::new() };
            self.log.push(Line { frame, at, from, text: format!("{}{more}", &text[..end]) });
        }
    }

    /// Where a breach is in the log; behind its end if that was full before.
    fn place(&self, breach: &Breach) -> usize {
        self.log.iter().position(|line| line.frame == breach.frame).unwrap_or(self.log.len())
    }

    /// Something was found out from what was said so far.
    pub fn found(&self, id: &str, verdict: Verdict, said: &str, part: &str, sheet: &mut Sheet) {
        let Some(check) = table::find(id) else { return };
        let frame = self.log.len().saturating_sub(1);
        let log: Log = Arc::new(self.log.clone());
        sheet.add(Finding { check, verdict, said: said.to_owned(), part: part.to_owned(), log, frame });
    }

    /// The first line of the agent that is no message.
    pub fn rubbish(&self) -> Option<&str> {
        let mut breaches = self.breaches.iter().filter(|breach| breach.side == Side::Agent);
        let breach = breaches.find(|breach| breach.law == "wire-json")?;
        self.log.get(self.place(breach)).map(|line| &*line.text)
    }

    /// What the laws say about the side that is judged, as findings.
    pub fn judged(&self, part: &str, sheet: &mut Sheet) {
        let (side, dialect) = (sheet.side, sheet.dialect);
        let log: Log = Arc::new(self.log.clone());
        for law in table::all().filter(|law| law.kind == Kind::Law && law.applies(side, dialect)) {
            let Some(seen) = self.judge.seen.get(&(law.id, side)) else { continue };
            let broken = || self.breaches.iter().filter(|breach| breach.law == law.id && breach.side == side);
            let (verdict, why) = match broken().next() {
                Some(breach) => (Verdict::Broken, &*breach.said),
                None if *seen => (Verdict::Holds, ""),
                None => (Verdict::NotExercised, "the values that it is about are not in the recording (--shape)"),
            };
            let frame = broken().next().map_or(0, |breach| self.place(breach));
            let (said, part) = (why.to_owned(), part.to_owned());
            let mut finding = Finding { check: law, verdict, said, part, log: log.clone(), frame };
            broken().skip(1).for_each(|breach| finding.also(&breach.said));
            sheet.add(finding);
        }
    }
}
