//! How the layers become one: later ones win key by key, rules add up, and what is not trusted is held back.

use super::file::{self, Data, Leaf, dotted};
use super::keys::{Known, look_up};
use super::sources::VARIABLES;
use super::trust::Trusted;
use super::{AgentEntry, Config, Error, Flags, HeldBack, McpEntry, Origin, Sources};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline::rpc::framing::Framing;
use tieline_host::store::Retention;

/// Sessions are kept as long as the built-in agent keeps its own.
const DAYS: u32 = 365;
const SESSIONS: usize = 5000;
const DAY: Duration = Duration::from_hours(24);

/// What counts where nothing is said.
const BUILT_IN: &[(&str, &str)] = &[
    ("agent", "\"tieline\""),
    ("format", "\"text\""),
    ("permissions.default", "\"allow-reads\""),
    ("sessions.keep_count", "5000"),
    ("sessions.keep_days", "365"),
];

/// The leaves that count, by path; rules keep all their layers.
type Leaves = BTreeMap<Vec<String>, Vec<Leaf>>;

pub(super) fn load(sources: &Sources, flags: &Flags) -> Result<Config, Error> {
    let mut leaves = Leaves::new();
    let mut held_back = Vec::new();
    if let Some(path) = &sources.user {
        match file::load(path)? {
            Some(text) => lay(&mut leaves, parse(&text, path)?),
            None if sources.named => {
                return Err(Error::at(path, None, "TIELINE_CONFIG names this file, but it is not there"));
            }
            None => {}
        }
    }
    let trusted = Trusted::load(sources.trusted.as_deref());
    for path in sources.project_files() {
        let Some(text) = file::load(&path)? else { continue };
        let mut own = parse(&text, &path)?;
        if !trusted.has(&path, &text) {
            let changed = trusted.knew(&path);
            for leaf in own.extract_if(.., |leaf| !leaf.free) {
                held_back.push(HeldBack { key: dotted(&leaf.path), origin: leaf.origin, changed });
            }
        }
        if let Some(project) = &sources.project {
            for leaf in &mut own {
                anchor(leaf, project);
            }
        }
        lay(&mut leaves, own);
    }
    for (name, text) in &sources.variables {
        if let Some((name, path)) = VARIABLES.iter().find(|(known, _)| known == name) {
            lay(&mut leaves, [single(path, text, Origin::Variable(name))?]);
        }
    }
    let said =
        [(&["agent"][..], &flags.agent), (&["format"], &flags.format), (&["permissions", "default"], &flags.default)];
    for (path, text) in said {
        if let Some(text) = text {
            lay(&mut leaves, [single(path, text, Origin::Flag)?]);
        }
    }
    build(leaves, held_back)
}

fn parse(text: &str, path: &Path) -> Result<Vec<Leaf>, Error> {
    file::parse(text, path, |line| Origin::File(path.to_owned(), line))
}

/// A value that came as one word.
fn single(path: &[&str], text: &str, origin: Origin) -> Result<Leaf, Error> {
    let path: Vec<String> = path.iter().map(|&name| name.to_owned()).collect();
    let Known::Key(key) = look_up(&path) else { return Err(Error::new(format!("unknown key `{}`", dotted(&path)))) };
    let data = file::word(key.kind, text).map_err(|why| Error::new(format!("{origin}: `{}` {why}", dotted(&path))))?;
    Ok(Leaf { path, data, free: key.free, origin })
}

fn lay(leaves: &mut Leaves, layer: impl IntoIterator<Item = Leaf>) {
    for leaf in layer {
        let known = leaves.entry(leaf.path.clone()).or_default();
        if !matches!(leaf.data, Data::Rules(_)) {
            known.clear();
        }
        known.push(leaf);
    }
}

/// Paths in a project's file start at the project, wherever in it one stands.
fn anchor(leaf: &mut Leaf, project: &Path) {
    let whole = |path: &str| project.join(path).to_string_lossy().into_owned();
    match (leaf.path.last().map(String::as_str), &mut leaf.data) {
        (Some("command"), Data::Words(words)) => {
            if let Some(program) = words.first_mut().filter(|program| program.contains('/')) {
                *program = whole(program);
            }
        }
        (Some("cwd"), Data::Text(folder)) => *folder = whole(folder),
        _ => {}
    }
}

fn build(leaves: Leaves, held_back: Vec<HeldBack>) -> Result<Config, Error> {
    let retention = Retention { max_age: Some(DAY * DAYS), max_count: Some(SESSIONS), ..Retention::default() };
    let mut config = Config { retention, held_back, ..Config::default() };
    for (path, layers) in leaves {
        for leaf in layers {
            config.shown.push((dotted(&path), shown(&leaf.data), leaf.origin.clone()));
            let names: Vec<&str> = path.iter().map(String::as_str).collect();
            put(&mut config, &names, leaf.data, &leaf.origin);
        }
    }
    for (key, value) in BUILT_IN {
        if config.shown.iter().all(|(known, ..)| known != key) {
            config.shown.push(((*key).to_owned(), (*value).to_owned(), Origin::BuiltIn));
        }
    }
    config.shown.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    for (name, entry) in &config.agents {
        if !crate::agents::is_name(name) {
            let why = format!("an agent can't be called {name:?}: use letters, digits, `-`, `_` and `.`");
            return Err(blame(&config, &format!("agents.{}", dotted(std::slice::from_ref(name))), why));
        }
        if entry.command.is_empty() {
            let why = format!("the agent `{name}` has no command; write command = [\"program\", \"argument\"]");
            return Err(blame(&config, &format!("agents.{name}."), why));
        }
    }
    for (name, entry) in &config.mcp {
        // Without either it is about a server that the client of the built-in agent names.
        let both = !entry.command.is_empty() && entry.url.is_some();
        let only_used = entry.is_used() && entry.env.is_empty() && entry.headers.is_empty();
        if both || !(entry.is_whole() || only_used) {
            let why = format!("the MCP server `{name}` needs a command or a url, and not both");
            return Err(blame(&config, &format!("mcp.{}.", dotted(std::slice::from_ref(name))), why));
        }
    }
    Ok(config)
}

/// An error about the first key that starts with this.
fn blame(config: &Config, start: &str, why: String) -> Error {
    let found = config.shown.iter().find(|(key, ..)| key.starts_with(start));
    match found {
        Some((_, _, Origin::File(path, line))) => Error::at(path, *line, why),
        _ => Error::new(why),
    }
}

fn put(config: &mut Config, path: &[&str], data: Data, origin: &Origin) {
    match (path, data) {
        (["agent"], Data::Text(text)) => config.agent = Some(text),
        (["format"], Data::Text(text)) => config.format = Some(text),
        (["permissions", "default"], Data::Text(text)) => config.permissions.default = Some(text),
        (["permissions", list], Data::Rules(mut rules)) => {
            let all = &mut config.permissions.rules;
            match *list {
                "allow" => all.allow.append(&mut rules),
                "ask" => all.ask.append(&mut rules),
                _ => all.deny.append(&mut rules),
            }
        }
        (["agents", name, key], data) => agent(config.agents.entry((*name).to_owned()).or_default(), key, data, origin),
        (["mcp", name, key], data) => server(config.mcp.entry((*name).to_owned()).or_default(), key, data),
        (["sessions", key], data) => keep(&mut config.retention, key, &data),
        _ => {}
    }
}

fn agent(entry: &mut AgentEntry, key: &str, data: Data, origin: &Origin) {
    match (key, data) {
        ("command", Data::Words(words)) => {
            entry.command = words;
            entry.origin = Some(origin.clone());
        }
        ("env", Data::Values(values)) => entry.env = values,
        ("cwd", Data::Text(folder)) => entry.cwd = Some(PathBuf::from(folder)),
        ("protocol", Data::Text(text)) => entry.protocol = text.parse().ok(),
        ("framing", Data::Text(text)) => {
            entry.framing = Some(if text == "lines" { Framing::Lines } else { Framing::Headers });
        }
        _ => {}
    }
}

fn server(entry: &mut McpEntry, key: &str, data: Data) {
    match (key, data) {
        ("command", Data::Words(words)) => entry.command = words,
        ("env", Data::Values(values)) => entry.env = values,
        ("url", Data::Text(url)) => entry.url = Some(url),
        ("headers", Data::Values(values)) => entry.headers = values,
        ("transport", Data::Text(text)) => entry.sse = text == "sse",
        ("tools", Data::Words(names)) => entry.tools = names,
        ("without", Data::Words(names)) => entry.without = names,
        ("timeout", Data::Number(seconds)) => {
            entry.timeout = (seconds > 0).then(|| Duration::from_secs(seconds).min(DAY));
        }
        _ => {}
    }
}

/// 0 stands for no limit.
fn keep(retention: &mut Retention, key: &str, data: &Data) {
    match (key, data) {
        ("keep_days", Data::Number(days)) => {
            let age = DAY.checked_mul(u32::try_from(*days).unwrap_or(u32::MAX));
            retention.max_age = age.filter(|age| !age.is_zero());
        }
        ("keep_count", Data::Number(count)) => {
            retention.max_count = usize::try_from(*count).ok().filter(|count| *count > 0);
        }
        _ => {}
    }
}

/// A value as it would be written, without secrets.
fn shown(data: &Data) -> String {
    match data {
        Data::Text(text) => format!("{text:?}"),
        Data::Words(words) => format!("{words:?}"),
        Data::Rules(rules) => format!("{:?}", rules.iter().map(tieline_host::rules::Rule::text).collect::<Vec<_>>()),
        Data::Values(values) => {
            let values: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            format!("{{ {} }}", values.join(", "))
        }
        Data::Number(number) => number.to_string(),
    }
}
