//! The closed set of plain imperative sentences.

use super::action::{Action, Place, Task, Unit};
use super::changes;
use super::files;
use super::words::{Word, is_url, literal, words};

/// The words a sentence can start with.
pub const VERBS: &[&str] = &[
    "build",
    "cat",
    "change",
    "compile",
    "count",
    "create",
    "delete",
    "display",
    "download",
    "execute",
    "explain",
    "fetch",
    "find",
    "format",
    "get",
    "grep",
    "help",
    "list",
    "locate",
    "look",
    "ls",
    "make",
    "move",
    "mv",
    "open",
    "outline",
    "print",
    "put",
    "read",
    "remove",
    "rename",
    "replace",
    "rm",
    "run",
    "save",
    "search",
    "show",
    "substitute",
    "summarise",
    "summarize",
    "test",
    "view",
    "write",
];

const POLITE: &[&[&str]] = &[
    &["i", "would", "like", "you", "to"],
    &["i", "want", "you", "to"],
    &["go", "ahead", "and"],
    &["after", "that"],
    &["can", "you"],
    &["could", "you"],
    &["would", "you"],
    &["will", "you"],
    &["let", "us"],
    &["let's"],
    &["please"],
    &["kindly"],
    &["now"],
    &["first"],
    &["next"],
    &["then"],
    &["finally"],
    &["lastly"],
    &["afterwards"],
    &["also"],
    &["and"],
    &["ok"],
    &["okay"],
];

const IT: &[&str] = &["it", "this", "that", "them", "these", "those"];
const ARTICLES: &[&str] = &["the", "a", "an", "my", "this", "that"];

/// The words of a sentence behind what is only polite.
pub fn core(text: &str) -> Vec<Word> {
    let mut found = words(text);
    let mut polite = 0;
    while let Some(rest) = found.get(polite..)
        && let Some(phrase) = POLITE.iter().find(|phrase| starts(rest, phrase))
    {
        polite += phrase.len();
    }
    found.drain(..polite);
    loop {
        let drop = match found.as_slice() {
            [.., last] if last.any(&["please", "thanks", "now"]) => 1,
            [.., first, last] if first.is("for") && last.is("me") => 2,
            [.., first, last] if first.is("thank") && last.is("you") => 2,
            _ => break,
        };
        found.truncate(found.len() - drop);
    }
    found
}

/// What a sentence asks for; `None` if it is none of the forms.
pub fn sentence(text: &str) -> Option<Vec<Action>> {
    let all = core(text);
    if let [inside, file, rest @ ..] = all.as_slice()
        && inside.is("in")
        && file.is_path()
        && let Some(first) = rest.first()
    {
        return inside_file(&file.text, sentence(text.get(first.start..)?)?);
    }
    let (verb, rest) = all.split_first()?;
    if verb.quoted {
        return None;
    }
    let one = |action: Option<Action>| action.map(|action| vec![action]);
    match verb.text.to_ascii_lowercase().as_str() {
        "help" if rest.is_empty() => one(Some(Action::Help)),
        "what" | "what's" | "whats" | "who" | "how" | "where" => one(question(text, &all)),
        "read" | "show" | "open" | "cat" | "view" | "display" | "print" => files::read(rest),
        "list" | "ls" => one(files::list(rest)),
        "find" | "search" | "grep" | "look" | "locate" => one(find(text, &verb.text, rest)),
        "create" | "write" | "make" | "save" | "put" => one(files::write(text, rest)),
        "replace" | "change" | "substitute" => one(changes::replace(text, rest, verb.is("change"))),
        "rename" => one(changes::rename(rest)),
        "move" | "mv" => one(changes::move_file(rest)),
        "delete" | "remove" | "rm" => files::delete(rest),
        "run" | "execute" => one(run(text, rest)),
        "test" => {
            one(only(rest, &["everything", "all", "project", "code", "it"]).then_some(Action::project(Task::Test)))
        }
        "build" | "compile" => one(project(rest).then_some(Action::project(Task::Build))),
        "format" => one(project(rest).then_some(Action::project(Task::Format))),
        "count" => one(count(rest)),
        "summarise" | "summarize" | "outline" => one(place(rest).map(|place| Action::Outline { place })),
        "explain" => one(is_error(rest).then_some(Action::Explain)),
        "fetch" | "download" | "get" => match rest {
            [url] if is_url(&url.text) => one(Some(Action::Fetch { url: url.text.clone() })),
            _ => None,
        },
        _ => None,
    }
}

/// `In F, replace A with B`: "it" is then that file.
fn inside_file(path: &str, mut actions: Vec<Action>) -> Option<Vec<Action>> {
    for action in &mut actions {
        match action.place_mut() {
            Some(place @ Place::It) => *place = Place::Named(path.to_owned()),
            _ => return None,
        }
    }
    Some(actions)
}

/// Whether the words start with these.
pub fn starts(found: &[Word], phrase: &[&str]) -> bool {
    found.len() >= phrase.len() && found.iter().zip(phrase).all(|(word, part)| word.is(part))
}

/// The words without these in front.
pub fn skip<'a>(mut found: &'a [Word], fillers: &[&str]) -> &'a [Word] {
    while let [first, rest @ ..] = found
        && first.any(fillers)
    {
        found = rest;
    }
    found
}

/// What the user wrote from the first to the last of these words.
pub fn raw<'a>(text: &'a str, found: &[Word]) -> &'a str {
    match (found.first(), found.last()) {
        (Some(first), Some(last)) => text.get(first.start..last.end).unwrap_or_default(),
        _ => "",
    }
}

/// One argument: a quoted one without its quotes, several words as they stand.
pub fn argument(text: &str, found: &[Word]) -> String {
    match found {
        [word] => word.text.clone(),
        _ => raw(text, found).to_owned(),
    }
}

/// Splits at the last of these words.
pub fn split_last<'a>(found: &'a [Word], at: &[&str]) -> Option<(&'a [Word], &'a [Word])> {
    let index = found.iter().rposition(|word| word.any(at))?;
    Some((found.get(..index)?, found.get(index + 1..)?))
}

/// Splits at the first of these words.
pub fn split_first<'a>(found: &'a [Word], at: &[&str]) -> Option<(&'a [Word], &'a [Word])> {
    let index = found.iter().position(|word| word.any(at))?;
    Some((found.get(..index)?, found.get(index + 1..)?))
}

/// Whether the words say "it", "this file", "the attached file" or nothing at all.
pub fn says_it(found: &[Word]) -> bool {
    let rest = skip(found, ARTICLES);
    let rest = skip(rest, &["attached", "linked", "selected", "mentioned"]);
    let noun = |word: &Word| word.any(&["file", "files", "attachment", "attachments", "link", "selection", "document"]);
    match (found, rest) {
        ([], _) => true,
        ([word], _) if word.any(IT) => true,
        (_, [word]) => noun(word),
        _ => false,
    }
}

/// One file.
pub fn place(found: &[Word]) -> Option<Place> {
    if says_it(found) {
        return Some(Place::It);
    }
    match skip(found, &["the", "file", "of", "content", "contents", "in"]) {
        [word] if word.is_path() => Some(Place::Named(word.text.clone())),
        _ => None,
    }
}

fn only(found: &[Word], words: &[&str]) -> bool {
    found.iter().all(|word| word.any(words) || word.any(ARTICLES))
}

fn project(found: &[Word]) -> bool {
    only(found, &["everything", "all", "project", "code", "it", "program", "sources", "crate", "package"])
}

fn is_error(found: &[Word]) -> bool {
    let subject = |word: &Word| {
        word.any(&["error", "errors", "failure", "failures", "problem", "problems", "wrong", "failed", "failing"])
    };
    let filler =
        &["in", "of", "from", "last", "output", "command", "run", "test", "tests", "build", "what", "went", "is"];
    found.iter().any(subject) && found.iter().all(|word| subject(word) || word.any(filler) || word.any(ARTICLES))
}

fn question(text: &str, all: &[Word]) -> Option<Action> {
    for phrase in [&["what", "is", "in"][..], &["what's", "in"], &["whats", "in"], &["what", "files", "are", "in"]] {
        if starts(all, phrase) {
            let rest = all.get(phrase.len()..)?;
            return files::list(rest);
        }
    }
    if starts(all, &["what", "can", "you", "do"])
        || starts(all, &["who", "are", "you"])
        || starts(all, &["what", "are", "you"])
    {
        return Some(Action::Help);
    }
    if starts(all, &["how", "many"]) {
        let (unit, rest) = all.get(2..)?.split_first()?;
        let rest = skip(rest, &["are", "does", "do", "there", "in", "has"]);
        let rest = match rest {
            [rest @ .., last] if last.any(&["have", "has", "contain"]) => rest,
            _ => rest,
        };
        return Some(Action::Count { unit: unit_of(unit)?, place: place(rest)? });
    }
    if starts(all, &["where", "is"]) || starts(all, &["where", "are"]) {
        return find(text, "search", all.get(2..)?);
    }
    let rest = all.get(1..)?;
    (all.first()?.any(&["what", "what's", "whats"]) && is_error(rest)).then_some(Action::Explain)
}

fn split_place(rest: &[Word]) -> (&[Word], &[Word]) {
    match split_last(rest, &["in", "inside", "within", "under"]) {
        Some((needle, place)) => (needle, skip(place, &["the", "file", "files", "folder", "directory"])),
        None => (rest, &[]),
    }
}

fn find(text: &str, verb: &str, rest: &[Word]) -> Option<Action> {
    let (rest, ignore_case) = match rest {
        [rest @ .., a, b] if a.is("ignoring") && b.is("case") => (rest, true),
        [rest @ .., a] if a.any(&["case-insensitively", "case-insensitive"]) => (rest, true),
        _ => (rest, false),
    };
    let rest = skip(rest, &["for", "all", "every", "me", "the"]);
    let turned = if verb.eq_ignore_ascii_case("search") { split_first(rest, &["for"]) } else { None };
    let (needle, place) = match turned {
        Some((place, needle)) => (needle, place),
        None => split_place(rest),
    };
    let path = match place {
        [] => None,
        [word] if word.any(&["project", "code", "workspace", "everything", "here", "it", "repository"]) => None,
        [word] => Some(word.text.clone()),
        [word, noun] if noun.any(&["folder", "directory"]) => Some(word.text.clone()),
        _ => return None,
    };
    if let [noun, names @ ..] = needle
        && noun.any(&["file", "files"])
    {
        let [name] = skip(names, &["named", "called", "matching", "like"]) else { return None };
        return Some(Action::Glob { pattern: files::pattern(&name.text), path });
    }
    let needle = match needle {
        [noun, of, rest @ ..] if of.is("of") && noun.any(&["occurrences", "uses", "usages", "mentions"]) => rest,
        [noun, rest @ ..] if !rest.is_empty() && noun.any(&["word", "text", "string", "term", "phrase"]) => rest,
        _ => needle,
    };
    match needle {
        [] => return None,
        [word] if word.text.trim().is_empty() => return None,
        // Options belong to `/grep` or `/run grep`.
        [word, ..] if !word.quoted && word.text.starts_with('-') => return None,
        [word] if !word.quoted && !verb.eq_ignore_ascii_case("grep") && word.text.contains(['*', '?']) => {
            return Some(Action::Glob { pattern: files::pattern(&word.text), path });
        }
        [word]
            if verb.eq_ignore_ascii_case("find")
                && !word.quoted
                && word.is_path()
                && word.text.contains(['.', '/']) =>
        {
            return Some(Action::Glob { pattern: files::pattern(&word.text), path });
        }
        [_] => {}
        _ => {
            let vague =
                ["out", "why", "how", "what", "a", "an", "the", "is", "that", "bug", "bugs", "way", "reason", "and"];
            if needle.len() > 3 || needle.iter().any(|word| word.any(&vague)) {
                return None;
            }
        }
    }
    if let [word] = needle
        && word.any(&["bug", "bugs", "problem", "problems", "reason", "mistake", "mistakes"])
    {
        return None;
    }
    let (path, glob) = match path {
        Some(path) if path.contains('*') => (None, Some(path)),
        path => (path, None),
    };
    Some(Action::Grep { pattern: literal(&argument(text, needle)), path, glob, ignore_case })
}

fn run(text: &str, rest: &[Word]) -> Option<Action> {
    let (rest, background) = match rest {
        [rest @ .., a, b, c] if a.is("in") && b.is("the") && c.is("background") => (rest, true),
        _ => (rest, false),
    };
    let (rest, timeout) = match split_last(rest, &["timeout"]) {
        Some(([command @ .., with], after)) if with.any(&["with", "a"]) => match skip(after, &["of"]) {
            [seconds, unit @ ..] if unit.len() < 2 => match seconds.text.trim_end_matches('s').parse::<u64>() {
                Ok(seconds) => (if with.is("a") { command.split_last()?.1 } else { command }, Some(seconds)),
                Err(_) => (rest, None),
            },
            _ => (rest, None),
        },
        _ => (rest, None),
    };
    let plain = skip(rest, &["the", "all", "my", "our"]);
    if !plain.is_empty() && plain.iter().all(|word| word.any(&["test", "tests", "suite", "unit"])) {
        // `run test` alone may be a program, but hardly ever is.
        return Some(Action::project(Task::Test));
    }
    match plain {
        [word] if word.any(&["build", "compiler"]) => return Some(Action::project(Task::Build)),
        [word] if word.any(&["formatter", "format"]) => return Some(Action::project(Task::Format)),
        _ => {}
    }
    if says_it(rest) || starts(rest, &["this", "script"]) {
        return Some(Action::RunFile { place: Place::It });
    }
    let rest = match rest {
        [a, b, rest @ ..] if a.is("the") && b.any(&["command", "script"]) && !rest.is_empty() => rest,
        [a, rest @ ..] if a.is("command") && !rest.is_empty() => rest,
        _ => rest,
    };
    if rest.first()?.any(&["a", "an", "the", "this", "that", "my", "your", "our", "every", "all", "some", "it", "and"])
    {
        return None;
    }
    // Not part of a command, so the sentence means more than a command.
    if rest.iter().any(|word| word.any(&["but", "because", "unless"])) {
        return None;
    }
    let command = argument(text, rest);
    (!command.trim().is_empty()).then_some(Action::Run { command, background, timeout })
}

fn unit_of(word: &Word) -> Option<Unit> {
    match word.text.to_ascii_lowercase().as_str() {
        "line" | "lines" => Some(Unit::Lines),
        "word" | "words" => Some(Unit::Words),
        "character" | "characters" | "chars" => Some(Unit::Characters),
        _ => None,
    }
}

fn count(rest: &[Word]) -> Option<Action> {
    let (unit, rest) = skip(rest, &["the", "number", "of", "all"]).split_first()?;
    let unit = unit_of(unit)?;
    let rest = match rest {
        [first, rest @ ..] if first.any(&["in", "of", "from"]) => rest,
        rest => rest,
    };
    Some(Action::Count { unit, place: place(rest)? })
}
