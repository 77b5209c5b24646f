//! Text that has to fit, and texts that are known again.

/// How a record of an earlier conversation begins and ends: an agent that lost it is handed one, and knows by this that nobody typed it.
pub const RECORD: (&str, &str) = (
    "The lines below that begin with `> ` are a record of an earlier conversation",
    "Here the record of the earlier conversation ends. What the user says now comes next.",
);

/// The text, or its first `most` characters and `…`.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The same in one line, with single spaces.
pub fn cut_line(text: &str, most: usize) -> String {
    cut(&text.split_whitespace().collect::<Vec<_>>().join(" "), most)
}

/// `1 file`, `2 files`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_too_long_is_cut() {
        for (text, most, expect) in [("", 0, ""), ("aé", 2, "aé"), ("aéb", 2, "aé…"), ("a", 0, "…")] {
            assert_eq!(super::cut(text, most), expect);
        }
        assert_eq!([0, 1, 2].map(|count| super::counted(count, "file")), ["0 files", "1 file", "2 files"]);
        assert_eq!(super::cut_line(" a\n\tb c", 3), "a b…");
    }
}
