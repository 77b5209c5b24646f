//! From a prompt to the steps that it asks for: slash commands and plain verbs, both by the one table.

use super::action::Action;
use super::memory::Memory;
use super::words::{Word, is_url, literal, looks_like_path, words};
use crate::commands::table::{self, Row};
use crate::text::code;
use serde_json::{Value, json};
use std::slice;

/// Reads what follows the name or the verb of a row.
pub type Parse = fn(&Said<'_>) -> Option<Action>;

/// More steps than this are refused as a whole.
const MAX_STEPS: usize = 50;
/// As many entries of a plan as are shown.
const MAX_ENTRIES: usize = 100;

/// One instruction behind its first word.
pub struct Said<'a> {
    /// The word that it began with.
    verb: &'a str,
    /// What follows, as it was written,
    rest: &'a str,
    /// and in words.
    words: Vec<Word>,
    /// It was typed as a command, so that every word counts as it stands.
    slash: bool,
    memory: &'a Memory,
}

/// Why there are no steps, in one sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unclear(String);

/// The steps of a prompt.
pub fn steps(prompt: &str, memory: &Memory) -> Result<Vec<Action>, Unclear> {
    let mut memory = memory.clone();
    let parts = parts(prompt.trim());
    if parts.is_empty() {
        return Err(Unclear("There is no instruction in that.".to_owned()));
    }
    if parts.len() > MAX_STEPS {
        return Err(Unclear(format!("These are {} steps, and I take {MAX_STEPS} at once.", parts.len())));
    }
    let mut steps = Vec::new();
    for part in parts {
        let action = step(part, &memory).map_err(Unclear)?;
        memory.note(action.tool, &action.arguments);
        steps.push(action);
    }
    Ok(steps)
}

/// The instructions of a prompt: its lines, the items of a list, and what `then` joins. A text that follows belongs to the first.
fn parts(prompt: &str) -> Vec<&str> {
    let lines: Vec<&str> = prompt.lines().map(item).filter(|line| !line.is_empty()).collect();
    let known = |line: &&str| line.strip_prefix('/').is_some_and(|line| table::named(first(line)).is_some());
    if prompt.starts_with('/') {
        return if lines.iter().all(known) { lines } else { vec![prompt] };
    }
    if is_diff(prompt) || prompt.contains("```") || lines.first().is_some_and(|line| line.ends_with(':')) {
        return vec![prompt];
    }
    lines.into_iter().flat_map(joined).collect()
}

/// A line without the mark of a list.
fn item(line: &str) -> &str {
    let line = line.trim();
    let bare = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = bare.strip_prefix(". ").or_else(|| bare.strip_prefix(") ")).filter(|_| bare.len() < line.len());
    numbered.or_else(|| line.strip_prefix("- ")).or_else(|| line.strip_prefix("* ")).unwrap_or(line).trim()
}

/// What stands between the words `then`.
fn joined(line: &str) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let found = words(line);
    for (index, word) in found.iter().enumerate().filter(|(_, word)| word.is("then")) {
        let before = index.checked_sub(1).and_then(|index| found.get(index)).filter(|word| word.is("and"));
        parts.push(line.get(start..before.unwrap_or(word).start).unwrap_or_default());
        start = word.end;
    }
    parts.push(line.get(start..).unwrap_or_default());
    let parts = parts.into_iter().map(|part| part.trim().trim_matches([',', ';']).trim());
    parts.filter(|part| !part.is_empty()).collect()
}

fn first(text: &str) -> &str {
    text.split(char::is_whitespace).next().unwrap_or_default()
}

fn step(part: &str, memory: &Memory) -> Result<Action, String> {
    if let Some(line) = part.strip_prefix('/') {
        let name = first(line);
        let Some(row) = table::named(name).filter(|row| row.parse.is_some()) else {
            let far = |row: &&Row| {
                (strsim::levenshtein(row.name, name), !row.name.starts_with(name.get(..1).unwrap_or_default()))
            };
            let near = table::ROWS.iter().min_by_key(far).filter(|row| far(row).0 <= 2);
            let near = near.map(|row| format!(" Did you mean `/{}`?", row.name)).unwrap_or_default();
            return Err(format!("There is no command {}.{near}", code(&format!("/{name}"))));
        };
        let said = Said::new(name, line.get(name.len()..).unwrap_or_default(), true, memory);
        return said.action(row).ok_or_else(|| format!("It is used like this: `{}`.", row.usage()));
    }
    if is_diff(part) {
        return Ok(patch_of(&ended(part.to_owned())));
    }
    if let Some((info, body)) = fenced(part) {
        if info == "diff" || info == "patch" || is_diff(&body) {
            return Ok(patch_of(&body));
        }
        return Err("I don't know what to do with this block.".to_owned());
    }
    let found = words(part);
    let polite = found.iter().take_while(|word| word.any(&["please", "now", "first", "finally", "and"])).count();
    let unknown = || format!("I don't understand {}.", code(part));
    let verb = found.get(polite).filter(|word| !word.quoted).ok_or_else(unknown)?;
    let name = verb.text.to_lowercase();
    let rest = part.get(verb.end..).unwrap_or_default();
    if name == "again" && rest.trim().is_empty() {
        return memory.command.clone().map(Action::run).ok_or_else(|| "No command was run before.".to_owned());
    }
    let row = table::ROWS.iter().find(|row| row.parse.is_some() && row.begins(&name)).ok_or_else(unknown)?;
    let said = Said::new(&name, rest, false, memory);
    said.action(row).ok_or_else(|| format!("I don't understand {}, only such as `{}`.", code(part), row.plain))
}

impl<'a> Said<'a> {
    fn new(verb: &'a str, rest: &'a str, slash: bool, memory: &'a Memory) -> Self {
        Self { verb, rest, words: words(rest), slash, memory }
    }

    fn action(&self, row: &Row) -> Option<Action> {
        row.parse.and_then(|parse| parse(self))
    }

    /// The words without those that say nothing; a command has none of them.
    fn without<'w>(&self, words: &'w [Word], fillers: &[&str]) -> &'w [Word] {
        let count = if self.slash { 0 } else { words.iter().take_while(|word| word.any(fillers)).count() };
        words.get(count..).unwrap_or_default()
    }

    /// The one path that these words are.
    fn path(&self, words: &[Word]) -> Option<String> {
        match self.without(words, &["me", "the", "file", "folder", "contents", "content", "of"]) {
            [] if self.words.is_empty() => self.memory.file.clone(),
            [it] if it.any(&["it", "this", "that"]) => self.memory.file.clone(),
            [this, file] if this.any(&["this", "that"]) && file.is("file") => self.memory.file.clone(),
            // `@name` is how chats name a file.
            [one] if !one.quoted && one.text.strip_prefix('@').is_some_and(looks_like_path) => {
                Some(one.text.trim_start_matches('@').to_owned())
            }
            [one] if self.slash => Some(self.word(one)),
            [one] if one.is_path() => Some(one.text.clone()),
            _ => None,
        }
    }

    /// A word as it counts: punctuation at its end is part of it in a command.
    fn word(&self, word: &Word) -> String {
        if self.slash && !word.quoted { first_of(self.rest, word) } else { word.text.clone() }
    }

    /// The text of these words as it was written, without quotes around all of it.
    fn text(&self, words: &[Word]) -> Option<String> {
        match words {
            [] => None,
            [one] => Some(self.word(one)),
            [first, .., last] => self.rest.get(first.start..last.end).map(str::to_owned),
        }
    }

    /// The text behind a word, in whatever form it is given.
    fn text_behind(&self, word: &Word) -> String {
        let raw = self.rest.get(word.end..).unwrap_or_default().trim_start_matches([' ', '\t', ':', '\r']);
        let body = raw.strip_prefix('\n').map_or(raw.trim(), str::trim_end);
        if let Some((_, body)) = fenced(body) {
            return body;
        }
        match words(body).as_slice() {
            [one] if one.quoted => one.text.clone(),
            [labels @ .., text]
                if text.quoted && labels.iter().all(|word| word.any(&["the", "text", "line", "content"])) =>
            {
                text.text.clone()
            }
            _ => body.to_owned(),
        }
    }
}

fn first_of(text: &str, word: &Word) -> String {
    first(text.get(word.start..).unwrap_or_default()).to_owned()
}

/// Splits words at the last of these.
fn split_last<'w>(words: &'w [Word], at: &[&str]) -> Option<(&'w [Word], &'w [Word])> {
    let place = words.iter().rposition(|word| word.any(at))?;
    Some((words.get(..place)?, words.get(place + 1..)?))
}

fn list_of(path: Option<&str>) -> Action {
    Action::new("list", json!({ "path": path }))
}

fn fetch_of(url: &str) -> Action {
    Action::new("fetch", json!({ "url": url }))
}

fn patch_of(patch: &str) -> Action {
    Action::new("patch", json!({ "patch": patch }))
}

pub fn list(said: &Said<'_>) -> Option<Action> {
    let words = said
        .without(&said.words, &["the", "all", "files", "contents", "in", "of", "folder", "directory", "here", "me"]);
    match words {
        [] => Some(list_of(None)),
        [one] => Some(list_of(Some(&said.word(one)))),
        [one, noun] if noun.any(&["folder", "directory"]) => Some(list_of(Some(&one.text))),
        _ => None,
    }
}

pub fn read(said: &Said<'_>) -> Option<Action> {
    let (mut words, mut lines) = (&said.words[..], None);
    if let [rest @ .., last] = words
        && !rest.is_empty()
        && let Some(range) = range(&last.text)
    {
        lines = Some(range);
        words = match rest {
            [rest @ .., noun] if noun.any(&["lines", "line"]) => rest,
            _ => rest,
        };
    }
    match said.without(words, &["me", "the", "all"]) {
        [url] if is_url(&url.text) => return Some(fetch_of(&url.text)),
        [files] if files.is("files") => return Some(list_of(None)),
        _ => {}
    }
    let mut path = said.path(words)?;
    if is_url(&path) {
        return Some(fetch_of(&path));
    }
    if path.ends_with('/') {
        return Some(list_of(Some(&path)));
    }
    if let Some((name, line)) = path.rsplit_once(':')
        && let Ok(line) = line.parse()
    {
        lines = lines.or(Some((line, None)));
        path = name.to_owned();
    }
    let (line, limit) = lines.map_or((None, None), |(line, limit)| (Some(line), limit));
    Some(Action::new("read", json!({ "path": path, "line": line, "limit": limit })))
}

/// `3-5`, or `3` alone: the first line and how many.
fn range(text: &str) -> Option<(u64, Option<u64>)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    (first > 0 && last >= first).then(|| (first, Some((last - first).saturating_add(1))))
}

pub fn find(said: &Said<'_>) -> Option<Action> {
    let words = said.without(&said.words, &["all", "the"]);
    let named = matches!(words, [noun, _, ..] if noun.any(&["files", "file"]));
    let words = if named && !said.slash {
        said.without(words, &["files", "file", "named", "called", "like", "matching"])
    } else {
        &said.words
    };
    let (what, place) = match words {
        [what] => (what, None),
        [what, place] if said.slash => (what, Some(place)),
        [what, inside, place] if inside.is("in") => (what, Some(place)),
        _ => return None,
    };
    let (text, path) = (said.word(what), place.map(|place| &place.text));
    if said.slash || named || (!what.quoted && (text.contains(['*', '?']) || what.is_path())) {
        return Some(Action::new("glob", json!({ "pattern": pattern(&text), "path": path })));
    }
    Some(Action::new("grep", json!({ "pattern": literal(&text), "path": path })))
}

/// A pattern for a name anywhere below.
fn pattern(name: &str) -> String {
    if name.contains('/') {
        name.to_owned()
    } else if name.contains(['*', '?', '[', '.']) {
        format!("**/{name}")
    } else {
        format!("**/*{name}*")
    }
}

pub fn grep(said: &Said<'_>) -> Option<Action> {
    let regex = said.slash || said.verb == "grep";
    let mut words = said.without(&said.words, &["for"]);
    let mut ignore_case = false;
    while let [flag, rest @ ..] = words
        && regex
        && !flag.quoted
        && flag.text.starts_with('-')
    {
        words = rest;
        if flag.text == "--" {
            break;
        }
        // Folders are gone through and lines are numbered anyway.
        if !flag.text.bytes().skip(1).all(|byte| b"inrE".contains(&byte)) {
            return None;
        }
        ignore_case |= flag.text.contains('i');
    }
    let (what, place) = match words {
        [what] => (what, None),
        [what, place] if regex => (what, Some(place)),
        [what, inside, place] if inside.is("in") => (what, Some(place)),
        _ => return None,
    };
    let text = if regex && !what.quoted { first_of(said.rest, what) } else { what.text.clone() };
    let pattern = if regex { text } else { literal(&text) };
    let (path, ignore_case) = (place.map(|place| &place.text), ignore_case.then_some(true));
    Some(Action::new("grep", json!({ "pattern": pattern, "path": path, "ignore_case": ignore_case })))
}

pub fn write(said: &Said<'_>) -> Option<Action> {
    let (path, text) = written(said)?;
    Some(Action::new("write", json!({ "path": path, "content": ended(text) })))
}

/// What is written to which file.
fn written(said: &Said<'_>) -> Option<(String, String)> {
    if said.slash {
        let path = said.words.first()?;
        return Some((path.text.clone(), said.text_behind(path)));
    }
    let words = said.without(&said.words, &["a", "an", "the", "new", "empty", "file", "called", "named"]);
    let [path, rest @ ..] = words else { return given(said) };
    let empty = || said.words.iter().take_while(|word| *word != path).any(|word| word.is("empty"));
    let text = match rest {
        _ if !path.is_path() => return given(said),
        [] if empty() => String::new(),
        [with, _, ..] if with.any(&["with", "containing"]) => said.text_behind(with),
        [_, ..] if path.mark == Some(':') => said.text_behind(path),
        _ => return given(said),
    };
    Some((path.text.clone(), text))
}

/// `"a text" to FILE`: the file and the text.
fn given(said: &Said<'_>) -> Option<(String, String)> {
    let (text, path) = split_last(&said.words, &["to", "into"])?;
    // Words without quotes may say what the text is about, not what it is.
    let exact = said.verb == "append" || matches!(text, [one] if one.quoted);
    if !exact || matches!(said.verb, "create" | "make") {
        return None;
    }
    Some((said.path(path)?, said.text(text)?))
}

pub fn append(said: &Said<'_>) -> Option<Action> {
    let (path, text) = if said.slash { written(said)? } else { given(said)? };
    (!text.is_empty()).then(|| Action::new("append", json!({ "path": path, "text": text })))
}

pub fn replace(said: &Said<'_>) -> Option<Action> {
    let joins: &[&str] = if said.verb == "change" { &["to"] } else { &["with", "by"] };
    let (old, new, path) = match said.words.as_slice() {
        [old, new, place @ ..] if said.slash && place.len() < 2 => (slice::from_ref(old), slice::from_ref(new), place),
        _ if said.slash => return None,
        words => {
            let at = words.iter().position(|word| word.any(joins))?;
            let (old, rest) = (words.get(..at)?, words.get(at + 1..)?);
            let (new, place) = split_last(rest, &["in"]).unwrap_or((rest, &[]));
            (old, new, place)
        }
    };
    let path = if path.is_empty() { said.memory.file.clone()? } else { said.path(path)? };
    // `change` is also said of other things than texts.
    let exact = said.verb != "change" || matches!(old, [one] if one.quoted);
    let vague = !said.slash && matches!(old, [one] if one.any(&["it", "this", "that", "them", "everything"]));
    let (old, new) = (said.text(old)?, said.text(new)?);
    let good = (said.slash || exact) && !vague && !old.is_empty();
    good.then(|| Action::new("replace", json!({ "path": path, "old": old, "new": new })))
}

pub fn rename(said: &Said<'_>) -> Option<Action> {
    let (from, to) = match said.words.as_slice() {
        [from, to] if said.slash || said.verb == "mv" => (from, to),
        words => match split_last(words, &["to", "into"])? {
            (from, [to]) => (from.last()?, to),
            _ => return None,
        },
    };
    let named = |word: &Word| said.path(std::slice::from_ref(word));
    let count = said.without(&said.words, &["the", "file"]).len();
    if !said.slash && said.verb != "mv" && count != 3 {
        return None;
    }
    let (from, mut to) = (named(from)?, named(to)?);
    if to.ends_with('/') {
        to.push_str(from.rsplit('/').next().unwrap_or_default());
    }
    Some(Action::new("move", json!({ "from": from, "to": to })))
}

pub fn delete(said: &Said<'_>) -> Option<Action> {
    if said.words.is_empty() {
        return None;
    }
    said.path(&said.words).map(|path| Action::new("delete", json!({ "path": path })))
}

pub fn patch(said: &Said<'_>) -> Option<Action> {
    let body = said.rest.trim();
    let patch = fenced(body).map_or_else(|| ended(body.to_owned()), |(_, body)| body);
    (!body.is_empty() && (said.slash || is_diff(&patch))).then(|| patch_of(&patch))
}

pub fn run(said: &Said<'_>) -> Option<Action> {
    let (mut words, mut background, mut timeout) = (&said.words[..], false, None);
    while let [flag, rest @ ..] = words {
        words = match rest {
            rest if flag.is("--background") => {
                background = true;
                rest
            }
            [seconds, rest @ ..] if flag.is("--timeout") => {
                timeout = Some(seconds.text.parse::<u64>().ok()?);
                rest
            }
            _ => break,
        };
    }
    if !said.slash {
        let plain: Vec<&str> = words.iter().filter(|word| !word.quoted).map(|word| word.text.as_str()).collect();
        match plain.as_slice() {
            ["it" | "that", "again"] | ["it" | "that"] if said.verb == "rerun" || plain.len() == 2 => {
                return said.memory.command.clone().map(Action::run);
            }
            ["tests" | "test"] | ["the" | "all", "tests"] | ["all", "the", "tests"] => {
                return Some(Action::new("test", json!({})));
            }
            ["a" | "an" | "the" | "it" | "this" | "that" | "all" | "my" | "every", ..] => return None,
            _ if said.rest.contains(", but ") => return None,
            _ => {}
        }
        if let [rest @ .., one, two, three] = words
            && (one.is("in"), two.is("the"), three.is("background")) == (true, true, true)
        {
            (words, background) = (rest, true);
        }
    }
    let (start, end) = (words.first()?, words.last()?);
    let command = match words {
        [one] if one.quoted && said.rest.get(one.start..)?.starts_with('`') => one.text.clone(),
        _ if background && !said.slash => said.rest.get(start.start..end.end)?.to_owned(),
        _ => said.rest.get(start.start..)?.trim().to_owned(),
    };
    let block = fenced(&command).map(|(_, body)| body.trim_end().to_owned());
    let command = block.unwrap_or(command);
    let background = background.then_some(true);
    Some(Action::new("run", json!({ "command": command, "background": background, "timeout": timeout })))
}

pub fn test(said: &Said<'_>) -> Option<Action> {
    let arguments = said.rest.trim();
    (said.slash || arguments.is_empty()).then(|| Action::new("test", json!({ "arguments": arguments })))
}

pub fn git(said: &Said<'_>) -> Option<Action> {
    (!said.words.is_empty()).then(|| Action::run(format!("git {}", said.rest.trim())))
}

pub fn fetch(said: &Said<'_>) -> Option<Action> {
    match said.without(&said.words, &["me", "the", "page"]) {
        [url] if is_url(&url.text) => Some(fetch_of(&url.text)),
        _ => None,
    }
}

pub fn todo(said: &Said<'_>) -> Option<Action> {
    let entry = |text: &str| {
        let text = item(text);
        let (text, status) = match text.strip_prefix("[x]") {
            Some(rest) => (rest.trim(), "completed"),
            None => (text.strip_prefix("[ ]").unwrap_or(text).trim(), "pending"),
        };
        (!text.is_empty()).then(|| json!({ "content": text, "status": status }))
    };
    let entries: Vec<Value> = said.rest.split([';', '\n']).filter_map(entry).take(MAX_ENTRIES).collect();
    // One entry in plain words may be a question for a model.
    (entries.len() > usize::from(!said.slash)).then(|| Action::new("todo", json!({ "entries": entries })))
}

/// The info and the body of a fenced block, if the text is exactly one.
fn fenced(text: &str) -> Option<(&str, String)> {
    let (open, rest) = text.trim().split_once('\n')?;
    let info = open.trim_start_matches('`');
    let fence = open.get(..open.len() - info.len()).filter(|fence| fence.len() >= 3)?;
    let body = rest.strip_suffix(fence)?;
    let whole = !format!("\n{body}").contains(&format!("\n{fence}"));
    (whole && (body.is_empty() || body.ends_with('\n'))).then(|| (info.trim(), body.to_owned()))
}

/// Whether text is a patch.
fn is_diff(text: &str) -> bool {
    let mut lines = text.trim_start().lines();
    let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    first.starts_with("diff --git ") || (first.starts_with("--- ") && second.starts_with("+++ "))
}

/// A text that is a file ends with its line.
fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
