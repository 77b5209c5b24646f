//! Steps that run commands, and what their output says.

use super::super::action::Task;
use super::super::player::{Player, Stop};
use super::super::show;
use super::super::words::{code, shell_word};
use super::arguments;
use serde_json::{Value, json};

/// Runs a command and shows what it printed.
pub fn run(command: &str, background: bool, timeout: Option<u64>, player: &mut Player<'_>) -> Result<(), Stop> {
    let fields = [
        ("command", Some(json!(command))),
        ("timeout", timeout.map(Value::from)),
        ("background", background.then_some(Value::Bool(true))),
    ];
    let answer = player.attempt("run", arguments(fields))?;
    let output = answer.text.trim();
    if answer.is_error || (!background && exited(output)) {
        let shown = if output.is_empty() { String::new() } else { format!("\n\n{}", show::tail(output)) };
        return Err(Stop::Failed(format!("{} failed.{shown}", code(command))));
    }
    let verb = if background { "Started" } else { "Ran" };
    match output {
        "" => player.say(&format!("{verb} {} (no output).", code(command))),
        _ => player.say(&format!("{verb} {} ({}).\n\n{}", code(command), show::lines(output), show::tail(output))),
    }
    Ok(())
}

/// Whether the first or last lines tell of an exit code other than 0.
fn exited(output: &str) -> bool {
    let lines: Vec<&str> = output.lines().collect();
    lines.iter().take(2).chain(lines.iter().rev().take(2)).any(|line| {
        let lower = line.to_ascii_lowercase();
        ["exit code", "exit status", "exited with"].iter().any(|words| {
            lower.split_once(words).is_some_and(|(before, rest)| {
                let rest = rest.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '-');
                let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
                before.len() < 20 && digits.parse::<i64>().is_ok_and(|code| code != 0)
            })
        })
    })
}

/// How a script is started.
pub fn starter(path: &str) -> String {
    let word = shell_word(path);
    match path.rsplit_once('.').map_or("", |(_, end)| end) {
        "sh" => format!("sh {word}"),
        "bash" => format!("bash {word}"),
        "py" => format!("python3 {word}"),
        "js" | "mjs" | "cjs" => format!("node {word}"),
        "rb" => format!("ruby {word}"),
        "pl" => format!("perl {word}"),
        _ if path.contains('/') => word,
        _ => format!("./{word}"),
    }
}

/// Finds out how the project is tested, built or formatted, and does so.
pub fn project(task: Task, extra: &str, player: &mut Player<'_>) -> Result<(), Stop> {
    let listing = player.call("list", json!({}))?;
    let names: Vec<&str> = listing
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '"' | '`' | '[' | ']'))
        .map(|name| name.trim_end_matches(['/', '*', '@', ':']))
        .map(|name| name.strip_prefix("./").unwrap_or(name))
        .collect();
    let has = |wanted: &[&str]| names.iter().any(|name| wanted.contains(name));
    let mut command = if has(&["Cargo.toml"]) {
        pick(task, ["cargo test", "cargo build", "cargo fmt"])
    } else if has(&["package.json"]) {
        pick(task, ["npm test", "npm run build", "npm run format"])
    } else if has(&["pyproject.toml", "pytest.ini", "setup.py", "tox.ini", "conftest.py"]) {
        pick(task, ["python -m pytest", "python -m build", "python -m black ."])
    } else {
        None
    };
    if command.is_none()
        && let Some(makefile) = ["Makefile", "makefile", "GNUmakefile"].into_iter().find(|name| has(&[name]))
    {
        let text = show::unnumbered(&player.call("read", json!({ "path": makefile }))?);
        let target = |name: &str| {
            text.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(':')))
        };
        command = match task {
            Task::Test => target("test").then_some("make test"),
            Task::Build => Some("make"),
            Task::Format if target("fmt") => Some("make fmt"),
            Task::Format => target("format").then_some("make format"),
        };
    }
    if command.is_none() && has(&["go.mod"]) {
        command = pick(task, ["go test ./...", "go build ./...", "gofmt -w ."]);
    }
    let Some(command) = command else {
        let what = pick(task, ["tested", "built", "formatted"]).unwrap_or_default();
        return Err(Stop::Failed(format!(
            "I see no file here that says how this project is {what} (Cargo.toml, package.json, pyproject.toml, a Makefile with that target, go.mod). Say it with `/run COMMAND`."
        )));
    };
    let command = match extra {
        "" => command.to_owned(),
        _ if command.starts_with("npm") => format!("{command} -- {extra}"),
        _ => format!("{command} {extra}"),
    };
    run(&command, false, None, player)
}

fn pick(task: Task, of: [&'static str; 3]) -> Option<&'static str> {
    let [test, build, format] = of;
    Some(match task {
        Task::Test => test,
        Task::Build => build,
        Task::Format => format,
    })
}

/// Shows the lines of the last output that look like errors.
pub fn explain(player: &mut Player<'_>) {
    let text = match player.last_output() {
        None => "No command was run in this conversation yet, so there is no output to look at.".to_owned(),
        Some(output) => match show::errors(output).as_slice() {
            [] => "No line of the last output looks like an error.".to_owned(),
            lines => format!(
                "I can't explain it as a language model would. These lines of the last output look like errors:\n\n{}",
                show::head(&lines.join("\n"), "")
            ),
        },
    };
    player.say(&text);
}
