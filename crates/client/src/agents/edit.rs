//! Agents are added to and taken out of the user's file here; its comments and order stay.

use super::BUILT_IN;
use crate::config::{Error, Sources, Value, did_you_mean, is_agent_name};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tieline::Protocol;
use tieline_http::client::is_address;
use toml_edit::{Array, InlineTable, Item, Table, value};

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
    sources.edit(|document, path| {
        let table = document.entry("agents").or_insert_with(implicit);
        let table =
            table.as_table_like_mut().ok_or_else(|| Error::new(format!("{}: `agents` is no table", path.display())))?;
        for agent in agents {
            let name = &agent.name;
            if !is_agent_name(name) {
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
    sources.edit(|document, path| {
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
    match &agent.command[..] {
        [address] if is_address(address) => table.insert("url", value(address)),
        words => table.insert("command", value(words.iter().collect::<Array>())),
    };
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
