//! The table of everything a configuration file can say: the check of unknown keys, what is built in, the schema and the
//! docs come from it.

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The name of an agent.
    Name,
    /// Any text.
    Text,
    /// A file or folder; in a project's file it starts at the project.
    Path,
    /// An `http` or `https` address; a login or a query in it may be secret.
    Address,
    /// The address of an agent: `http`, `https`, `ws` or `wss`; a login or a query in it may be secret.
    AgentAddress,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A program and its arguments.
    Words,
    /// Names of tools or models.
    Names,
    /// Permission rules.
    Rules,
    /// Names with values, which may be secrets.
    Values,
    /// Names with plain texts, which may be secrets.
    Headers,
    /// A number.
    Count,
    /// Yes or no.
    Flag,
}

/// What counts where nobody says anything.
#[derive(Debug, Clone, Copy)]
pub(super) enum BuiltIn {
    Text(&'static str),
    Number(u64),
}

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    /// Where it is; `*` stands for any name.
    pub(super) path: &'static str,
    /// What it holds.
    pub(super) kind: Kind,
    /// What it means.
    pub(super) about: &'static str,
    /// True if a project that is not trusted may say it.
    pub(super) free: bool,
    /// What counts where nobody says anything.
    pub(super) built_in: Option<BuiltIn>,
}

impl Key {
    const fn free(mut self) -> Self {
        self.free = true;
        self
    }

    const fn text(mut self, text: &'static str) -> Self {
        self.built_in = Some(BuiltIn::Text(text));
        self
    }

    const fn number(mut self, number: u64) -> Self {
        self.built_in = Some(BuiltIn::Number(number));
        self
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.path.split('.')
    }
}

/// Sessions that nobody used for so many days are deleted.
pub const KEEP_DAYS: u64 = 365;
/// So many sessions are kept.
pub const KEEP_COUNT: u64 = 5000;
/// How often a request to a model is tried again.
pub const TRIES: u64 = 3;
/// The formats of `exec`.
const FORMATS: &[&str] = &["text", "json", "stream-json", "acp", "quiet"];
/// What happens where no rule says anything.
const PRESETS: &[&str] = &crate::rules::Preset::NAMES;
/// The versions of the protocol.
const PROTOCOLS: &[&str] = &["auto", "1", "2", "2-seed"];
/// The ways to frame messages.
const FRAMINGS: &[&str] = &["lines", "content-length"];
/// What model providers speak.
pub const MODEL_FORMATS: &[&str] = &["openai-chat", "openai-responses", "anthropic", "gemini"];
/// How hard a model should think; the first leaves it to the model.
pub const THOUGHT_LEVELS: &[&str] = &["default", "low", "medium", "high"];

const fn key(path: &'static str, kind: Kind, about: &'static str) -> Key {
    Key { path, kind, about, free: false, built_in: None }
}

/// All keys.
pub(super) const KEYS: &[Key] = &[
    key("agent", Kind::Name, "The agent that is used unless another is named.").free().text("tieline"),
    key("format", Kind::OneOf(FORMATS), "How `exec` prints what the agent says.").free().text("text"),
    key("agents.*.command", Kind::Words, "The program and its arguments; no shell comes in between."),
    key("agents.*.env", Kind::Values, "Variables for the agent, on top of ours."),
    key("agents.*.url", Kind::AgentAddress, "The agent's address, instead of a command: https://, wss://."),
    key("agents.*.headers", Kind::Values, "Headers for every request to the address."),
    key("agents.*.cwd", Kind::Path, "The folder in which the program is started."),
    key("agents.*.protocol", Kind::OneOf(PROTOCOLS), "The version of the protocol to ask for."),
    key("agents.*.framing", Kind::OneOf(FRAMINGS), "How messages are framed."),
    key("agents.*.max_sessions", Kind::Count, "So many sessions of it are live in a server; 0: no limit."),
    key("agents.*.max_processes", Kind::Count, "With more processes an agent is ended; 0: no limit."),
    key("agents.*.max_memory", Kind::Count, "With more memory an agent is ended, in MiB; 0: no limit."),
    key("agents.*.max_cpu", Kind::Count, "An agent gets no more CPU, in percent of one core; 0: no limit."),
    key("permissions.default", Kind::OneOf(PRESETS), "What happens where no rule says anything.").text("allow-reads"),
    key("permissions.allow", Kind::Rules, "What may happen at once."),
    key("permissions.ask", Kind::Rules, "What is asked, even if a rule allows it.").free(),
    key("permissions.deny", Kind::Rules, "What never happens.").free(),
    key("models.default", Kind::Text, "The model of the built-in agent: PROVIDER/MODEL, or offline.").text("offline"),
    key("models.choices", Kind::Names, "Other models to choose from in a session."),
    key("models.thought_level", Kind::OneOf(THOUGHT_LEVELS), "How hard the model should think.").text("default"),
    key("providers.*.format", Kind::OneOf(MODEL_FORMATS), "What the provider speaks; openai-chat by default."),
    key("providers.*.base_url", Kind::Address, "Where the provider is."),
    key("providers.*.key_env", Kind::Text, "The variable that holds its key."),
    key("providers.*.key_file", Kind::Path, "A file that holds its key."),
    key("providers.*.headers", Kind::Headers, "More headers for each request."),
    key("providers.*.context", Kind::Count, "Tokens that fit into the context of its models."),
    key("providers.*.models", Kind::Names, "Models of it to choose from in a session."),
    key("providers.*.insecure", Kind::Flag, "A key may go over plain http to another machine."),
    key("network.ca_file", Kind::Path, "A PEM file with certificates to trust besides the well-known ones."),
    key("network.idle_seconds", Kind::Count, "A model that is silent for so many seconds has failed."),
    key("network.tries", Kind::Count, "How often a request to a model is tried again.").number(TRIES),
    key("mcp.*.command", Kind::Words, "The MCP server's program and its arguments."),
    key("mcp.*.env", Kind::Values, "Variables for the MCP server."),
    key("mcp.*.url", Kind::Address, "The MCP server's address, instead of a command."),
    key("mcp.*.headers", Kind::Values, "Headers for every request to the address."),
    key("mcp.*.transport", Kind::OneOf(&["http", "sse"]), "How the address is spoken to; http by default."),
    key("mcp.*.tools", Kind::Names, "Only these tools of it; a * at the end of a name stands for any rest."),
    key("mcp.*.without", Kind::Names, "Not these tools of it."),
    key("mcp.*.timeout", Kind::Count, "Seconds it may take to start, to answer or to report progress."),
    key("sessions.keep_days", Kind::Count, "Sessions not used for so many days are deleted; 0: no limit.")
        .number(KEEP_DAYS),
    key("sessions.keep_count", Kind::Count, "Only so many sessions are kept, those used last; 0: no limit.")
        .number(KEEP_COUNT),
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
        |key: &Key, path: &[String]| path.iter().zip(key.names()).all(|(name, known)| known == "*" || name == known);
    let depth = |key: &Key| key.names().count();
    if let Some(key) = KEYS.iter().find(|key| depth(key) == path.len() && fits(key, path)) {
        return Known::Key(key);
    }
    if KEYS.iter().any(|key| depth(key) > path.len() && fits(key, path)) {
        return Known::Table;
    }
    let above = path.split_last().map_or(&[][..], |(_, above)| above);
    let beside = KEYS.iter().filter(|key| depth(key) >= path.len() && fits(key, above));
    let mut names: Vec<&str> = beside.filter_map(|key| key.names().nth(above.len())).collect();
    names.dedup();
    Known::Nothing(names)
}
