//! What is shown of a tool call: one head, and what it brought below it.

use super::look::{BAD, BUSY, GOOD, PLAIN, QUIET, STRONG, mark};
use super::markdown::{lines, markdown};
use super::safe::Safe;
use super::wrap::{Break, fit, indent, seal, width};
use super::{Detail, Look, Row, diff, terminal};
use ratatui::text::Span;
use std::time::Duration;
use tieline::schema::{ContentBlock, ResourceContents, ToolCallContent, ToolCallItem, ToolCallStatus, ToolKind};
use tieline_client::live::Conversation;
use tieline_client::sanitize;

/// So many rows are shown of each thing that a call brought, unless it is opened.
const MAX_ROWS: usize = 12;
/// So much text of a call is shown at all, in bytes; the journal has the rest.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// So many places of a call are named.
const MAX_PLACES: usize = 20;
/// Calls within calls are moved in at most so often.
const MAX_DEPTH: usize = 4;

/// What a call brought: rows, and the text that they show.
#[derive(Debug, Default)]
pub struct Body {
    /// The rows.
    pub rows: Vec<Row>,
    /// What their sources are ranges of.
    pub source: String,
}

impl Body {
    /// Adds rows whose sources are ranges of `text`.
    pub(super) fn add(&mut self, text: &str, rows: Vec<Row>) {
        let base = self.source.len();
        self.source.push_str(text);
        self.rows.extend(rows.into_iter().map(|mut row| {
            row.source = base + row.source.start..base + row.source.end;
            row
        }));
    }

    /// Adds a line of ours below the head of a call.
    fn note(&mut self, text: &str, look: &Look) {
        let room = usize::from(look.width).saturating_sub(width(mark::TOOL));
        let text = fit(text, room);
        let mut rows = vec![Row { source: 0..text.len(), ..Row::ours(text.clone(), QUIET, 0) }];
        indent(&mut rows, &Span::styled("    ", QUIET), &Span::raw(""));
        self.add(&format!("{text}\n"), rows);
    }

    /// Adds text of a tool behind its mark.
    fn text(&mut self, text: &str, columns: usize, all: bool) {
        let most = if all { MAX_TEXT_BYTES } else { MAX_ROWS * columns.max(20) * 2 };
        let shown = beginning(text, most);
        let safe = Safe::new(shown);
        let mut rows = if shown.trim_start().starts_with("```") {
            markdown(&safe.text, columns, &super::blocks::Names::new(), PLAIN, false).0
        } else {
            lines(&safe.text, columns, PLAIN, Break::Anywhere)
        };
        seal(&mut rows, 0, safe.text.len());
        for row in &mut rows {
            row.source = safe.source(row.source.start)..safe.source(row.source.end);
        }
        let most = if all { rows.len() } else { MAX_ROWS };
        if shown.len() < text.len() {
            cut(&mut rows, most, "… more".to_owned());
        } else if rows.len() > most {
            let more = format!("… {} more", rows.len() - most);
            cut(&mut rows, most, more);
        }
        let end = if shown.is_empty() || shown.ends_with('\n') { "" } else { "\n" };
        self.marked(&format!("{shown}{end}"), rows);
    }

    /// Adds rows behind the mark of what a tool brought.
    fn marked(&mut self, text: &str, mut rows: Vec<Row>) {
        let begin = Span::styled(mark::TOOL, QUIET);
        indent(&mut rows, &begin, &begin);
        self.add(text, rows);
    }
}

/// Leaves so many rows, and says below them that there are more.
pub(super) fn cut(rows: &mut Vec<Row>, most: usize, more: String) {
    rows.truncate(most);
    let end = rows.last().map_or(0, |row| row.source.end);
    rows.push(Row::ours(more, QUIET, end));
}

fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// The first row of a call: how far it is, what it does, for how long.
pub fn head(
    talk: &Conversation,
    call: &ToolCallItem,
    look: &Look,
    took: Option<Duration>,
    (asks, answered): (bool, bool),
) -> Row {
    let (sign, style, state) = match &call.status {
        status if asks && !status.is_final() => ("○", BUSY, "waits for you"),
        ToolCallStatus::Pending if !answered => ("○", QUIET, "waits"),
        ToolCallStatus::Completed => ("✓", GOOD, ""),
        ToolCallStatus::Failed => ("✗", BAD, "failed"),
        ToolCallStatus::Cancelled => ("⊘", BAD, "cancelled"),
        ToolCallStatus::Paused => ("◑", BUSY, "paused"),
        _ => ("●", BUSY, ""),
    };
    let title = call.title.as_deref().filter(|title| !title.trim().is_empty()).or(call.name.as_deref());
    // Whose words follow is said first: a title alone behind our sign would read like a remark of ours.
    let kind = match (&call.kind, title) {
        (ToolKind::Unspecified, None) => String::new(),
        (ToolKind::Unspecified, _) => "tool ".to_owned(),
        (ToolKind::Other(kind), _) => format!("tool {} ", sanitize::line(kind)),
        (kind, _) => format!("{} ", kind.as_str()),
    };
    let title = sanitize::line(title.unwrap_or("a tool"));
    let age = took.map(age).unwrap_or_default();
    let end = [state, &age].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let end = if end.is_empty() { end } else { format!("  {end}") };
    let moved = "  ".repeat(depth(talk, call));
    let begin = format!("{moved}{sign} ");
    let room = usize::from(look.width).saturating_sub(width(&begin));
    let end = fit(&end, room.saturating_sub(4));
    let words = fit(&format!("{kind}{title}"), room.saturating_sub(width(&end)).max(1));
    let (kind, title) = words.split_at(words.floor_char_boundary(kind.len()));
    let spans = vec![
        Span::styled(begin.clone(), style),
        Span::styled(kind.to_owned(), QUIET),
        Span::styled(title.to_owned(), STRONG),
        Span::styled(end, if call.status == ToolCallStatus::Failed { BAD } else { QUIET }),
    ];
    Row { spans, gutter: width(&begin) as u16, ..Row::default() }
}

/// How many calls stand around this one, where the agent says so in `_meta`.
fn depth(talk: &Conversation, call: &ToolCallItem) -> usize {
    let mut depth = 0;
    let mut parent = parent(call);
    while let Some(id) = parent.filter(|_| depth < MAX_DEPTH) {
        depth += 1;
        parent = talk.call(&id).and_then(|call| self::parent(&call));
    }
    depth
}

/// The call that this one is part of: `parentToolUseId` or `parentToolCallId`, at the top of `_meta` or in the part of a vendor.
pub fn parent(call: &ToolCallItem) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(call.meta.as_ref()?.0.get()).ok()?;
    let named = |value: &serde_json::Value| {
        let found = ["parentToolUseId", "parentToolCallId", "parent_tool_use_id"]
            .iter()
            .find_map(|name| value.get(name)?.as_str());
        found.map(str::to_owned).filter(|id| *id != call.id)
    };
    named(&json).or_else(|| json.as_object()?.values().find_map(named))
}

/// A time as people say it.
pub fn age(took: Duration) -> String {
    let seconds = took.as_secs();
    match seconds {
        0 => String::new(),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// What a call works on and what it brought.
pub fn body(call: &ToolCallItem, look: &Look, screens: &mut terminal::Screens) -> Body {
    let all = look.open || look.detail == Detail::Full;
    let mut body = Body::default();
    let title = call.title.as_deref().unwrap_or_default();
    let shown_by_diff = |path: &str| {
        look.detail != Detail::Brief
            && call
                .content
                .iter()
                .any(|content| matches!(content, ToolCallContent::Diff(diff) if diff.paths().any(|it| it == path)))
    };
    // The names of files are always visible.
    for place in call.locations.iter().take(if all { MAX_PLACES } else { 3 }) {
        let name = place.path.rsplit('/').next().unwrap_or(&place.path);
        if (all || !title.contains(name)) && !shown_by_diff(&place.path) {
            let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
            body.note(&format!("{}{line}", sanitize::exact_line(&place.path)), look);
        }
    }
    if call.locations.len() > MAX_PLACES {
        body.note(&format!("… {} more places", call.locations.len() - MAX_PLACES), look);
    }
    if look.detail == Detail::Brief && !look.open {
        return body;
    }
    let columns = usize::from(look.width).saturating_sub(width(mark::TOOL)).max(1);
    let most = if all { usize::MAX } else { MAX_ROWS };
    for content in &call.content {
        match content {
            ToolCallContent::Content(content) => match &content.content {
                ContentBlock::Text(text) => body.text(&text.text, columns, all),
                block => body.note(&block_line(block), look),
            },
            ToolCallContent::Diff(changes) => {
                let shown = diff::rows(changes, columns, look.side_by_side, most);
                body.marked(&shown.source, shown.rows);
            }
            ToolCallContent::Terminal(terminal) => match screens.rows(&terminal.terminal_id, columns, most) {
                Some(shown) => body.marked(&shown.source, shown.rows),
                None if call.status.is_final() => body.note("no output", look),
                None => body.note("no output yet", look),
            },
            ToolCallContent::Other(unknown) => {
                body.note(&format!("something unknown: {}", sanitize::line(&unknown.tag)), look);
            }
        }
    }
    if all && call.content.is_empty() {
        for (name, raw) in [("given", &call.raw_input), ("gave back", &call.raw_output)] {
            if let Some(raw) = raw {
                body.note(name, look);
                body.text(&sanitize::json(beginning(raw.get(), 64 << 10)), columns, true);
            }
        }
    }
    body
}

/// What is no text, in one line.
pub fn block_line(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => sanitize::line(&text.text),
        ContentBlock::Image(image) => {
            format!("image {}, {} KB", sanitize::line(&image.mime_type), image.data.len() / 4 * 3 / 1024)
        }
        ContentBlock::Audio(audio) => {
            format!("sound {}, {} KB", sanitize::line(&audio.mime_type), audio.data.len() / 4 * 3 / 1024)
        }
        ContentBlock::ResourceLink(link) => {
            format!("{} ({})", sanitize::line(&link.name), sanitize::exact_line(&link.uri))
        }
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::Text(text) => format!("{}, {} bytes", sanitize::exact_line(&text.uri), text.text.len()),
            ResourceContents::Blob(blob) => {
                format!("{}, {} bytes", sanitize::exact_line(&blob.uri), blob.blob.len() / 4 * 3)
            }
        },
        ContentBlock::Other(unknown) => format!("something unknown: {}", sanitize::line(&unknown.tag)),
    }
}

/// A call that is forgotten, in one quiet line.
pub fn forgotten(width: u16) -> Row {
    let text = fit("· a tool call that is only in the journal now", usize::from(width));
    Row { gutter: 2, ..Row::ours(text, QUIET, 0) }
}
