//! Text that has to fit.

/// The text, or its first `most` characters and `…`.
///
/// ```
/// assert_eq!(tieline_json::cut("no more", 2), "no…");
/// ```
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The same in one line, with single spaces.
pub fn cut_line(text: &str, most: usize) -> String {
    // More words than characters can't fit.
    cut(&text.split_whitespace().take(most.saturating_add(1)).collect::<Vec<_>>().join(" "), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut() {
        for (text, most, expect) in [("", 0, ""), ("aé", 2, "aé"), ("aéb", 2, "aé…"), ("a", 0, "…")] {
            assert_eq!(cut(text, most), expect);
        }
        for (text, most, expect) in [(" a\n\tb c", 3, "a b…"), ("a b", 0, "…"), ("a b", 1, "a…"), (" \n", 0, "")]
        {
            assert_eq!(cut_line(text, most), expect);
        }
    }
}
