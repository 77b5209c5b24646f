//! Works off the steps of a turn.

use super::action::{Action, Place};
use super::attached::{At, Attached};
use super::help;
use super::player::{Player, Stop};
use super::show;
use super::turn::Turn;
use super::understand::{Understood, understand};
use super::words::code;
use serde_json::{Map, Value, json};

mod commands;

/// Plays a turn as far as its results reach.
pub fn turn(turn: &Turn<'_>, player: &mut Player<'_>) {
    if turn.first {
        player.say(help::INTRO);
    }
    match understand(&turn.prompt, &turn.attached) {
        Understood::Nothing if turn.attached.is_empty() => player.say("There is no instruction in that. See `/help`."),
        Understood::Nothing => player.say("Something is attached, but what should be done with it? See `/help`."),
        Understood::Unknown(parts) => player.say(&help::unknown(&parts)),
        Understood::Usage(text) => player.say(&format!("{text}\n\nNothing was done.")),
        Understood::Steps { steps, left_out } => {
            if !left_out.is_empty() {
                let parts: Vec<String> = left_out.iter().take(3).map(|part| code(part)).collect();
                player.say(&format!("This is no instruction that I know, so I leave it out: {}", parts.join(", ")));
            }
            match steps.as_slice() {
                [one] => match step(one, &turn.attached, player) {
                    Err(Stop::Failed(why)) => player.say(&why),
                    Err(Stop::Lost) => lost(player),
                    Ok(()) | Err(Stop::Wait) => {}
                },
                steps => plan(steps, &turn.attached, player),
            }
        }
    }
}

fn lost(player: &mut Player<'_>) {
    player.say("The results so far do not fit this instruction, so I stop here. Please give it again.");
}

/// Several steps: the plan is told before and after each of them.
fn plan(steps: &[Action], attached: &[Attached], player: &mut Player<'_>) {
    let mut entries: Vec<(String, &str)> = steps.iter().map(|step| (step.title(), "pending")).collect();
    let total = steps.len();
    for (index, action) in steps.iter().enumerate() {
        set(&mut entries, index, "in_progress");
        tell(&entries, player);
        match step(action, attached, player) {
            Ok(()) => set(&mut entries, index, "completed"),
            Err(Stop::Wait) => return,
            Err(Stop::Lost) => return lost(player),
            Err(Stop::Failed(why)) => {
                player.say(&why);
                if steps.get(index + 1) == Some(&Action::Explain) {
                    commands::explain(player);
                }
                set(&mut entries, index, "pending");
                if let Some((title, _)) = entries.get_mut(index) {
                    title.push_str(" (failed)");
                }
                tell(&entries, player);
                if !player.waits() {
                    let rest = match total - index - 1 {
                        0 => String::new(),
                        1 => " One step was not begun.".to_owned(),
                        rest => format!(" {rest} steps were not begun."),
                    };
                    let title = action.title();
                    player.say(&format!("Stopped at step {} of {total}, which failed: {title}.{rest}", index + 1));
                }
                return;
            }
        }
    }
    tell(&entries, player);
    if !player.waits() {
        player.say(&format!("All {total} steps are done."));
    }
}

fn set<'a>(entries: &mut [(String, &'a str)], index: usize, status: &'a str) {
    if let Some(entry) = entries.get_mut(index) {
        entry.1 = status;
    }
}

fn tell(entries: &[(String, &str)], player: &mut Player<'_>) {
    let entries: Vec<Value> = entries
        .iter()
        .map(|(content, status)| json!({ "content": content.replace('`', ""), "status": status }))
        .collect();
    player.beside("todo", json!({ "entries": entries }));
}

/// Arguments without those that are not there.
fn arguments<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(given.collect::<Map<String, Value>>())
}

fn step(action: &Action, attached: &[Attached], player: &mut Player<'_>) -> Result<(), Stop> {
    match action {
        Action::Help => player.say(&help::help()),
        Action::Read { place, line, limit } => {
            let (name, text) = text_of(place, *line, *limit, attached, player)?;
            player.say(&show::file("Read", &name, &text));
        }
        Action::List { path } => {
            let text = player.call("list", arguments([("path", path.clone().map(Value::from))]))?;
            let what = path.as_ref().map_or_else(|| "the working directory".to_owned(), |path| code(path));
            found(player, &format!("In {what}"), &text);
        }
        Action::Glob { pattern, path } => {
            let path = path.clone().map(Value::from);
            let text = player.call("glob", arguments([("pattern", Some(json!(pattern))), ("path", path)]))?;
            found(player, &format!("Files {}", code(pattern)), &text);
        }
        Action::Grep { pattern, path, glob, ignore_case } => {
            let fields = [
                ("pattern", Some(json!(pattern))),
                ("path", path.clone().map(Value::from)),
                ("glob", glob.clone().map(Value::from)),
                ("ignore_case", ignore_case.then_some(Value::Bool(true))),
            ];
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
        Action::Replace { old, new, place } => {
            let path = choose(place, attached, player)?;
            player.call("edit", json!({ "path": path, "edits": [{ "old": old, "new": new, "all": true }] }))?;
            player.say(&format!("Replaced {} with {} in {}.", code(old), code(new), code(&path)));
        }
        Action::RenameWord { from, to, place } => rename_word(from, to, &choose(place, attached, player)?, player)?,
        Action::Move { from, to } => {
            player.call("move", json!({ "from": from, "to": to }))?;
            player.say(&format!("Moved {} to {}.", code(from), code(to)));
        }
        Action::Delete { place } => {
            let path = choose(place, attached, player)?;
            player.call("delete", json!({ "path": path }))?;
            player.say(&format!("Deleted {}.", code(&path)));
        }
        Action::Patch { patch } => {
            let text = player.call("patch", json!({ "patch": patch }))?;
            found(player, "Applied the patch", &text);
        }
        Action::PatchIt => return Err(Stop::Failed("There is no patch.".to_owned())),
        Action::Run { command, background, timeout } => commands::run(command, *background, *timeout, player)?,
        Action::RunFile { place } => {
            let path = choose(place, attached, player)?;
            commands::run(&commands::starter(&path), false, None, player)?;
        }
        Action::Project { task, arguments } => commands::project(*task, arguments, player)?,
        Action::Count { unit, place } => {
            let (name, text) = text_of(place, None, None, attached, player)?;
            player.say(&format!("{} has {} {}.", code(&name), unit.count(&text), unit.name()));
        }
        Action::Outline { place } => {
            let (name, text) = text_of(place, None, None, attached, player)?;
            let parts = show::outline(&text);
            let size = show::lines(&text);
            if parts.is_empty() {
                player.say(&format!("{} ({size}) has no headings or definitions that I recognise.", code(&name)));
            } else {
                player.say(&format!("Outline of {} ({size}):\n\n{}", code(&name), show::head(&parts.join("\n"), "")));
            }
        }
        Action::Explain => commands::explain(player),
        Action::Fetch { url } => {
            let text = player.call("fetch", json!({ "url": url }))?;
            player.say(&show::file("Fetched", url, &text));
        }
        Action::Todo(entries) => {
            let list: Vec<Value> = entries
                .iter()
                .map(|(content, done)| json!({ "content": content, "status": if *done { "completed" } else { "pending" } }))
                .collect();
            player.call("todo", json!({ "entries": list }))?;
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

/// The name and text of a file or an attachment.
fn text_of(
    place: &Place,
    line: Option<u64>,
    limit: Option<u64>,
    attached: &[Attached],
    player: &mut Player<'_>,
) -> Result<(String, String), Stop> {
    if let Place::Text(number) = place {
        let found = attached.get(*number);
        return match found.and_then(|found| Some((found.name.clone(), found.text.clone()?))) {
            Some(found) => Ok(found),
            None => {
                let name = found.map_or("the attachment", |found| &found.name);
                Err(Stop::Failed(format!("{} came without text, and I can't fetch it.", code(name))))
            }
        };
    }
    let path = choose(place, attached, player)?;
    let fields = [("path", Some(json!(path))), ("line", line.map(Value::from)), ("limit", limit.map(Value::from))];
    let text = player.call("read", arguments(fields))?;
    Ok((path, show::unnumbered(&text)))
}

/// The path of a place; the user is asked if several are attached.
fn choose(place: &Place, attached: &[Attached], player: &mut Player<'_>) -> Result<String, Stop> {
    match place {
        Place::Named(path) => return Ok(path.clone()),
        Place::Text(_) => {
            return Err(Stop::Failed("What is attached is no file, so this can't be done to it.".to_owned()));
        }
        Place::It => {}
    }
    let paths: Vec<&str> = attached
        .iter()
        .filter_map(|found| match &found.at {
            At::File { path, .. } => Some(path.as_str()),
            _ => None,
        })
        .collect();
    let answer = player.call("ask", json!({ "question": "Which of the attached files?", "options": paths }))?;
    let chosen = paths.into_iter().filter(|path| answer.contains(path)).max_by_key(|path| path.len());
    chosen.map(str::to_owned).ok_or_else(|| Stop::Failed("None of the attached files was chosen.".to_owned()))
}

fn rename_word(from: &str, to: &str, path: &str, player: &mut Player<'_>) -> Result<(), Stop> {
    let text = player.call("read", json!({ "path": path }))?;
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let (mut whole, mut inside) = (0, 0);
    for (at, _) in text.match_indices(from) {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let behind = text.get(at + from.len()..).and_then(|text| text.chars().next());
        if before.is_some_and(part) || behind.is_some_and(part) {
            inside += 1;
        } else {
            whole += 1;
        }
    }
    if whole == 0 {
        return Err(Stop::Failed(format!("{} does not occur as a word in {}.", code(from), code(path))));
    }
    if inside > 0 {
        return Err(Stop::Failed(format!(
            "{} also stands inside longer words in {} ({inside} times), so it is not renamed. Use `/replace` with more of the line.",
            code(from),
            code(path)
        )));
    }
    player.call("edit", json!({ "path": path, "edits": [{ "old": from, "new": to, "all": true }] }))?;
    let times = if whole == 1 { "once".to_owned() } else { format!("{whole} times") };
    player.say(&format!("Renamed {} to {} in {} ({times}).", code(from), code(to), code(path)));
    Ok(())
}
