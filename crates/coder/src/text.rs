//! What others say, made safe to show: no control sequences, nothing invisible, and not too much of it.

use tieline_host::rules::hidden;

/// The beginning of a text, at most `most` characters; line breaks stay.
pub fn clean(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let kept = match c {
            '\u{1b}' => {
                skip_sequence(&mut rest);
                continue;
            }
            '\n' => '\n',
            '\t' => ' ',
            c if hidden(c) => continue,
            c => c,
        };
        if count == most {
            out.push('…');
            break;
        }
        out.push(kept);
        count += 1;
    }
    out
}

/// The same on one line.
pub fn line(text: &str, most: usize) -> String {
    // Room for the line breaks that become spaces, and for what folds away.
    let text = clean(text, most.saturating_mul(2));
    crate::history::cut(&text, most)
}

/// Text as code in Markdown, on one line.
pub fn code(text: &str) -> String {
    match line(text, 80).replace('`', "'") {
        text if text.is_empty() => "an empty text".to_owned(),
        text => format!("`{text}`"),
    }
}

/// Skips what a terminal would take as an order, after its escape character.
fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    match rest.next() {
        Some('[') => {
            rest.find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
        Some(']' | 'P' | '_' | '^' | 'X') => {
            let mut escape = false;
            rest.find(|c| {
                let end = *c == '\u{7}' || (escape && *c == '\\');
                escape = *c == '\u{1b}';
                end
            });
        }
        _ => {}
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
