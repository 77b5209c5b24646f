//! Writing JSON: values go straight into the caller's buffer, strings are escaped eight bytes at a time.

use crate::reader::special_at;
use std::io::Write as _;

/// Appends `text` as a JSON string.
#[inline(never)]
pub fn write_str(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut start = 0;
    loop {
        let at = special_at(bytes, start);
        out.extend_from_slice(&bytes[start..at]);
        let Some(&byte) = bytes.get(at) else { break };
        escape(out, byte);
        start = at + 1;
    }
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Appends an unsigned integer.
#[inline(never)]
pub fn write_u64(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a signed integer.
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_u64(out, value.unsigned_abs());
}

/// Appends a number; what JSON cannot say (NaN, infinities) becomes `null`.
#[inline(never)]
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        // Writing into a Vec cannot fail.
        let _ = write!(out, "{value}");
    } else {
        out.extend_from_slice(b"null");
    }
}

/// Appends JSON text as it is. A line break in it (legal white space in a pretty-printed value) becomes a space, because
/// a message is one line.
#[inline(never)]
pub fn write_raw(out: &mut Vec<u8>, json: &str) {
    let start = out.len();
    out.extend_from_slice(json.as_bytes());
    for byte in &mut out[start..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// The largest position of a character's start in `text` that is not behind `at`: where a text can be cut.
/// The standard library has this from Rust 1.91 on.
pub fn char_floor(text: &str, at: usize) -> usize {
    if at >= text.len() { text.len() } else { (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0) }
}
