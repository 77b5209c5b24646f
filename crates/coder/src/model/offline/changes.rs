//! Sentences that change what is there: replacing, renaming, moving.

use super::action::Action;
use super::sentences::{argument, place, skip, split_first, split_last};
use super::words::Word;

/// Replaces text: `replace OLD with NEW in F`. `change` is also used for other things, so it needs quotes.
pub fn replace(text: &str, rest: &[Word], strict: bool) -> Option<Action> {
    let rest = skip(rest, &["all", "every", "each", "the"]);
    let rest = match rest {
        [noun, of, rest @ ..] if of.is("of") && noun.any(&["occurrences", "occurrence", "uses"]) => rest,
        [noun, rest @ ..] if !rest.is_empty() && noun.any(&["word", "text", "string"]) => rest,
        _ => rest,
    };
    let (old, rest) = split_first(rest, if strict { &["to", "into"] } else { &["with", "by"] })?;
    let (new, place_words) = match split_last(rest, &["in", "inside"]) {
        Some((new, words)) if place(words).is_some() => (new, words),
        _ => (rest, &[][..]),
    };
    let new = match new {
        [new @ .., last] if !new.is_empty() && last.is("everywhere") => new,
        _ => new,
    };
    // "it" is no text that could be looked for.
    let vague = matches!(old, [word] if word.any(&["it", "this", "that", "them", "everything"]));
    if vague || old.is_empty() || new.is_empty() || (strict && !old.iter().all(|word| word.quoted)) {
        return None;
    }
    let (old, new) = (argument(text, old), argument(text, new));
    (!old.is_empty()).then_some(Action::Replace { old, new, place: place(place_words)? })
}

/// Renames a file, or a word in a file.
pub fn rename(rest: &[Word]) -> Option<Action> {
    let kinds =
        ["function", "variable", "method", "struct", "class", "type", "symbol", "identifier", "constant", "field"];
    let bare = skip(rest, &["the", "file"]);
    let (symbol, bare) = match bare {
        [kind, bare @ ..] if kind.any(&kinds) => (true, bare),
        _ => (false, bare),
    };
    match bare {
        [from, to, new] if to.any(&["to", "into"]) && !symbol && from.is_path() && new.is_path() => {
            Some(Action::Move { from: from.text.clone(), to: new.text.clone() })
        }
        [from, to, new, rest @ ..] if to.any(&["to", "into"]) => {
            let words = match rest {
                [] if symbol => rest,
                [inside, words @ ..] if inside.any(&["in", "inside"]) && !words.is_empty() => words,
                _ => return None,
            };
            if from.text.is_empty() || new.text.is_empty() {
                return None;
            }
            Some(Action::RenameWord { from: from.text.clone(), to: new.text.clone(), place: place(words)? })
        }
        _ => None,
    }
}

/// Moves a file; behind a slash it keeps its name.
pub fn move_file(rest: &[Word]) -> Option<Action> {
    match skip(rest, &["the", "file"]) {
        [from, to, new] if to.any(&["to", "into"]) && from.is_path() && new.is_path() => {
            let name = from.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            let new = if new.text.ends_with('/') { format!("{}{name}", new.text) } else { new.text.clone() };
            Some(Action::Move { from: from.text.clone(), to: new })
        }
        _ => None,
    }
}
