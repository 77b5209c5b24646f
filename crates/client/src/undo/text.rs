//! Differences of texts as people read them.

use std::time::Duration;

/// How long a comparison looks for the shortest answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest diff that is kept of one file.
const LONGEST: usize = 256 << 10;

/// A unified diff; `None` if one of them is no text or the diff is too long. A missing file is `None`. What is not UTF-8 is
/// read as Latin-1, in which every byte is a character, so no change is hidden.
pub(crate) fn unified(path: &str, old: Option<&[u8]>, new: Option<&[u8]>) -> Option<String> {
    let (before, after) = (old.unwrap_or_default(), new.unwrap_or_default());
    if before.contains(&0) || after.contains(&0) {
        return None;
    }
    let (before, after) = match (str::from_utf8(before), str::from_utf8(after)) {
        (Ok(before), Ok(after)) => (before.to_owned(), after.to_owned()),
        _ => (latin(before), latin(after)),
    };
    let name = |there: bool, mark: &str| if there { format!("{mark}/{path}") } else { "/dev/null".to_owned() };
    let diff = similar::TextDiff::configure().timeout(PATIENCE).diff_lines(&before, &after);
    let (from, to) = (name(old.is_some(), "a"), name(new.is_some(), "b"));
    let shown = diff.unified_diff().context_radius(3).header(&from, &to).to_string();
    (shown.len() <= LONGEST).then_some(shown)
}

fn latin(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}
