//! A recording, judged by the laws: one sheet for each side.

use crate::sheet::{Sheet, Verdict};
use crate::table::{Check, Kind};
use crate::witness::Witness;
use std::io::{self, BufRead};
use tieline_schema::Dialect;
use tieline_trace::{Frames, Side};

/// Judges both sides of a recording.
pub fn judge<R: BufRead>(frames: &mut Frames<R>, wanted: &dyn Fn(&Check) -> bool) -> io::Result<Vec<Sheet>> {
    let (mut witness, mut dropped, mut left) = (Witness::default(), false, None);
    while let Some(frame) = frames.next_frame()? {
        dropped |= frame.dropped;
        if frame.end || frame.from == Side::Exit {
            left = left.or(Some(frame.from));
        }
        witness.recorded(&frame, &frames.header);
    }
    let dialect = witness.judge.dialect.unwrap_or(Dialect::V1);
    let sheets = [Side::Client, Side::Agent].map(|side| {
        let mut sheet = Sheet::new(side, dialect);
        if witness.log.iter().any(|line| line.from == side) {
            witness.judged("recording", &mut sheet);
            // Who has gone will not answer; of who was left alone, or is still at it when the recording ends, nobody can tell.
            let gone = side == Side::Agent && left.is_some_and(|left| left != Side::Client);
            let (verdict, end) = if gone { (Verdict::Broken, "agent") } else { (Verdict::NotExercised, "recording") };
            let open = witness.judge.open(side.other()).map(|asked| &asked.method).min();
            let open = open.map(|open| ("rpc-once", verdict, format!("`{open}` is not answered when the {end} ends")));
            let lost = ("wire-json", Verdict::NotExercised, "what is no message was left out".to_owned());
            for (id, verdict, said) in open.into_iter().chain(dropped.then_some(lost)) {
                sheet.findings.retain(|known, finding| *known != id || finding.verdict != Verdict::Holds);
                witness.found(id, verdict, &said, "recording", &mut sheet);
            }
        } else {
            sheet.dead = Some("it says nothing in this recording".into());
        }
        sheet.complete(&|check| check.kind == Kind::Law && wanted(check));
        sheet
    });
    Ok(sheets.into())
}
