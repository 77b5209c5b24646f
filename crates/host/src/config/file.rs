//! One configuration file, read key by key; every key that is not in the table is an error with its line.

use super::error::did_you_mean;
use super::keys::{Key, Kind, Known, look_up};
use super::{Error, Origin, is_agent_name};
use crate::rules::Rule;
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::path::Path;
use toml_edit::{Array, Document, Item, TableLike};

/// A key of a file with what it holds.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub(super) path: Vec<String>,
    pub(super) value: Value,
    pub(super) key: &'static Key,
    pub(super) origin: Origin,
    /// The line of each part of a list.
    pub(super) lines: Vec<usize>,
}

/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a file; `None` if there is none.
pub(super) fn load(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::metadata(path) {
        Ok(found) if found.len() > MAX_FILE_BYTES => {
            return Err(Error::at(path, None, "a configuration of more than 1 MiB is not read"));
        }
        Ok(found) if !found.is_file() => return Err(Error::at(path, None, "this is not a file")),
        Err(error) if is_absent(&error) => return Ok(None),
        _ => {}
    }
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(Error::at(path, None, "this is not UTF-8"))
        }
        Err(error) => Err(Error::io(path, "reading it", &error)),
    }
}

/// True if there is no such file, also because what should be its folder is none.
pub fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// The keys of a file, in its order.
pub(super) fn parse(text: &str, path: &Path) -> Result<Vec<Leaf>, Error> {
    let line_of =
        |span: Option<Range<usize>>| span.map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let document = Document::parse(text).map_err(|error| {
        let why = error.message().lines().collect::<Vec<_>>().join(", ");
        Error::at(path, line_of(error.span()), why)
    })?;
    let reader = FileReader { path, line_of: &line_of };
    let mut leaves = Vec::new();
    reader.table(document.as_table(), &mut Vec::new(), &mut leaves)?;
    Ok(leaves)
}

struct FileReader<'a> {
    path: &'a Path,
    line_of: &'a dyn Fn(Option<Range<usize>>) -> Option<usize>,
}

impl FileReader<'_> {
    fn table(&self, table: &dyn TableLike, above: &mut Vec<String>, leaves: &mut Vec<Leaf>) -> Result<(), Error> {
        for (name, item) in table.iter() {
            let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
            let line = (self.line_of)(span);
            above.push(name.to_owned());
            self.key(item, line, above, leaves)?;
            above.pop();
        }
        Ok(())
    }

    fn key(
        &self,
        item: &Item,
        line: Option<usize>,
        path: &mut Vec<String>,
        leaves: &mut Vec<Leaf>,
    ) -> Result<(), Error> {
        let shown = dotted(path);
        let wrong = |why: String| Error::at(self.path, line, why);
        match look_up(path) {
            Known::Nothing(names) => {
                let name = path.last().map_or("", String::as_str);
                let known: Vec<&str> = names.iter().copied().filter(|name| *name != "*").collect();
                let hint = match did_you_mean(name, known.iter().copied()) {
                    hint if hint.is_empty() && !known.is_empty() => format!("; known here: {}", known.join(", ")),
                    hint => hint,
                };
                Err(wrong(format!("unknown key `{shown}`{hint}")))
            }
            Known::Table => match item.as_table_like() {
                Some(table) => self.table(table, path, leaves),
                None => Err(wrong(format!("`{shown}` is a table; write [{shown}] on a line of its own"))),
            },
            Known::Key(key) => {
                let value = value(item, key.kind).map_err(|why| wrong(format!("`{shown}` {why}")))?;
                let origin = Origin::File(self.path.to_owned(), line.unwrap_or(0));
                let parts = item.as_array().into_iter().flatten();
                let lines = parts.map(|part| (self.line_of)(part.span()).or(line).unwrap_or(0)).collect();
                leaves.push(Leaf { path: path.clone(), value, key, origin, lines });
                Ok(())
            }
        }
    }
}

/// A path as it is written in a file.
pub(super) fn dotted(path: &[String]) -> String {
    let plain =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    path.iter().map(|name| if plain(name) { name.clone() } else { format!("{name:?}") }).collect::<Vec<_>>().join(".")
}

fn value(item: &Item, kind: Kind) -> Result<Value, String> {
    let text = || item.as_str().ok_or("must be a text in quotes");
    let list = || texts(item.as_array());
    match kind {
        Kind::Text | Kind::Path | Kind::Address | Kind::AgentAddress | Kind::Name | Kind::OneOf(_) => {
            word(kind, text()?)
        }
        Kind::Words => {
            if let Some(line) = item.as_str() {
                // Only the program: an argument may be a secret.
                let program = line.split_whitespace().next().unwrap_or("program");
                return Err(format!("is a list of words, not one text: write [{program:?}, \"argument\", …]"));
            }
            let words = list().ok_or("must be a list of texts: the program and its arguments")?;
            if words.first().is_none_or(String::is_empty) {
                return Err("names no program".into());
            }
            Ok(json!(words))
        }
        Kind::Names => {
            let names = list().filter(|names| names.iter().all(|name| !name.is_empty()));
            Ok(json!(names.ok_or("must be a list of names, such as [\"read_file\", \"list_*\"]")?))
        }
        Kind::Rules => {
            let rules = list().ok_or("must be a list of rules, such as [\"read src/**\"]")?;
            for rule in &rules {
                rule.parse::<Rule>().map_err(|error| format!("has a bad {error}"))?;
            }
            Ok(json!(rules))
        }
        Kind::Values | Kind::Headers => {
            let one = if kind == Kind::Values { secret } else { header };
            let table = item.as_table_like().ok_or("must be a table, such as { NAME = \"value\" }")?;
            let values = table.iter().map(|(name, item)| Ok((name.to_owned(), one(name, item)?)));
            values.collect::<Result<Map<_, _>, String>>().map(Value::Object)
        }
        Kind::Count => {
            let count = item.as_integer().and_then(|count| u64::try_from(count).ok());
            Ok(json!(count.ok_or("must be a number that is not negative")?))
        }
        Kind::Flag => Ok(json!(item.as_bool().ok_or("must be true or false")?)),
    }
}

/// A single word, from a file or a variable.
pub(super) fn word(kind: Kind, text: &str) -> Result<Value, String> {
    match kind {
        Kind::Name if !is_agent_name(text) => {
            return Err("must be the name of an agent, not a command; `tieline agents add` gives one a name".into());
        }
        Kind::OneOf(words) if !words.contains(&text) => {
            // Only what is nearly right is repeated: the rest may be a secret in the wrong place.
            let hint = did_you_mean(text, words.iter().copied());
            let said = if hint.is_empty() { "that".to_owned() } else { format!("{text:?}") };
            return Err(format!("can't be {said}: use {}{hint}", words.join(", ")));
        }
        Kind::Address if host(text, &["http", "https"]).is_none() => {
            return Err("must look like https://host/path".into());
        }
        Kind::AgentAddress if host(text, &["http", "https", "ws", "wss"]).is_none() => {
            return Err("must look like https://host/acp or wss://host/acp".into());
        }
        Kind::Count => {
            let number = text.parse::<u64>().map_err(|_| format!("can't be {text:?}: write a number"))?;
            return Ok(json!(number));
        }
        _ => {}
    }
    Ok(json!(text))
}

/// The host of an address, if it is one of these kinds.
fn host<'a>(address: &'a str, schemes: &[&str]) -> Option<&'a str> {
    let (scheme, rest) = address.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
    let bare = !authority.is_empty() && !authority.starts_with(':') && !authority.contains(char::is_whitespace);
    (bare && schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known))).then_some(authority)
}

fn texts(array: Option<&Array>) -> Option<Vec<String>> {
    array?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// A header with a plain text.
fn header(name: &str, item: &Item) -> Result<Value, String> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        // It may be the secret itself.
        return Err("has a name that no header can have".into());
    }
    let text = item.as_str().filter(|text| !text.chars().any(|c| c.is_control() && c != '\t'));
    text.map(Value::from).ok_or_else(|| format!("has a bad value for {name}: use a text on one line"))
}

/// A value that may be taken from elsewhere.
fn secret(name: &str, item: &Item) -> Result<Value, String> {
    let form =
        || format!("has a bad value for {name}: use a text, {{ env = \"NAME\" }} or {{ command = [\"program\"] }}");
    if name.is_empty() || name.contains(['=', '\0']) {
        // What comes behind it is a value, most likely.
        let start = name.split(['=', '\0']).next().unwrap_or_default();
        return Err(format!("has a name that can't be: {start:?} with a `=` behind it; write {{ NAME = \"value\" }}"));
    }
    if let Some(text) = item.as_str() {
        return if text.contains('\0') { Err(form()) } else { Ok(text.into()) };
    }
    let table = item.as_table_like().filter(|table| table.len() == 1).ok_or_else(form)?;
    let env = table.get("env").and_then(Item::as_str).map(|name| json!({"env": name}));
    let words = || texts(table.get("command").and_then(Item::as_array)).filter(|words| !words.is_empty());
    env.or_else(|| Some(json!({"command": words()?}))).ok_or_else(form)
}
