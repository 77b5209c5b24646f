//! Agents from the files of others: the ACP registry, Zed's settings, acpx.

use super::{NewAgent, split_line};
use crate::config::{Error, Value, is_agent_name};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The index of the ACP registry.
    Registry,
    /// Zed's `settings.json`.
    Zed,
    /// acpx's `config.json`.
    Acpx,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Registry => "the ACP registry",
            Self::Zed => "Zed",
            Self::Acpx => "acpx",
        })
    }
}

/// What a file gave.
#[derive(Debug, Clone)]
pub struct Imported {
    /// What kind of file it is.
    pub source: Source,
    /// The agents that can be added.
    pub agents: Vec<NewAgent>,
    /// The agents that can't: the name, and why.
    pub skipped: Vec<(String, String)>,
}

/// Reads a file of agents. JSON, where comments and commas too many are forgiven.
pub fn import(text: &str) -> Result<Imported, Error> {
    let json: Json = serde_json::from_str(&without_comments(text))
        .map_err(|error| Error::new(format!("this is not JSON: {error}")))?;
    let (source, found) = if let Some(list) = json["agents"].as_array() {
        (Source::Registry, list.iter().map(|entry| (name_of(entry["id"].as_str()), registry(entry))).collect())
    } else if let Some(table) = json["agent_servers"].as_object() {
        (Source::Zed, table.iter().map(|(name, entry)| (name.clone(), zed(entry))).collect())
    } else if let Some(table) = json["agents"].as_object() {
        (Source::Acpx, table.iter().map(|(name, entry)| (name.clone(), acpx(entry))).collect::<Vec<_>>())
    } else {
        let why = "this is neither the ACP registry (a list `agents`), nor Zed's settings (`agent_servers`), nor acpx's (`agents`)";
        return Err(Error::new(why));
    };
    let mut imported = Imported { source, agents: Vec::new(), skipped: Vec::new() };
    for (name, found) in found {
        let short = short_name(&name);
        match found {
            Ok(_) if !is_agent_name(&short) => imported.skipped.push((name, "it has no name that can be used".into())),
            Ok((command, env)) => imported.agents.push(NewAgent { name: short, command, env, ..NewAgent::default() }),
            Err(why) => imported.skipped.push((name, why)),
        }
    }
    Ok(imported)
}

type Found = Result<(Vec<String>, BTreeMap<String, Value>), String>;

fn name_of(id: Option<&str>) -> String {
    id.unwrap_or_default().to_owned()
}

/// `My Agent` becomes `my-agent`.
fn short_name(name: &str) -> String {
    let letter = |c: char| if c.is_whitespace() { '-' } else { c.to_ascii_lowercase() };
    name.trim().chars().map(letter).collect()
}

fn registry(entry: &Json) -> Found {
    let ways = &entry["distribution"];
    for (kind, start) in [("npx", &["npx", "--yes"][..]), ("uvx", &["uvx"])] {
        let way = &ways[kind];
        if let Some(package) = way["package"].as_str() {
            let mut command: Vec<String> = start.iter().map(|&word| word.to_owned()).collect();
            command.push(package.to_owned());
            command.extend(texts(&way["args"])?);
            return Ok((command, variables(&way["env"])?));
        }
    }
    match ways["binary"].as_object() {
        Some(_) => Err("it comes as an archive; unpack it yourself and add it with `tieline agents add`".into()),
        None => Err("it has no distribution that is known here".into()),
    }
}

fn zed(entry: &Json) -> Found {
    // Older settings have the command in an object of its own.
    let place = if entry["command"].is_object() { &entry["command"] } else { entry };
    let program = place["command"].as_str().or_else(|| place["path"].as_str());
    let Some(program) = program else {
        return Err("it has no command: Zed installs it itself".into());
    };
    let mut command = vec![program.to_owned()];
    command.extend(texts(&place["args"])?);
    Ok((command, variables(&place["env"])?))
}

fn acpx(entry: &Json) -> Found {
    if entry["argv"].is_array() {
        return Ok((texts(&entry["argv"])?, variables(&entry["env"])?));
    }
    let line = entry["command"].as_str().ok_or("it has no command")?;
    let command = if entry["args"].is_null() {
        split_line(line).map_err(|error| error.to_string())?
    } else {
        let mut command = vec![line.trim().to_owned()];
        command.extend(texts(&entry["args"])?);
        command
    };
    Ok((command, variables(&entry["env"])?))
}

fn texts(list: &Json) -> Result<Vec<String>, String> {
    let wrong = || "its arguments are not a list of texts".to_owned();
    match list {
        Json::Null => Ok(Vec::new()),
        Json::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect(),
        _ => Err(wrong()),
    }
}

fn variables(table: &Json) -> Result<BTreeMap<String, Value>, String> {
    let wrong = || "its variables are not texts".to_owned();
    let one = |(name, value): (&String, &Json)| {
        Ok((name.clone(), Value::Plain(value.as_str().ok_or_else(wrong)?.to_owned())))
    };
    match table {
        Json::Null => Ok(BTreeMap::new()),
        Json::Object(table) => table.iter().map(one).collect(),
        _ => Err(wrong()),
    }
}

/// JSON without comments and without commas before a closing bracket; places of mistakes stay the same.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    // Where the last comma is, if nothing but space came after it.
    let mut comma = None;
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                comma = None;
                out.push('"');
                while let Some(inside) = letters.next() {
                    out.push(inside);
                    match inside {
                        '\\' => out.extend(letters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '/' if letters.peek() == Some(&'/') => {
                while letters.peek().is_some_and(|next| *next != '\n') {
                    letters.next();
                }
            }
            '/' if letters.peek() == Some(&'*') => {
                letters.next();
                let mut last = ' ';
                for inside in letters.by_ref() {
                    if inside == '\n' {
                        out.push('\n');
                    }
                    if (last, inside) == ('*', '/') {
                        break;
                    }
                    last = inside;
                }
            }
            ',' => {
                comma = Some(out.len());
                out.push(',');
            }
            ']' | '}' => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
                out.push(letter);
            }
            space if space.is_whitespace() => out.push(space),
            other => {
                comma = None;
                out.push(other);
            }
        }
    }
    out
}
