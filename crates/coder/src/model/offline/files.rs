//! Sentences about files: reading, listing, writing, deleting.

use super::action::{Action, Place};
use super::sentences::{argument, place, raw, says_it, skip, split_first, split_last, starts};
use super::words::{Word, is_url, shell_word};

/// Reads files: a list of them, some lines of one, or "it".
pub fn read(rest: &[Word]) -> Option<Vec<Action>> {
    let rest = skip(rest, &["me", "us", "up"]);
    let bare = skip(rest, &["the", "all"]);
    if let [noun, inside @ ..] = bare
        && noun.any(&["files", "directory", "folder"])
        && (noun.is("files") || !inside.is_empty())
    {
        return list(inside).map(|action| vec![action]);
    }
    if let [noun] = bare
        && noun.any(&["error", "errors"])
    {
        return Some(vec![Action::Explain]);
    }
    if let [noun] = bare
        && noun.is("help")
    {
        return Some(vec![Action::Help]);
    }
    if starts(bare, &["what", "is", "in"]) {
        return list(bare.get(3..)?).map(|action| vec![action]);
    }
    if let [file, noun, range] = bare
        && noun.any(&["line", "lines"])
        && file.is_path()
    {
        let (line, limit) = range_of(&range.text)?;
        let place = Place::Named(file.text.clone());
        return Some(vec![Action::Read { place, line: Some(line), limit: limit.or(Some(1)) }]);
    }
    if let Some((line, limit, file)) = window(bare) {
        return Some(vec![Action::Read { place: place(file)?, line: Some(line), limit: Some(limit) }]);
    }
    let bare = match bare {
        [noun, of, file @ ..] if noun.any(&["content", "contents", "text"]) && of.any(&["of", "in"]) => file,
        _ => rest,
    };
    if says_it(bare) {
        return Some(vec![Action::read(Place::It)]);
    }
    many(bare)?.into_iter().map(read_one).collect()
}

/// Deletes files; `remove "text" from file` cuts text out.
pub fn delete(rest: &[Word]) -> Option<Vec<Action>> {
    if let Some((old, file)) = split_last(rest, &["from"]) {
        let [old] = skip(old, &["the", "all", "text", "line", "word"]) else { return None };
        if !old.quoted || old.text.is_empty() {
            return None;
        }
        return Some(vec![Action::Replace { old: old.text.clone(), new: String::new(), place: place(file)? }]);
    }
    // Nothing is ever deleted for want of a word: at least "it" has to be said.
    if rest.is_empty() {
        return None;
    }
    if says_it(rest) {
        return Some(vec![Action::Delete { place: Place::It }]);
    }
    let files = many(rest)?;
    Some(files.into_iter().map(|word| Action::Delete { place: Place::Named(word.text.clone()) }).collect())
}

/// Lists a directory.
pub fn list(rest: &[Word]) -> Option<Action> {
    let rest = skip(
        rest,
        &["me", "all", "the", "files", "content", "contents", "of", "in", "what", "is", "directory", "folder"],
    );
    match rest {
        [] => Some(Action::List { path: None }),
        [word] if word.any(&["here", "it", "this", "project", "workspace", "repository"]) => {
            Some(Action::List { path: None })
        }
        [a, b] if a.any(&["this", "current"]) && b.any(&["directory", "folder", "project"]) => {
            Some(Action::List { path: None })
        }
        [word, noun] if noun.any(&["directory", "folder"]) => Some(Action::List { path: Some(word.text.clone()) }),
        [word] if !word.text.trim().is_empty() => Some(Action::List { path: Some(word.text.clone()) }),
        _ => None,
    }
}

/// Writes a file: `create F with TEXT`, `write TEXT to F`, `create an empty file F`, `create a directory D`.
pub fn write(text: &str, rest: &[Word]) -> Option<Action> {
    let bare = skip(rest, &["a", "an", "the", "new", "file", "named", "called"]);
    if let [noun, name @ ..] = bare
        && noun.any(&["directory", "folder"])
        && let [name] = skip(name, &["named", "called"])
        && !name.text.is_empty()
    {
        return Some(Action::run(format!("mkdir -p -- {}", shell_word(&name.text))));
    }
    if let [empty, name @ ..] = bare
        && empty.is("empty")
    {
        let [name] = skip(name, &["file", "named", "called"]) else { return None };
        return name.is_path().then(|| Action::Write { path: name.text.clone(), content: String::new() });
    }
    if let Some((path, content)) = header(rest) {
        if content.is_empty() {
            return None;
        }
        return Some(Action::Write { path, content: ended(argument(text, content)) });
    }
    let (content, file) = split_last(rest, &["to", "into", "in"])?;
    let [file] = skip(file, &["the", "a", "new", "file", "called", "named"]) else { return None };
    let content = skip(content, &["the", "text", "line", "word"]);
    let [content] = content else { return None };
    (content.quoted && file.is_path())
        .then(|| Action::Write { path: file.text.clone(), content: ended(content.text.clone()) })
}

/// The path of `[a file called] F with [the content]`, and the words of the content.
fn header(rest: &[Word]) -> Option<(String, &[Word])> {
    let bare = skip(rest, &["a", "an", "the", "new", "file", "named", "called"]);
    let (file, content) = split_first(bare, &["with", "containing", "saying"])?;
    let [file] = file else { return None };
    let bare = skip(content, &["the", "following", "this"]);
    let content = match bare {
        [] => bare,
        [noun, rest @ ..] if noun.any(&["content", "contents", "text", "lines", "line"]) => rest,
        _ => content,
    };
    file.is_path().then(|| (file.text.clone(), content))
}

/// The path in a sentence whose content follows it: `Create F with:`, `Put this into F:`, `F:`.
pub fn announces(line: &str) -> Option<String> {
    let all = super::sentences::core(line);
    let (verb, rest) = all.split_first()?;
    if !verb.any(&["create", "write", "make", "save", "put", "store", "add"]) {
        return None;
    }
    if let Some((path, [])) = header(rest) {
        return Some(path);
    }
    if let Some((what, file)) = split_last(rest, &["to", "into", "in", "as"]) {
        let what = skip(what, &["the", "following", "content", "text", "code"]);
        let [file] = skip(file, &["the", "a", "new", "file"]) else { return None };
        return ((what.is_empty() || says_it(what)) && file.is_path()).then(|| file.text.clone());
    }
    match skip(rest, &["a", "an", "the", "new", "file", "named", "called"]) {
        [file] if file.is_path() => Some(file.text.clone()),
        _ => None,
    }
}

/// Text with a line break at its end, as text files have it.
pub fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// A glob for a name: a bare name is looked for at any depth, a part of one anywhere in names.
pub fn pattern(name: &str) -> String {
    if name.contains('/') {
        name.to_owned()
    } else if name.contains(['*', '?', '[', '{']) || name.contains('.') {
        format!("**/{name}")
    } else {
        format!("**/*{name}*")
    }
}

/// Splits `src/x.rs:10-20` or `src/x.rs:10`.
pub fn with_lines(text: &str) -> (String, Option<u64>, Option<u64>) {
    let whole = || (text.to_owned(), None, None);
    let Some((path, range)) = text.rsplit_once(':') else { return whole() };
    match range_of(range) {
        Some((line, limit)) if !path.is_empty() => (path.to_owned(), Some(line), limit),
        _ => whole(),
    }
}

/// Reads `10`, `10-20`, `10..20`; gives the first line and how many.
pub fn range_of(text: &str) -> Option<(u64, Option<u64>)> {
    let (first, last) = text.split_once('-').or_else(|| text.split_once("..")).unwrap_or((text, ""));
    let first: u64 = first.parse().ok()?;
    if last.is_empty() {
        return (!text.contains(['-', '.'])).then_some((first.max(1), None));
    }
    let last: u64 = last.parse().ok()?;
    (last >= first && first > 0).then(|| (first, Some((last - first).saturating_add(1))))
}

/// Reads `lines 10 to 20 of F`, `lines 10-20 of F`, `line 7 of F`, `first 20 lines of F`.
fn window(found: &[Word]) -> Option<(u64, u64, &[Word])> {
    let of = |words: &'_ [Word]| words.first().is_some_and(|word| word.any(&["of", "in", "from"]));
    let number = |word: &Word| word.text.parse::<u64>().ok().filter(|number| *number > 0);
    match found {
        [a, count, b, file @ ..] if a.is("first") && b.any(&["lines", "line"]) && of(file) => {
            Some((1, number(count)?, file.get(1..)?))
        }
        [a, first, to, last, file @ ..] if a.is("lines") && to.any(&["to", "through", "until"]) && of(file) => {
            let (first, last) = (number(first)?, number(last)?);
            (last >= first).then_some((first, (last - first).saturating_add(1), file.get(1..)?))
        }
        [a, range, file @ ..] if a.any(&["lines", "line"]) && of(file) => {
            let (first, limit) = range_of(&range.text)?;
            Some((first, limit.unwrap_or(1), file.get(1..)?))
        }
        _ => None,
    }
}

/// A list of files: `a.rs, b.rs and c.rs`.
fn many(found: &[Word]) -> Option<Vec<&Word>> {
    let rest = skip(found, &["the", "file", "files"]);
    let mut files = Vec::new();
    let mut joined = true;
    for word in rest {
        if word.is("and") {
            joined = true;
            continue;
        }
        if !joined || !(word.is_path() || is_url(&word.text)) {
            return None;
        }
        joined = word.mark == Some(',');
        files.push(word);
    }
    (!files.is_empty()).then_some(files)
}

fn read_one(word: &Word) -> Option<Action> {
    if is_url(&word.text) {
        return Some(Action::Fetch { url: word.text.clone() });
    }
    if word.text.ends_with('/') || word.text == "." || word.text == ".." {
        return Some(Action::List { path: Some(word.text.clone()) });
    }
    let (path, line, limit) = with_lines(&word.text);
    Some(Action::Read { place: Place::Named(path), line, limit })
}

/// Whether a line only introduces the block behind it, such as `Apply this patch:`.
pub fn introduces(line: &str) -> bool {
    let all = super::sentences::core(line);
    let about = ["this", "these", "the", "following", "here", "it"];
    line.trim_end().ends_with(':')
        || (starts(&all, &["apply"]) || starts(&all, &["run"]) || starts(&all, &["execute"]))
            && raw(line, &all).len() < 80
            && all.iter().any(|word| word.any(&about))
}
