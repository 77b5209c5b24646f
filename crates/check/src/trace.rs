//! A recording, judged by the laws: one sheet for each side.

use crate::sheet::{Sheet, Verdict};
use crate::table::{Check, Kind};
use crate::witness::Witness;
use std::borrow::Cow;
use std::io::{self, BufRead};
use tieline_schema::Dialect;
use tieline_trace::{Frames, Kept, Side};

/// Judges both sides of a recording.
pub fn judge<R: BufRead>(frames: &mut Frames<R>, wanted: &dyn Fn(&Check) -> bool) -> io::Result<Vec<Sheet>> {
    let (mut witness, mut dropped) = (Witness::default(), false);
    while let Some(frame) = frames.next_frame()? {
        if frames.kept() == Kept::Shape {
            witness.judge.shape_only();
        }
        dropped |= frame.dropped;
        if !frame.end && !frame.dropped && frame.from.talks() {
            let text = String::from_utf8_lossy(&frame.body);
            let utf8 = matches!(text, Cow::Borrowed(_));
            witness.frame(frame.at, frame.from, &text, frame.message.is_some(), utf8);
        }
    }
    let dialect = witness.judge.dialect().unwrap_or(Dialect::V1);
    let sheets = [Side::Client, Side::Agent].map(|side| {
        let mut sheet = Sheet::new(side, dialect);
        if witness.log.iter().any(|line| line.from == side) {
            witness.judged("recording", &mut sheet);
            let wire = sheet.findings.get_mut("wire-json");
            if let Some(wire) = wire.filter(|wire| dropped && wire.verdict == Verdict::Holds) {
                (wire.verdict, wire.said) = (Verdict::NotExercised, "what is no message was left out".to_owned());
            }
        } else {
            sheet.dead = Some("it says nothing in this recording".into());
        }
        sheet.complete(&|check| check.kind == Kind::Law && wanted(check));
        sheet
    });
    Ok(sheets.into())
}
