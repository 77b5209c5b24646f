//! What a tool of a server gave back, as the model and the client get it.

use crate::text::{code, line};
use crate::tools::Output;
use rmcp::model::{CallToolResult, CustomResult, ServerResult};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Write as _;
use tieline::json::{Kind, Reader};
use tieline::schema::{ResourceContents, from_base64, from_json};
use tieline::{ContentBlock, ToolCallContent};

/// As much text as the model is told, in characters, all blocks together.
const TEXT: usize = 40_000;
/// As many blocks as are passed on.
const BLOCKS: usize = 100;
/// The largest picture or sound that is passed on, in bytes of base64.
const MEDIA: usize = 6 << 20;
/// The kinds of pictures that all providers take.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The largest structured result that is passed on as data, in bytes.
const DATA: usize = 1 << 20;

/// As many values as a message may have beside what is left out. Each takes about a hundred bytes as a tree.
const VALUES: usize = 200_000;

/// A message of a server as it is made a tree of. What would not be passed on is left out before, with a word: blocks on top of
/// those that are, and large structured results. `None` if it still has too many values.
pub fn bounded(message: &[u8]) -> Option<Cow<'_, [u8]>> {
    let cut = std::str::from_utf8(message).ok().and_then(shortened);
    let message = cut.map_or(Cow::Borrowed(message), |text| Cow::Owned(text.into_bytes()));
    (values(&message) <= VALUES).then_some(message)
}

/// The text of an answer without what is too much in its result; `None` if nothing is.
fn shortened(text: &str) -> Option<String> {
    let mut json = Reader::new(text);
    let (mut out, mut kept) = (String::new(), 0);
    let zero = json.mark();
    let at = |json: &Reader<'_>| text.len() - text.trim_start().len() + json.since(zero).len();
    let mut top = json.object().ok()?;
    while let Some(key) = top.key(&mut json).ok()? {
        if key != "result" || json.peek().ok()? != Kind::Object {
            json.skip_unread().ok()?;
            continue;
        }
        let mut result = json.object().ok()?;
        while let Some(key) = result.key(&mut json).ok()? {
            let start = at(&json);
            if key == "content" && json.peek().ok()? == Kind::Array {
                let (mut blocks, mut full) = (0, start);
                let mut content = json.array().ok()?;
                while content.item(&mut json).ok()? {
                    json.skip_unread().ok()?;
                    blocks += 1;
                    full = if blocks <= BLOCKS { at(&json) } else { full };
                }
                if blocks > BLOCKS {
                    let note =
                        json!({"type": "text", "text": format!("({} more blocks were left out)", blocks - BLOCKS)});
                    out.push_str(&text[kept..full]);
                    let _ = write!(out, ",{note}]");
                    kept = at(&json);
                }
            } else {
                json.skip_unread().ok()?;
                let size = at(&json) - start;
                if key == "structuredContent" && size > DATA {
                    out.push_str(&text[kept..start]);
                    out.push_str(&json!({"leftOut": format!("structured content of {size} bytes")}).to_string());
                    kept = at(&json);
                }
            }
        }
    }
    (kept > 0).then(|| out + &text[kept..])
}

/// How many values a JSON text has, roughly: what begins a list or an object, or stands behind a comma.
fn values(text: &[u8]) -> usize {
    let (mut count, mut inside, mut escaped) = (0, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = inside,
            b'"' => inside = !inside,
            b',' | b'[' | b'{' if !inside => count += 1,
            _ => {}
        }
    }
    count
}

/// The output of a call.
pub fn output(server: &str, answer: ServerResult) -> Output {
    let result = match answer {
        ServerResult::CallToolResult(result) => Some(result),
        ServerResult::CustomResult(CustomResult(answer)) => readable(answer),
        _ => None,
    };
    match result {
        Some(result) => of(result),
        None => Output::error(format!("The MCP server {} answered with something else than a result.", code(server))),
    }
}

/// A result with content that nobody here knows: each piece of that is told by its kind, the rest as always.
fn readable(mut answer: Value) -> Option<CallToolResult> {
    for block in answer.get_mut("content")?.as_array_mut()? {
        if serde_json::from_value::<rmcp::model::ContentBlock>(block.clone()).is_err() {
            let kind = code(block["type"].as_str().unwrap_or("?"));
            *block = json!({ "type": "text", "text": format!("(content of an unknown kind: {kind})") });
        }
    }
    serde_json::from_value(answer).ok()
}

fn of(result: CallToolResult) -> Output {
    let mut room = TEXT;
    let mut content: Vec<ContentBlock> = result.content.iter().map(|block| told(block, &mut room)).collect();
    let data = result.structured_content;
    if content.is_empty() {
        let text = data.as_ref().map_or_else(|| "(no content)".into(), ToString::to_string);
        content.push(short(&text, &mut room).into());
    }
    let shown = Some(content.iter().cloned().map(ToolCallContent::from).collect());
    let content = content.into_iter().map(for_model).collect();
    Output { content, shown, raw: data, failed: result.is_error == Some(true), ..Output::default() }
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

/// A block as the model is told of it. A picture that a provider refuses would make every later request fail.
fn for_model(block: ContentBlock) -> ContentBlock {
    let seen =
        |mime: &str, data: &str| PICTURES.contains(&mime) && from_base64(data).is_some_and(|data| !data.is_empty());
    let told = match &block {
        ContentBlock::Image(image) if !seen(&image.mime_type, &image.data) => {
            format!("(a picture of the kind {}, which only the user can see)", line(&image.mime_type, 60))
        }
        ContentBlock::Audio(audio) => {
            format!("(a sound of the kind {}, which only the user can hear)", line(&audio.mime_type, 60))
        }
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::Blob(blob) => match blob.mime_type.as_deref() {
                Some(mime) if mime.starts_with("image/") && !seen(mime, &blob.blob) => {
                    format!("(a picture of the kind {}: {})", line(mime, 60), line(&blob.uri, 500))
                }
                _ => return block,
            },
            ResourceContents::Text(_) => return block,
        },
        _ => return block,
    };
    told.into()
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

    fn check(result: Value) -> Output {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
        let mut answer: Value = serde_json::from_slice(&bounded(answer.as_bytes()).unwrap()).unwrap();
        output("s", ServerResult::CallToolResult(serde_json::from_value(answer["result"].take()).unwrap()))
    }

    #[test]
    fn what_is_too_much_is_left_out_before_it_is_read() {
        let text = json!({"type": "text", "text": "a \\\" [,{"});
        for (message, whole) in [
            (json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [text, text], "x": [1, 2]}}), true),
            (json!({"jsonrpc": "2.0", "method": "x", "params": {"content": vec![0; BLOCKS + 1]}}), true),
            (json!({"jsonrpc": "2.0", "id": 1, "result": {"content": vec![text.clone(); BLOCKS]}}), true),
            (json!({"jsonrpc": "2.0", "id": 1, "result": {"a": 1, "content": vec![text; BLOCKS + 1], "z": 2}}), false),
            (json!({"jsonrpc": "2.0", "id": 1, "result": {"structuredContent": {"a": "x".repeat(DATA)}}}), false),
        ] {
            let sent = format!("  {message}");
            let read = bounded(sent.as_bytes()).unwrap();
            assert_eq!(matches!(read, Cow::Borrowed(_)), whole, "{sent:.200}");
            let read: Value = serde_json::from_slice(&read).unwrap();
            assert_eq!(read == message, whole);
        }
        for many in [json!(vec![0; VALUES + 1]), json!({"result": {"content": [{"_meta": vec![(); VALUES + 1]}]}})] {
            assert!(bounded(many.to_string().as_bytes()).is_none());
        }
        for broken in
            [&b"{\"result\":{\"content\":[1,"[..], b"\xff", b"", b"[", b"{\"result\":{\"content\":[[[[[[", b"null"]
        {
            assert_eq!(bounded(broken).as_deref(), Some(broken));
        }
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
        let many = check(json!({"content": vec![json!({"type": "text", "text": "x"}); BLOCKS + 7]}));
        assert_eq!(
            (many.content.len(), many.content[BLOCKS].as_text()),
            (BLOCKS + 1, Some("(7 more blocks were left out)"))
        );
        let picture =
            check(json!({"content": [{"type": "image", "data": "A".repeat(MEDIA + 1), "mimeType": "image/png"}]}));
        assert!(picture.content[0].as_text().unwrap().contains("left out"));
        for (mime, data, seen) in [
            ("image/png", "iVBORw==", true),
            ("image/svg+xml", "PHN2Zz4=", false),
            ("image/png", "", false),
            ("image/png", "not base64", false),
        ] {
            let picture = json!({"type": "image", "data": data, "mimeType": mime});
            let file = json!({"type": "resource", "resource": {"uri": "a://b", "blob": data, "mimeType": mime}});
            let both = check(json!({"content": [picture, file]}));
            let pictures = both.content.iter().filter(|block| block.as_text().is_none()).count();
            assert_eq!(pictures, if seen { 2 } else { 0 }, "{mime} {data}");
            // The user sees them in any case.
            let shown = both.shown.unwrap();
            assert!(matches!(&shown[0], ToolCallContent::Content(content) if content.content.as_text().is_none()));
        }
        let sound = check(json!({"content": [{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]}));
        assert!(sound.content[0].as_text().unwrap().contains("a sound"));
        let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a"});
        let file = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "body"}});
        let both = check(json!({"content": [link, file]}));
        assert!(matches!(both.content[..], [ContentBlock::ResourceLink(_), ContentBlock::Resource(_)]));
        assert!(output("s", ServerResult::empty(())).failed);
        let odd = json!({"content": [{"type": "text", "text": "a"}, {"type": "holo`gram", "x": 1}, 5]});
        let odd = output("s", ServerResult::CustomResult(CustomResult(odd)));
        let told: Vec<&str> = odd.content.iter().filter_map(ContentBlock::as_text).collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0] == "a" && told[1].contains("unknown kind: `holo") && told[2].contains("`?`"), "{told:?}");
        assert!(!odd.failed);
        assert!(output("s", ServerResult::CustomResult(CustomResult(json!({"content": 5})))).failed);
    }
}
