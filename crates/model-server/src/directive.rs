//! Directives: lines such as `model: say hello` in a prompt, with which any client can drive a real agent.

use crate::call::Call;
use crate::fault::Fault;
use crate::script::{Answer, Stop, Usage};
use std::time::Duration;

/// What a line has to start with.
const MARK: &str = "model:";
/// Said in place of a directive that is not understood.
const KNOWN: &str = "say, think, read, write, edit, run, call, and, usage, stop, status, overflow, cut, stall, slow, split, \
                     malformed, keepalive";

/// The answers that a prompt asks for; none if it holds no directive.
///
/// A call ends an answer, because what follows waits for its result; `and` before a directive keeps it in the same answer.
pub(crate) fn answers(prompt: &str) -> Vec<Answer> {
    let mut answers: Vec<Answer> = Vec::new();
    let mut open = false;
    for line in prompt.lines().filter_map(|line| line.trim().strip_prefix(MARK)) {
        let line = line.trim();
        let (line, together) = line.strip_prefix("and ").map_or((line, false), |rest| (rest.trim(), true));
        if !open && (!together || answers.is_empty()) {
            answers.push(Answer::new());
        }
        if let Some(answer) = answers.pop() {
            let answer = obey(answer, line);
            open = !answer.calls();
            answers.push(answer);
        }
    }
    answers
}

fn obey(answer: Answer, line: &str) -> Answer {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    let number = rest.split(' ').next().and_then(|word| word.parse::<usize>().ok());
    let unknown = |answer: Answer| answer.say(format!("I don't understand `{line}`. I know: {KNOWN}."));
    match verb {
        "say" => answer.say(unescaped(rest)),
        "think" => answer.think(unescaped(rest)),
        "result" => answer.say("{result}"),
        "read" => answer.and(Call::read(path(rest).0)),
        "run" => answer.and(Call::run(unescaped(rest))),
        "write" => {
            let (path, text) = path(rest);
            answer.and(Call::write(path, unescaped(text)))
        }
        "edit" => {
            let (path, change) = path(rest);
            match change.split_once(" => ") {
                Some((old, new)) => answer.and(Call::edit(path, unescaped(old), unescaped(new))),
                None => unknown(answer),
            }
        }
        "call" => {
            let (name, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
            match serde_json::from_str(arguments) {
                Ok(value) => answer.and(Call::named(name, value)),
                Err(_) => answer.and(Call::raw(name, arguments)),
            }
        }
        "usage" => {
            let mut numbers = rest.split(' ').filter_map(|word| word.parse().ok());
            let usage = Usage {
                input: numbers.next().unwrap_or(0),
                output: numbers.next().unwrap_or(0),
                cached: 0,
                reasoning: 0,
            };
            answer.usage(usage)
        }
        "stop" => match rest {
            "end" => answer,
            "length" => answer.stop(Stop::Length),
            "refusal" => answer.stop(Stop::Refusal),
            "filter" => answer.stop(Stop::Filter),
            _ => unknown(answer),
        },
        _ => match (fault(verb, rest, number), verb) {
            (Some(fault), "status") => answer.fault_first(1, fault),
            (Some(fault), _) => answer.fault(fault),
            (None, _) => unknown(answer),
        },
    }
}

fn fault(verb: &str, rest: &str, number: Option<usize>) -> Option<Fault> {
    let after = number.unwrap_or(1);
    Some(match verb {
        "split" => Fault::Split,
        "keepalive" => Fault::KeepAlive,
        "overflow" => Fault::Overflow,
        "unfinished" => Fault::Unfinished,
        "cut" => Fault::Cut { after },
        "malformed" => Fault::Malformed { after },
        "stall" => Fault::Stall { after, time: None },
        "slow" => Fault::Slow(Duration::from_millis(number? as u64)),
        "status" => Fault::Status {
            code: u16::try_from(number?).ok()?,
            retry_after: rest.split(' ').nth(1).and_then(|s| s.parse().ok()),
        },
        _ => return None,
    })
}

/// A path, in double quotes if it has spaces, and what follows it.
fn path(text: &str) -> (&str, &str) {
    let quoted = text.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    let (path, rest) = quoted.unwrap_or_else(|| text.split_once(' ').unwrap_or((text, "")));
    (path, rest.strip_prefix(' ').unwrap_or(rest))
}

fn unescaped(text: &str) -> String {
    let (mut out, mut characters) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = characters.next() {
        match (c, c == '\\') {
            (_, false) => out.push(c),
            _ => match characters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('\\') | None => out.push('\\'),
                Some(other) => out.extend(['\\', other]),
            },
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Piece;

    fn shape(prompt: &str) -> Vec<usize> {
        answers(prompt).iter().map(|answer| answer.pieces.len()).collect()
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
        let said = |prompt: &str| match answers(prompt).remove(0).pieces.remove(0) {
            Piece::Text(text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(said(r"model: say a\nb\\c\d"), "a\nb\\c\\d");
        assert!(said("model: dance").contains("I know: say"));
        assert_eq!(path(r#""a b" c d"#), ("a b", "c d"));
        assert_eq!(path("a b c"), ("a", "b c"));
        assert_eq!(path("a"), ("a", ""));
    }

    #[test]
    fn faults_are_understood() {
        let all = answers("model: status 429 3\nmodel: cut 2\nmodel: stall\nmodel: slow 5\nmodel: split").remove(0);
        let faults: Vec<_> = all.faults.into_iter().map(|planned| planned.fault).collect();
        assert_eq!(
            faults,
            [
                Fault::Status { code: 429, retry_after: Some(3) },
                Fault::Cut { after: 2 },
                Fault::Stall { after: 1, time: None },
                Fault::Slow(Duration::from_millis(5)),
                Fault::Split,
            ]
        );
    }
}
