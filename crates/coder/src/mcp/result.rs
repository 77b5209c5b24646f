//! What a tool of a server gave back, as the model and the client get it.

use super::text::code;
use crate::tools::Output;
use rmcp::model::{CallToolResult, ServerResult};
use serde_json::json;
use tieline::schema::{ResourceContents, from_json};
use tieline::{ContentBlock, ToolCallContent};

/// As much text as the model is told, in characters, all blocks together.
const TEXT: usize = 40_000;
/// The largest picture or sound that is passed on, in bytes of base64.
const MEDIA: usize = 6 << 20;
/// The largest structured result that is passed on as data, in bytes.
const DATA: usize = 1 << 20;

/// The output of a call.
pub fn output(server: &str, answer: ServerResult) -> Output {
    match answer {
        ServerResult::CallToolResult(result) => of(result),
        _ => Output::error(format!("The MCP server {} answered with something else than a result.", code(server))),
    }
}

fn of(result: CallToolResult) -> Output {
    let mut room = TEXT;
    let mut content: Vec<ContentBlock> = result.content.iter().map(|block| told(block, &mut room)).collect();
    let data = result.structured_content;
    let size = data.as_ref().map_or(0, |data| data.to_string().len());
    if content.is_empty() {
        let text = data.as_ref().map_or_else(|| "(no content)".into(), ToString::to_string);
        content.push(short(&text, &mut room).into());
    }
    let raw = match data {
        Some(data) if size <= DATA => Some(data),
        Some(_) => Some(json!({ "leftOut": format!("structured content of {size} bytes") })),
        None => None,
    };
    let shown = Some(content.iter().cloned().map(ToolCallContent::from).collect());
    Output { content, shown, raw, failed: result.is_error == Some(true), stopped: false }
}

/// A block as it is passed on: the same, unless it is too large.
fn told(block: &rmcp::model::ContentBlock, room: &mut usize) -> ContentBlock {
    let block = serde_json::to_string(block).ok().and_then(|text| from_json::<ContentBlock>(&text).ok());
    let Some(mut block) = block else { return "(a kind of content that is not known)".into() };
    let left_out = |what: &str, size: usize| ContentBlock::from(format!("({what} of {size} bytes was left out)"));
    match &mut block {
        ContentBlock::Text(text) => text.text = short(&text.text, room),
        ContentBlock::Image(image) if image.data.len() > MEDIA => return left_out("a picture", image.data.len()),
        ContentBlock::Audio(audio) if audio.data.len() > MEDIA => return left_out("a sound", audio.data.len()),
        ContentBlock::Resource(resource) => match &mut resource.resource {
            ResourceContents::Text(text) => text.text = short(&text.text, room),
            ResourceContents::Blob(blob) if blob.blob.len() > MEDIA => return left_out("a file", blob.blob.len()),
            ResourceContents::Blob(_) => {}
        },
        _ => {}
    }
    block
}

/// As much of a text as there is room for.
fn short(text: &str, room: &mut usize) -> String {
    match text.char_indices().nth(*room) {
        Some((at, _)) => {
            *room = 0;
            format!("{}\n(cut here: the whole text has {} bytes)", &text[..at], text.len())
        }
        None => {
            *room -= text.chars().count();
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn check(result: Value) -> Output {
        output("s", ServerResult::CallToolResult(serde_json::from_value(result).unwrap()))
    }

    #[test]
    fn results() {
        let text = check(json!({"content": [{"type": "text", "text": "hi"}], "isError": true}));
        assert_eq!((text.content[0].as_text(), text.failed), (Some("hi"), true));
        let only_data = check(json!({"content": [], "structuredContent": {"a": 1}}));
        assert_eq!((only_data.content[0].as_text(), only_data.raw), (Some("{\"a\":1}"), Some(json!({"a": 1}))));
        let long =
            check(json!({"content": [{"type": "text", "text": "é".repeat(TEXT + 1)}, {"type": "text", "text": "x"}]}));
        assert!(long.content[0].as_text().unwrap().ends_with("(cut here: the whole text has 80002 bytes)"));
        assert!(long.content[1].as_text().unwrap().starts_with("\n(cut here"));
        let picture =
            check(json!({"content": [{"type": "image", "data": "A".repeat(MEDIA + 1), "mimeType": "image/png"}]}));
        assert!(picture.content[0].as_text().unwrap().contains("left out"));
        let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a"});
        let file = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "body"}});
        let both = check(json!({"content": [link, file]}));
        assert!(matches!(both.content[..], [ContentBlock::ResourceLink(_), ContentBlock::Resource(_)]));
        assert!(output("s", ServerResult::empty(())).failed);
    }
}
