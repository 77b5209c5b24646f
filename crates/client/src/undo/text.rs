//! Differences of texts as people read them.

use std::time::Duration;

/// How long a comparison looks for the shortest answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest diff that is kept of one file.
const LONGEST: usize = 256 << 10;

/// A unified diff; `None` if one of them is no text or the diff is too long. A missing file is `None`.
pub(crate) fn unified(path: &str, old: Option<&[u8]>, new: Option<&[u8]>) -> Option<String> {
    let text = |bytes: Option<&[u8]>| {
        let text = str::from_utf8(bytes.unwrap_or_default()).ok()?;
        (!text.contains('\0')).then(|| text.to_owned())
    };
    let (before, after) = (text(old)?, text(new)?);
    let name = |there: bool, mark: &str| if there { format!("{mark}/{path}") } else { "/dev/null".to_owned() };
    let diff = similar::TextDiff::configure().timeout(PATIENCE).diff_lines(&before, &after);
    let (from, to) = (name(old.is_some(), "a"), name(new.is_some(), "b"));
    let shown = diff.unified_diff().context_radius(3).header(&from, &to).to_string();
    (shown.len() <= LONGEST).then_some(shown)
}
