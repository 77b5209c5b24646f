//! What a version 1 client was told of each message, so that a message that is changed later can be told in chunks.

use crate::fnv;
use crate::{Chunk, ContentBlock, Dialect, Message, MessageKind, Meta, Patch, Update, to_json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use tieline_json::{Raw, write_str};

/// The key in `_meta` that names the message which a message replaces.
pub const META_REPLACES: &str = "tieline/replaces";

/// All messages that were told. Of each only a length and a fingerprint is kept, not the text.
#[derive(Debug, Default)]
pub(crate) struct SentMessages {
    messages: [BTreeMap<String, Print>; 3],
}

/// What was told of one message: a fingerprint of all its bytes, and the id it goes by now.
#[derive(Debug)]
struct Print {
    len: usize,
    hash: u64,
    alias: Option<String>,
    version: u32,
}

impl Default for Print {
    fn default() -> Self {
        Self { len: 0, hash: fnv::EMPTY, alias: None, version: 0 }
    }
}

/// A block as bytes. Text is itself; anything else stands between bytes that no text has.
fn bytes(block: &ContentBlock) -> Cow<'_, [u8]> {
    if let ContentBlock::Text(text) = block
        && text.annotations.is_none()
        && text.meta.is_none()
    {
        return Cow::Borrowed(text.text.as_bytes());
    }
    let mut bytes = to_json(block, Dialect::V2).into_bytes();
    bytes.insert(0, 0xff);
    bytes.push(0xff);
    Cow::Owned(bytes)
}

impl Print {
    fn note(&mut self, bytes: &[u8]) {
        self.hash = fnv::add(self.hash, bytes);
        self.len += bytes.len();
    }

    /// What is new in `content`, if it begins with what was told.
    fn rest(&self, content: &[ContentBlock]) -> Option<Vec<ContentBlock>> {
        let (mut left, mut seen) = (self.len, fnv::EMPTY);
        let mut rest = Vec::new();
        for block in content {
            let bytes = bytes(block);
            if bytes.len() <= left {
                seen = fnv::add(seen, &bytes);
                left -= bytes.len();
            } else if left == 0 {
                rest.push(block.clone());
            } else {
                seen = fnv::add(seen, &bytes[..left]);
                rest.push(block.as_text()?.get(left..)?.into());
                left = 0;
            }
        }
        (left == 0 && seen == self.hash).then_some(rest)
    }
}

impl SentMessages {
    fn entry(&mut self, kind: MessageKind, id: &str) -> &mut Print {
        self.messages[kind as usize].entry(id.to_owned()).or_default()
    }

    /// Notes a chunk, and renames it if its message goes by another id now.
    pub(crate) fn chunk(&mut self, chunk: &mut Chunk) {
        let Some(id) = &mut chunk.message_id else { return };
        let messages = &mut self.messages[chunk.kind as usize];
        let print = match messages.get_mut(id.as_str()) {
            Some(print) => print,
            None => messages.entry(id.clone()).or_default(),
        };
        print.note(&bytes(&chunk.content));
        if let Some(alias) = &print.alias {
            id.clone_from(alias);
        }
    }

    /// Tells a whole message in chunks: what is new of it, or all of it again under another id.
    pub(crate) fn message(&mut self, message: Message, emit: &mut dyn FnMut(Update)) {
        let content = match message.content {
            Patch::Keep => return,
            Patch::Clear => Vec::new(),
            Patch::Set(items) => items.0,
        };
        let print = self.entry(message.kind, &message.message_id);
        let mut meta = match message.meta {
            Patch::Set(meta) => Some(meta),
            _ => None,
        };
        let blocks = print.rest(&content).unwrap_or_else(|| {
            let old = print.alias.take().unwrap_or_else(|| message.message_id.clone());
            print.version += 1;
            print.alias = Some(format!("{}~{}", message.message_id, print.version));
            (print.len, print.hash) = (0, fnv::EMPTY);
            meta = note(META_REPLACES, &old);
            if content.is_empty() { vec!["".into()] } else { content }
        });
        for content in blocks {
            print.note(&bytes(&content));
            let message_id = Some(print.alias.as_ref().unwrap_or(&message.message_id).clone());
            emit(Chunk { message_id, content, meta: meta.take(), kind: message.kind, ..Default::default() }.into());
        }
    }
}

/// An object with one key.
pub(crate) fn note(key: &str, value: &str) -> Option<Meta> {
    let mut out = vec![b'{'];
    write_str(&mut out, key);
    out.push(b':');
    write_str(&mut out, value);
    out.push(b'}');
    Raw::new(String::from_utf8(out).ok()?).ok().map(Meta)
}
