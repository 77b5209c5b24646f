//! Base64 for terminal output: the standard alphabet, with or without padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes, or `None` if the text is not base64.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = &text[..text.len() - padding];
    if padding > 2 || digits.len() % 4 == 1 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut word = 0;
        for at in 0..4 {
            word = (word << 6) | group.get(at).map_or(Some(0), |digit| value(*digit))?;
        }
        out.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

fn value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

/// The bytes as base64 with padding.
pub fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * at)) as usize & 63];
            out.push(if at > group.len() { '=' } else { char::from(digit) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{from_base64, to_base64};
    use proptest::prelude::*;

    #[test]
    fn known_texts() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(to_base64(plain.as_bytes()), coded);
            assert_eq!(from_base64(coded).as_deref(), Some(plain.as_bytes()));
            assert_eq!(from_base64(coded.trim_end_matches('=')).as_deref(), Some(plain.as_bytes()));
        }
        for bad in ["A", "A===", "=", "====", "Zg=", "Z g=", "Zg==Zg==", "Zm9v=", "ä"] {
            assert_eq!(from_base64(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn comes_back(bytes in any::<Vec<u8>>()) {
            prop_assert_eq!(from_base64(&to_base64(&bytes)), Some(bytes));
        }

        #[test]
        fn any_text_can_be_tried(text in "\\PC*") {
            from_base64(&text);
        }
    }
}
