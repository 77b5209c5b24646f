//! Updates cut to fit a client that can't read long lines: text in pieces, and less of what a tool call shows.

use crate::sent_messages::note;
use crate::{
    Chunk, Content, ContentBlock, Dialect, Diff, DiffTexts, Items, Patch, ResourceContents, ToolCallContent,
    ToolCallUpdate, Update, to_json,
};
use std::fmt::Write as _;
use tieline_json::{Raw, char_floor};

/// The longest update, in bytes of JSON, that clients of 2025 can read: the line around it must stay below 64 KiB, where
/// asyncio's reader gives up and with it every client in Python up to version 0.9 of its library.
pub const SHORT_LINE: usize = 60 * 1024;

/// The most bytes of text in one piece: in JSON a byte becomes up to six.
pub const PIECE: usize = SHORT_LINE / 6 - 256;

/// So much of each text is left, one after the other until it fits, in bytes.
const TEXT_BYTES_STEPS: [usize; 6] = [1 << 20, 128 << 10, 16 << 10, 4 << 10, 1 << 10, 256];
/// So many lines are shown around a change.
const CONTEXT_LINES: usize = 3;
/// So many files, if even that is too much, and none with a longer path.
const MAX_LOCATIONS: usize = 16;
const MAX_PATH_BYTES: usize = 1024;
/// What a part of a tool call takes in memory beside its text: many times as much as the shortest text of one.
pub const PART_BYTES: usize = 512;
/// Nobody has a reason for a longer id.
const MAX_ID_BYTES: usize = 4096;

/// Pieces of a text that are short enough, in order. They end between characters.
pub fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, more) = rest.split_at(char_floor(rest, PIECE));
        rest = more;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Tells an update in a form that is at most `most` bytes long.
pub(crate) fn fit(update: Update, most: usize, emit: &mut dyn FnMut(Update)) {
    match update {
        Update::Chunk(Chunk { kind, message_id, content: ContentBlock::Text(text), mut meta, .. })
            if text.text.len() > PIECE =>
        {
            for piece in pieces(&text.text) {
                emit(
                    Chunk {
                        kind,
                        message_id: message_id.clone(),
                        content: piece.into(),
                        meta: meta.take(),
                        ..Default::default()
                    }
                    .into(),
                );
            }
        }
        Update::Chunk(mut chunk) => {
            shorten_block(&mut chunk.content, most);
            emit(chunk.into());
        }
        Update::ToolCall(mut call) => {
            fit_call(&mut call, most);
            emit(Update::ToolCall(call));
        }
        update => emit(update),
    }
}

/// An update that came as more than `most` bytes, cut to about that. The text of messages stays as it is, because it can be
/// taken in pieces. `None` if there is nothing to cut that could be missed.
pub fn cut_long(update: Update, most: usize) -> Option<Update> {
    match update {
        Update::Chunk(Chunk { kind, message_id, mut content, .. }) => {
            cut_block(&mut content, most);
            let short = message_id.as_deref().is_none_or(is_short);
            short.then_some(Update::Chunk(Chunk { message_id, content, kind, ..Default::default() }))
        }
        Update::Message(mut message) => {
            message.meta = Patch::Keep;
            if let Patch::Set(Items(blocks)) = &mut message.content {
                for block in blocks {
                    cut_block(block, most);
                }
            }
            is_short(&message.message_id).then_some(Update::Message(message))
        }
        Update::ToolCall(mut call) => {
            fit_call(&mut call, most);
            if parts_of(&call) * PART_BYTES > most {
                leave_out_parts(&mut call);
            }
            is_short(&call.tool_call_id).then_some(Update::ToolCall(call))
        }
        Update::ToolCallContent(mut chunk) => {
            chunk.meta = None;
            shorten_item(&mut chunk.content, most);
            is_short(&chunk.tool_call_id).then_some(Update::ToolCallContent(chunk))
        }
        _ => None,
    }
}

fn is_short(id: &str) -> bool {
    id.len() <= MAX_ID_BYTES
}

/// What the parts of a tool call take in memory beside their text, in bytes.
pub fn parts_bytes(update: &Update) -> usize {
    let parts = match update {
        Update::ToolCall(call) => parts_of(call),
        Update::ToolCallContent(chunk) => count(&chunk.content),
        _ => 0,
    };
    parts * PART_BYTES
}

/// How many parts a tool call has: content, changes of files, places.
pub fn parts_of(call: &ToolCallUpdate) -> usize {
    let content = call.content.set().map_or(0, |items| items.0.iter().map(count).sum());
    content + call.locations.set().map_or(0, |places| places.0.len())
}

fn count(item: &ToolCallContent) -> usize {
    if let ToolCallContent::Diff(diff) = item { 1 + diff.changes.len() } else { 1 }
}

/// Leaves the words of a block, and nothing else of it that is long.
fn cut_block(block: &mut ContentBlock, most: usize) {
    if let ContentBlock::Text(text) = block {
        (text.annotations, text.meta) = (None, None);
    } else {
        shorten_block(block, most);
    }
    if block.as_text().is_none() && to_json(block, Dialect::V2).len() > 2 * most {
        *block = "(content that is too long to be shown here)".into();
    }
}

/// Cuts what a tool call shows until it is at most `most` bytes long, and says so where it is cut.
pub fn fit_call(call: &mut ToolCallUpdate, most: usize) {
    if rough(call, SHORT_LINE) < most / 6 {
        return;
    }
    // What is far too long is not written out to be measured.
    let fits = |call: &ToolCallUpdate| rough(call, 0) <= 2 * most && to_json(call, Dialect::V1).len() <= most;
    // Those over the whole would only be cut once more, and then the words about it would count from the first cut.
    for step in TEXT_BYTES_STEPS.into_iter().filter(|step| *step <= most) {
        if fits(call) {
            return;
        }
        shorten(call, step);
    }
    if !fits(call) {
        leave_out_parts(call);
    }
}

fn leave_out_parts(call: &mut ToolCallUpdate) {
    let count = parts_of(call);
    call.content = Patch::Set(Items(vec![format!("({count} parts are too long to be shown here)").into()]));
    if let Patch::Set(Items(places)) = &mut call.locations {
        places.retain(|place| place.path.len() <= MAX_PATH_BYTES);
        places.truncate(MAX_LOCATIONS);
        places.shrink_to_fit();
        for place in places {
            place.meta = None;
        }
    }
    call.meta = Patch::Keep;
    call.capabilities = Patch::Keep;
}

/// How many bytes the long parts have, before they are escaped; `rare` is what others count for.
fn rough(call: &ToolCallUpdate, rare: usize) -> usize {
    let raw = |raw: &Patch<Raw>| raw.set().map_or(0, |raw| raw.get().len());
    let item = |item: &ToolCallContent| match item {
        ToolCallContent::Content(Content { content: ContentBlock::Text(text), .. }) => text.text.len() + 64,
        ToolCallContent::Diff(Diff { texts: Some(texts), .. }) => {
            texts.old.as_ref().map_or(0, String::len) + texts.new.len() + 256
        }
        ToolCallContent::Terminal(_) => 64,
        // Looked at in full.
        _ => rare,
    };
    let content = call.content.set().map_or(0, |items| items.0.iter().map(item).sum());
    let places = call.locations.set().map_or(0, |places| places.0.iter().map(|place| place.path.len() + 32).sum());
    let title = call.title.set().map_or(0, String::len);
    content + places + title + raw(&call.raw_input) + raw(&call.raw_output)
}

fn shorten(call: &mut ToolCallUpdate, most: usize) {
    for name in [&mut call.title, &mut call.name] {
        if let Patch::Set(name) = name {
            shorten_text(name, most);
        }
    }
    for raw in [&mut call.raw_input, &mut call.raw_output] {
        if let Patch::Set(value) = raw
            && value.get().len() > most
        {
            *raw = cut_raw(value.get(), most).map_or(Patch::Keep, Patch::Set);
        }
    }
    if let Patch::Set(Items(items)) = &mut call.content {
        for item in items {
            shorten_item(item, most);
        }
    }
}

fn shorten_item(item: &mut ToolCallContent, most: usize) {
    match item {
        ToolCallContent::Content(content) => shorten_block(&mut content.content, most),
        ToolCallContent::Diff(Diff { texts: Some(texts), .. }) => shorten_diff(texts, most),
        _ => {}
    }
}

fn shorten_block(block: &mut ContentBlock, most: usize) {
    match block {
        ContentBlock::Text(text) => shorten_text(&mut text.text, most),
        ContentBlock::Resource(resource) => match &mut resource.resource {
            ResourceContents::Text(file) => shorten_text(&mut file.text, most),
            ResourceContents::Blob(blob) if blob.blob.len() > most => *block = left_out("file", blob.blob.len()),
            ResourceContents::Blob(_) => {}
        },
        ContentBlock::Image(image) if image.data.len() > most => *block = left_out("picture", image.data.len()),
        ContentBlock::Audio(audio) if audio.data.len() > most => *block = left_out("sound", audio.data.len()),
        _ => {}
    }
}

fn left_out(what: &str, base64: usize) -> ContentBlock {
    format!("(a {what} of {} KiB, too long to be shown here)", (base64 / 4 * 3) >> 10).into()
}

fn shorten_text(text: &mut String, most: usize) {
    if text.len() > most {
        let all = text.len();
        text.truncate(char_floor(text, most));
        text.shrink_to_fit();
        let shown = text.len();
        let _ = write!(text, "\n… (cut to fit: {shown} of {all} bytes)");
    }
}

/// Leaves the lines that change and some around them.
fn shorten_diff(texts: &mut DiffTexts, most: usize) {
    if texts.old.as_ref().map_or(0, String::len) + texts.new.len() <= most {
        return;
    }
    if let Some(old) = &mut texts.old {
        let (before, after): (Vec<&str>, Vec<&str>) =
            (old.split_inclusive('\n').collect(), texts.new.split_inclusive('\n').collect());
        let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
        let end = before[same..].iter().rev().zip(after[same..].iter().rev()).take_while(|(a, b)| a == b).count();
        let window = |lines: &[&str]| {
            lines[same.saturating_sub(CONTEXT_LINES)..(lines.len() - end + CONTEXT_LINES).min(lines.len())].concat()
        };
        (*old, texts.new) = (window(&before), window(&after));
        shorten_text(old, most);
    }
    shorten_text(&mut texts.new, most);
}

/// The beginning of some JSON as text in an object: there an object is what most clients look for.
fn cut_raw(json: &str, most: usize) -> Option<Raw> {
    let shown = &json[..char_floor(json, most)];
    note("cut", &format!("{shown}\n… (cut to fit: {} of {} bytes)", shown.len(), json.len())).map(|object| object.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageKind;

    fn told(update: Update) -> Vec<Update> {
        let mut out = Vec::new();
        fit(update, SHORT_LINE, &mut |update| out.push(update));
        assert!(out.iter().all(|update| to_json(update, Dialect::V1).len() <= SHORT_LINE));
        out
    }

    #[test]
    fn text_goes_out_in_pieces_that_fit() {
        for text in ["ü".repeat(100_000), "\u{1}".repeat(50_000), "plain".to_owned()] {
            let said = told(Update::text(MessageKind::Agent, Some("m".into()), text.clone()));
            let said: String = said
                .iter()
                .map(|update| match update {
                    Update::Chunk(chunk) => chunk.content.as_text().unwrap(),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(said, text);
        }
    }

    #[test]
    fn calls_are_cut_with_a_word() {
        let line = "let x = 1;\n".repeat(20_000);
        let small = ToolCallUpdate::new("c").title("Read").content(vec!["short".into()]);
        assert_eq!(told(small.clone().into()), [small.into()]);
        let lines = |count: usize| (0..count).map(|number| format!("line {number}\n")).collect::<Vec<_>>().concat();
        let edit = Diff::of("/p/a", Some(lines(20_000)), lines(20_000).replace("line 9000\n", "changed\n"));
        for (name, content, must, must_not) in [
            ("text", ToolCallContent::from(line.clone()), "cut to fit", "xx"),
            ("edit", ToolCallContent::Diff(edit), "changed", "cut to fit"),
            ("new", ToolCallContent::Diff(Diff::of("/p/a", None, line.clone())), "cut to fit", "xx"),
        ] {
            let mut call = ToolCallUpdate::new("c").content(vec![content]);
            call.raw_input = Raw::new(format!("{{\"a\":{}}}", "1".repeat(10))).map_or(Patch::Keep, Patch::Set);
            let out = told(call.into()).iter().map(|update| to_json(update, Dialect::V1)).collect::<String>();
            assert!(out.contains(must) && !out.contains(must_not), "{name}: {}", &out[..out.len().min(2000)]);
        }
        let mut call = ToolCallUpdate::new("c");
        let text = format!("{{\"content\":\"{}\"}}", "x".repeat(200_000));
        call.raw_input = Patch::Set(Raw::new(text).unwrap());
        call.content = Patch::Set(Items((0..10_000).map(|_| "many parts".into()).collect()));
        let out = to_json(&told(call.into())[0], Dialect::V1);
        assert!(
            out.contains("\"rawInput\":{\"cut\":") && out.contains("10000 parts"),
            "{}",
            &out[..2000.min(out.len())]
        );
    }
}
