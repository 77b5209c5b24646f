//! Slash commands with their arguments.

use super::action::{Action, Place, Task};
use super::blocks;
use super::files::{ended, pattern, range_of, with_lines};
use super::words::{Word, code, words};

/// The commands with how they are used, for help and for mistakes.
pub const USAGE: &[(&str, &str)] = &[
    ("help", "/help"),
    ("read", "/read FILE [FIRST-LAST]"),
    ("list", "/list [DIRECTORY]"),
    ("find", "/find PATTERN [DIRECTORY]"),
    ("grep", "/grep [-i] [-g GLOB] REGEX [PATH]"),
    ("write", "/write FILE TEXT"),
    ("replace", "/replace OLD NEW [FILE]"),
    ("rename", "/rename OLD NEW [FILE]"),
    ("patch", "/patch DIFF"),
    ("run", "/run [--background] [--timeout SECONDS] COMMAND"),
    ("test", "/test [ARGUMENTS]"),
    ("git", "/git ARGUMENTS"),
    ("todo", "/todo FIRST; SECOND; …"),
];

/// Commands that the agent carries out before any model is asked.
pub const BEFORE: &[&str] = &["undo", "diff", "compact", "rules", "mcp"];

/// Why a prompt that looks like commands can't be worked off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mistake {
    /// There is no such command.
    Unknown(String),
    /// It needs other arguments, or can't be done by a model; the text says what.
    Usage(String),
}

/// The commands in a prompt; `None` if it does not start with one.
pub fn commands(prompt: &str) -> Option<Result<Vec<Action>, Mistake>> {
    let prompt = prompt.trim();
    name_of(prompt)?;
    let lines: Vec<&str> = prompt.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let known = |line: &&str| name_of(line).is_some_and(|name| USAGE.iter().any(|(known, _)| *known == name));
    if lines.len() > 1 && lines.iter().all(known) {
        return Some(lines.into_iter().map(command).collect());
    }
    Some(command(prompt).map(|action| vec![action]))
}

fn name_of(line: &str) -> Option<&str> {
    let name = line.strip_prefix('/')?.split(char::is_whitespace).next()?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == ':';
    (!name.is_empty() && name.chars().all(fits)).then_some(name)
}

fn command(text: &str) -> Result<Action, Mistake> {
    let name = name_of(text).unwrap_or_default();
    let rest = text.get(name.len() + 1..).unwrap_or_default();
    let found = words(rest);
    if BEFORE.contains(&name) {
        return Err(Mistake::Usage(format!(
            "{} is for the agent itself, not for this model.",
            code(&format!("/{name}"))
        )));
    }
    let Some((_, usage)) = USAGE.iter().find(|(known, _)| *known == name) else {
        return Err(Mistake::Unknown(format!("/{name}")));
    };
    let action = match name {
        "help" => Some(Action::Help),
        "read" => read(&found),
        "list" => match found.as_slice() {
            [] => Some(Action::List { path: None }),
            [path] => Some(Action::List { path: Some(whole(rest, path)) }),
            _ => None,
        },
        "find" => match found.as_slice() {
            [name] => Some(Action::Glob { pattern: pattern(&whole(rest, name)), path: None }),
            [name, path] => Some(Action::Glob { pattern: pattern(&whole(rest, name)), path: Some(whole(rest, path)) }),
            _ => None,
        },
        "grep" => grep(rest, &found),
        "write" => write(rest, &found),
        "replace" => pair(rest, &found).map(|(old, new, place)| Action::Replace { old, new, place }),
        "rename" => match found.as_slice() {
            [from, to] => Some(Action::Move { from: whole(rest, from), to: whole(rest, to) }),
            _ => pair(rest, &found).map(|(from, to, place)| Action::RenameWord { from, to, place }),
        },
        "patch" => Some(patch(rest)),
        "run" => run(rest, &found),
        "test" => Some(Action::Project { task: Task::Test, arguments: rest.trim().to_owned() }),
        "git" => (!rest.trim().is_empty()).then(|| Action::run(format!("git {}", rest.trim()))),
        "todo" => todo(rest),
        _ => None,
    };
    action.ok_or_else(|| Mistake::Usage(format!("That command is used like this: `{usage}`")))
}

/// An argument with its punctuation: in commands a dot or question mark belongs to it.
fn whole(text: &str, word: &Word) -> String {
    if word.quoted {
        return word.text.clone();
    }
    let rest = text.get(word.start..).unwrap_or_default();
    rest.split(char::is_whitespace).next().unwrap_or_default().to_owned()
}

fn read(found: &[Word]) -> Option<Action> {
    match found {
        [] => Some(Action::read(Place::It)),
        [path] => {
            let (path, line, limit) = with_lines(&path.text);
            Some(Action::Read { place: Place::Named(path), line, limit })
        }
        [path, range] => {
            let (line, limit) = range_of(&range.text)?;
            Some(Action::Read { place: Place::Named(path.text.clone()), line: Some(line), limit })
        }
        _ => None,
    }
}

fn grep(text: &str, found: &[Word]) -> Option<Action> {
    let (mut ignore_case, mut glob, mut rest) = (false, None, found);
    loop {
        rest = match rest {
            [flag, rest @ ..] if flag.is("-i") => {
                ignore_case = true;
                rest
            }
            [flag, value, rest @ ..] if flag.is("-g") => {
                glob = Some(whole(text, value));
                rest
            }
            [end, rest @ ..] if end.is("--") => {
                break grep_rest(text, rest, glob, ignore_case);
            }
            _ => break grep_rest(text, rest, glob, ignore_case),
        }
    }
}

fn grep_rest(text: &str, rest: &[Word], glob: Option<String>, ignore_case: bool) -> Option<Action> {
    let (pattern, path) = match rest {
        [pattern] => (pattern, None),
        [pattern, path] => (pattern, Some(whole(text, path))),
        _ => return None,
    };
    Some(Action::Grep { pattern: whole(text, pattern), path, glob, ignore_case })
}

fn write(rest: &str, found: &[Word]) -> Option<Action> {
    let path = found.first()?;
    let name = whole(rest, path);
    let after = rest.get(path.start + if path.quoted { path.end - path.start } else { name.len() }..)?;
    let content = match found {
        [_] => return None,
        [_, only] if only.quoted => only.text.clone(),
        _ if after.starts_with(['\n', '\r']) || after.trim_start_matches([' ', '\t']).starts_with('\n') => {
            let body = after.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n').unwrap_or(after);
            blocks::only(body).unwrap_or_else(|| body.to_owned())
        }
        _ => after.trim_start().to_owned(),
    };
    Some(Action::Write { path: name, content: ended(content) })
}

fn pair(text: &str, found: &[Word]) -> Option<(String, String, Place)> {
    let (old, new, place) = match found {
        [old, new] => (old, new, Place::It),
        [old, new, path] => (old, new, Place::Named(whole(text, path))),
        _ => return None,
    };
    let old = whole(text, old);
    (!old.is_empty()).then(|| (old, whole(text, new), place))
}

fn patch(rest: &str) -> Action {
    if rest.trim().is_empty() {
        return Action::PatchIt;
    }
    let body = rest.trim_start_matches([' ', '\t', '\r', '\n']);
    Action::Patch { patch: blocks::only(body).unwrap_or_else(|| ended(body.to_owned())) }
}

fn run(text: &str, found: &[Word]) -> Option<Action> {
    let (mut background, mut timeout, mut rest) = (false, None, found);
    loop {
        rest = match rest {
            [flag, rest @ ..] if flag.any(&["--background", "-b"]) => {
                background = true;
                rest
            }
            [flag, seconds, rest @ ..] if flag.any(&["--timeout", "-t"]) => {
                timeout = Some(seconds.text.parse().ok()?);
                rest
            }
            [first, ..] => {
                let command = text.get(first.start..)?.trim().to_owned();
                let command = blocks::only(&command).map_or(command, |block| block.trim_end().to_owned());
                return Some(Action::Run { command, background, timeout });
            }
            [] if found.is_empty() => return Some(Action::RunFile { place: Place::It }),
            [] => return None,
        }
    }
}

fn todo(rest: &str) -> Option<Action> {
    let entries: Vec<(String, bool)> = rest.split([';', '\n']).filter_map(entry).take(100).collect();
    (!entries.is_empty()).then_some(Action::Todo(entries))
}

fn entry(text: &str) -> Option<(String, bool)> {
    let text = text.trim().trim_start_matches(['-', '*']).trim();
    let (text, done) = match text.strip_prefix("[x]").or_else(|| text.strip_prefix("[X]")) {
        Some(rest) => (rest, true),
        None => (text.strip_prefix("[ ]").unwrap_or(text), false),
    };
    let text = text.trim();
    (!text.is_empty()).then(|| (text.to_owned(), done))
}
