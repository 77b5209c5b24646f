//! How the layers become one: later ones win key by key, rules add up, and what is not trusted is held back.

use super::file::{self, Leaf, dotted};
use super::keys::{BuiltIn, KEYS, Kind, Known, look_up};
use super::sources::VARIABLES;
use super::trust::Trusted;
use super::{Config, Error, Flags, HeldBack, Origin, Shown, Sources, is_agent_name, permissions};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// The leaves that count, by path; rules keep all their layers.
type Leaves = BTreeMap<Vec<String>, Vec<Leaf>>;

pub(super) fn load(sources: &Sources, flags: &Flags) -> Result<Config, Error> {
    let (old_rules, mut notes) = permissions::move_old(sources)?;
    // A project may have got its first file just now.
    let sources = &sources.again();
    let mut leaves = Leaves::new();
    let mut held_back = Vec::new();
    if let Some(path) = &sources.user {
        match file::load(path)? {
            Some(text) => lay(&mut leaves, file::parse(&text, path)?),
            None if sources.named => {
                return Err(Error::at(path, None, "TIELINE_CONFIG names this file, but it is not there"));
            }
            None => {}
        }
    }
    let trusted = Trusted::load(sources.trusted.as_deref());
    for path in sources.project_files() {
        let text = match file::load(&path) {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            // Nobody can have trusted what is no file; it may be one that was.
            Err(error) if !trusted.knew(&path) => {
                notes.push(format!("{error}; this file is not trusted, and nothing in it counts"));
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut own = match file::parse(&text, &path) {
            // Whoever made the folder must not stop every run in it.
            Err(error) if !trusted.has(&path, &text) && !trusted.knew(&path) => {
                notes.push(format!("{error}; this file is not trusted, and nothing in it counts"));
                continue;
            }
            own => own?,
        };
        if !trusted.has(&path, &text) {
            let changed = trusted.knew(&path);
            for leaf in own.extract_if(.., |leaf| !leaf.key.free) {
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
    let said = [
        ("agent", &flags.agent),
        ("format", &flags.format),
        ("permissions.default", &flags.default),
        ("models.default", &flags.model),
    ];
    for (path, text) in said {
        if let Some(text) = text {
            lay(&mut leaves, [single(path, text, Origin::Flag)?]);
        }
    }
    let mut config = build(leaves, held_back)?;
    let settings = &mut config.permissions;
    settings.rules = std::mem::take(&mut settings.rules).and(old_rules);
    if let Some(project) = sources.project.as_ref().and_then(|project| project.canonicalize().ok()) {
        settings.rules.written_for(&project.into());
    }
    settings.notes = notes;
    permissions::learned(sources, settings, &mut config.shown)?;
    config.note_commands();
    Ok(config)
}

/// The configuration of one text alone.
pub(super) fn parse(text: &str, path: &Path) -> Result<Config, Error> {
    let mut leaves = Leaves::new();
    lay(&mut leaves, file::parse(text, path)?);
    build(leaves, Vec::new())
}

/// A value that came as one word.
fn single(key: &str, text: &str, origin: Origin) -> Result<Leaf, Error> {
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    let Known::Key(known) = look_up(&path) else { return Err(Error::new(format!("unknown key `{key}`"))) };
    let value = file::word(known.kind, text).map_err(|why| Error::new(format!("{origin}: `{key}` {why}")))?;
    Ok(Leaf { path, value, key: known, origin, lines: Vec::new() })
}

fn lay(leaves: &mut Leaves, layer: impl IntoIterator<Item = Leaf>) {
    for leaf in layer {
        let known = leaves.entry(leaf.path.clone()).or_default();
        if leaf.key.kind != Kind::Rules {
            known.clear();
        }
        known.push(leaf);
    }
}

/// Paths in a project's file start at the project, wherever in it one stands.
fn anchor(leaf: &mut Leaf, project: &Path) {
    let whole = |path: &str| Value::from(project.join(path).to_string_lossy());
    match leaf.key.kind {
        Kind::Words => {
            let program = leaf.value.get_mut(0);
            if let Some(program) = program.filter(|program| program.as_str().is_some_and(|name| name.contains('/'))) {
                *program = whole(program.as_str().unwrap_or_default());
            }
        }
        Kind::Path => leaf.value = whole(leaf.value.as_str().unwrap_or_default()),
        _ => {}
    }
}

fn build(leaves: Leaves, held_back: Vec<HeldBack>) -> Result<Config, Error> {
    let mut shown = Vec::new();
    let mut root = Value::Object(Map::new());
    let mut origins = permissions::Origins::default();
    for (path, layers) in leaves {
        for leaf in layers {
            origins.add(&leaf);
            shown.push(Shown {
                key: dotted(&path),
                value: without_secrets(&leaf.value, leaf.key.kind),
                origin: leaf.origin,
            });
            let place = path.iter().fold(&mut root, |table, name| &mut table[name.as_str()]);
            match (place, leaf.value) {
                (Value::Array(all), Value::Array(mut more)) => all.append(&mut more),
                (place, value) => *place = value,
            }
        }
    }
    // The table has checked every value, so this fails only if a type above does not fit the table.
    let mut config: Config =
        serde_json::from_value(root).map_err(|error| Error::new(format!("the configuration: {error}")))?;
    origins.put(&mut config.permissions.rules);
    for key in KEYS {
        if let Some(built_in) = key.built_in
            && shown.iter().all(|one: &Shown| one.key != key.path)
        {
            let value = match built_in {
                BuiltIn::Text(text) => text.into(),
                BuiltIn::Number(number) => number.into(),
            };
            shown.push(Shown { key: key.path.to_owned(), value, origin: Origin::BuiltIn });
        }
    }
    shown.sort_by(|a, b| a.key.cmp(&b.key));
    config.retention = config.sessions.retention();
    (config.held_back, config.shown) = (held_back, shown);
    check(&config)?;
    let commands = config.agents.iter().map(|(name, entry)| {
        let how = if entry.url.is_some() { "url" } else { "command" };
        format!("agents.{}.{how}", dotted(std::slice::from_ref(name)))
    });
    let origins: Vec<Option<Origin>> = commands.map(|key| config.origin(&key).cloned()).collect();
    for (entry, origin) in config.agents.values_mut().zip(origins) {
        entry.origin = origin;
    }
    Ok(config)
}

/// What no single key can say.
fn check(config: &Config) -> Result<(), Error> {
    for (name, entry) in &config.agents {
        let key = format!("agents.{}", dotted(std::slice::from_ref(name)));
        if !is_agent_name(name) {
            let why = format!("an agent can't be called {name:?}: use letters, digits, `-`, `_` and `.`");
            return Err(config.mistake(&key, why));
        }
        if entry.command.is_empty() && entry.url.is_none() {
            let why = format!("the agent `{name}` has no command; write command = [\"program\", \"argument\"]");
            return Err(config.mistake(&key, why));
        }
        if !entry.command.is_empty() && entry.url.is_some() {
            let why = format!("the agent `{name}` has a command and a url; it is reached by one of them");
            return Err(config.mistake(&key, why));
        }
    }
    for (name, entry) in &config.mcp {
        // Without either it is about a server that the client of the built-in agent names.
        let both = !entry.command.is_empty() && entry.url.is_some();
        let only_used = entry.is_used() && entry.env.is_empty() && entry.headers.is_empty();
        if both || !(entry.is_whole() || only_used) {
            let why = format!("the MCP server `{name}` needs a command or a url, and not both");
            return Err(config.mistake(&format!("mcp.{}", dotted(std::slice::from_ref(name))), why));
        }
    }
    Ok(())
}

/// A value as it would be written in a file.
pub(super) fn written(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(all) => format!("[{}]", all.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Object(values) => {
            let values: Vec<String> = values.iter().map(|(name, one)| format!("{name} = {}", written(one))).collect();
            format!("{{ {} }}", values.join(", "))
        }
        other => other.to_string(),
    }
}

/// A value without what may be secret in it. Where a secret is taken from is none.
fn without_secrets(value: &Value, kind: Kind) -> Value {
    match value {
        Value::String(text) if matches!(kind, Kind::Address | Kind::AgentAddress) => public_part(text).into(),
        Value::Object(values) => {
            let hide = |one: &Value| if one.is_string() { "…".into() } else { one.clone() };
            values.iter().map(|(name, one)| (name.clone(), hide(one))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// An address without what may be secret in it: a login, and what follows a `?`.
fn public_part(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let authority = authority.rsplit_once('@').map_or(authority.to_owned(), |(_, host)| format!("…@{host}"));
    let path = path.split_once('?').map_or(path.to_owned(), |(path, _)| format!("{path}?…"));
    format!("{scheme}://{authority}{path}")
}
