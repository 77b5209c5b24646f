//! What scripts of `sed` do.

use std::collections::BTreeSet;

/// Whether all that `sed` is told is to print, delete and replace.
pub(in crate::rules) fn is_plain_sed(words: &[&str]) -> bool {
    let mut scripts: Vec<&str> = Vec::new();
    let mut first = true;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match *word {
            "-e" | "--expression" => scripts.extend(rest.next()),
            "-n" | "-r" | "-E" | "-s" | "-u" | "-z" | "-i" | "-nE" | "-nr" | "-En" | "--quiet" | "--silent"
            | "--in-place" | "--regexp-extended" | "--sandbox" | "--posix" | "--" => continue,
            word if word.starts_with('-') => return false,
            word if first && scripts.is_empty() => scripts.push(word),
            _ => {}
        }
        first = false;
    }
    !scripts.is_empty() && scripts.iter().all(|script| is_plain_script(script))
}

/// What a script may run, as lines of a shell, each text one way to read it: what follows an `e`, and what is put in the place of a
/// pattern. Too much, if in doubt.
pub(in crate::rules) fn may_run(script: &str) -> impl Iterator<Item = String> {
    let chars = move || std::iter::once(' ').chain(script.chars()).zip(script.chars());
    // A pattern stands between any two signs, letters included.
    let letters: BTreeSet<char> =
        chars().filter(|(before, c)| *before == 's' && c.is_ascii_alphanumeric()).map(|(_, c)| c).collect();
    let read = move |sign: Option<char>| {
        let mut lines = String::new();
        for (before, c) in chars() {
            let stays = c.is_ascii_alphanumeric() || c.is_whitespace() || "-._~".contains(c);
            lines.push(if stays && sign != Some(c) { c } else { '\n' });
            if c == 'e' && !before.is_alphabetic() {
                lines.push('\n');
            }
        }
        lines
    };
    std::iter::once(None).chain(letters.into_iter().map(Some)).map(read)
}

fn is_plain_script(script: &str) -> bool {
    let mut rest = script.trim();
    while !rest.is_empty() {
        // A place: numbers, the end, or a pattern between slashes; one, or two with a comma.
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || "$,! ".contains(c));
            match rest.strip_prefix('/') {
                Some(pattern) => match after(pattern, '/') {
                    Some(after) => rest = after,
                    None => return false,
                },
                None => break,
            }
        }
        let Some(deed) = rest.chars().next() else { return false };
        rest = &rest[deed.len_utf8()..];
        match deed {
            'p' | 'd' | 'q' | '=' | 'h' | 'H' | 'g' | 'G' | 'n' | 'N' | 'x' | 'D' | 'P' => {}
            's' => {
                let Some(sign) = rest.chars().next().filter(|sign| "/|#,:@%!".contains(*sign)) else { return false };
                let Some(end) = after(&rest[1..], sign).and_then(|rest| after(rest, sign)) else { return false };
                rest = end.trim_start_matches(|c: char| c.is_ascii_digit() || "gpiIM".contains(c));
            }
            _ => return false,
        }
        rest = rest.trim_start_matches(' ');
        match rest.strip_prefix([';', '\n']) {
            Some(next) => rest = next.trim_start(),
            None if rest.is_empty() => {}
            None => return false,
        }
    }
    true
}

/// What follows a sign that no backslash stands before.
fn after(text: &str, sign: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == sign && !escaped {
            return Some(&text[at + c.len_utf8()..]);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}
