//! From a prompt to the steps that it asks for: slash commands and plain verbs, both by the one table.

use super::action::Action;
use super::memory::Memory;
use super::words::{Word, code, is_url, literal, words};
use crate::commands::table::{self, Row};

/// Reads what follows the name or the verb of a row.
pub type Parse = fn(&Said<'_>) -> Option<Action>;

/// More steps than this are refused as a whole.
const MOST_STEPS: usize = 50;

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

/// The steps of a prompt, or in one sentence why there are none.
pub fn steps(prompt: &str, memory: &Memory) -> Result<Vec<Action>, String> {
    let mut memory = memory.clone();
    let parts = parts(prompt.trim());
    if parts.is_empty() {
        return Err("There is no instruction in that.".to_owned());
    }
    if parts.len() > MOST_STEPS {
        return Err(format!("These are {} steps, and I take {MOST_STEPS} at once.", parts.len()));
    }
    let mut steps = Vec::new();
    for part in parts {
        let action = step(part, &memory)?;
        memory.will(&action);
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
        return Ok(Action::Patch { patch: ended(part.to_owned()) });
    }
    if let Some((info, body)) = fenced(part) {
        if info == "diff" || info == "patch" || is_diff(&body) {
            return Ok(Action::Patch { patch: body });
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
            [one] if self.slash && one.quoted => Some(one.text.clone()),
            // Punctuation at the end of a word is part of it in a command.
            [one] if self.slash => Some(first(self.rest.get(one.start..)?).to_owned()),
            [one] if one.is_path() => Some(one.text.clone()),
            _ => None,
        }
    }

    /// The text of these words as it was written, without quotes around all of it.
    fn text(&self, words: &[Word]) -> Option<String> {
        match words {
            [] => None,
            [one] if one.quoted => Some(one.text.clone()),
            [first, .., last] => self.rest.get(first.start..last.end).map(str::to_owned),
            [one] if self.slash => Some(first_of(self.rest, one)),
            [one] => Some(one.text.clone()),
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

pub fn list(said: &Said<'_>) -> Option<Action> {
    let words = said
        .without(&said.words, &["the", "all", "files", "contents", "in", "of", "folder", "directory", "here", "me"]);
    match words {
        [] => Some(Action::List { path: None }),
        [one] => Some(Action::List { path: said.text(std::slice::from_ref(one)) }),
        [one, noun] if noun.any(&["folder", "directory"]) => Some(Action::List { path: Some(one.text.clone()) }),
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
        [url] if is_url(&url.text) => return Some(Action::Fetch { url: url.text.clone() }),
        [files] if files.is("files") => return Some(Action::List { path: None }),
        _ => {}
    }
    let mut path = said.path(words)?;
    if is_url(&path) {
        return Some(Action::Fetch { url: path });
    }
    if path.ends_with('/') {
        return Some(Action::List { path: Some(path) });
    }
    if let Some((name, line)) = path.rsplit_once(':')
        && let Ok(line) = line.parse()
    {
        lines = lines.or(Some((line, None)));
        path = name.to_owned();
    }
    let (line, limit) = lines.map_or((None, None), |(line, limit)| (Some(line), limit));
    Some(Action::Read { path, line, limit })
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
    let path = place.map(|place| place.text.clone());
    let text = if said.slash && !what.quoted { first_of(said.rest, what) } else { what.text.clone() };
    if said.slash || named || (!what.quoted && (text.contains(['*', '?']) || what.is_path())) {
        return Some(Action::Glob { pattern: pattern(&text), path });
    }
    Some(Action::Grep { pattern: literal(&text), path, ignore_case: false })
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
    Some(Action::Grep { pattern, path: place.map(|place| place.text.clone()), ignore_case })
}

pub fn write(said: &Said<'_>) -> Option<Action> {
    if said.slash {
        let path = said.words.first()?;
        return Some(Action::Write { path: path.text.clone(), content: ended(said.text_behind(path)) });
    }
    let words = said.without(&said.words, &["a", "an", "the", "new", "empty", "file", "called", "named"]);
    if let [path, rest @ ..] = words
        && path.is_path()
    {
        let empty = said.words.iter().take_while(|word| *word != path).any(|word| word.is("empty"));
        let content = match rest {
            [] if empty => String::new(),
            [with, _, ..] if with.any(&["with", "containing"]) => said.text_behind(with),
            [_, ..] if path.mark == Some(':') => said.text_behind(path),
            _ => return given(said).map(|(path, text)| Action::Write { path, content: ended(text) }),
        };
        return Some(Action::Write { path: path.text.clone(), content: ended(content) });
    }
    given(said).map(|(path, text)| Action::Write { path, content: ended(text) })
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
    if said.slash {
        let path = said.words.first()?;
        let text = said.text_behind(path);
        return (!text.is_empty()).then(|| Action::Append { path: path.text.clone(), text });
    }
    given(said).map(|(path, text)| Action::Append { path, text })
}

pub fn replace(said: &Said<'_>) -> Option<Action> {
    if said.slash {
        let (old, new, path) = match said.words.as_slice() {
            [old, new] => (old, new, said.memory.file.clone()?),
            [old, new, path] => (old, new, said.path(std::slice::from_ref(path))?),
            _ => return None,
        };
        let text = |word: &Word| if word.quoted { word.text.clone() } else { first_of(said.rest, word) };
        let (old, new) = (text(old), text(new));
        return (!old.is_empty()).then_some(Action::Replace { path, old, new });
    }
    let joins: &[&str] = if said.verb == "change" { &["to"] } else { &["with", "by"] };
    let at = said.words.iter().position(|word| word.any(joins))?;
    let (old, rest) = (said.words.get(..at)?, said.words.get(at + 1..)?);
    let (new, path) = match split_last(rest, &["in"]) {
        Some((new, place)) => (new, said.path(place)?),
        None => (rest, said.memory.file.clone()?),
    };
    // `change` is also said of other things than texts.
    let exact = said.verb != "change" || matches!(old, [one] if one.quoted);
    let vague = matches!(old, [one] if one.any(&["it", "this", "that", "them", "everything"]));
    let (old, new) = (said.text(old)?, said.text(new)?);
    (exact && !vague && !old.is_empty()).then_some(Action::Replace { path, old, new })
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
    Some(Action::Move { from, to })
}

pub fn delete(said: &Said<'_>) -> Option<Action> {
    if said.words.is_empty() {
        return None;
    }
    said.path(&said.words).map(|path| Action::Delete { path })
}

pub fn patch(said: &Said<'_>) -> Option<Action> {
    let body = said.rest.trim();
    let patch = fenced(body).map_or_else(|| ended(body.to_owned()), |(_, body)| body);
    (said.slash || is_diff(&patch)).then_some(Action::Patch { patch }).filter(|_| !body.is_empty())
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
                timeout = Some(seconds.text.parse().ok()?);
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
                return Some(Action::Test { arguments: String::new() });
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
    Some(Action::Run { command, background, timeout })
}

pub fn test(said: &Said<'_>) -> Option<Action> {
    let arguments = said.rest.trim().to_owned();
    (said.slash || arguments.is_empty()).then_some(Action::Test { arguments })
}

pub fn git(said: &Said<'_>) -> Option<Action> {
    (!said.words.is_empty()).then(|| Action::run(format!("git {}", said.rest.trim())))
}

pub fn fetch(said: &Said<'_>) -> Option<Action> {
    match said.without(&said.words, &["me", "the", "page"]) {
        [url] if is_url(&url.text) => Some(Action::Fetch { url: url.text.clone() }),
        _ => None,
    }
}

pub fn todo(said: &Said<'_>) -> Option<Action> {
    let entry = |text: &str| {
        let text = item(text);
        let (text, done) = match text.strip_prefix("[x]") {
            Some(rest) => (rest, true),
            None => (text.strip_prefix("[ ]").unwrap_or(text), false),
        };
        (!text.trim().is_empty()).then(|| (text.trim().to_owned(), done))
    };
    let entries: Vec<(String, bool)> = said.rest.split([';', '\n']).filter_map(entry).take(100).collect();
    // One entry in plain words may be a question for a model.
    (entries.len() > usize::from(!said.slash)).then_some(Action::Todo(entries))
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
