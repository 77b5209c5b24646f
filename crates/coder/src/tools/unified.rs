//! Reads unified diffs of several files and applies them.

use super::ToolError;

/// The changes of one file.
#[derive(Debug, Default, PartialEq)]
pub struct Section {
    /// The path before; `None` if the file is new.
    pub old: Option<String>,
    /// The path after; `None` if the file is deleted.
    pub new: Option<String>,
    hunks: Vec<Hunk>,
}

#[derive(Debug, Default, PartialEq)]
struct Hunk {
    /// Where it begins in the old file, from 1.
    start: usize,
    old: Vec<String>,
    new: Vec<String>,
    /// The last line of that side has no line end.
    old_open: bool,
    new_open: bool,
}

/// Takes a patch apart.
pub fn parse(patch: &str) -> Result<Vec<Section>, ToolError> {
    let mut sections: Vec<Section> = Vec::new();
    let mut lines = patch.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        if let Some(old) = line.strip_prefix("--- ") {
            let Some((_, new)) = lines.next_if(|(_, next)| next.starts_with("+++ ")) else {
                return Err(format!("line {}: `---` without `+++`", at + 1).into());
            };
            sections.push(Section { old: name(old, "a/"), new: name(&new[4..], "b/"), hunks: Vec::new() });
        } else if line.starts_with("@@") {
            let section = sections.last_mut().ok_or_else(|| format!("line {}: a hunk before any file", at + 1))?;
            let (start, mut old_left, mut new_left) =
                header(line).ok_or_else(|| format!("line {}: a hunk header that can't be read", at + 1))?;
            let mut hunk = Hunk { start, ..Hunk::default() };
            while old_left > 0 || new_left > 0 {
                let Some((at, line)) = lines.next() else { return Err("the patch ends inside a hunk".into()) };
                let (mark, text) = line.split_at_checked(1).unwrap_or((" ", ""));
                match mark {
                    " " => {
                        hunk.old.push(text.into());
                        hunk.new.push(text.into());
                        (old_left, new_left) = (old_left.saturating_sub(1), new_left.saturating_sub(1));
                    }
                    "-" => {
                        hunk.old.push(text.into());
                        old_left = old_left.saturating_sub(1);
                    }
                    "+" => {
                        hunk.new.push(text.into());
                        new_left = new_left.saturating_sub(1);
                    }
                    "\\" => open(&mut hunk, old_left, new_left),
                    _ => return Err(format!("line {}: not part of a hunk", at + 1).into()),
                }
            }
            if lines.next_if(|(_, next)| next.starts_with('\\')).is_some() {
                open(&mut hunk, 0, 0);
            }
            section.hunks.push(hunk);
        }
    }
    if sections.is_empty() {
        return Err("there is no file in the patch; it needs `---` and `+++` lines".into());
    }
    Ok(sections)
}

/// Notes which side has no line end.
fn open(hunk: &mut Hunk, old_left: usize, new_left: usize) {
    hunk.old_open |= old_left == 0;
    hunk.new_open |= new_left == 0;
}

fn name(text: &str, prefix: &str) -> Option<String> {
    let text = text.split('\t').next().unwrap_or(text).trim();
    (text != "/dev/null").then(|| text.strip_prefix(prefix).unwrap_or(text).to_owned())
}

fn header(line: &str) -> Option<(usize, usize, usize)> {
    let mut parts = line.split_whitespace().skip(1);
    let (start, old) = range(parts.next()?.strip_prefix('-')?)?;
    let (_, new) = range(parts.next()?.strip_prefix('+')?)?;
    Some((start, old, new))
}

fn range(text: &str) -> Option<(usize, usize)> {
    match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

impl Section {
    /// The text after the patch.
    pub fn apply(&self, text: &str) -> Result<String, ToolError> {
        let mut lines: Vec<&str> = text.split('\n').collect();
        let mut open = lines.pop_if(|last| last.is_empty()).is_none();
        // How far later hunks have moved.
        let mut moved: isize = 0;
        let mut from = 0;
        for (number, hunk) in self.hunks.iter().enumerate() {
            let wanted = if hunk.old.is_empty() { hunk.start } else { hunk.start.saturating_sub(1) };
            let wanted = wanted.saturating_add_signed(moved).min(lines.len());
            let fits = |at: usize| {
                lines.get(at..at.saturating_add(hunk.old.len())).is_some_and(|there| {
                    there.iter().zip(&hunk.old).all(|(a, b)| a.trim_end_matches('\r') == b.trim_end_matches('\r'))
                })
            };
            // The nearest place to where it should be.
            let found = (0..=lines.len())
                .flat_map(|far| [wanted.checked_sub(far), wanted.checked_add(far)])
                .flatten()
                .find(|&at| at >= from && fits(at));
            let at = found.ok_or_else(|| {
                format!("hunk {} (line {}) does not fit: its old lines are not there", number + 1, hunk.start)
            })?;
            let reaches_end = at + hunk.old.len() == lines.len();
            lines.splice(at..at + hunk.old.len(), hunk.new.iter().map(String::as_str));
            if reaches_end && (hunk.old_open || hunk.new_open) {
                open = hunk.new_open;
            }
            from = at + hunk.new.len();
            moved += hunk.new.len().cast_signed() - hunk.old.len().cast_signed();
        }
        if text.is_empty() {
            open = self.hunks.iter().any(|hunk| hunk.new_open);
        }
        let mut text = lines.join("\n");
        if !open && !lines.is_empty() {
            text.push('\n');
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patch: &str, before: &str, after: Result<&str, &str>) {
        let done = parse(patch).and_then(|sections| sections[0].apply(before));
        match (done, after) {
            (Ok(done), Ok(after)) => assert_eq!(done, after),
            (Err(done), Err(after)) => assert!(done.to_string().contains(after), "{done}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn patches() {
        let head = "--- a/x\n+++ b/x\n";
        check(&format!("{head}@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"), "a\nb\nc\n", Ok("a\nB\nc\n"));
        // It has moved.
        check(&format!("{head}@@ -1,2 +1,2 @@\n a\n-b\n+B\n"), "0\n0\na\nb\n", Ok("0\n0\na\nB\n"));
        check(&format!("{head}@@ -1,1 +1,1 @@\n-z\n+B\n"), "a\n", Err("does not fit"));
        check("--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n", "", Ok("a\nb\n"));
        check(&format!("{head}@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"), "a", Ok("b\n"));
        check(&format!("{head}@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"), "a\n", Ok("b"));
        check("nothing", "", Err("no file"));
        check(&format!("{head}@@ -1,9 +1,9 @@\n a\n"), "a\n", Err("ends inside"));
        check("@@ -1 +1 @@\n-a\n+b\n", "", Err("before any file"));
    }
}
