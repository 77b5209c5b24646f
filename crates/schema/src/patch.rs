//! Git patches: written from two texts, and read back into the parts that a hunk shows.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
const NO_NEWLINE: &str = "\\ No newline at end of file\n";

/// A patch with one hunk, from the first to the last line that differs. Paths are absolute and have no prefix. `None` if
/// nothing differs.
pub(crate) fn write(path: &str, old: Option<&str>, new: Option<&str>) -> Option<String> {
    if old == new {
        return None;
    }
    let quoted = quote(path);
    let mut out = format!("diff --git {quoted} {quoted}\n");
    if old.is_none() {
        out.push_str("new file mode 100644\n");
    }
    if new.is_none() {
        out.push_str("deleted file mode 100644\n");
    }
    let before: Vec<&str> = old.unwrap_or_default().split_inclusive('\n').collect();
    let after: Vec<&str> = new.unwrap_or_default().split_inclusive('\n').collect();
    if before.is_empty() && after.is_empty() {
        return Some(out);
    }
    // Git ends a name that has spaces with a tab, so that nothing behind it is read as part of it.
    let name = if path.contains(' ') { format!("{quoted}\t") } else { quoted.into_owned() };
    let old_name = if old.is_some() { &name } else { "/dev/null" };
    let new_name = if new.is_some() { &name } else { "/dev/null" };
    let _ = write!(out, "--- {old_name}\n+++ {new_name}\n");

    let head = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let shorter = before.len().min(after.len()) - head;
    let tail = before.iter().rev().zip(after.iter().rev()).take(shorter).take_while(|(a, b)| a == b).count();
    let start = head.saturating_sub(CONTEXT_LINES);
    let shown = tail.min(CONTEXT_LINES);
    let gone = &before[head..before.len() - tail];
    let come = &after[head..after.len() - tail];
    let context = head - start + shown;
    let range = |count: usize| format!("{},{count}", if count == 0 { start } else { start + 1 });
    let _ = writeln!(out, "@@ -{} +{} @@", range(context + gone.len()), range(context + come.len()));
    lines(&mut out, ' ', &before[start..head]);
    lines(&mut out, '-', gone);
    lines(&mut out, '+', come);
    lines(&mut out, ' ', &after[after.len() - tail..after.len() - tail + shown]);
    Some(out)
}

fn lines(out: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        out.push(sign);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push('\n');
            out.push_str(NO_NEWLINE);
        }
    }
}

/// What a patch says about one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// The path after the change; for a deleted file the one before.
    pub(crate) path: String,
    /// The lines before, as far as hunks show them.
    pub(crate) old: String,
    /// The lines after, as far as hunks show them.
    pub(crate) new: String,
    /// There was at least one hunk.
    pub(crate) hunks: bool,
    /// The contents are bytes and not shown.
    pub(crate) binary: bool,
}

/// Reads the sections of a patch. Never fails: what it does not understand, it passes over.
pub(crate) fn parse(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            sections.push(Section { path: second_name(clean(names)), ..Section::default() });
            continue;
        }
        let Some(section) = sections.last_mut() else { continue };
        if let Some(name) = line.strip_prefix("--- ") {
            take_name(section, name);
        } else if let Some(name) = line.strip_prefix("+++ ") {
            take_name(section, name);
        } else if let Some(name) = line.strip_prefix("rename to ").or_else(|| line.strip_prefix("copy to ")) {
            section.path = unquote(clean(name)).into_owned();
        } else if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
            section.binary = true;
        } else if let Some((old, new)) = line.strip_prefix("@@ -").and_then(counts) {
            section.hunks = true;
            hunk(section, old, new, &mut lines);
        }
    }
    sections
}

/// Reads the lines of one hunk: `old` of them were there before, `new` of them are there now.
fn hunk(section: &mut Section, mut old: usize, mut new: usize, lines: &mut std::str::SplitInclusive<'_, char>) {
    let mut last = ' ';
    loop {
        let mut ahead = lines.clone();
        let Some(line) = ahead.next() else { return };
        let mut chars = line.chars();
        let sign = chars.next().unwrap_or(' ');
        let rest = chars.as_str();
        match sign {
            '\\' => {
                // The line before has no line break after all.
                for (side, other) in [(&mut section.old, '+'), (&mut section.new, '-')] {
                    if last != other && side.ends_with('\n') {
                        side.pop();
                    }
                }
            }
            '-' if old > 0 => {
                old -= 1;
                section.old.push_str(rest);
            }
            '+' if new > 0 => {
                new -= 1;
                section.new.push_str(rest);
            }
            ' ' | '\n' if old > 0 && new > 0 => {
                let rest = if sign == '\n' { "\n" } else { rest };
                (old, new) = (old - 1, new - 1);
                section.old.push_str(rest);
                section.new.push_str(rest);
            }
            _ => return,
        }
        last = sign;
        *lines = ahead;
    }
}

/// The two line counts of `-1,4 +1,5 @@`, without the leading `-`.
fn counts(ranges: &str) -> Option<(usize, usize)> {
    let (old, rest) = ranges.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let count = |range: &str| range.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok());
    Some((count(old)?, count(new)?))
}

fn take_name(section: &mut Section, name: &str) {
    let name = clean(name);
    if name != "/dev/null" {
        section.path = unquote(name).into_owned();
    }
}

fn clean(name: &str) -> &str {
    let name = name.trim_end_matches(['\n', '\r']);
    name.strip_suffix('\t').unwrap_or(name)
}

/// The second of the two names behind `diff --git`. Without quotes they can only be told apart when they are the same.
fn second_name(names: &str) -> String {
    if let Some(quoted) = names.strip_suffix('"').and_then(|names| names.rfind(" \"")) {
        return unquote(&names[quoted + 1..]).into_owned();
    }
    let half = names.len() / 2;
    match (names.get(..half), names.get(half + 1..)) {
        (Some(first), Some(second)) if first == second => second.to_owned(),
        _ => names.rsplit(' ').next().unwrap_or_default().to_owned(),
    }
}

/// Quotes a path as Git does: only if it has quotes, backslashes, control characters or bytes beyond ASCII.
fn quote(path: &str) -> Cow<'_, str> {
    if path.bytes().all(|byte| matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\') {
        return Cow::Borrowed(path);
    }
    let mut out = String::from("\"");
    for byte in path.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            0x20..=0x7e => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out.push('"');
    Cow::Owned(out)
}

fn unquote(name: &str) -> Cow<'_, str> {
    let Some(inner) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
        return Cow::Borrowed(name);
    };
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(b'a') => out.push(7),
            Some(b'b') => out.push(8),
            Some(b'v') => out.push(11),
            Some(b'f') => out.push(12),
            Some(first @ b'0'..=b'3') => {
                let mut code = first - b'0';
                for digit in bytes.by_ref().take(2) {
                    code = (code << 3) | (digit & 7);
                }
                out.push(code);
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{parse, quote, unquote, write};
    use proptest::prelude::*;

    #[test]
    fn v2_tool_14_patch_of_two_texts() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        let want = "diff --git /p /p\n--- /p\n+++ /p\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
        assert_eq!(write("/p", Some(old), Some(new)).as_deref(), Some(want));
        let want = "diff --git /p /p\nnew file mode 100644\n--- /dev/null\n+++ /p\n@@ -0,0 +1,1 @@\n+hi\n\\ No newline at end of file\n";
        assert_eq!(write("/p", None, Some("hi")).as_deref(), Some(want));
        assert_eq!(write("/p", None, Some("")).as_deref(), Some("diff --git /p /p\nnew file mode 100644\n"));
        assert_eq!(write("/p", Some("x"), Some("x")), None);
        let want = "diff --git /a b /a b\n--- /a b\t\n+++ /a b\t\n@@ -1,1 +0,0 @@\n-x\n";
        assert_eq!(write("/a b", Some("x\n"), Some("")).as_deref(), Some(want));
    }

    #[test]
    fn names_are_quoted_as_git_does() {
        for (plain, quoted) in [("/a b", "/a b"), ("/ä", "\"/\\303\\244\""), ("/a\"\\\t", "\"/a\\\"\\\\\\t\"")] {
            assert_eq!(quote(plain), quoted);
            assert_eq!(unquote(quoted), plain);
        }
    }

    proptest! {
        #[test]
        fn a_small_text_comes_back_whole(old in "[ab\\-+@\n]{0,6}", new in "[ab\\-+@ \\\\\n]{0,6}", name in "/[a-z ä\"]{1,5}[a-z]") {
            // Up to three lines around a change are shown, so texts this small are shown whole when all lines differ or fit.
            let Some(text) = write(&name, Some(&old), Some(&new)) else { return Ok(()) };
            let sections = parse(&text);
            prop_assert_eq!(sections.len(), 1);
            prop_assert_eq!(&sections[0].path, &name);
            if old.lines().count() <= 3 && new.lines().count() <= 3 {
                prop_assert_eq!(&sections[0].old, &old);
                prop_assert_eq!(&sections[0].new, &new);
            }
        }

        #[test]
        fn any_text_can_be_read(text in "((diff --git |--- |\\+\\+\\+ |@@ -1,2 \\+1 @@|rename to |\"\\\\3|[-+ a/\"\\\\])?[a-z \"/]{0,3}\n?){0,8}") {
            parse(&text);
        }
    }
}
