//! Rows found page by page, without the trees that lead to them: for a store in which the first page of a table is lost.
//!
//! Each page of a table says itself where its rows begin, and each row how long it is. So what the pages hold can be had
//! whatever became of those that point to them. Whether an event is whole its checksum says.

use super::{Result, place, schema};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// What the first byte of a page with rows says.
const LEAF: u8 = 13;
const PAGE: usize = schema::PAGE_BYTES as usize;
/// Longer rows are no rows.
const MAX_ROW_BYTES: usize = 1 << 30;
/// The tables whose rows are wanted, by how many columns they have.
const TABLES: [(usize, &str); 4] = [(8, "event"), (24, "session"), (3, "card"), (7, "quarantine")];
const MAX_COLUMNS: usize = 24;

/// Makes a new store of the sessions and events that the pages of a damaged one hold.
pub(super) fn collect(from: &Path, to: &Path) -> Result<()> {
    let failed = |error: io::Error| super::Error::open(from, error);
    drop(place::prepare(to)?);
    let (mut new, _) = schema::open_writer(to)?;
    new.execute_batch("PRAGMA foreign_keys = OFF")?;
    let file = File::open(from).map_err(failed)?;
    let count = file.metadata().map_err(failed)?.len() / schema::PAGE_BYTES;
    let copy = new.transaction()?;
    for number in 0..count {
        let Ok(page) = read(&file, number) else { continue };
        for at in 0..rows(&page) {
            // What makes no sense is passed by.
            if let Some(row) = row(&file, &page, at) {
                let _ = keep(&copy, row);
            }
        }
    }
    Ok(copy.commit()?)
}

/// Puts a row where it belongs, if it belongs anywhere.
fn keep(copy: &Connection, row: Vec<Value>) -> rusqlite::Result<()> {
    let Some((_, table)) = TABLES.iter().find(|(columns, _)| *columns == row.len()) else { return Ok(()) };
    let places = vec!["?"; row.len()].join(", ");
    copy.prepare_cached(&format!("INSERT OR IGNORE INTO {table} VALUES ({places})"))?
        .execute(params_from_iter(row))
        .map(drop)
}

fn read(file: &File, number: u64) -> io::Result<Vec<u8>> {
    let mut page = vec![0; PAGE];
    file.read_exact_at(&mut page, number * schema::PAGE_BYTES).map(|()| page)
}

/// How many rows a page has.
fn rows(page: &[u8]) -> usize {
    if page[0] == LEAF { usize::from(short(page, 3).unwrap_or(0)) } else { 0 }
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// A number of one to nine bytes, and what follows it.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        if at == 8 {
            return Some((value << 8 | u64::from(*byte), &bytes[9..]));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// The values of a row, the number of the row in the place of its first column where that is empty.
fn row(file: &File, page: &[u8], at: usize) -> Option<Vec<Value>> {
    let begin = usize::from(short(page, 8 + 2 * at)?);
    let (length, rest) = number(page.get(begin..)?)?;
    let (id, rest) = number(rest)?;
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_ROW_BYTES)?;
    let here = bytes_here(length);
    let mut bytes = rest.get(..here)?.to_vec();
    // What does not fit goes on in other pages, each of which names the next.
    let mut next = if here < length { rest.get(here..here + 4)?.to_vec() } else { vec![0; 4] };
    while bytes.len() < length {
        let number = u32::from_be_bytes(next.try_into().ok()?).checked_sub(1)?;
        let more = read(file, number.into()).ok()?;
        bytes.extend_from_slice(&more[4..PAGE.min(4 + length - bytes.len())]);
        next = more[..4].to_vec();
    }
    let mut values = values(&bytes)?;
    if values.first()? == &Value::Null {
        values[0] = Value::Integer(id.cast_signed());
    }
    Some(values)
}

/// How much of a row of this length is in its page.
fn bytes_here(length: usize) -> usize {
    let (most, least) = (PAGE - 35, (PAGE - 12) * 32 / 255 - 23);
    if length <= most {
        return length;
    }
    let here = least + (length - least) % (PAGE - 4);
    if here <= most { here } else { least }
}

/// The values of a row: first what each of them is, then all of them.
fn values(bytes: &[u8]) -> Option<Vec<Value>> {
    let (head, _) = number(bytes)?;
    let head = usize::try_from(head).ok()?;
    let mut kinds = number(bytes.get(..head)?)?.1;
    let mut rest = &bytes[head..];
    let mut all = Vec::new();
    while !kinds.is_empty() && all.len() <= MAX_COLUMNS {
        let (kind, more) = number(kinds)?;
        kinds = more;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind,
            5 => 6,
            6 | 7 => 8,
            _ => kind.checked_sub(12)? / 2,
        };
        let (value, more) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        rest = more;
        all.push(match kind {
            0 => Value::Null,
            8 | 9 => Value::Integer(i64::from(kind == 9)),
            1..=6 => Value::Integer(signed(value)),
            7 => Value::Real(f64::from_be_bytes(value.try_into().ok()?)),
            _ if kind % 2 == 1 => Value::Text(String::from_utf8_lossy(value).into_owned()),
            _ => Value::Blob(value.to_vec()),
        });
    }
    Some(all)
}

fn signed(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    bytes.iter().fold(if negative { -1 } else { 0 }, |value, byte| value << 8 | i64::from(*byte))
}
