//! One configuration file, read key by key; every key that is not in the table is an error with its line.

use super::error::did_you_mean;
use super::keys::{Key, Kind, Known, look_up};
use super::{Error, Origin, Value};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use tieline_host::rules::Rule;
use toml_edit::{Array, Document, Item, TableLike};

/// What a key holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    Text(String),
    Words(Vec<String>),
    Rules(Vec<Rule>),
    Values(BTreeMap<String, Value>),
    Number(u64),
}

/// A key of a file with what it holds.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub(super) path: Vec<String>,
    pub(super) data: Data,
    pub(super) free: bool,
    pub(super) origin: Origin,
}

/// The largest file that is read.
const LARGEST: u64 = 1 << 20;

/// Reads a file; `None` if there is none.
pub(super) fn load(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::metadata(path) {
        Ok(found) if found.len() > LARGEST => {
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

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// The keys of a file, in its order.
pub(super) fn parse(text: &str, path: &Path, origin: impl Fn(usize) -> Origin) -> Result<Vec<Leaf>, Error> {
    let line_of =
        |span: Option<Range<usize>>| span.map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let document = Document::parse(text).map_err(|error| {
        let why = error.message().lines().collect::<Vec<_>>().join(", ");
        Error::at(path, line_of(error.span()), why)
    })?;
    let reader = FileReader { path, line_of: &line_of, origin: &origin };
    let mut leaves = Vec::new();
    reader.table(document.as_table(), &mut Vec::new(), &mut leaves)?;
    Ok(leaves)
}

struct FileReader<'a> {
    path: &'a Path,
    line_of: &'a dyn Fn(Option<Range<usize>>) -> Option<usize>,
    origin: &'a dyn Fn(usize) -> Origin,
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
            Known::Key(Key { kind: Kind::PassedOver, .. }) => Ok(()),
            Known::Key(key) => {
                let data = data(item, key.kind).map_err(|why| wrong(format!("`{shown}` {why}")))?;
                let origin = (self.origin)(line.unwrap_or(0));
                leaves.push(Leaf { path: path.clone(), data, free: key.free, origin });
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

fn data(item: &Item, kind: Kind) -> Result<Data, String> {
    let text = || item.as_str().map(str::to_owned);
    match kind {
        Kind::Text => text().map(Data::Text).ok_or_else(|| "must be a text in quotes".into()),
        Kind::Name | Kind::OneOf(_) => word(kind, &text().ok_or("must be a word in quotes")?),
        Kind::Words => {
            if let Some(line) = item.as_str() {
                // Only the program: an argument may be a secret.
                let program = line.split_whitespace().next().unwrap_or("program");
                return Err(format!("is a list of words, not one text: write [{program:?}, \"argument\", …]"));
            }
            let words = texts(item.as_array()).ok_or("must be a list of texts: the program and its arguments")?;
            if words.first().is_none_or(String::is_empty) {
                return Err("names no program".into());
            }
            Ok(Data::Words(words))
        }
        Kind::Names => {
            let names = texts(item.as_array()).filter(|names| names.iter().all(|name| !name.is_empty()));
            names.map(Data::Words).ok_or_else(|| "must be a list of names, such as [\"read_file\", \"list_*\"]".into())
        }
        Kind::Rules => {
            let rules = texts(item.as_array()).ok_or("must be a list of rules, such as [\"read src/**\"]")?;
            let rules = rules.iter().map(|rule| rule.parse::<Rule>().map_err(|error| format!("has a bad {error}")));
            rules.collect::<Result<_, _>>().map(Data::Rules)
        }
        Kind::Values => {
            let table = item.as_table_like().ok_or("must be a table, such as { NAME = \"value\" }")?;
            let values = table.iter().map(|(name, item)| Ok((name.to_owned(), value(name, item)?)));
            values.collect::<Result<_, String>>().map(Data::Values)
        }
        Kind::Count => {
            let count = item.as_integer().and_then(|count| u64::try_from(count).ok());
            count.map(Data::Number).ok_or_else(|| "must be a number that is not negative".into())
        }
        Kind::PassedOver => Err("is not read here".into()),
    }
}

/// A single word, from a file or a variable.
pub(super) fn word(kind: Kind, text: &str) -> Result<Data, String> {
    match kind {
        Kind::Name if crate::agents::is_name(text) => Ok(Data::Text(text.to_owned())),
        Kind::Name => Err("must be the name of an agent, not a command; `tieline agents add` gives one a name".into()),
        Kind::OneOf(words) if words.contains(&text) => Ok(Data::Text(text.to_owned())),
        Kind::OneOf(words) => {
            let hint = did_you_mean(text, words.iter().copied());
            Err(format!("can't be {text:?}: use {}{hint}", words.join(", ")))
        }
        Kind::Count => text.parse().map(Data::Number).map_err(|_| format!("can't be {text:?}: write a number")),
        _ => Ok(Data::Text(text.to_owned())),
    }
}

fn texts(array: Option<&Array>) -> Option<Vec<String>> {
    array?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

fn value(name: &str, item: &Item) -> Result<Value, String> {
    let form =
        || format!("has a bad value for {name}: use a text, {{ env = \"NAME\" }} or {{ command = [\"program\"] }}");
    if name.is_empty() || name.contains(['=', '\0']) {
        // What comes behind it is a value, most likely.
        let start = name.split(['=', '\0']).next().unwrap_or_default();
        return Err(format!("has a name that can't be: {start:?} with a `=` behind it; write {{ NAME = \"value\" }}"));
    }
    if let Some(text) = item.as_str() {
        return if text.contains('\0') { Err(form()) } else { Ok(Value::Plain(text.to_owned())) };
    }
    let table = item.as_table_like().filter(|table| table.len() == 1).ok_or_else(form)?;
    let env = table.get("env").and_then(Item::as_str).map(|name| Value::Env(name.to_owned()));
    let words = || texts(table.get("command").and_then(Item::as_array)).filter(|words| !words.is_empty());
    env.or_else(|| words().map(Value::Command)).ok_or_else(form)
}
