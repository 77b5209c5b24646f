//! The puppet: does what the prompt says, one directive per line.

use super::step::{Arguments, Call, Flood, Say, Step};
use crate::model::{Finish, Report};
use serde_json::{Value, json};
use std::time::Duration;
use tieline::schema::from_json;
use tieline::{PlanEntry, PlanStatus};

/// The directives: name, what follows it, what it does.
pub(super) const DIRECTIVES: &[(&str, &str, &str)] = &[
    ("say", "TEXT", "says the text"),
    ("think", "TEXT", "shows a thought"),
    ("plan", "A; B; C", "shows a plan and works it off"),
    ("read", "PATH", "reads a file"),
    ("write", "PATH TEXT", "writes a file"),
    ("run", "COMMAND", "runs a command"),
    ("mcp", "SERVER TOOL JSON", "calls a tool of an MCP server"),
    ("call", "TOOL JSON", "calls any tool"),
    ("update", "JSON", "sends any update"),
    ("result", "", "says what the last tool gave back"),
    ("told", "", "says what the model was told"),
    ("wait", "", "works until it is cancelled"),
    ("pause", "MS", "waits so many milliseconds"),
    ("later", "MS DIRECTIVE", "does a directive so many milliseconds from now, without a prompt"),
    ("flood", "N SIZE", "says N pieces of SIZE bytes"),
    ("usage", "USED SIZE", "reports how full the context is"),
    ("title", "TEXT", "gives the session a title"),
    ("commands", "", "offers the directives as slash commands"),
    ("mode", "ID", "reports that another mode is on"),
    ("stop", "REASON", "ends the turn with this stop reason"),
    ("error", "CODE TEXT", "answers the prompt with a JSON-RPC error"),
];

/// Nothing is done later than so many milliseconds from now: an hour.
const LATEST: u64 = 3_600_000;

/// The answers that the prompt asks for, one after the other.
pub(super) fn answers(prompt: &str) -> Vec<Vec<Step>> {
    let mut answers = vec![Vec::new()];
    let mut empty = true;
    for line in prompt.lines().map(str::trim).filter(|line| !line.is_empty()) {
        empty = false;
        let steps = directive(line);
        let over = steps.iter().any(Step::is_last);
        let calls = steps.iter().any(|step| matches!(step, Step::Call(_)));
        if let Some(answer) = answers.last_mut() {
            answer.extend(steps);
        }
        if over {
            return answers;
        }
        if calls {
            // What follows waits for the result.
            answers.push(Vec::new());
        }
    }
    if empty {
        answers = vec![vec![say(format!("The prompt has no directive.\n{}", known()))]];
    }
    if let Some(answer) = answers.last_mut() {
        answer.push(Step::Finish(Finish::Done));
    }
    answers
}

fn directive(line: &str) -> Vec<Step> {
    let (name, rest) = first_word(line);
    let name = name.strip_prefix('/').unwrap_or(name);
    if let Some(steps) = steps(name, rest) {
        return steps;
    }
    let text = match DIRECTIVES.iter().find(|(known, ..)| *known == name) {
        Some((_, form, _)) => format!("`{name}` is written `{}`, not `{line}`.\n", format!("{name} {form}").trim_end()),
        None => format!("Unknown directive `{name}`.\n{}", known()),
    };
    vec![say(text)]
}

/// The steps of a directive; none if it is unknown or wrong.
fn steps(name: &str, rest: &str) -> Option<Vec<Step>> {
    let needed = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Some(vec![match name {
        "say" => say(unescape(&needed(rest)?)),
        "think" => Step::Say(Say { text: unescape(&needed(rest)?), thought: true, times: 1, ..Say::default() }),
        "plan" => return plan(rest),
        "read" => call("read", json!({ "path": needed(unquote(rest))? })),
        "write" => {
            let (path, text) = path_and_rest(rest)?;
            call("write", json!({ "content": unescape(text), "path": needed(path)? }))
        }
        "run" => call("run", json!({ "command": needed(rest)? })),
        "mcp" => {
            let (server, rest) = path_and_rest(rest)?;
            let (tool, arguments) = first_word(rest);
            let name = crate::mcp::tool_name(&needed(server)?, &needed(tool)?);
            // Arguments that are no JSON go as they are: models do that too.
            let arguments = if arguments.is_empty() { "{}" } else { arguments };
            Step::Call(Call { id: None, name, arguments: Arguments::Raw(arguments.to_owned()) })
        }
        "call" => {
            let (tool, arguments) = first_word(rest);
            let arguments = if arguments.is_empty() { "{}" } else { arguments }.to_owned();
            Step::Call(Call { id: None, name: needed(tool)?, arguments: Arguments::Raw(arguments) })
        }
        "update" => Step::Report(Report::Update(Box::new(from_json(rest).ok()?))),
        "result" | "told" if rest.is_empty() => {
            Step::Say(Say { text: format!("{{{name}}}"), times: 1, fill: true, ..Say::default() })
        }
        "wait" if rest.is_empty() => Step::Stall,
        "pause" => Step::Pause(Duration::from_millis(rest.parse().ok()?)),
        "later" => {
            let (wait, prompt) = first_word(rest);
            let after = Duration::from_millis(wait.parse().ok().filter(|wait| *wait <= LATEST)?);
            Step::Report(Report::Later { after, prompt: needed(prompt)? })
        }
        "flood" => {
            let (pieces, size) = first_word(rest);
            Step::Flood(Flood { pieces: pieces.parse().ok()?, size: size.parse().ok()? }.check().ok()?)
        }
        "usage" => {
            let (used, size) = first_word(rest);
            Step::Report(Report::Context { used: used.parse().ok()?, size: size.parse().ok()? })
        }
        "title" => Step::Report(Report::Title(unescape(&needed(rest)?))),
        "commands" if rest.is_empty() => Step::Report(Report::Commands(
            DIRECTIVES.iter().map(|(name, _, what)| ((*name).to_owned(), (*what).to_owned())).collect(),
        )),
        "mode" => Step::Report(Report::Mode(needed(rest)?)),
        "stop" => Step::Report(Report::Stop(needed(rest)?)),
        "error" => {
            let (code, text) = first_word(rest);
            Step::Report(Report::Fail { code: code.parse().ok()?, message: unescape(&needed(text)?) })
        }
        _ => return None,
    }])
}

/// A plan and its way to the end: in each step one more entry is done.
fn plan(rest: &str) -> Option<Vec<Step>> {
    let goals: Vec<_> = rest.split(';').map(str::trim).filter(|goal| !goal.is_empty()).collect();
    let state = |done: usize| {
        let entries = goals.iter().enumerate().map(|(place, goal)| {
            let status = match place.cmp(&done) {
                std::cmp::Ordering::Less => PlanStatus::Completed,
                std::cmp::Ordering::Equal => PlanStatus::InProgress,
                std::cmp::Ordering::Greater => PlanStatus::Pending,
            };
            PlanEntry::new(unescape(goal), status)
        });
        Step::Report(Report::Plan(entries.collect()))
    };
    (!goals.is_empty()).then(|| (0..=goals.len()).map(state).collect())
}

fn say(text: String) -> Step {
    Step::Say(Say { text, times: 1, ..Say::default() })
}

fn call(name: &str, arguments: Value) -> Step {
    Step::Call(Call { id: None, name: name.to_owned(), arguments: Arguments::Raw(arguments.to_string()) })
}

/// The list of directives, for people.
fn known() -> String {
    let lines = DIRECTIVES.iter().map(|(name, form, what)| {
        let form = format!("{name} {form}");
        format!("- `{}` {what}\n", form.trim_end())
    });
    std::iter::once("Known directives, one per line:\n".to_owned()).chain(lines).collect()
}

fn first_word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

/// A path, in quotes if it has spaces, and what follows.
fn path_and_rest(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').map(|(path, rest)| (path, rest.trim_start())),
        None => Some(first_word(text)),
    }
}

fn unquote(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

/// Turns `\n`, `\r`, `\t` and `\\` into what they mean. Any other backslash stays.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\\') {
        out.push_str(before);
        let meant = match behind.chars().next() {
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('\\') => Some('\\'),
            _ => None,
        };
        out.push(meant.unwrap_or('\\'));
        rest = if meant.is_some() { behind.get(1..).unwrap_or_default() } else { behind };
    }
    out.push_str(rest);
    out
}
