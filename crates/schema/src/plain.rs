//! Terminal output as plain text: no escape sequences, no control characters.

use tieline_json::{Seen, Sequences};

/// Terminal output as text that is safe to show anywhere. A line that was written over is shown as it was last.
pub fn plain_text(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let mut out = String::with_capacity(text.len());
    let mut sequences = Sequences::default();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        if sequences.take(char) != Seen::Text {
            continue;
        }
        match char {
            '\n' | '\t' => out.push(char),
            '\r' => match chars.peek() {
                None | Some('\n' | '\r') => {}
                Some(_) => out.truncate(out.rfind('\n').map_or(0, |at| at + 1)),
            },
            '\x08' => {
                if out.chars().next_back().is_some_and(|last| last != '\n') {
                    out.pop();
                }
            }
            _ if char.is_control() => {}
            // These turn the direction of what follows, which can make text look like other text.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            _ => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::plain_text;
    use proptest::prelude::*;

    #[test]
    fn v2_termd_07_sanitised() {
        for (output, text) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"),
            ("\x1bPsecret\x1b\\x\x1b(B.", "x."),
            ("10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
            ("ab\x08c\x07\0\u{9b}31md", "acd"),
            ("\u{202e}evil", "evil"),
            ("cut\x1b[3", "cut"),
        ] {
            assert_eq!(plain_text(output.as_bytes()), text);
        }
        assert_eq!(plain_text(b"\xff\xc3"), "\u{fffd}\u{fffd}");
    }

    proptest! {
        #[test]
        fn nothing_but_text_is_left(output in any::<Vec<u8>>(), more in "[\x1b\\[\\]P\\\\0-9;m\u{9b}\x07\r\n a]{0,20}") {
            let text = plain_text(&[output, more.into_bytes()].concat());
            prop_assert!(text.chars().all(|char| !char.is_control() || matches!(char, '\n' | '\t')));
        }
    }
}
