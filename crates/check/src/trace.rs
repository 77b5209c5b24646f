//! A recording, judged by the laws: one sheet for each side.

use crate::laws::{Breach, Judge, LAWS};
use crate::sheet::{Finding, Line, Log, Sheet, Verdict};
use crate::table::Check;
use std::io::BufRead;
use std::sync::Arc;
use tieline_schema::Dialect;
use tieline_trace::{Frames, Kept, ReadError, Side};

/// So many frames are kept as evidence, and so much of each.
const MAX_FRAMES: usize = 20_000;
const MAX_BYTES: usize = 4096;

/// Judges both sides of a recording.
pub fn judge<R: BufRead>(frames: &mut Frames<R>, wanted: &dyn Fn(&Check) -> bool) -> Result<Vec<Sheet>, ReadError> {
    let (mut judge, mut breaches, mut log) = (Judge::default(), Vec::<Breach>::new(), Vec::new());
    let mut said = [false; 2];
    while let Some(frame) = frames.next_frame()? {
        if frames.reader().kept() == Kept::Shape {
            judge.shape_only();
        }
        if frame.end || frame.dropped || !matches!(frame.from, Side::Client | Side::Agent) {
            continue;
        }
        said[usize::from(frame.from == Side::Agent)] = true;
        if log.len() < MAX_FRAMES {
            let text = String::from_utf8_lossy(&frame.body[..frame.body.len().min(MAX_BYTES)]).into_owned();
            log.push(Line { at: frame.at, from: frame.from, text });
        }
        let text = frame.message.as_ref().and_then(|_| std::str::from_utf8(&frame.body).ok());
        let at = log.len();
        breaches.extend(judge.frame(frame.from, text).into_iter().map(|breach| Breach { frame: at, ..breach }));
    }
    let log: Log = Arc::new(log);
    let dialect = judge.dialect().unwrap_or(Dialect::V1);
    let mut sheets = Vec::new();
    for (side, said) in [(Side::Client, said[0]), (Side::Agent, said[1])] {
        let mut sheet = Sheet::new(side, dialect);
        if !said {
            sheet.dead = Some("it says nothing in this recording".into());
        }
        for law in LAWS.iter().filter(|law| law.applies(side, dialect) && said) {
            let breach = breaches.iter().find(|breach| breach.law == law.id && breach.side == side);
            let verdict = match (breach, judge.tally(law.id, side).0) {
                (Some(_), _) => Verdict::Broken,
                (None, 0) => Verdict::NotExercised,
                (None, _) => Verdict::Holds,
            };
            let count = breaches.iter().filter(|other| other.law == law.id && other.side == side).count();
            let more = if count > 1 { format!(" ({count} times)") } else { String::new() };
            let (text, frame) =
                breach.map_or((String::new(), 0), |breach| (breach.said.clone() + &more, breach.frame.max(1) - 1));
            let text = if verdict == Verdict::NotExercised { "it did not come up".to_owned() } else { text };
            sheet.add(Finding { check: law, verdict, said: text, part: "recording".into(), log: log.clone(), frame });
        }
        sheet.findings.retain(|_, finding| wanted(finding.check));
        sheets.push(sheet);
    }
    Ok(sheets)
}
