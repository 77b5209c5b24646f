//! Writes a path so that a person sees every character of it.

use crate::rules::hidden;
use std::{fmt::Write as _, os::unix::ffi::OsStrExt as _, path::Path};

/// The path as text in which nothing hides: control, invisible, direction-changing and odd space characters appear as
/// `\u{…}`, bytes that are no UTF-8 as `\x…`, a backslash as `\\`.
pub fn shown(path: &Path) -> String {
    let mut out = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if hidden(c) => _ = write!(out, "\\u{{{:x}}}", u32::from(c)),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn nothing_hides() {
        for (path, expect) in [
            (&b"src/main.rs"[..], "src/main.rs"),
            ("na\u{ef}ve \u{1F600}".as_bytes(), "na\u{ef}ve \u{1F600}"),
            ("a\u{200b}b".as_bytes(), "a\\u{200b}b"),
            ("a\u{202e}txt.exe".as_bytes(), "a\\u{202e}txt.exe"),
            ("a\u{a0}b".as_bytes(), "a\\u{a0}b"),
            (b"a\nb\x1b[2J", "a\\u{a}b\\u{1b}[2J"),
            (b"a\xffb", "a\\xffb"),
            (b"a\\u{200b}", "a\\\\u{200b}"),
        ] {
            assert_eq!(shown(Path::new(OsStr::from_bytes(path))), expect);
        }
    }
}
