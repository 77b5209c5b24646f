//! What the user's configuration says about servers: those that every session has besides the client's, and how any of
//! them is used. Whoever starts the agent reads it, because it knows whom the user trusts.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tieline::McpServer;

/// Reads the configuration that counts in a working directory. The names are those of the client's servers: for them
/// nothing is made ready.
pub type Configure =
    Arc<dyn Fn(PathBuf, Vec<String>) -> Pin<Box<dyn Future<Output = Configured> + Send>> + Send + Sync>;

/// What the configuration says.
#[derive(Default)]
pub struct Configured {
    /// Servers by name.
    pub servers: Vec<Own>,
    /// What the user should know, such as a file that does not count. Safe to show.
    pub warnings: Vec<String>,
}

/// A server of the configuration.
pub struct Own {
    /// What it is called.
    pub name: String,
    /// How it is reached. `None`: only the client can say, and this is how it is used then.
    pub server: Option<McpServer>,
    /// How it is used.
    pub usage: Usage,
}

/// How a server is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Only these tools, if there are any; a name that ends with `*` stands for all that begin so.
    pub tools: Vec<String>,
    /// Not these tools.
    pub without: Vec<String>,
    /// How long it may take to start, to answer a call or to report progress.
    pub timeout: Option<Duration>,
}

impl Usage {
    /// Whether a tool is used.
    pub fn wants(&self, tool: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|name| fits(name, tool));
        (self.tools.is_empty() || named(&self.tools)) && !named(&self.without)
    }

    /// The names that fit none of these tools.
    pub fn misses(&self, tools: &[String]) -> Vec<&str> {
        let named = |name: &&String| !tools.iter().any(|tool| fits(name, tool));
        self.tools.iter().chain(&self.without).filter(named).map(String::as_str).collect()
    }
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
            Usage { tools: list(tools), without: list(without), timeout: None }.wants(tool)
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
        let usage = Usage { tools: list(&["a", "b*"]), without: list(&["c"]), timeout: None };
        assert_eq!(usage.misses(&list(&["a", "bc"])), ["c"]);
    }
}
