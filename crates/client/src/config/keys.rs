//! The table of everything a configuration file can say: the check of unknown keys, the schema and the docs come from it.

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The name of an agent.
    Name,
    /// Any text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A program and its arguments.
    Words,
    /// Names of tools.
    Names,
    /// Permission rules.
    Rules,
    /// Names with values, which may be secrets.
    Values,
    /// A number.
    Count,
    /// A table of another part of Tieline; not looked at here.
    PassedOver,
}

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    /// Where it is; `*` stands for any name.
    pub(super) path: &'static [&'static str],
    /// What it holds.
    pub(super) kind: Kind,
    /// What it means.
    pub(super) about: &'static str,
    /// True if a project that is not trusted may say it.
    pub(super) free: bool,
}

/// The formats of `exec`.
const FORMATS: &[&str] = &["text", "json", "stream-json", "acp", "quiet"];
/// What happens where no rule says anything.
pub(super) const POLICIES: &[&str] = &["ask", "allow-reads", "allow-edits", "allow-all", "deny-all"];
/// The versions of the protocol.
pub(super) const PROTOCOLS: &[&str] = &["auto", "1", "2", "2-seed"];
/// The ways to frame messages.
pub(super) const FRAMINGS: &[&str] = &["lines", "content-length"];

const fn key(path: &'static [&'static str], kind: Kind, free: bool, about: &'static str) -> Key {
    Key { path, kind, about, free }
}

/// All keys.
pub(super) const KEYS: &[Key] = &[
    key(&["agent"], Kind::Name, true, "The agent that is used unless another is named."),
    key(&["format"], Kind::OneOf(FORMATS), true, "How `exec` prints what the agent says."),
    key(&["agents", "*", "command"], Kind::Words, false, "The program and its arguments; no shell comes in between."),
    key(&["agents", "*", "env"], Kind::Values, false, "Variables for the agent, on top of ours."),
    key(&["agents", "*", "cwd"], Kind::Text, false, "The folder in which the program is started."),
    key(&["agents", "*", "protocol"], Kind::OneOf(PROTOCOLS), false, "The version of the protocol to ask for."),
    key(&["agents", "*", "framing"], Kind::OneOf(FRAMINGS), false, "How messages are framed."),
    key(&["permissions", "default"], Kind::OneOf(POLICIES), false, "What happens where no rule says anything."),
    key(&["permissions", "allow"], Kind::Rules, false, "What may happen at once."),
    key(&["permissions", "ask"], Kind::Rules, true, "What is asked, even if a rule allows it."),
    key(&["permissions", "deny"], Kind::Rules, true, "What never happens."),
    key(&["mcp", "*", "command"], Kind::Words, false, "The MCP server's program and its arguments."),
    key(&["mcp", "*", "env"], Kind::Values, false, "Variables for the MCP server."),
    key(&["mcp", "*", "url"], Kind::Text, false, "The MCP server's address, instead of a command."),
    key(&["mcp", "*", "headers"], Kind::Values, false, "Headers for every request to the address."),
    key(
        &["mcp", "*", "transport"],
        Kind::OneOf(&["http", "sse"]),
        false,
        "How the address is spoken to; http by default.",
    ),
    key(
        &["mcp", "*", "tools"],
        Kind::Names,
        false,
        "Only these tools of it; a * at the end of a name stands for any rest.",
    ),
    key(&["mcp", "*", "without"], Kind::Names, false, "Not these tools of it."),
    key(&["mcp", "*", "timeout"], Kind::Count, false, "Seconds it may take to start, to answer or to report progress."),
    key(&["sessions", "keep_days"], Kind::Count, false, "Sessions not used for so many days are deleted; 0: no limit."),
    key(
        &["sessions", "keep_count"],
        Kind::Count,
        false,
        "Only so many sessions are kept, those used last; 0: no limit.",
    ),
    key(&["models"], Kind::PassedOver, false, "The models of the built-in agent."),
    key(&["providers"], Kind::PassedOver, false, "The model providers of the built-in agent."),
    key(&["network"], Kind::PassedOver, false, "How the built-in agent reaches the network."),
];

/// What is known of a path.
pub(super) enum Known {
    /// It is a key.
    Key(&'static Key),
    /// There are keys below it.
    Table,
    /// Nothing; the names that would be known in its place.
    Nothing(Vec<&'static str>),
}

/// Looks a path up.
pub(super) fn look_up(path: &[String]) -> Known {
    let fits =
        |key: &Key, path: &[String]| path.iter().zip(key.path).all(|(name, known)| *known == "*" || name == known);
    if let Some(key) = KEYS.iter().find(|key| key.path.len() == path.len() && fits(key, path)) {
        return Known::Key(key);
    }
    if KEYS.iter().any(|key| key.path.len() > path.len() && fits(key, path)) {
        return Known::Table;
    }
    let above = path.split_last().map_or(&[][..], |(_, above)| above);
    let beside = KEYS.iter().filter(|key| key.path.len() >= path.len() && fits(key, above));
    let mut names: Vec<&str> = beside.filter_map(|key| key.path.get(above.len()).copied()).collect();
    names.dedup();
    Known::Nothing(names)
}
