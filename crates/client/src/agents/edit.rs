//! Agents are added to and taken out of the user's file here; its comments and order stay.

use super::{BUILT_IN, is_name};
use crate::config::{Config, Error, Flags, Sources, Value, did_you_mean, write_whole};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tieline::Protocol;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, value};

/// An agent to be added.
#[derive(Debug, Clone, Default)]
pub struct NewAgent {
    /// Its name.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables on top of ours.
    pub env: BTreeMap<String, Value>,
    /// Where it is started.
    pub cwd: Option<PathBuf>,
    /// The version of the protocol to ask for.
    pub protocol: Option<Protocol>,
    /// True if one of the same name is replaced.
    pub replace: bool,
}

/// Adds agents to the user's file, all or none. Says which file.
pub fn add(sources: &Sources, agents: &[NewAgent]) -> Result<PathBuf, Error> {
    change(sources, |document, path| {
        let table = document.entry("agents").or_insert_with(implicit);
        let table =
            table.as_table_like_mut().ok_or_else(|| Error::new(format!("{}: `agents` is no table", path.display())))?;
        for agent in agents {
            let name = &agent.name;
            if !is_name(name) {
                return Err(Error::new(format!(
                    "an agent can't be called {name:?}: use letters, digits, `-`, `_` and `.`"
                )));
            }
            if name == BUILT_IN {
                return Err(Error::new(format!("`{BUILT_IN}` is the built-in agent; choose another name")));
            }
            if agent.command.first().is_none_or(String::is_empty) {
                return Err(Error::new(format!(
                    "no command was given for {name}; type: tieline agents add {name} -- my-agent --acp"
                )));
            }
            if table.contains_key(name) && !agent.replace {
                return Err(Error::new(format!("there is an agent `{name}` already; add --replace to replace it")));
            }
            table.insert(name, Item::Table(entry(agent)));
        }
        Ok(())
    })
}

/// Takes an agent out of the user's file. Says which file.
pub fn remove(sources: &Sources, name: &str) -> Result<PathBuf, Error> {
    change(sources, |document, path| {
        let table = document.get_mut("agents").and_then(Item::as_table_like_mut);
        let names: Vec<String> = table.iter().flat_map(|table| table.iter().map(|(name, _)| name.to_owned())).collect();
        if table.and_then(|table| table.remove(name)).is_none() {
            let hint = did_you_mean(name, names.iter().map(String::as_str));
            return Err(Error::new(format!("{} has no agent {name:?}{hint}", path.display())));
        }
        if document.get("agent").and_then(Item::as_str) == Some(name) {
            document.remove("agent");
        }
        Ok(())
    })
}

fn implicit() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

fn entry(agent: &NewAgent) -> Table {
    let mut table = Table::new();
    table.insert("command", value(agent.command.iter().collect::<Array>()));
    if !agent.env.is_empty() {
        let mut env = InlineTable::new();
        for (name, one) in &agent.env {
            env.insert(name, written(one));
        }
        table.insert("env", value(env));
    }
    if let Some(cwd) = &agent.cwd {
        table.insert("cwd", value(cwd.to_string_lossy().into_owned()));
    }
    if let Some(protocol) = agent.protocol {
        table.insert("protocol", value(protocol.to_string()));
    }
    table
}

fn written(one: &Value) -> toml_edit::Value {
    let single = |key: &str, inner: toml_edit::Value| {
        let mut table = InlineTable::new();
        table.insert(key, inner);
        table.into()
    };
    match one {
        Value::Plain(text) => text.into(),
        Value::Env(name) => single("env", name.into()),
        Value::Command(words) => single("command", words.iter().collect::<Array>().into()),
    }
}

fn change(
    sources: &Sources,
    work: impl FnOnce(&mut DocumentMut, &Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let why = "no place for a configuration: neither XDG_CONFIG_HOME nor HOME is set to an absolute path; set TIELINE_CONFIG to a file";
    let path = sources.user.as_deref().ok_or_else(|| Error::new(why))?;
    // A file with a mistake in it is not written: first the mistake has to go.
    Config::load(&Sources { user: Some(path.to_owned()), ..Sources::default() }, &Flags::default())?;
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Error::io(path, "reading it", &error)),
    };
    // The words of the parser itself would show the line, and what is secret on it.
    let wrong = |error: toml_edit::TomlError| Error::new(format!("{}: {}", path.display(), error.message()));
    let mut document: DocumentMut = text.parse().map_err(wrong)?;
    work(&mut document, path)?;
    write_whole(path, document.to_string().as_bytes()).map_err(|error| Error::io(path, "writing it", &error))?;
    Ok(path.to_owned())
}
