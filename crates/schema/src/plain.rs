//! Terminal output as plain text: no escape sequences, no control characters.

/// Terminal output as text that is safe to show anywhere. A line that was written over is shown as it was last.
pub fn plain_text(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\x1b' => skip_escape(&mut chars),
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
            // One character that begins a sequence, as a few old programs write it.
            '\u{9b}' => skip_parameters(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut chars),
            _ if char.is_control() => {}
            // These turn the direction of what follows, which can make text look like other text.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            _ => out.push(char),
        }
    }
    out
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip_escape(chars: &mut Chars<'_>) {
    match chars.next() {
        Some('[') => skip_parameters(chars),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(chars),
        Some(' '..='/') => while chars.next().is_some_and(|char| matches!(char, ' '..='/')) {},
        _ => {}
    }
}

/// Up to the letter that ends the sequence.
fn skip_parameters(chars: &mut Chars<'_>) {
    while chars.next().is_some_and(|char| matches!(char, ' '..='?')) {}
}

/// Up to the bell or the terminator.
fn skip_string(chars: &mut Chars<'_>) {
    while let Some(char) = chars.next() {
        match char {
            '\x07' | '\u{9c}' => return,
            '\x1b' => {
                chars.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
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
