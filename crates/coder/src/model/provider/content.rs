//! What a request is made of, in the forms that several formats share.

use super::{Ask, Format};
use crate::model::{Message, ToolRequest, ToolResult, ToolSpec};
use serde_json::{Value, json};
use tieline::ContentBlock;
use tieline::schema::{ResourceContents, from_base64};
use tieline_host::text::cut_line;

/// The media types of pictures that most providers take.
const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Those that Gemini takes.
const GEMINI_PICTURES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];

/// How a format writes a text, and a picture of this media type in base64.
pub struct Forms {
    pub text: fn(&str) -> Value,
    pub image: fn(&str, &str) -> Value,
}

impl Ask<'_> {
    /// The types of pictures that can be sent.
    fn pictures(&self) -> &'static [&'static str] {
        match self.provider.format {
            _ if self.blind => &[],
            Format::Gemini => GEMINI_PICTURES,
            _ => PICTURES,
        }
    }

    /// Blocks as the format writes them.
    pub fn parts(&self, blocks: &[ContentBlock], forms: &Forms) -> Vec<Value> {
        let part = |piece| match piece {
            Piece::Text(text) => (forms.text)(&text),
            Piece::Image(mime, data) => (forms.image)(mime, data),
        };
        pieces(blocks, self.pictures()).into_iter().map(part).collect()
    }

    /// The text of blocks, and their pictures as the format writes them.
    pub fn split(&self, blocks: &[ContentBlock], forms: &Forms) -> (String, Vec<Value>) {
        let (mut texts, mut images) = (Vec::new(), Vec::new());
        for piece in pieces(blocks, self.pictures()) {
            match piece {
                Piece::Text(text) => texts.push(text),
                Piece::Image(mime, data) => images.push((forms.image)(mime, data)),
            }
        }
        (texts.join("\n"), images)
    }

    /// A result in the same way. A model must be told something.
    pub fn result(&self, result: &ToolResult, forms: &Forms) -> (String, Vec<Value>) {
        let (mut text, images) = self.split(&result.content, forms);
        if text.trim().is_empty() {
            text = if images.is_empty() { "(nothing)".into() } else { "(see the picture)".into() };
        }
        (text, images)
    }

    /// The system prompt, if there is one.
    pub fn system(&self) -> Option<&str> {
        Some(self.request.system.as_str()).filter(|text| !text.is_empty())
    }

    /// The tools as the format writes them, if there are any.
    pub fn tools(&self, tool: fn(&ToolSpec) -> Value) -> Option<Vec<Value>> {
        let tools = &self.request.tools;
        (!tools.is_empty()).then(|| tools.iter().map(tool).collect())
    }
}

/// Adds a message. Two in a row by the same side are one, and one without anything in it is none.
pub fn add(messages: &mut Vec<Value>, role: &str, key: &str, mut parts: Vec<Value>) {
    match messages.last_mut().filter(|last| last["role"] == role).and_then(|last| last[key].as_array_mut()) {
        _ if parts.is_empty() => {}
        Some(list) => list.append(&mut parts),
        None => messages.push(json!({ "role": role, key: parts })),
    }
}

/// A piece of a message.
enum Piece<'a> {
    Text(String),
    Image(&'static str, &'a str),
}

/// What a model can be told of blocks: files as text with their address, links as links, and pictures of the types in `taken`.
fn pieces<'a>(blocks: &'a [ContentBlock], taken: &[&'static str]) -> Vec<Piece<'a>> {
    let piece = |block: &'a ContentBlock| match block {
        // A text without words is refused.
        ContentBlock::Text(text) if text.text.trim().is_empty() => None,
        ContentBlock::Text(text) => Some(Piece::Text(text.text.clone())),
        ContentBlock::Image(image) => Some(picture(&image.mime_type, &image.data, taken)),
        ContentBlock::Audio(_) => Some(Piece::Text("[a sound, which you can't hear]".into())),
        ContentBlock::ResourceLink(link) => Some(Piece::Text(format!("[{}]({})", link.name, link.uri))),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::Text(file) => {
                Some(Piece::Text(format!("<file uri=\"{}\">\n{}\n</file>", file.uri, file.text)))
            }
            ResourceContents::Blob(blob) => match &blob.mime_type {
                Some(mime) if mime.starts_with("image/") => Some(picture(mime, &blob.blob, taken)),
                _ => Some(Piece::Text(format!("[a file that is no text]({})", blob.uri))),
            },
        },
        ContentBlock::Other(_) => None,
    };
    blocks.iter().filter_map(piece).collect()
}

/// A picture, or words in its place: a provider refuses the whole conversation for one of a type that it does not take.
fn picture<'a>(mime: &str, data: &'a str, taken: &[&'static str]) -> Piece<'a> {
    let told = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let told = if told == "image/jpg" { "image/jpeg" } else { &*told };
    // What the first bytes say counts, because providers look at them, too.
    let start = data.get(..16).and_then(from_base64).unwrap_or_default();
    let mime = match &*start {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => told,
    };
    match taken.iter().find(|known| **known == mime) {
        Some(known) if !data.is_empty() => Piece::Image(known, data),
        _ => Piece::Text(format!("[a picture of the type {}, which you can't see]", cut_line(mime, 60))),
    }
}

/// Whether there is a picture anywhere in a conversation.
pub fn has_pictures(messages: &[Message]) -> bool {
    let shows =
        |blocks: &[ContentBlock]| pieces(blocks, PICTURES).iter().any(|piece| matches!(piece, Piece::Image(..)));
    messages.iter().any(|message| match message {
        Message::User(blocks) => shows(blocks),
        Message::Results(results) => results.iter().any(|result| shows(&result.content)),
        Message::Assistant { .. } => false,
    })
}

/// The arguments of a call as an object. What is none must not make a provider refuse the whole conversation.
pub fn arguments(call: &ToolRequest) -> Value {
    match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(object)) => Value::Object(object),
        _ if call.arguments.trim().is_empty() => json!({}),
        _ => json!({ "malformed": call.arguments }),
    }
}

/// A picture as an address that holds it.
pub fn data_url(mime: &str, data: &str) -> String {
    format!("data:{mime};base64,{data}")
}

/// What an answer brought that only the same model understands.
pub fn kept(message: &Message, by: &str) -> Option<Value> {
    let Message::Assistant { kept: Some(raw), .. } = message else { return None };
    let mut value: Value = raw.parse().ok()?;
    (value["by"] == *by).then(|| value["data"].take())
}

/// The same, to be kept.
pub fn keep(by: &str, data: &Value) -> tieline::Raw {
    json!({ "by": by, "data": data }).into()
}

/// The id of a call as every provider takes it, also one that another provider made up.
pub fn id(raw: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    if raw.len() <= 40 { raw.chars().map(plain).collect() } else { format!("call_{:016x}", hash(raw)) }
}

/// The same for Mistral, which wants nine letters and digits.
pub fn nine(raw: &str) -> String {
    let fits = raw.len() == 9 && raw.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if fits { raw.to_owned() } else { format!("{:09x}", hash(raw) & 0xf_ffff_ffff) }
}

fn hash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}
