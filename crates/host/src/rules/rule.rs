//! One rule: what it says as text, and what it matches.
//!
//! ```text
//! read PATH        write PATH        delete PATH        move PATH        move FROM => TO
//! run WORDS        run WORDS *       run-exactly LINE     run@sandbox WORDS     run-exactly@sandbox LINE     run(FOLDER) WORDS
//! run@unguarded WORDS     run@read-only WORDS
//! fetch HOST       mcp SERVER/TOOL
//! ```
//!
//! A `PATH` is a glob: relative ones are below the working directory, those with a leading `/` are whole paths. `run WORDS`
//! is one command with just these words, `run WORDS *` with any words after them. With `@sandbox` such a rule allows only what runs
//! in a sandbox that keeps it in the workspace and from what runs by itself later; with `@unguarded` in any sandbox, with `@read-only` in one
//! in which nothing of the workspace can be changed. It allows what runs in the session's working directory, with
//! `(FOLDER)` what runs in folders of that pattern instead. To hold back, both count everywhere. `HOST` is `name`, `*.name`, `*`, with
//! `https://` and a port if wanted. `*` stands for any `SERVER` or `TOOL`.

use super::{
    action::{Action, Confined, Host, Location, host_name},
    address::is_here,
    glob::PathGlob,
    held::holds_line,
    runners::runs_another,
    shell::{CommandLine, Word},
};
use crate::sandbox::Kept;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

/// Why a `*` is not enough to allow a command.
pub(super) const EXPOSED: &str = "nothing keeps it from files that a rule denies, because it does not run in our sandbox; only a rule for all of its words allows it";

/// A rule, without saying whether it allows or forbids.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    pattern: Pattern,
    /// It allows a command only with this around it, or more.
    least: Confined,
    /// Where it allows a command, if not in the working directory.
    folder: Option<PathGlob>,
    /// Where it was written.
    origin: Option<Arc<str>>,
    /// The project that it was written for, whichever folder of it one works in.
    written_for: Option<Arc<Path>>,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Files and folders.
    Files,
    /// Commands.
    Commands,
    /// Addresses.
    Network,
    /// Tools of MCP servers.
    Tools,
}

#[derive(Clone, Debug)]
enum Pattern {
    Path(Verb, PathGlob),
    Moving(PathGlob, PathGlob),
    Run { words: Vec<Word>, more: bool },
    RunExactly(String),
    Fetch { secure: Option<bool>, name: String, below: bool, port: Option<u16> },
    Mcp { server: Option<String>, tool: Option<String> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Read,
    Write,
    Delete,
    Move,
}

/// A rule that can't be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule {rule:?}: {why}")]
pub struct BadRule {
    /// The rule's text.
    pub rule: String,
    /// What is wrong with it.
    pub why: String,
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let bad = |why: &str| BadRule { rule: text.to_owned(), why: why.to_owned() };
        let elsewhere = text.split_once('(').filter(|(verb, _)| verb.starts_with("run") && !verb.contains(' '));
        let in_folder = elsewhere.and_then(|(verb, rest)| Some((verb, rest.split_once(") ")?)));
        let (verb, folder, rest) = match in_folder {
            Some((verb, (folder, rest))) => (verb, Some(folder), rest),
            None => text
                .split_once(' ')
                .map(|(verb, rest)| (verb, None, rest))
                .ok_or_else(|| bad("a verb and a pattern are needed"))?,
        };
        if rest.trim() != rest || rest.is_empty() {
            return Err(bad("the pattern is empty, or begins or ends with a space"));
        }
        let glob = |text: &str| PathGlob::new(text).map_err(|why| bad(&why));
        let path = |verb| Ok(Pattern::Path(verb, glob(rest)?));
        let (plain, least) = Confined::split(verb);
        let pattern = match plain {
            "read" => path(Verb::Read)?,
            "write" => path(Verb::Write)?,
            "delete" => path(Verb::Delete)?,
            "move" => match rest.split_once(" => ") {
                Some((from, to)) => Pattern::Moving(glob(from)?, glob(to)?),
                None => path(Verb::Move)?,
            },
            "run" => run(rest).map_err(|why| bad(&why))?,
            "run-exactly" => Pattern::RunExactly(rest.to_owned()),
            "fetch" => fetch(rest).ok_or_else(|| bad("not a host"))?,
            "mcp" => {
                let (server, tool) = rest.split_once('/').ok_or_else(|| bad("SERVER/TOOL is needed"))?;
                // A rule that can never match is worse than none.
                if [server, tool].iter().any(|name| name.contains('*') && *name != "*") {
                    return Err(bad("`*` stands for a whole SERVER or TOOL"));
                }
                let name = |name: &str| (name != "*").then(|| name.to_owned());
                Pattern::Mcp { server: name(server), tool: name(tool) }
            }
            _ => {
                return Err(bad(
                    "unknown verb; known: read write delete move run run-exactly fetch mcp, and run and run-exactly with @sandbox, @unguarded or @read-only",
                ));
            }
        };
        let folder = folder.map(glob).transpose()?;
        Ok(Self { text: text.to_owned(), pattern, least, folder, origin: None, written_for: None })
    }
}

fn run(text: &str) -> Result<Pattern, String> {
    let (head, more) = match text.strip_suffix('*') {
        Some("") => return Ok(Pattern::Run { words: Vec::new(), more: true }),
        Some(head) if head.ends_with(' ') => (head, true),
        _ => (text, false),
    };
    let line = CommandLine::parse(head);
    if let Some(why) = line.unread() {
        return Err(format!("it could never match, because {why}; `run-exactly` takes any line"));
    }
    match line.words() {
        [words] => Ok(Pattern::Run { words: words.clone(), more }),
        _ => Err("one command at a time; every command of a line needs its rule".to_owned()),
    }
}

fn fetch(text: &str) -> Option<Pattern> {
    let (secure, rest) = match text.split_once("://") {
        Some(("https", rest)) => (Some(true), rest),
        Some(("http", rest)) => (Some(false), rest),
        Some(_) => return None,
        None => (None, text),
    };
    let (name, port) = match rest.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port.parse().ok()?)),
        _ => (rest, None),
    };
    let (name, below) = match name.strip_prefix('*') {
        Some("") => ("", true),
        Some(name) => (name.strip_prefix('.')?, true),
        None => (name, false),
    };
    let name = name.to_ascii_lowercase();
    let name = if below && name.is_empty() { name } else { host_name(&name)? };
    Some(Pattern::Fetch { secure, name, below, port })
}

impl Rule {
    /// The rule as it is written, for people and for the configuration.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same rule, written there.
    #[must_use]
    pub fn from(self, origin: impl Into<Arc<str>>) -> Self {
        Self { origin: Some(origin.into()), ..self }
    }

    /// Where it was written, if that is known.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// The same rule, written for this project: to hold back, its paths also count from there.
    #[must_use]
    pub fn written_for(self, project: Arc<Path>) -> Self {
        Self { written_for: Some(project), ..self }
    }

    /// The paths that it begins with, as far as they are plain names, from all folders that they are taken from.
    pub(super) fn begins(&self, bases: &[PathBuf]) -> Vec<PathBuf> {
        let globs = match &self.pattern {
            Pattern::Path(_, glob) => [Some(glob), None],
            Pattern::Moving(from, to) => [Some(from), Some(to)],
            _ => [None, None],
        };
        let bases = || bases.iter().map(PathBuf::as_path).chain(self.written_for.as_deref());
        let plain = globs.into_iter().flatten().map(PathGlob::begins).filter(|begin| !begin.as_os_str().is_empty());
        plain.flat_map(|begin| bases().map(move |base| base.join(&begin)).collect::<Vec<_>>()).collect()
    }

    /// Whether it may be about something below these folders.
    pub(super) fn reaches(&self, bases: &[PathBuf]) -> bool {
        // As it is matched, whatever the case; and by what it is without links, as far as it is there.
        let lower = |path: &Path| PathBuf::from(path.to_string_lossy().to_lowercase());
        let real = |path: &Path| {
            let mut known = path.ancestors().filter_map(|top| Some((top.canonicalize().ok()?, top)));
            known
                .next()
                .map_or_else(|| path.to_owned(), |(real, top)| real.join(path.strip_prefix(top).unwrap_or(path)))
        };
        let related = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
        let begins = self.begins(bases);
        begins.is_empty()
            || begins.iter().any(|begin| {
                let ways = [lower(begin), lower(&real(begin))];
                bases.iter().any(|base| ways.iter().any(|way| related(way, &lower(base))))
            })
    }

    /// What it keeps commands from, if it denies something about files.
    pub(super) fn keeps(&self) -> Option<Kept> {
        match self.pattern {
            Pattern::Path(Verb::Read, _) => Some(Kept::Hidden),
            Pattern::Path(Verb::Write, _) => Some(Kept::ReadOnly),
            Pattern::Path(..) | Pattern::Moving(..) => Some(Kept::InPlace),
            _ => None,
        }
    }

    /// What it is about.
    pub fn topic(&self) -> Topic {
        match self.pattern {
            Pattern::Path(..) | Pattern::Moving(..) => Topic::Files,
            Pattern::Run { .. } | Pattern::RunExactly(_) => Topic::Commands,
            Pattern::Fetch { .. } => Topic::Network,
            Pattern::Mcp { .. } => Topic::Tools,
        }
    }

    /// The rule that allows this action again and as little else as possible. `None` if no rule can say it.
    pub fn narrowest(action: &Action) -> Option<Self> {
        let text = match action {
            Action::Read(path) => format!("read {}", PathGlob::exactly(path)?),
            Action::Write(path) => format!("write {}", PathGlob::exactly(path)?),
            Action::Delete(path) => format!("delete {}", PathGlob::exactly(path)?),
            Action::Move { from, to } => format!("move {} => {}", PathGlob::exactly(from)?, PathGlob::exactly(to)?),
            // What was asked about with the sandbox around it is not allowed without.
            Action::Execute { command, confined } => {
                let at = confined.at_least().word();
                let how = match command.folder() {
                    Some(folder) => format!("{at}({})", PathGlob::exactly(folder)?),
                    None => at.to_owned(),
                };
                match command.words() {
                    [words] if command.complex().is_none() => {
                        let words: Vec<String> = words.iter().map(Word::quoted).collect();
                        format!("run{how} {}", words.join(" "))
                    }
                    _ => format!("run-exactly{how} {}", command.text()),
                }
            }
            Action::Fetch(host) => {
                let scheme = if host.secure { "https" } else { "http" };
                let port = if host.port == host.default_port() { String::new() } else { format!(":{}", host.port) };
                format!("fetch {scheme}://{}{port}", host.name)
            }
            Action::Mcp { server, tool } => format!("mcp {server}/{tool}"),
        };
        // A name that would mean something else as a pattern shows here.
        let rule: Self = text.parse().ok()?;
        let same_names = match (&rule.pattern, action) {
            (Pattern::Mcp { server: Some(s), tool: Some(t) }, Action::Mcp { server, tool }) => s == server && t == tool,
            (Pattern::Mcp { .. } | Pattern::Run { more: true, .. }, _) => false,
            _ => true,
        };
        let covered = match action.clone() {
            Action::Execute { command, confined } => Action::Execute { command, confined: confined.at_least() },
            action => action,
        };
        (same_names && super::allowed(&[&rule], &covered)).then_some(rule)
    }

    /// Whether it matches the whole action as a rule that allows; for a line of several commands see
    /// [`Rule::allows_command`].
    pub(super) fn allows(&self, action: &Action) -> bool {
        if self.stops_at(action).is_some() {
            return false;
        }
        match (&self.pattern, action) {
            (Pattern::Path(Verb::Read, glob), Action::Read(path))
            | (Pattern::Path(Verb::Write, glob), Action::Write(path))
            | (Pattern::Path(Verb::Delete, glob), Action::Delete(path)) => glob.allows(path),
            (Pattern::Path(Verb::Move, glob), Action::Move { from, to }) => glob.allows(from) && glob.allows(to),
            (Pattern::Moving(a, b), Action::Move { from, to }) => a.allows(from) && b.allows(to),
            (Pattern::RunExactly(line), Action::Execute { command, .. }) => command.text() == line,
            (Pattern::Fetch { .. }, Action::Fetch(host)) => self.fetches(host, false),
            (Pattern::Mcp { .. }, Action::Mcp { server, tool }) => self.calls(server, tool, str::eq),
            _ => false,
        }
    }

    /// Why it can't allow this command, whatever its words are: it was given for less.
    pub(super) fn stops_at(&self, action: &Action) -> Option<&'static str> {
        let Action::Execute { command, confined } = action else { return None };
        let (any_words, more) = match &self.pattern {
            Pattern::Run { words, more } => (words.is_empty(), *more),
            _ => (false, false),
        };
        let is_there = match (&self.folder, command.folder()) {
            (None, folder) => folder.is_none() || any_words,
            (Some(glob), Some(folder)) => glob.allows(folder),
            (Some(_), None) => false,
        };
        if *confined < self.least {
            Some(match confined {
                Confined::No => "it was given for the sandbox, and this runs outside it",
                _ => "it was given for a sandbox that holds more than this one",
            })
        } else if more && command.is_exposed() {
            Some(EXPOSED)
        } else {
            (!is_there)
                .then_some("it counts in another folder than the one that this runs in; `run(FOLDER) WORDS` names one")
        }
    }

    /// Whether it is `run *`.
    pub(super) fn is_for_any_words(&self) -> bool {
        matches!(&self.pattern, Pattern::Run { words, more: true } if words.is_empty())
    }

    /// Whether it allows one simple command.
    pub(super) fn allows_command(&self, words: &[Word]) -> bool {
        let Pattern::Run { words: wanted, more } = &self.pattern else { return false };
        (words.len() == wanted.len() || *more && words.len() > wanted.len())
            && wanted.iter().zip(words).all(|(a, b)| a.quoted() == b.quoted())
            // What the rule itself names may run others; what `*` stands for may not.
            && (!more || runs_another(words, wanted.len()).is_none())
    }

    /// Whether it matches as a rule that asks or forbids: more readily, and on any part of the action.
    pub(super) fn holds(&self, action: &Action) -> bool {
        let in_it = |glob: &PathGlob, at: &Location| glob.holds(at, self.written_for.as_deref());
        match (&self.pattern, action) {
            // To delete is to change; to move is to read and take away here, and to write there.
            (Pattern::Path(Verb::Read, glob), Action::Read(path))
            | (Pattern::Path(Verb::Write, glob), Action::Write(path) | Action::Delete(path))
            | (Pattern::Path(Verb::Delete, glob), Action::Delete(path))
            | (Pattern::Path(Verb::Read | Verb::Delete, glob), Action::Move { from: path, .. }) => in_it(glob, path),
            (Pattern::Path(_, glob), Action::Move { from, to }) => in_it(glob, from) || in_it(glob, to),
            (Pattern::Moving(a, b), Action::Move { from, to }) => in_it(a, from) && in_it(b, to),
            (Pattern::RunExactly(line), Action::Execute { command, .. }) => {
                command.text().split_whitespace().eq(line.split_whitespace())
            }
            (Pattern::Run { words, .. }, Action::Execute { command, .. }) => holds_line(words, command),
            (Pattern::Fetch { .. }, Action::Fetch(host)) => self.fetches(host, true),
            (Pattern::Mcp { .. }, Action::Mcp { server, tool }) => self.calls(server, tool, str::eq_ignore_ascii_case),
            _ => false,
        }
    }

    /// To hold back, any port is meant, and all names of this machine are one.
    fn fetches(&self, host: &Host, holds: bool) -> bool {
        let Pattern::Fetch { secure, name, below, port } = &self.pattern else { return false };
        let right_name = if *below {
            name.is_empty() || host.name.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.'))
        } else {
            host.name == *name || holds && is_here(name) && is_here(&host.name)
        };
        let right_port = port.map_or(holds || host.port == host.default_port(), |port| port == host.port);
        right_name && right_port && secure.is_none_or(|secure| secure == host.secure)
    }

    fn calls(&self, server: &str, tool: &str, same: impl Fn(&str, &str) -> bool) -> bool {
        let Pattern::Mcp { server: s, tool: t } = &self.pattern else { return false };
        s.as_ref().is_none_or(|s| same(s, server)) && t.as_ref().is_none_or(|t| same(t, tool))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Rule {}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
