//! Splits prose into single instructions: lines, list items, sentences, "then".

use super::files::{announces, ended};
use super::sentences::{VERBS, core, sentence};
use super::words::{Word, words};

/// A part of prose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Something that should be an instruction.
    Sentence(String),
    /// A file whose text follows its announcement.
    Write { path: String, content: String },
}

/// Longer lines are not searched for "and": it would take too long.
const LONG: usize = 4000;

/// The instructions in prose, in order.
pub fn pieces(prose: &str) -> Vec<Piece> {
    let lines: Vec<&str> = prose.lines().flat_map(items).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        let (_, bare) = marker(line);
        if bare.is_empty() {
            continue;
        }
        let rest = lines.get(at..).unwrap_or_default();
        let more = rest.iter().any(|line| !line.trim().is_empty());
        if more
            && bare.ends_with(':')
            && let Some(path) = announces(bare)
        {
            let content = rest.join("\n");
            found.push(Piece::Write { path, content: ended(content.trim_matches(['\n', '\r']).to_owned()) });
            return found;
        }
        if more && is_heading(bare) {
            continue;
        }
        // A sentence may go on in the next line.
        if let Some(next) = rest.first()
            && bare.len() < LONG
            && let (false, next) = marker(next)
            && next.len() < LONG
            && (sentence(bare).is_none() || goes_on(bare, next))
            && !next.is_empty()
            && sentence(next).is_none()
        {
            let joined = format!("{bare} {next}");
            let parts = split(&joined);
            if parts.iter().all(|part| sentence(part).is_some()) {
                found.extend(parts.into_iter().map(Piece::Sentence));
                at += 1;
                continue;
            }
        }
        found.extend(split(bare).into_iter().map(Piece::Sentence));
    }
    found
}

/// The items of a numbered list that was written in one line, `1. read a.txt 2. list src`; otherwise the line.
fn items(line: &str) -> Vec<&str> {
    let bare = line.trim_start();
    if line.len() >= LONG || !(bare.starts_with("1. ") || bare.starts_with("1) ")) {
        return vec![line];
    }
    let found = words(line);
    let (mut parts, mut start, mut number) = (Vec::new(), 0, 2);
    for pair in found.windows(2) {
        let [mark, verb] = pair else { continue };
        let digits = mark.text.strip_suffix(')').or_else(|| mark.mark.map(|_| mark.text.as_str()));
        if digits.is_some_and(|digits| !mark.quoted && digits == number.to_string()) && verb.any(VERBS) {
            parts.push(line.get(start..mark.start).unwrap_or_default());
            (start, number) = (mark.start, number + 1);
        }
    }
    parts.push(line.get(start..).unwrap_or_default());
    parts
}

/// Whether a sentence that could end here goes on in the next line.
fn goes_on(line: &str, next: &str) -> bool {
    let runs = core(line).first().is_some_and(|word| word.any(&["run", "execute"]));
    let joins = ["in", "inside", "with", "containing", "to", "into", "by", "of", "from"];
    !runs && words(next).first().is_some_and(|word| word.any(&joins))
}

/// Whether a line starts a list item, and the line without that mark.
fn marker(line: &str) -> (bool, &str) {
    let bare = line.trim();
    let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
    let rest = bare.get(digits..).unwrap_or_default();
    let item = if digits > 0 && digits < 4 {
        rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))
    } else {
        ["- ", "* ", "+ ", "• ", "– "].iter().find_map(|mark| bare.strip_prefix(mark))
    };
    match item {
        Some(item) => {
            let item = item.trim_start();
            let item = item.strip_prefix("[ ] ").or_else(|| item.strip_prefix("[x] ")).unwrap_or(item);
            (true, item.trim())
        }
        None => (false, bare),
    }
}

/// Whether a line only announces what follows: `Please do this:` or a Markdown heading.
fn is_heading(line: &str) -> bool {
    let heading = line.trim_start_matches('#');
    if heading.len() < line.len() && heading.starts_with(' ') {
        return true;
    }
    line.ends_with(':') && core(line).first().is_none_or(|word| !word.any(VERBS)) && sentence(line).is_none()
}

/// Splits a line into sentences.
pub fn split(line: &str) -> Vec<String> {
    let found = words(line);
    let mut cuts: Vec<(usize, usize, bool)> = Vec::new();
    let runs = core(line).first().is_some_and(|word| word.any(&["run", "execute"]));
    for index in 1..found.len() {
        if let Some((sure, next)) = cut(&found, index, runs) {
            cuts.push((index, next, sure));
        }
    }
    let mut parts = Vec::new();
    let mut start = 0;
    let text = |from: usize, to: usize| match (found.get(from), found.get(to.wrapping_sub(1))) {
        (Some(first), Some(last)) if from < to => line.get(first.start..last.end).unwrap_or_default(),
        _ => "",
    };
    for (number, (end, next, sure)) in cuts.iter().copied().enumerate() {
        if end <= start {
            continue;
        }
        let until = cuts.iter().skip(number + 1).find(|cut| cut.0 > next).map_or(found.len(), |cut| cut.0);
        let both = || {
            line.len() < LONG
                && sentence(text(start, end)).is_some()
                && (sentence(text(next, until)).is_some() || sentence(text(next, found.len())).is_some())
        };
        if sure || both() {
            parts.push(text(start, end).to_owned());
            start = next;
        }
    }
    parts.push(text(start, found.len()).to_owned());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether a new sentence may start before this word: whether that is sure, and where it goes on.
fn cut(found: &[Word], index: usize, runs: bool) -> Option<(bool, usize)> {
    let before = found.get(index.checked_sub(1)?)?;
    let word = found.get(index)?;
    let verb = |at: usize| found.get(at).is_some_and(|word| word.any(VERBS));
    let polite =
        |at: usize| found.get(at).is_some_and(|word| word.any(&["please", "then", "finally", "next", "afterwards"]));
    match before.mark {
        Some('.' | '!' | '?') => {
            let large = !word.quoted && word.text.chars().next().is_some_and(char::is_uppercase);
            if large || verb(index) || polite(index) {
                return Some((true, index));
            }
        }
        Some(';') if !runs && (verb(index) || polite(index)) => return Some((true, index)),
        _ => {}
    }
    let later = |word: &Word| word.any(&["then", "afterwards", "finally"]);
    if word.is("and") && found.get(index + 1).is_some_and(later) && verb(index + 2) {
        return Some((true, index + 2));
    }
    if later(word) && verb(index + 1) {
        return Some((true, index + 1));
    }
    if word.is("and") && verb(index + 1) {
        return Some((false, index + 1));
    }
    if before.mark == Some(',') && verb(index) {
        return Some((false, index));
    }
    None
}
