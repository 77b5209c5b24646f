//! What was spoken of before: the file that "it" means, and the command that "again" means.

use crate::editor_prompts::is_added;
use crate::model::Message;
use serde_json::Value;
use std::ops::Range;
use tieline::ContentBlock;
use tieline::schema::ResourceContents;

/// What an instruction can point back at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The file that was last read or changed, or the one that is attached.
    pub file: Option<String>,
    /// The command that was last run.
    pub command: Option<String>,
}

impl Memory {
    /// What a conversation leaves behind.
    pub fn of(messages: &[Message]) -> Self {
        let mut memory = Self::default();
        for message in messages {
            let Message::Assistant { calls, .. } = message else { continue };
            for call in calls {
                if let Ok(arguments) = serde_json::from_str(&call.arguments) {
                    memory.note(&call.name, &arguments);
                }
            }
        }
        memory
    }

    /// Takes note of a step that was done or is about to be.
    pub fn note(&mut self, tool: &str, arguments: &Value) {
        let given = |key: &str| arguments[key].as_str().map(str::to_owned);
        match tool {
            "read" | "write" | "edit" | "replace" | "append" => self.file = given("path"),
            "move" => self.file = given("to"),
            "delete" => self.file = None,
            "run" => self.command = given("command"),
            _ => {}
        }
    }
}

/// The text of a prompt, with what is mentioned in it by its path or address; and the file that is attached, if it is one.
pub fn prompt(blocks: &[ContentBlock]) -> (String, Option<String>) {
    let (mut text, mut attached, mut after_text) = (String::new(), Vec::new(), false);
    for block in blocks.iter().filter(|block| !is_added(block)) {
        if let Some(more) = block.as_text() {
            // Text right behind text is a paragraph of its own; text behind a mention goes on in the same sentence.
            if after_text && !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(more);
            after_text = true;
        } else if let Some(place) = address(block) {
            let shown = format!("`{}`", place.replace(['`', '\n', '\r'], "'"));
            if let Some(named) = mention(&text, &place) {
                text.replace_range(named, &shown);
            } else if text.ends_with(' ') && !text.trim().is_empty() {
                text.push_str(&shown);
                after_text = false;
            }
            attached.push(place);
        }
    }
    let one = if attached.len() == 1 { attached.pop() } else { None };
    (text, one)
}

/// Where the text names what is attached, as chats do: `@src/main.rs`.
fn mention(text: &str, place: &str) -> Option<Range<usize>> {
    let names = |name: &str| place.strip_suffix(name).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'));
    text.match_indices('@').find_map(|(at, _)| {
        let rest = &text[at + 1..];
        let word = rest.split(char::is_whitespace).next().unwrap_or_default();
        let begins = text[..at].chars().next_back().is_none_or(char::is_whitespace);
        let name = [word, word.trim_end_matches([',', '.', ';', ':', ')'])].into_iter().find(|name| names(name))?;
        (begins && !name.is_empty()).then(|| at..at + 1 + name.len())
    })
}

/// The path or the address of what is attached.
fn address(block: &ContentBlock) -> Option<String> {
    let uri = match block {
        ContentBlock::ResourceLink(link) => &link.uri,
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::Text(text) => &text.uri,
            ResourceContents::Blob(blob) => &blob.uri,
        },
        _ => return None,
    };
    let Some(rest) = uri.strip_prefix("file://") else { return Some(uri.clone()) };
    // The host, nearly always empty, ends at the next slash.
    let path = rest.get(rest.find('/')?..)?;
    let path = path.split(['#', '?']).next().unwrap_or(path);
    Some(percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline::schema::ResourceLink;

    #[test]
    fn what_is_attached_is_what_is_named() {
        let link =
            |path: &str| ContentBlock::from(ResourceLink { uri: format!("file://{path}"), ..ResourceLink::default() });
        for (text, path, expect) in [
            ("show @README.md ", "/p/README.md", "show `/p/README.md` "),
            ("show @README.md", "/p/README.md", "show `/p/README.md`"),
            ("show @src/a.rs, then stop", "/p/src/a.rs", "show `/p/src/a.rs`, then stop"),
            ("show ", "/p/README.md", "show `/p/README.md`"),
            ("mail me@README.md about it", "/p/README.md", "mail me@README.md about it"),
            ("show @a.md", "/p/aa.md", "show @a.md"),
        ] {
            assert_eq!(prompt(&[text.into(), link(path)]).0, expect);
        }
    }
}
