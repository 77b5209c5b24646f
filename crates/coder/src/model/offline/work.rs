//! Works off the steps of a turn.

use super::action::Action;
use super::player::{Player, Stop};
use super::show;
use super::words::code;
use serde_json::{Map, Value, json};

/// How a project is tested, by a file in its folder.
const TESTS: &[(&str, &str)] = &[
    ("Cargo.toml", "cargo test"),
    ("package.json", "npm test"),
    ("pyproject.toml", "python -m pytest"),
    ("pytest.ini", "python -m pytest"),
    ("setup.py", "python -m pytest"),
    ("go.mod", "go test ./..."),
    ("Makefile", "make test"),
];
/// What `run` says of a command that ran.
const RAN: &str = "(the command ";

/// Plays the steps as far as the results reach. Several are a plan, which is told before and after each of them.
pub fn all(steps: &[Action], player: &mut Player<'_>) {
    let mut entries: Vec<(String, &str)> = steps.iter().map(|step| (step.title(), "pending")).collect();
    let total = steps.len();
    for (index, action) in steps.iter().enumerate() {
        tell(&mut entries, index, "in_progress", player);
        let (why, refused) = match step(action, player) {
            Ok(()) => {
                if let Some(entry) = entries.get_mut(index) {
                    entry.1 = "completed";
                }
                continue;
            }
            Err(Stop::Wait) => return,
            Err(Stop::Failed(why)) => (why, false),
            Err(Stop::Undone(why)) => (why, true),
        };
        player.say(&why);
        if let Some((title, _)) = entries.get_mut(index) {
            title.push_str(" (failed)");
        }
        tell(&mut entries, index, "pending", player);
        if player.waits() {
            return;
        }
        if total > 1 {
            let rest = match total - index - 1 {
                0 => String::new(),
                1 => " One step was not begun.".to_owned(),
                rest => format!(" {rest} steps were not begun."),
            };
            player.say(&format!("Stopped at step {} of {total}, which failed: {}.{rest}", index + 1, action.title()));
        }
        if refused {
            player.refuse();
        }
        return;
    }
    if total > 1 {
        tell(&mut entries, total, "", player);
        if !player.waits() {
            player.say(&format!("All {total} steps are done."));
        }
    }
}

/// Sets the status of an entry and shows the plan, if there is one.
fn tell<'s>(entries: &mut [(String, &'s str)], index: usize, status: &'s str, player: &mut Player<'_>) {
    if let Some(entry) = entries.get_mut(index) {
        entry.1 = status;
    }
    if entries.len() > 1 {
        let entry =
            |(content, status): &(String, &str)| json!({ "content": content.replace('`', ""), "status": status });
        player.beside("todo", json!({ "entries": entries.iter().map(entry).collect::<Vec<_>>() }));
    }
}

/// Arguments without those that are not there.
fn arguments<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(given.collect::<Map<String, Value>>())
}

fn step(action: &Action, player: &mut Player<'_>) -> Result<(), Stop> {
    let some = |text: &Option<String>| text.clone().map(Value::from);
    match action {
        Action::Read { path, line, limit } => {
            let fields =
                [("path", Some(json!(path))), ("line", line.map(Value::from)), ("limit", limit.map(Value::from))];
            let text = show::unnumbered(&player.call("read", arguments(fields))?).0;
            player.say(&show::file("Read", path, &text));
        }
        Action::List { path } => {
            let text = player.call("list", arguments([("path", some(path))]))?;
            let what = path.as_ref().map_or_else(|| "the working directory".to_owned(), |path| code(path));
            found(player, &format!("In {what}"), &text);
        }
        Action::Glob { pattern, path } => {
            let text = player.call("glob", arguments([("pattern", Some(json!(pattern))), ("path", some(path))]))?;
            found(player, &format!("Files {}", code(pattern)), &text);
        }
        Action::Grep { pattern, path, ignore_case } => {
            let case = ignore_case.then_some(Value::Bool(true));
            let fields = [("pattern", Some(json!(pattern))), ("path", some(path)), ("ignore_case", case)];
            let text = player.call("grep", arguments(fields))?;
            found(player, &format!("Matches of {}", code(pattern)), &text);
        }
        Action::Write { path, content } => {
            player.call("write", json!({ "path": path, "content": content }))?;
            // A short text is shown, so that it is plain that it was taken word by word.
            let short =
                if content.lines().count() == 1 { format!(" Its text: {}", code(content)) } else { String::new() };
            player.say(&format!("Wrote {} ({}).{short}", code(path), show::lines(content)));
        }
        Action::Append { path, text } => append(path, text, player)?,
        Action::Replace { path, old, new } => {
            edit(path, old, new, player)?;
            player.say(&format!("Replaced {} with {} in {}.", code(old), code(new), code(path)));
        }
        Action::Move { from, to } => {
            player.call("move", json!({ "from": from, "to": to }))?;
            player.say(&format!("Moved {} to {}.", code(from), code(to)));
        }
        Action::Delete { path } => {
            player.call("delete", json!({ "path": path }))?;
            player.say(&format!("Deleted {}.", code(path)));
        }
        Action::Patch { patch } => {
            let text = player.call("patch", json!({ "patch": patch }))?;
            found(player, "Applied the patch", &text);
        }
        Action::Run { command, background, timeout } => run(command, *background, *timeout, player)?,
        Action::Test { arguments } => {
            let listing = player.call("list", json!({}))?;
            let there = |name: &str| listing.lines().any(|line| line.split_whitespace().next() == Some(name));
            let Some((_, command)) = TESTS.iter().find(|(name, _)| there(name)) else {
                let names: Vec<&str> = TESTS.iter().map(|(name, _)| *name).collect();
                let why = format!(
                    "No file here says how this project is tested ({}). Say it: `run COMMAND`.",
                    names.join(", ")
                );
                return Err(Stop::Undone(why));
            };
            let dashes = if command.starts_with("npm") && !arguments.is_empty() { "-- " } else { "" };
            run(format!("{command} {dashes}{arguments}").trim_end(), false, None, player)?;
        }
        Action::Fetch { url } => {
            let text = player.call("fetch", json!({ "url": url }))?;
            player.say(&show::file("Fetched", url, &text));
        }
        Action::Todo(entries) => {
            let status = |done: bool| if done { "completed" } else { "pending" };
            let entry = |(content, done): &(String, bool)| json!({ "content": content, "status": status(*done) });
            player.call("todo", json!({ "entries": entries.iter().map(entry).collect::<Vec<_>>() }))?;
            player.say(&format!("Wrote down {} entries.", entries.len()));
        }
    }
    Ok(())
}

fn found(player: &mut Player<'_>, what: &str, text: &str) {
    if text.trim().is_empty() {
        player.say(&format!("{what}: nothing to show."));
    } else {
        player.say(&format!("{what}:\n\n{}", show::head(text, "")));
    }
}

fn edit(path: &str, old: &str, new: &str, player: &mut Player<'_>) -> Result<String, Stop> {
    player.call("edit", json!({ "path": path, "edits": [{ "old": old, "new": new, "all": true }] }))
}

/// Puts lines behind the last one. The file's other lines stay as they are, whatever ends them.
fn append(path: &str, text: &str, player: &mut Player<'_>) -> Result<(), Stop> {
    let (now, whole) = show::unnumbered(&player.call("read", json!({ "path": path }))?);
    if !whole {
        let why =
            format!("{} is too long for me to append to. Use `run`, such as `run echo more >> FILE`.", code(path));
        return Err(Stop::Undone(why));
    }
    let (now, text) = (now.trim_end_matches('\n'), text.trim_end_matches('\n'));
    // The last lines, as many as make them the only ones of their kind.
    let starts = now.rmatch_indices('\n').map(|(at, _)| at + 1).chain([0]);
    let mut ends = starts.filter_map(|start| now.get(start..)).filter(|end| !end.is_empty());
    match ends.find(|end| now.matches(end).count() == 1) {
        Some(end) => edit(path, end, &format!("{end}\n{text}"), player)?,
        None => player.call("write", json!({ "path": path, "content": format!("{text}\n") }))?,
    };
    player.say(&format!("Appended {} to {}.", show::lines(text), code(path)));
    Ok(())
}

/// Runs a command and shows what it printed.
fn run(command: &str, background: bool, timeout: Option<u64>, player: &mut Player<'_>) -> Result<(), Stop> {
    let fields = [
        ("command", Some(json!(command))),
        ("timeout", timeout.map(Value::from)),
        ("background", background.then_some(Value::Bool(true))),
    ];
    let (output, is_error) = player.attempt("run", arguments(fields))?;
    let output = output.trim();
    if is_error && !output.contains(RAN) {
        return Err(Stop::Undone(show::failure(output)));
    }
    if is_error {
        return Err(Stop::Failed(format!("{} failed.\n\n{}", code(command), show::tail(output))));
    }
    let verb = if background { "Started" } else { "Ran" };
    match output {
        "" => player.say(&format!("{verb} {} (no output).", code(command))),
        _ => player.say(&format!("{verb} {} ({}).\n\n{}", code(command), show::lines(output), show::tail(output))),
    }
    Ok(())
}
