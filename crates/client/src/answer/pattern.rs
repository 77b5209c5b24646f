//! A regular expression as JSON Schema has it, written so that ours means the same. What has no such form is refused.

use regex::Regex;
use std::fmt::Write as _;

/// White space, as JavaScript has it.
const SPACE: &str = r"\t\n\x0b\x0c\r\x20\xa0\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
const WORD: &str = "0-9A-Za-z_";

/// Compiles a pattern.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let ours = translate(pattern)?;
    Regex::new(&ours).map_err(|_| "it can't be used here (no look-around, no references back)".to_owned())
}

fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut class = false;
    while let Some(char) = chars.next() {
        match char {
            '\\' => {
                let escaped = chars.next().ok_or("it ends with a backslash")?;
                escape(&mut out, escaped, class)?;
            }
            '[' if !class => {
                class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                if chars.peek() == Some(&']') {
                    return Err("an empty class means different things".into());
                }
            }
            ']' if class => {
                class = false;
                out.push(']');
            }
            // These mean something in our classes, and nothing there.
            '[' | '&' | '~' if class => {
                out.push('\\');
                out.push(char);
            }
            // A difference of two classes for us, and a range there.
            '-' if class && chars.peek() == Some(&'-') => return Err("`--` in a class can't be used here".into()),
            '.' if !class => out.push_str(r"[^\n\r\u{2028}\u{2029}]"),
            '(' if !class && chars.peek() == Some(&'?') => {
                out.push_str("(?");
                chars.next();
                match chars.peek() {
                    Some(':' | '<') => {}
                    _ => return Err("it can't be used here (no look-around, no flags)".into()),
                }
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

fn escape(out: &mut String, escaped: char, class: bool) -> Result<(), String> {
    let set = |inner: &str, not: bool| match (class, not) {
        (true, false) => inner.to_owned(),
        (_, true) => format!("[^{inner}]"),
        (false, false) => format!("[{inner}]"),
    };
    let piece = match escaped {
        'd' => set("0-9", false),
        'D' => set("0-9", true),
        'w' => set(WORD, false),
        'W' => set(WORD, true),
        's' => set(SPACE, false),
        'S' => set(SPACE, true),
        'b' if !class => r"(?-u:\b)".to_owned(),
        't' | 'n' | 'r' | 'v' | 'f' | 'u' | 'x' | 'p' | 'P' => format!("\\{escaped}"),
        letter if letter.is_alphanumeric() => return Err(format!("`\\{letter}` can't be used here")),
        sign => format!("\\{sign}"),
    };
    let _ = write!(out, "{piece}");
    Ok(())
}
