//! What others say, made safe to show: no control sequences, nothing invisible, and not too much of it.

use tieline_host::rules::hidden;
use tieline_host::text::{cut, cut_line};
use tieline_process::plain;

/// The beginning of a text, at most `most` characters; line breaks stay.
pub fn clean(text: &str, most: usize) -> String {
    let shown: String = plain(text).chars().filter(|c| *c == '\n' || !hidden(*c)).collect();
    cut(&shown, most)
}

/// The same on one line.
pub fn line(text: &str, most: usize) -> String {
    // Room for the line breaks that become spaces, and for what folds away.
    let text = clean(text, most.saturating_mul(2));
    cut_line(&text, most)
}

/// Text as code in Markdown, on one line.
pub fn code(text: &str) -> String {
    match line(text, 80).replace('`', "'") {
        text if text.is_empty() => "an empty text".to_owned(),
        text => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_through() {
        for (text, expect) in [
            ("plain\ttext\nmore", "plain text\nmore"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("a\u{202e}b\u{200b}c\u{7}\r", "abc"),
            ("\u{1b}", ""),
        ] {
            assert_eq!(clean(text, 100), expect);
        }
        assert_eq!(line("a\n\n b `c`", 20), "a b `c`");
        assert_eq!(code("a`b"), "`a'b`");
        assert_eq!(clean(&"x".repeat(100), 3), "xxx…");
    }
}
