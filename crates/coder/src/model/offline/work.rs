//! Works off the steps of a turn.

use super::action::Action;
use super::player::{Player, Stop};
use super::show;
use crate::text::code;
use serde_json::json;

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
/// What stands behind the output of one that went well.
const WENT_WELL: &str = "(the command exited with status 0)";

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
        player.refused |= refused;
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

fn step(action: &Action, player: &mut Player<'_>) -> Result<(), Stop> {
    let arg = |key| action.text(key);
    let tool = match action.tool {
        "run" => return run(action, player),
        "test" => return test(arg("arguments"), player),
        "append" => return append(arg("path"), arg("text"), player),
        "replace" => {
            edit(arg("path"), arg("old"), arg("new"), player)?;
            player.say(&format!("Replaced {} with {} in {}.", code(arg("old")), code(arg("new")), code(arg("path"))));
            return Ok(());
        }
        tool => tool,
    };
    let text = player.call(tool, action.arguments.clone())?;
    let said = match tool {
        "read" => show::file("Read", arg("path"), &show::unnumbered(&text).0),
        "fetch" => show::file("Fetched", arg("url"), &text),
        "list" if arg("path").is_empty() => found("In the working directory", &text),
        "list" => found(&format!("In {}", code(arg("path"))), &text),
        "glob" => found(&format!("Files {}", code(arg("pattern"))), &text),
        "grep" => found(&format!("Matches of {}", code(arg("pattern"))), &text),
        "patch" => found("Applied the patch", &text),
        "move" => format!("Moved {} to {}.", code(arg("from")), code(arg("to"))),
        "delete" => format!("Deleted {}.", code(arg("path"))),
        "write" => {
            let content = arg("content");
            // A short text is shown, so that it is plain that it was taken word by word.
            let short =
                if content.lines().count() == 1 { format!(" Its text: {}", code(content)) } else { String::new() };
            format!("Wrote {} ({}).{short}", code(arg("path")), show::lines(content))
        }
        _ => format!("Wrote down {} entries.", action.arguments["entries"].as_array().map_or(0, Vec::len)),
    };
    player.say(&said);
    Ok(())
}

/// Runs the project's tests.
fn test(arguments: &str, player: &mut Player<'_>) -> Result<(), Stop> {
    let listing = player.call("list", json!({}))?;
    let there = |name: &str| listing.lines().any(|line| line.split_whitespace().next() == Some(name));
    let Some((_, command)) = TESTS.iter().find(|(name, _)| there(name)) else {
        let names: Vec<&str> = TESTS.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        let why = format!("No file here says how this project is tested ({names}). Say it: `run COMMAND`.");
        return Err(Stop::Undone(why));
    };
    let dashes = if command.starts_with("npm") && !arguments.is_empty() { "-- " } else { "" };
    run(&Action::run(format!("{command} {dashes}{arguments}").trim_end()), player)
}

fn found(what: &str, text: &str) -> String {
    if text.trim().is_empty() {
        format!("{what}: nothing to show.")
    } else {
        format!("{what}:\n\n{}", show::head(text, ""))
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
fn run(action: &Action, player: &mut Player<'_>) -> Result<(), Stop> {
    let (output, is_error) = player.attempt("run", action.arguments.clone())?;
    let (output, command) = (output.trim(), code(action.text("command")));
    if is_error && !output.contains(RAN) {
        return Err(Stop::Undone(show::failure(output)));
    }
    if is_error {
        return Err(Stop::Failed(format!("{command} failed.\n\n{}", show::tail(output))));
    }
    // That it went well goes without saying.
    let output = output.strip_suffix(WENT_WELL).unwrap_or(output).trim_end();
    let verb = if action.arguments["background"] == true { "Started" } else { "Ran" };
    player.say(&match output {
        "" => format!("{verb} {command} (no output)."),
        _ => format!("{verb} {command} ({}).\n\n{}", show::printed(output), show::tail(output)),
    });
    Ok(())
}
