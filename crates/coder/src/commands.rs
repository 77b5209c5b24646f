//! Slash commands that the agent carries out itself, and those that a project brings as files.

pub mod table;

use crate::compaction::compact;
use crate::editor_prompts;
use crate::history;
use crate::mcp::tool_name;
use crate::model::{Message, offline, ways};
use crate::report::one_line;
use crate::session::Conversation;
use crate::tools::ToolError;
use crate::workspace::blocking;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use tieline::agent::{ClientHandle, Turn};
use tieline::{Command, ContentBlock, Result, StopReason};
use tieline_host::files::{EntryKind, Files, Limits};
use tieline_host::roots;
use tieline_host::snapshot::{self, Snapshots};

/// Where a project keeps its commands.
const FOLDER: &str = ".tieline/commands";
/// As many of them as are used, the first ones by name.
const MAX_COMMANDS: usize = 100;
/// No file of a command is longer, in bytes.
const MAX_COMMAND_BYTES: u64 = 64 << 10;

/// What the user typed.
pub enum Typed {
    /// One of our commands: name and the rest.
    Ours((String, String)),
    /// A command of the project: the block that it is in, and what it stands for.
    Project(usize, String),
    /// A command of the project that can't be used, and why.
    Useless(String),
    /// A tool of an MCP server: its name for models, and its arguments.
    Call(String, String),
    /// Something for the model.
    Not,
}

/// Whether the offline agent answers.
fn is_offline(session: &Conversation) -> bool {
    session.model().id() == offline::ID
}

/// A command that a project brings.
struct Project {
    name: String,
    /// What it says, or why it can't be used.
    text: std::result::Result<String, ToolError>,
}

impl Project {
    fn about(&self) -> String {
        let text = match &self.text {
            Ok(text) => text,
            Err(why) => return format!("Can't be used: {why}."),
        };
        let line = text.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
        one_line(&history::cut(line.unwrap_or("A command of this project."), 100))
    }

    /// Its text with what the user typed behind it.
    fn with(&self, rest: &str) -> std::result::Result<String, ToolError> {
        let text = self.text.as_ref().map_err(|why| format!("`/{}` can't be used: {why}.", self.name))?;
        Ok(if text.contains("$ARGUMENTS") {
            // What is put in may have the name in it again; it stays as it is.
            text.replace("$ARGUMENTS", rest)
        } else if rest.is_empty() {
            text.clone()
        } else {
            format!("{}\n\n{rest}", text.trim_end())
        })
    }
}

/// The commands of a project, and how many more there are than are used.
async fn projects(files: &Files) -> (Vec<Project>, usize) {
    let files = files.clone();
    let found = blocking(move || {
        let Ok(listing) = files.roots().resolve(FOLDER).and_then(|folder| files.list(&folder)) else {
            return Ok((Vec::new(), 0));
        };
        let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let regular = listing.entries.iter().filter(|entry| entry.kind == EntryKind::File);
        let mut named: Vec<(&str, u64)> = regular
            .filter_map(|entry| Some((entry.name.to_str()?.strip_suffix(".md")?, entry.size)))
            .filter(|(name, _)| !name.is_empty() && plain(name))
            .collect();
        named.sort_unstable();
        let read = |(name, size): &(&str, u64)| {
            let text = if *size > MAX_COMMAND_BYTES {
                Err(format!("its file is longer than {} KiB", MAX_COMMAND_BYTES >> 10).into())
            } else {
                let limits = Limits { text: MAX_COMMAND_BYTES, ..*files.limits() };
                let files = files.clone().with_limits(limits);
                let place = files.roots().resolve(format!("{FOLDER}/{name}.md"));
                let text = place.and_then(|place| files.read_text(&place));
                text.map(|text| text.text).map_err(Into::into)
            };
            Project { name: (*name).to_owned(), text }
        };
        Ok((named.iter().take(MAX_COMMANDS).map(read).collect(), named.len().saturating_sub(MAX_COMMANDS)))
    });
    found.await.unwrap_or_default()
}

/// All commands of a session: those of the table that count, and the project's.
pub async fn advertised(session: &Conversation) -> Vec<Command> {
    let mut all = table::commands(is_offline(session));
    let (more, _) = projects(&session.files).await;
    let more = more.into_iter().map(|project| Command::new(&*project.name, project.about()).with_input("more words"));
    for command in more {
        if all.iter().all(|known| known.name != command.name) {
            all.push(command);
        }
    }
    all
}

/// Looks at what the user typed.
pub async fn typed(session: &Conversation, prompt: &[ContentBlock]) -> Typed {
    // It ends with its block: what comes behind it is for the model.
    let first = editor_prompts::first(prompt).and_then(|at| Some((at, prompt[at].as_text()?.trim())));
    let Some((at, text)) = first else { return Typed::Not };
    let Some(line) = text.strip_prefix('/') else { return plain(session, text) };
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if name == "mcp"
        && let Some((server, rest)) = word(rest.trim())
        && let Some((tool, arguments)) = word(rest)
    {
        return Typed::Call(tool_name(server, tool), arguments.to_owned());
    }
    if table::named(name).is_some_and(|row| row.parse.is_none()) {
        return Typed::Ours((name.to_owned(), rest.trim().to_owned()));
    }
    match projects(&session.files).await.0.into_iter().find(|project| project.name == name) {
        Some(project) => match project.with(rest.trim()) {
            Ok(text) => Typed::Project(at, text),
            Err(why) => Typed::Useless(why.to_string()),
        },
        None => Typed::Not,
    }
}

/// With the offline agent our commands need no slash.
fn plain(session: &Conversation, text: &str) -> Typed {
    let name = text.to_lowercase();
    match table::named(&name) {
        Some(row) if row.parse.is_none() && is_offline(session) => Typed::Ours((name, String::new())),
        _ => Typed::Not,
    }
}

/// The first word, in quotes if it has spaces, and what follows; `None` if there is none.
fn word(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => text.split_once(char::is_whitespace).unwrap_or((text, "")),
    };
    (!word.is_empty()).then(|| (word, rest.trim_start()))
}

/// Carries one of our commands out.
pub async fn carry_out(
    session: &Conversation,
    turn: &Turn,
    messages: &mut Vec<Message>,
    name: &str,
    rest: &str,
) -> Result<StopReason> {
    let text = match name {
        "undo" => undo(session, turn.client()).await.unwrap_or_else(|why| why.to_string()),
        "diff" => diff(session).await.unwrap_or_else(|why| why.to_string()),
        "rules" => rules(session, rest),
        "model" => model(session, rest).await,
        "mcp" if rest.is_empty() => session.servers.describe(),
        "mcp" => "Type `/mcp` for a list, or `/mcp SERVER TOOL {json}` to call a tool.".into(),
        "compact" if compact(turn, &session.log, messages, history::Cut::Nothing).await? => {
            "The conversation was shortened to a summary.".into()
        }
        "compact" => "The conversation is short already.".into(),
        _ => help(session).await,
    };
    turn.say(text).await?;
    Ok(StopReason::EndTurn)
}

async fn help(session: &Conversation) -> String {
    let offline = is_offline(session);
    let mut text = format!("Answers come from: {}.\n\n{}", session.model().name(), table::help(offline));
    let (project, more) = projects(&session.files).await;
    for project in project {
        let _ = writeln!(text, "- `/{}`: {}", project.name, project.about());
    }
    if more > 0 {
        let _ = writeln!(text, "\n{more} more in `{FOLDER}` are not used: {MAX_COMMANDS} is the most.");
    }
    if offline {
        let _ = write!(
            text,
            "\nSeveral instructions: one in each line, or joined with `then`. Quotes and backticks keep words together. `it` is the \
             file that was last read or changed. I am no language model. {}",
            ways()
        );
    }
    text
}

/// Says who answers, or has another model answer.
async fn model(session: &Conversation, id: &str) -> String {
    if id.is_empty() {
        let name = session.model().name().to_owned();
        return format!("Answers come from: {name}. `/model PROVIDER/MODEL` chooses another. {}", ways());
    }
    match session.answer_with(id).await {
        Err(why) => why,
        Ok(model) => {
            let missing = match model.provider() {
                Some(provider) => provider.ready().await.err().map(|why| format!(" {why}")),
                None => None,
            };
            format!("From here on answers come from: {}.{}", model.name(), missing.unwrap_or_default())
        }
    }
}

fn rules(session: &Conversation, rest: &str) -> String {
    let mut words = rest.split_whitespace();
    match (words.next(), words.next().and_then(|number| number.parse().ok())) {
        (None, _) => session.permissions.describe(),
        (Some("remove"), Some(number)) => session.permissions.forget(number).unwrap_or_else(|why| why.to_string()),
        _ => "Type `/rules`, or `/rules remove N`.".into(),
    }
}

/// The last turn that changed files and was not undone, and what files were before.
fn last_turn(session: &Conversation) -> std::result::Result<(Arc<Snapshots>, String), ToolError> {
    let snapshots = session.snapshots.as_ref().ok_or("Nothing is kept for undo: the agent runs without a store.")?;
    let turns = snapshots.turns().into_iter().rev();
    let mut changing = turns
        .filter(|turn| !snapshot::is_undo(turn) && !snapshot::is_unclear(turn) && !snapshots.changed(turn).is_empty());
    let turn = changing.next().ok_or_else(|| {
        let damage = snapshots.damage().map(|damage| format!(" {damage}.")).unwrap_or_default();
        format!("No turn has changed files that could be restored.{damage}")
    })?;
    Ok((Arc::clone(snapshots), turn))
}

/// Puts the files of the last turn back, each by the client where it takes files: what it shows must not be of before.
async fn undo(session: &Conversation, client: ClientHandle) -> std::result::Result<String, ToolError> {
    let (snapshots, turn) = last_turn(session)?;
    let files = session.files.clone();
    let (looked, disk, of) = (Arc::clone(&snapshots), files.clone(), turn.clone());
    let wanted = blocking(move || {
        let wanted = looked.preview(&disk, &of, None, false);
        let before = |path: &Path| String::from_utf8(looked.contents(&disk, &of, path).ok()?.0?).ok();
        let restored: Vec<_> = wanted.restored.into_iter().map(|path| (before(&path), path)).collect();
        Ok((restored, wanted.refused))
    });
    let (restored, refused) = wanted.await?;
    // What the client writes is remembered as this undo, too.
    let workspace = session.workspace(client, Some(snapshots.begin(snapshots.undo_turn(&turn))));
    let mut text = snapshots.damage().map(|damage| format!("- {damage}\n")).unwrap_or_default();
    for (before, path) in restored {
        let by_client = match (session.commands.check_replaced(&path), &before) {
            (Err(why), _) => Err(why),
            (Ok(()), Some(before)) => workspace.put_back(&path, before).await,
            (Ok(()), None) => Ok(false),
        };
        let done = match by_client {
            Ok(by_client) => {
                let (kept, disk, of, path) = (Arc::clone(&snapshots), files.clone(), turn.clone(), path.clone());
                // Whatever the client made of it: on the disk is what was there.
                blocking(move || Ok(kept.undo(&disk, &of, Some(&path), by_client))).await
            }
            Err(why) => Err(why),
        };
        let _ = match done.map(|done| done.refused.into_iter().next()) {
            Ok(None) => {
                let verb = if path.exists() { "restored" } else { "removed" };
                writeln!(text, "- {verb} {}", roots::shown(&path))
            }
            Ok(Some(refused)) => writeln!(text, "- left alone: {refused}"),
            Err(why) => writeln!(text, "- left alone: {}: {why}", roots::shown(&path)),
        };
    }
    for refused in &refused {
        let _ = writeln!(text, "- left alone: {refused}");
    }
    Ok(text)
}

async fn diff(session: &Conversation) -> std::result::Result<String, ToolError> {
    let (snapshots, turn) = last_turn(session)?;
    let files = session.files.clone();
    let shown = move || {
        let mut text = String::new();
        for changed in snapshots.changed(&turn) {
            let _ = writeln!(text, "{} ({:?})", roots::shown(&changed.path), changed.kind);
            let hunks = match snapshots.hunks(&files, &turn, &changed.path) {
                Ok(hunks) => hunks,
                Err(refused) => {
                    let _ = writeln!(text, "{refused}");
                    continue;
                }
            };
            text.push_str("````diff\n");
            for hunk in hunks {
                let (old, new) = (&hunk.old_lines, &hunk.new_lines);
                let _ = writeln!(text, "@@ -{},{} +{},{} @@", old.start + 1, old.len(), new.start + 1, new.len());
                for (mark, side) in [('-', &hunk.old), ('+', &hunk.new)] {
                    for line in side.lines() {
                        let _ = writeln!(text, "{mark}{line}");
                    }
                }
            }
            text.push_str("````\n");
        }
        Ok(text)
    };
    blocking(shown).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_and_without_quotes() {
        for (text, expect) in [
            ("a b {\"c\": 1}", Some(("a", "b {\"c\": 1}"))),
            ("\"a b\" c", Some(("a b", "c"))),
            ("a", Some(("a", ""))),
            ("", None),
            ("\"\" a", None),
            ("\"a", None),
        ] {
            assert_eq!(word(text), expect);
        }
    }
}
