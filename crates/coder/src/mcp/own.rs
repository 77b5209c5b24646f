//! What the user's configuration says about servers: those that every session has besides the client's, and how any of
//! them is used.

use super::entry::Entry;
use std::collections::HashSet;
use std::path::PathBuf;
use tieline_host::config::{Config, Flags, McpEntry, Sources};

/// Adds the servers of the configuration that counts in this folder, where their names are still free, and how it wants any
/// of them used. What a project says counts once it is trusted. Gives what the user should know; it is safe to show.
pub async fn add(entries: &mut Vec<Entry>, cwd: PathBuf) -> Vec<String> {
    let load = move || Config::load(&Sources::of(&cwd), &Flags::default());
    let config = match tokio::task::spawn_blocking(load).await {
        Ok(Ok(config)) => config,
        Ok(Err(error)) => return vec![format!("The MCP servers of the configuration are not used: {error}")],
        Err(_) => return Vec::new(),
    };
    let mut told = HashSet::new();
    let held = config.held_back.iter().filter(|held| held.key.starts_with("mcp."));
    // Once for each server.
    let held = held.filter(|held| told.insert(held.key.rsplit_once('.').map(|(server, _)| server)));
    let mut warnings: Vec<String> = held.map(ToString::to_string).collect();
    for (name, own) in config.mcp {
        if own.is_whole() && !entries.iter().any(|entry| entry.name == name) {
            match own.server(&name).await {
                Ok(server) => entries.extend(Entry::of(server)),
                Err(error) => warnings.push(error.to_string()),
            }
        }
        entries.iter_mut().filter(|entry| entry.name == name).for_each(|entry| entry.own.clone_from(&own));
    }
    warnings
}

/// Whether a tool is used. A name that ends with `*` stands for all that begin so.
pub fn wants(own: &McpEntry, tool: &str) -> bool {
    let named = |list: &[String]| list.iter().any(|name| fits(name, tool));
    (own.tools.is_empty() || named(&own.tools)) && !named(&own.without)
}

/// The names that fit none of these tools.
pub fn misses<'a>(own: &'a McpEntry, tools: &[String]) -> Vec<&'a str> {
    let named = |name: &&String| !tools.iter().any(|tool| fits(name, tool));
    own.tools.iter().chain(&own.without).filter(named).map(String::as_str).collect()
}

fn fits(name: &str, tool: &str) -> bool {
    match name.strip_suffix('*') {
        Some(start) => tool.starts_with(start),
        None => name == tool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_tools_are_used() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let check = |tools: &[&str], without: &[&str], tool: &str| {
            wants(&McpEntry { tools: list(tools), without: list(without), ..McpEntry::default() }, tool)
        };
        for (tools, without, tool, expect) in [
            (&[][..], &[][..], "read", true),
            (&["read"], &[], "read", true),
            (&["read"], &[], "reads", false),
            (&["read*"], &[], "reads", true),
            (&["*"], &["write*"], "write_file", false),
            (&[], &["write"], "read", true),
            (&["read"], &["read"], "read", false),
        ] {
            assert_eq!(check(tools, without, tool), expect, "{tools:?} {without:?} {tool}");
        }
        let own = McpEntry { tools: list(&["a", "b*"]), without: list(&["c"]), ..McpEntry::default() };
        assert_eq!(misses(&own, &list(&["a", "bc"])), ["c"]);
    }
}
