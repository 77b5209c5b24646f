//! A recording, judged by the laws: one sheet for each side.

use crate::sheet::{Sheet, Verdict};
use crate::table::{Check, Kind};
use crate::witness::Witness;
use std::io::{self, BufRead};
use tieline_schema::Dialect;
use tieline_trace::{Frames, Side};

/// Judges both sides of a recording.
pub fn judge<R: BufRead>(frames: &mut Frames<R>, wanted: &dyn Fn(&Check) -> bool) -> io::Result<Vec<Sheet>> {
    let (mut witness, mut dropped) = (Witness::default(), false);
    while let Some(frame) = frames.next_frame()? {
        dropped |= frame.dropped;
        witness.recorded(&frame, &frames.header);
    }
    let dialect = witness.judge.dialect.unwrap_or(Dialect::V1);
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
