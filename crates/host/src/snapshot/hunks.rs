//! The places in which two texts differ, each of which can be taken back on its own.

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};
use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// One run of lines that a turn changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// The lines it replaced, counted from 0.
    pub old_lines: Range<usize>,
    /// Where its lines are now, counted from 0.
    pub new_lines: Range<usize>,
    /// The text before, with its line ends.
    pub old: String,
    /// The text now, with its line ends.
    pub new: String,
}

/// How long a comparison looks for the shortest answer; after that a longer one will do.
const PATIENCE: Duration = Duration::from_secs(2);

/// All differences, first to last.
pub(super) fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut hunks: Vec<Hunk> = Vec::new();
    for change in capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(Instant::now() + PATIENCE)) {
        if change.tag() == DiffTag::Equal {
            continue;
        }
        let (old_lines, new_lines) = (change.old_range(), change.new_range());
        match hunks.last_mut() {
            Some(last) if last.old_lines.end == old_lines.start && last.new_lines.end == new_lines.start => {
                last.old_lines.end = old_lines.end;
                last.new_lines.end = new_lines.end;
            }
            _ => hunks.push(Hunk { old_lines, new_lines, old: String::new(), new: String::new() }),
        }
    }
    for hunk in &mut hunks {
        hunk.old = old[hunk.old_lines.clone()].concat();
        hunk.new = new[hunk.new_lines.clone()].concat();
    }
    hunks
}

/// The new text with one difference taken back; `None` if that difference isn't there.
pub(super) fn take_back(old: &str, new: &str, wanted: &Hunk) -> Option<String> {
    let hunk = hunks(old, new).into_iter().find(|hunk| hunk == wanted)?;
    let lines: Vec<&str> = new.split_inclusive('\n').collect();
    let (before, after) = (&lines[..hunk.new_lines.start], &lines[hunk.new_lines.end..]);
    Some(before.concat() + &hunk.old + &after.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn separate_changes_are_separate_hunks() {
        let (old, new) = ("a\nb\nc\nd\ne", "a\nB\nc\nd\nx\ne\n");
        let found = hunks(old, new);
        let texts: Vec<_> = found.iter().map(|hunk| (hunk.old.as_str(), hunk.new.as_str())).collect();
        assert_eq!(texts, [("b\n", "B\n"), ("e", "x\ne\n")]);
        assert_eq!(take_back(old, new, &found[0]).unwrap(), "a\nb\nc\nd\nx\ne\n");
        assert_eq!(take_back(old, new, &found[1]).unwrap(), "a\nB\nc\nd\ne");
        assert_eq!(take_back(old, "a\n", &found[1]), None);
    }

    proptest! {
        #[test]
        fn taking_back_every_hunk_gives_the_old_text(
            old in "([abc]\r?\n){0,8}[abc]?",
            new in "([abc]\r?\n){0,8}[abc]?",
            last_first: bool,
        ) {
            let mut text = new;
            loop {
                let found = hunks(&old, &text);
                let Some(hunk) = (if last_first { found.last() } else { found.first() }) else { break };
                text = take_back(&old, &text, hunk).unwrap();
            }
            prop_assert_eq!(text, old);
        }
    }
}
