//! Pieces of a conversation in the forms that several formats share.

use crate::model::{Event, Message, ToolRequest, ToolResult};
use serde_json::{Value, json};
use std::collections::HashSet;
use tieline::ContentBlock;
use tieline::schema::{ResourceContents, from_base64};

/// The media types of pictures that most providers take.
pub const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A picture as media type and base64.
pub type Picture<'a> = (&'static str, &'a str);

/// A piece of a message.
pub enum Piece<'a> {
    Text(String),
    Image(&'static str, &'a str),
}

/// What a model can be told of blocks: files as text with their address, links as links, and pictures of the types in `taken`.
pub fn pieces<'a>(blocks: &'a [ContentBlock], taken: &[&'static str]) -> Vec<Piece<'a>> {
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
        _ => Piece::Text(format!("[a picture of the type {}, which you can't see]", crate::history::cut(mime, 60))),
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

/// The text of blocks, and their pictures.
pub fn split<'a>(blocks: &'a [ContentBlock], taken: &[&'static str]) -> (String, Vec<Picture<'a>>) {
    let (mut text, mut images) = (String::new(), Vec::new());
    for piece in pieces(blocks, taken) {
        match piece {
            Piece::Text(more) => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&more);
            }
            Piece::Image(mime, data) => images.push((mime, data)),
        }
    }
    (text, images)
}

/// A result as text, and its pictures. A model must be told something.
pub fn result<'a>(result: &'a ToolResult, taken: &[&'static str]) -> (String, Vec<Picture<'a>>) {
    let (mut text, images) = split(&result.content, taken);
    if text.trim().is_empty() {
        text = if images.is_empty() { "(nothing)".into() } else { "(see the picture)".into() };
    }
    (text, images)
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

/// A call that comes in pieces.
#[derive(Debug, Default, Clone)]
pub struct Growing {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

impl Growing {
    /// The whole call. One without an id gets one.
    fn done(self, number: usize) -> ToolRequest {
        let id = if self.id.is_empty() { format!("call_{number}_{}", short()) } else { self.id };
        ToolRequest { id, name: self.name, arguments: self.arguments }
    }
}

/// The calls of an answer. Ids that came twice are made anew, because results are told apart by them.
pub fn calls(growing: &mut Vec<Growing>) -> impl Iterator<Item = Event> + use<> {
    let mut seen = HashSet::new();
    std::mem::take(growing).into_iter().enumerate().map(move |(at, mut call)| {
        if !seen.insert(call.id.clone()) {
            call.id.clear();
        }
        Event::Call(call.done(at))
    })
}

/// A few characters that are not the same twice.
fn short() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    format!("{:08x}", RandomState::new().build_hasher().finish() as u32)
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
