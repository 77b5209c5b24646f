//! A session as one text: Markdown to read, JSON for programs, or one HTML file that needs nothing else.
//!
//! Whatever came from an agent, a file or a tool is made harmless first.

mod html;
mod json;
mod markdown;

use crate::journal::{Changed, Decision, HowChanged, HowUndone, Note, Outcome, Story, TurnStory};
use crate::sanitize;
use tieline::schema::{ContentBlock, Diff, Item, MessageKind, ResourceContents, ToolCallContent, ToolCallItem};
use tieline_host::roots::shown;

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// To read.
    Markdown,
    /// For programs.
    Json,
    /// One file for a browser, which asks for nothing from elsewhere.
    Html,
}

/// Writes a session out.
pub fn export(story: &Story, format: Format) -> String {
    match format {
        Format::Markdown => markdown::write(story),
        Format::Json => json::write(story),
        Format::Html => html::write(story),
    }
}

/// What is known of a session as JSON.
pub fn entry_to_json(entry: &crate::journal::Entry) -> serde_json::Value {
    json::entry(entry)
}

/// JSON as text in which nothing hides: characters that drive a terminal or turn the direction of text are escaped.
pub fn json_text(value: &serde_json::Value) -> String {
    sanitize::json(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// One thing that happened in a turn.
enum Part<'a> {
    /// What the user said; `told` if only the agent says so.
    Prompt {
        told: bool,
        text: String,
        blocks: &'a [ContentBlock],
    },
    Said {
        thought: bool,
        blocks: &'a [ContentBlock],
    },
    Tool(&'a ToolCallItem),
    Note(String),
    Changes(&'a [Changed]),
    End(String),
}

/// Who said a prompt. An agent can put words into the user's mouth; those are not passed on as the user's.
fn who(told: bool) -> &'static str {
    if told { "You, as the agent tells it" } else { "You" }
}

/// The turns in which something happened, each with its parts.
fn turns(story: &Story) -> impl Iterator<Item = (&TurnStory, Vec<Part<'_>>)> {
    let turns = story.turns.iter().map(|turn| (turn, parts(story, turn)));
    turns.filter(|(turn, parts)| turn.number > 0 || !parts.is_empty())
}

/// All that happened in a turn, in order.
fn parts<'a>(story: &'a Story, turn: &'a TurnStory) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    if !turn.prompt.is_empty() {
        parts.push(Part::Prompt { told: false, text: text_of(&turn.prompt), blocks: &turn.prompt });
    }
    let items = story.items(turn);
    let is_of = |note: &Note, item: &Item| match (note, item) {
        (Note::Decision(decision), Item::ToolCall(call)) => decision.tool_call_id == call.id,
        _ => false,
    };
    // What was decided about a call stands before what came of it.
    let (decided, notes): (Vec<_>, Vec<_>) =
        turn.notes.iter().partition(|(_, note)| items.iter().any(|item| is_of(note, item)));
    let mut notes = notes.into_iter().peekable();
    for (at, item) in items.iter().enumerate() {
        while let Some((_, note)) = notes.next_if(|(place, _)| *place <= turn.items.start + at) {
            parts.extend(note_text(note).map(Part::Note));
        }
        match item {
            // Version 2 says back what the user said.
            Item::Message(message) if message.kind == MessageKind::User && message.content == turn.prompt => {}
            Item::Message(message) if message.kind == MessageKind::User => {
                let (told, text) = (true, text_of(&message.content));
                // Many agents repeat what they were given.
                if turn.prompt.is_empty() || text.trim() != text_of(&turn.prompt).trim() {
                    parts.push(Part::Prompt { told, text, blocks: &message.content });
                }
            }
            Item::Message(message) => {
                parts.push(Part::Said { thought: message.kind == MessageKind::Thought, blocks: &message.content });
            }
            Item::ToolCall(call) => {
                let decided = decided.iter().filter(|(_, note)| is_of(note, item));
                parts.extend(decided.filter_map(|(_, note)| note_text(note)).map(Part::Note));
                parts.push(Part::Tool(call));
            }
            Item::Compaction(_) => parts.push(Part::Note("The agent replaced its context by a summary.".into())),
            Item::Other(unknown) => {
                parts.push(Part::Note(format!("An update that is not known: {}", sanitize::line(&unknown.tag))));
            }
        }
    }
    parts.extend(notes.filter_map(|(_, note)| note_text(note)).map(Part::Note));
    if !turn.changes.is_empty() {
        parts.push(Part::Changes(&turn.changes));
    }
    parts.extend(end_of(turn).map(Part::End));
    parts
}

/// How a turn ended, in words; nothing for an end as it should be.
fn end_of(turn: &TurnStory) -> Option<String> {
    match (&turn.outcome, &turn.stop) {
        _ if turn.number == 0 => None,
        _ if turn.interrupted => Some("The turn was cut off: its process ended in the middle.".into()),
        (Some(Outcome::Failed { phase, message }), _) => {
            Some(format!("The turn failed ({}): {}", sanitize::line(phase), sanitize::text(message)))
        }
        (Some(Outcome::Interrupted { by }), _) => Some(format!("The turn was ended: {}", sanitize::line(by))),
        (Some(Outcome::Stopped { reason }), _) if reason == "end_turn" => None,
        (Some(Outcome::Stopped { reason }), _) => Some(format!("The turn stopped: {}", sanitize::line(reason))),
        (None, Some(stop)) => Some(format!("The turn stopped: {}", sanitize::line(&stop.to_string()))),
        (None, None) => Some("The turn has not ended.".into()),
    }
}

fn note_text(note: &Note) -> Option<String> {
    match note {
        Note::Decision(decision) => Some(decision_text(decision)),
        Note::Said(said) => Some(sanitize::text(&said.text)),
        Note::Other(..) => None,
    }
}

fn decision_text(decision: &Decision) -> String {
    let about = if decision.about.is_empty() { vec![decision.title.clone()] } else { decision.about.clone() };
    let because = if decision.because.is_empty() { &decision.by } else { &decision.because };
    let line = format!("{}: {} ({because})", decision.decision, about.join(", "));
    sanitize::line(&line)
}

/// One line about a changed file; its path is shown from `cwd` if it is below it.
pub fn changed_text(changed: &Changed, cwd: &str) -> String {
    let how = match changed.how {
        HowChanged::Added => "added",
        HowChanged::Modified => "modified",
        HowChanged::Deleted => "deleted",
    };
    let tool = changed.tool.as_ref().map(|tool| format!(", by \"{tool}\"")).unwrap_or_default();
    let asked = changed.asked.words().map(|words| format!(", {words}")).unwrap_or_default();
    let kept = changed.unkept.map(|why| format!(", can't be undone: {why}")).unwrap_or_default();
    let undone = match changed.undone {
        HowUndone::Not => "",
        HowUndone::Partly => ", partly undone since",
        HowUndone::Whole => ", undone since",
    };
    let path = std::path::Path::new(&changed.path);
    let path = shown(path.strip_prefix(cwd).unwrap_or(path));
    format!("{how} {path}{}{asked}{kept}{undone}", sanitize::exact_line(&tool))
}

/// All blocks as text.
fn text_of(blocks: &[ContentBlock]) -> String {
    let texts: Vec<String> = blocks.iter().map(block_text).collect();
    texts.join("\n")
}

/// A block as text, harmless.
fn block_text(block: &ContentBlock) -> String {
    let text = match block {
        ContentBlock::Text(text) => return sanitize::text(&text.text),
        ContentBlock::Image(image) => format!("[image, {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[sound, {}]", audio.mime_type),
        ContentBlock::ResourceLink(link) => format!("[{}]({})", link.name, link.uri),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::Text(text) => {
                return format!("[{}]\n{}", sanitize::line(&text.uri), sanitize::text(&text.text));
            }
            ResourceContents::Blob(blob) => format!("[{}]", blob.uri),
        },
        ContentBlock::Other(unknown) => format!("[{}]", unknown.tag),
    };
    sanitize::line(&text)
}

/// What a tool brought: text, or a diff.
enum Brought {
    Text(String),
    Diff(String),
}

/// All that a tool brought; with `once`, without the diffs of files that are shown with the changes of a turn.
fn brought(story: &Story, call: &ToolCallItem, once: bool) -> Vec<Brought> {
    let told = |path: &str| {
        let mut changes = story.turns.iter().flat_map(|turn| &turn.changes);
        changes.any(|changed| changed.diff.is_some() && changed.path == path)
    };
    let piece = |content: &ToolCallContent| match content {
        ToolCallContent::Content(content) => Some(Brought::Text(block_text(&content.content))),
        ToolCallContent::Diff(diff) if once && diff.paths().all(told) => None,
        ToolCallContent::Diff(diff) => Some(Brought::Diff(diff_text(diff))),
        ToolCallContent::Terminal(terminal) => {
            let found = story.transcript.terminals().iter().find(|known| known.id == terminal.terminal_id)?;
            Some(Brought::Text(sanitize::text(&String::from_utf8_lossy(found.output()))))
        }
        ToolCallContent::Other(unknown) => Some(Brought::Text(format!("[{}]", sanitize::line(&unknown.tag)))),
    };
    call.content.iter().filter_map(piece).collect()
}

/// A tool call in words: what it is called, its kind, how it stands.
fn tool_words(call: &ToolCallItem) -> (String, String) {
    let name = call.title.as_ref().or(call.name.as_ref()).map_or("a tool", String::as_str);
    (sanitize::line(name), sanitize::line(&format!("{}, {}", call.kind, call.status)))
}

fn diff_text(diff: &Diff) -> String {
    let unified = diff.texts().and_then(|texts| {
        let name = texts.path.trim_start_matches('/');
        crate::undo::unified(name, texts.old.as_ref().map(String::as_bytes), Some(texts.new.as_bytes()))
    });
    let text = unified.or_else(|| diff.patch.as_ref().map(|patch| patch.text.clone()));
    sanitize::exact(&text.unwrap_or_else(|| format!("changed {}", diff.paths().collect::<Vec<_>>().join(", "))))
}

/// A title for the page or file.
fn title(story: &Story) -> String {
    let title = story.entry.title.as_ref();
    title.map_or_else(|| format!("Session {}", story.entry.id), |title| sanitize::line(title))
}
