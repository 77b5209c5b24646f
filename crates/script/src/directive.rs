//! Directives: lines in a prompt that say what the model does, such as `say hello` or `model: say hello`.

use crate::call::{Call, Wish};
use crate::fault::Fault;
use crate::script::Answer;
use crate::step::{Finish, Flood, Say, Step, Usage};
use crate::update::{Offer, PlanEntry, Priority, Status, Update};
use std::time::Duration;

/// What a line starts with where a prompt is more than directives.
pub const MARK: &str = "model:";
/// Nothing is done later than so many milliseconds from now: an hour.
const LATEST_MS: u64 = 3_600_000;

/// The directives: name, what follows it, what it does.
pub const DIRECTIVES: &[(&str, &str, &str)] = &[
    ("say", "TEXT", "says the text"),
    ("think", "TEXT", "shows a thought"),
    ("plan", "A; B; C", "shows a plan and works it off"),
    ("read", "PATH", "reads a file"),
    ("write", "PATH TEXT", "writes a file"),
    ("edit", "PATH OLD => NEW", "replaces a text in a file"),
    ("run", "COMMAND", "runs a command"),
    ("mcp", "SERVER TOOL JSON", "calls a tool of an MCP server"),
    ("call", "TOOL JSON", "calls any tool"),
    ("and", "DIRECTIVE", "does a directive in the same answer as the call before it"),
    ("result", "", "says what the last tool gave back"),
    ("told", "", "says what the model was told"),
    ("usage", "INPUT OUTPUT", "tells how many tokens it took"),
    ("finish", "REASON", "ends the answer: done, max_tokens, refusal or filter"),
    ("wait", "", "works until it is cancelled"),
    ("pause", "MS", "waits so many milliseconds"),
    ("later", "MS DIRECTIVE", "does a directive so many milliseconds from now, without a prompt"),
    ("flood", "N SIZE", "says N pieces of SIZE bytes"),
    ("update", "JSON", "sends any update"),
    ("context", "USED SIZE", "reports how full the context is"),
    ("title", "TEXT", "gives the session a title"),
    ("commands", "", "offers the directives as slash commands"),
    ("mode", "ID", "reports that another mode is on"),
    ("stop", "REASON", "ends the turn with this stop reason"),
    ("error", "CODE TEXT", "answers the prompt with a JSON-RPC error"),
    ("status", "CODE SECONDS", "fails once with this HTTP status; SECONDS of Retry-After may be left out"),
    ("overflow", "", "the conversation does not fit"),
    ("cut", "N", "closes the connection after N pieces"),
    ("stall", "N", "falls silent after N pieces"),
    ("malformed", "N", "sends no JSON after N pieces"),
    ("unfinished", "", "ends without the closing events"),
    ("slow", "MS", "sends nothing for so long"),
    ("split", "", "sends bytes in odd splits"),
    ("keepalive", "", "sends comments between the events"),
];

/// The answers that the marked lines of a prompt ask for; none if it has no such line.
pub fn marked(prompt: &str) -> Vec<Answer> {
    answers(prompt.lines().filter_map(|line| line.trim().strip_prefix(MARK)))
}

/// The answers that all lines of a prompt ask for. A mark before them may be left out.
pub fn directed(prompt: &str) -> Vec<Answer> {
    let answers = answers(prompt.lines().map(|line| line.trim().strip_prefix(MARK).unwrap_or(line)));
    if answers.is_empty() {
        return vec![saying(format!("The prompt has no directive.\n{}", known()))];
    }
    answers
}

fn saying(text: String) -> Answer {
    Answer { steps: vec![Step::say(text)], ..Answer::default() }
}

/// A call ends an answer, because what follows waits for its result; `and` before a directive keeps it in the same answer.
fn answers<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Answer> {
    let mut answers: Vec<Answer> = Vec::new();
    let mut open = false;
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let (line, together) = line.strip_prefix("and ").map_or((line, false), |rest| (rest.trim(), true));
        if answers.last().is_some_and(|answer| answer.steps.iter().any(Step::is_last)) {
            break;
        }
        if !open && (!together || answers.is_empty()) {
            answers.push(Answer::default());
        }
        if let Some(answer) = answers.last_mut() {
            obey(line, answer);
            open = !answer.calls();
        }
    }
    answers
}

fn obey(line: &str, answer: &mut Answer) {
    let (name, rest) = first_word(line);
    let name = name.strip_prefix('/').unwrap_or(name);
    if let Some(steps) = steps(name, rest) {
        answer.steps.extend(steps);
    } else if let Some(fault) = fault(name, rest) {
        // A server that is busy is not so for ever.
        let passing = matches!(fault, Fault::Status { .. });
        *answer =
            if passing { std::mem::take(answer).fault_first(1, fault) } else { std::mem::take(answer).fault(fault) };
    } else {
        let text = match DIRECTIVES.iter().find(|(known, ..)| *known == name) {
            Some((_, form, _)) => {
                format!("`{name}` is written `{}`, not `{line}`.\n", format!("{name} {form}").trim_end())
            }
            None => format!("Unknown directive `{name}`.\n{}", known()),
        };
        answer.steps.push(Step::say(text));
    }
}

/// The steps of a directive; none if it is unknown, wrong or a fault of the wire.
fn steps(name: &str, rest: &str) -> Option<Vec<Step>> {
    let needed = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let fill = |text: String, thought: bool| Step::Say(Say { text, thought, times: 1, fill: true, ..Say::default() });
    let or_empty = |text: &str| if text.is_empty() { "{}".to_owned() } else { text.to_owned() };
    let wish = |wish: Wish| Step::Call(Call::of(wish));
    Some(vec![match name {
        "say" => fill(unescape(&needed(rest)?), false),
        "think" => fill(unescape(&needed(rest)?), true),
        "result" | "told" if rest.is_empty() => fill(format!("{{{name}}}"), false),
        "plan" => return plan(rest),
        "read" => wish(Wish::Read { path: needed(unquote(rest))? }),
        "write" => {
            let (path, text) = path_and_rest(rest)?;
            wish(Wish::Write { path: needed(path)?, content: unescape(text) })
        }
        "edit" => {
            let (path, change) = path_and_rest(rest)?;
            let (old, new) = change.split_once(" => ")?;
            wish(Wish::Edit { path: needed(path)?, old: unescape(old), new: unescape(new) })
        }
        "run" => wish(Wish::Run { command: needed(rest)? }),
        "mcp" => {
            let (server, rest) = path_and_rest(rest)?;
            let (tool, text) = first_word(rest);
            wish(Wish::Mcp { server: needed(server)?, tool: needed(tool)?, text: or_empty(text) })
        }
        "call" => {
            let (tool, text) = first_word(rest);
            wish(Wish::Raw { name: needed(tool)?, text: or_empty(text) })
        }
        "usage" => {
            let (input, output) = numbers(rest)?;
            Step::Usage(Usage { input, output, cached: 0, reasoning: 0, cost: None })
        }
        "finish" => Step::Finish(match rest {
            "done" => Finish::Done,
            "max_tokens" => Finish::MaxTokens,
            "refusal" => Finish::Refusal,
            "filter" => Finish::Filter,
            _ => return None,
        }),
        "wait" if rest.is_empty() => Step::Stall,
        "pause" => Step::Pause(Duration::from_millis(rest.parse().ok()?)),
        "flood" => {
            let (pieces, size) = first_word(rest);
            Step::Flood(Flood { pieces: pieces.parse().ok()?, size: size.parse().ok()? }.check().ok()?)
        }
        _ => Step::Update(update(name, rest)?),
    }])
}

/// What the agent is made to report.
fn update(name: &str, rest: &str) -> Option<Update> {
    let needed = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Some(match name {
        "update" => Update::Raw(serde_json::from_str(rest).ok()?),
        "later" => {
            let (wait, prompt) = first_word(rest);
            Update::Later { after_ms: wait.parse().ok().filter(|wait| *wait <= LATEST_MS)?, prompt: needed(prompt)? }
        }
        "context" => {
            let (used, size) = numbers(rest)?;
            Update::Context { used, size }
        }
        "title" => Update::Title(unescape(&needed(rest)?)),
        "commands" if rest.is_empty() => {
            let offer =
                |(name, _, what): &(&str, &str, &str)| Offer { name: (*name).into(), description: (*what).into() };
            Update::Commands(DIRECTIVES.iter().map(offer).collect())
        }
        "mode" => Update::Mode(needed(rest)?),
        "stop" => Update::Stop(needed(rest)?),
        "error" => {
            let (code, text) = first_word(rest);
            Update::Fail { code: code.parse().ok()?, message: unescape(&needed(text)?) }
        }
        _ => return None,
    })
}

/// What goes wrong on the wire.
fn fault(name: &str, rest: &str) -> Option<Fault> {
    let (first, second) = first_word(rest);
    let after = if rest.is_empty() { 1 } else { first.parse().ok()? };
    Some(match name {
        "split" => Fault::Split,
        "keepalive" => Fault::KeepAlive,
        "overflow" => Fault::Overflow,
        "unfinished" => Fault::Unfinished,
        "cut" => Fault::Cut { after },
        "malformed" => Fault::Malformed { after },
        "stall" => Fault::Stall { after, time: None },
        "slow" => Fault::Slow(Duration::from_millis(first.parse().ok()?)),
        "status" => Fault::Status { code: first.parse().ok()?, retry_after: second.parse().ok() },
        _ => return None,
    })
}

/// A plan and its way to the end: in each step one more entry is done.
fn plan(rest: &str) -> Option<Vec<Step>> {
    let goals: Vec<_> = rest.split(';').map(str::trim).filter(|goal| !goal.is_empty()).collect();
    let state = |done: usize| {
        let entries = goals.iter().enumerate().map(|(place, goal)| {
            let status = match place.cmp(&done) {
                std::cmp::Ordering::Less => Status::Completed,
                std::cmp::Ordering::Equal => Status::InProgress,
                std::cmp::Ordering::Greater => Status::Pending,
            };
            PlanEntry { content: unescape(goal), status, priority: Priority::Medium }
        });
        Step::Update(Update::Plan(entries.collect()))
    };
    (!goals.is_empty()).then(|| (0..=goals.len()).map(state).collect())
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

fn numbers(text: &str) -> Option<(u64, u64)> {
    let (one, other) = first_word(text);
    Some((one.parse().ok()?, other.parse().ok()?))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(prompt: &str) -> Vec<usize> {
        marked(prompt).iter().map(|answer| answer.steps.len()).collect()
    }

    #[test]
    fn a_call_ends_an_answer() {
        assert_eq!(shape("hello"), Vec::<usize>::new());
        assert_eq!(shape("x\nmodel: say a\nmodel: say b"), [2]);
        assert_eq!(shape("model: say a\nmodel: run ls\nmodel: say b"), [2, 1]);
        assert_eq!(shape("model: run a\nmodel: and run b\nmodel: run c"), [2, 1]);
        assert_eq!(shape("model: and run b"), [1]);
    }

    #[test]
    fn texts_have_escapes_and_paths_quotes() {
        let step = |prompt: &str| directed(prompt).remove(0).steps.remove(0);
        assert!(matches!(step(r"model: say a\nb\\c\d"), Step::Say(say) if say.text == "a\nb\\c\\d"));
        assert!(matches!(step("dance"), Step::Say(say) if say.text.contains("- `say TEXT`")));
        assert!(matches!(step("edit a"), Step::Say(say) if say.text.contains("is written `edit PATH OLD => NEW`")));
        assert_eq!(step(r#"write "a b" x\n"#), Step::Call(Call::write("a b", "x\n")));
        assert_eq!(step("edit a x y => z"), Step::Call(Call::edit("a", "x y", "z")));
        assert_eq!(step("call t {oops"), Step::Call(Call::raw("t", "{oops")));
    }

    #[test]
    fn faults_belong_to_their_answer() {
        let all =
            marked("model: status 429 3\nmodel: cut 2\nmodel: stall\nmodel: slow 5\nmodel: split").remove(0).faults;
        assert_eq!(all.len(), 5);
        assert_eq!((all[0].first, &all[0].fault), (Some(1), &Fault::Status { code: 429, retry_after: Some(3) }));
        assert_eq!(all[1].fault, Fault::Cut { after: 2 });
        assert_eq!(all[2].fault, Fault::Stall { after: 1, time: None });
    }

    #[test]
    fn every_directive_of_the_list_is_known() {
        for (name, form, _) in DIRECTIVES.iter().filter(|(name, ..)| *name != "and") {
            let given = form.replace("A; B; C", "a; b").replace("JSON", "{}").replace("REASON", "refusal");
            let given = given.replace("OLD", "x").replace("NEW", "y").replace("DIRECTIVE", "say x");
            let given: Vec<&str> = given
                .split(' ')
                .map(|word| {
                    if ["MS", "N", "SIZE", "CODE", "SECONDS", "USED", "INPUT", "OUTPUT"].contains(&word) {
                        "7"
                    } else {
                        word
                    }
                })
                .collect();
            let answer = directed(&format!("{name} {}", given.join(" "))).remove(0);
            let wrong = matches!(answer.steps.first(), Some(Step::Say(say)) if say.text.contains("is written") || say.text.contains("Unknown"));
            assert!(!wrong, "{name}: {answer:?}");
        }
    }
}
