//! Whether the log beside the file is whole: `SQLite` silently drops what comes behind a damaged place in it.

use super::{Error, Result, Time, place, schema};
use rusqlite::Connection;
use std::io::Read as _;
use std::path::Path;

/// The first number of a log; the last bit says in which order its sums take bytes.
const MAGIC: u32 = 0x377f_0682;
const HEAD_BYTES: usize = 32;
const FRAME_HEAD_BYTES: usize = 24;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// The sum of a log, as its format has it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sum(u32, u32);

impl Sum {
    fn add(mut self, bytes: &[u8], big_endian: bool) -> Self {
        for pair in bytes.chunks_exact(8) {
            let number = |at: usize| {
                let bytes = [pair[at], pair[at + 1], pair[at + 2], pair[at + 3]];
                if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
            };
            self.0 = self.0.wrapping_add(number(0)).wrapping_add(self.1);
            self.1 = self.1.wrapping_add(number(4)).wrapping_add(self.0);
        }
        self
    }
}

/// Whether something that was committed is dropped: it stands behind a place where the sums are wrong, or the head is wrong. What was
/// not committed, and what is left of an older log, may be as it likes.
fn is_torn(log: &[u8]) -> Option<bool> {
    let Some(frames) = log.get(HEAD_BYTES..).filter(|frames| frames.len() > FRAME_HEAD_BYTES) else {
        return Some(false);
    };
    let (magic, page) = (word(log, 0)?, usize::try_from(word(log, 8)?).ok()?);
    let big_endian = magic & 1 == 1;
    let mut sum = Sum(0, 0).add(&log[..24], big_endian);
    if magic & !1 != MAGIC || sum != Sum(word(log, 24)?, word(log, 28)?) || page == 0 {
        return Some(true);
    }
    let salt = &log[16..24];
    let mut is_whole = true;
    for frame in frames.chunks_exact(FRAME_HEAD_BYTES + page) {
        sum = sum.add(&frame[..8], big_endian).add(&frame[FRAME_HEAD_BYTES..], big_endian);
        // Behind what is whole comes an older log, or nothing. Zeros were something once.
        if is_whole && frame[..FRAME_HEAD_BYTES].iter().all(|byte| *byte == 0) {
            return Some(true);
        }
        let is_ours = frame[8..16] == *salt;
        is_whole &= is_ours && sum == Sum(word(frame, 16)?, word(frame, 20)?);
        let is_commit = word(frame, 4)? != 0;
        if !is_whole && is_ours && is_commit {
            return Some(true);
        }
    }
    Some(false)
}

/// How much of the index of a log says where it ends: its head, twice, and how far it has been brought into the file.
const INDEX_BYTES: usize = 100;

/// Whether a log is shorter than its index says, which a killed process leaves beside it; what was brought into the file is not missed.
fn is_cut(path: &Path) -> Option<bool> {
    let index = || -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = crate::whole::open_to_read(&place::beside(path, "-shm")).ok()?;
        file.take(INDEX_BYTES as u64).read_to_end(&mut bytes).ok()?;
        (bytes.len() == INDEX_BYTES && bytes[..48] == bytes[48..96]).then_some(bytes)
    };
    let known = index()?;
    let number = |at: usize| known.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let log = crate::whole::read_own(&place::beside(path, "-wal")).unwrap_or_default();
    // Somebody may be writing.
    let is_still = index()? == known;
    let page = schema::PAGE_BYTES as usize;
    let wanted = HEAD_BYTES + usize::try_from(number(16)?).ok()?.checked_mul(FRAME_HEAD_BYTES + page)?;
    let is_of_it = log.get(16..24).is_none_or(|salt| *salt == known[32..40]);
    Some(is_still && is_of_it && number(16)? > number(96)? && log.len() < wanted)
}

/// Puts a log aside of which something is dropped, keeps the rest, and says so. To be called before anything is written.
pub(super) fn mend(path: &Path) -> Result<Option<String>> {
    let (log, failed) = (place::beside(path, "-wal"), |error: std::io::Error| Error::open(path, error));
    // Its index is gone as soon as the file is open.
    let is_cut = is_cut(path) == Some(true);
    let is_torn = || is_cut || crate::whole::read_own(&log).is_ok_and(|bytes| is_torn(&bytes) == Some(true));
    if !path.exists() || !is_torn() || place::is_read_only(path) {
        return Ok(None);
    }
    // Somebody else may be writing: with the right to write it stands still.
    let db = Connection::open(path)?;
    db.busy_timeout(super::schema::LOCK_TIMEOUT)?;
    db.execute_batch("BEGIN IMMEDIATE")?;
    if !is_torn() {
        return Ok(None);
    }
    let aside = place::beside(&log, &format!(".damaged-{}", Time::now().to_string().replace(':', "")));
    if log.exists() {
        std::fs::copy(&log, &aside).map_err(failed)?;
    }
    db.execute_batch("ROLLBACK")?;
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(Some(format!(
        "{} was damaged: what was written last is lost, perhaps whole turns; the damaged file is {}",
        log.display(),
        aside.display()
    )))
}
