//! What is asked now, taken out of the conversation.

use super::attached::Attached;
use super::show::result_text;
use crate::model::{Message, ToolResult};
use tieline::ContentBlock;

/// The user's last message and what came after it.
#[derive(Debug)]
pub struct Turn<'a> {
    /// What the user wrote.
    pub prompt: String,
    /// What came with it.
    pub attached: Vec<Attached>,
    /// The results since then, in order.
    pub results: Vec<&'a ToolResult>,
    /// Nothing was answered before this message.
    pub first: bool,
    /// What the last command of earlier turns printed.
    pub last_output: Option<String>,
}

impl<'a> Turn<'a> {
    /// Finds the turn at the end of a conversation.
    pub fn of(messages: &'a [Message]) -> Self {
        let start = messages.iter().rposition(|message| matches!(message, Message::User(_)));
        let (before, after) = messages.split_at(start.unwrap_or(0));
        let mut prompt = String::new();
        let mut attached = Vec::new();
        if let Some(Message::User(blocks)) = after.first() {
            read_blocks(blocks, &mut prompt, &mut attached);
        }
        Self {
            prompt,
            attached,
            results: results(after).collect(),
            first: !before.iter().any(|message| matches!(message, Message::Assistant { .. })),
            last_output: results(before).filter(|result| result.name == "run").last().map(result_text),
        }
    }
}

fn results(messages: &[Message]) -> impl Iterator<Item = &ToolResult> {
    messages.iter().flat_map(|message| match message {
        Message::Results(results) => results.as_slice(),
        _ => &[],
    })
}

fn read_blocks(blocks: &[ContentBlock], prompt: &mut String, attached: &mut Vec<Attached>) {
    let mut after_text = false;
    for block in blocks {
        if let Some(text) = block.as_text() {
            // Text right behind text is a paragraph of its own; text behind a mention goes on in the same sentence.
            if after_text && !prompt.is_empty() && !prompt.ends_with('\n') {
                prompt.push('\n');
            }
            prompt.push_str(text);
            after_text = true;
        } else if let Some(found) = Attached::of(block) {
            // A mention in the middle of a sentence: "read " and then the link.
            if prompt.ends_with(' ') && !prompt.trim().is_empty() {
                prompt.push('`');
                prompt.push_str(&found.address().replace(['`', '\n', '\r'], "'"));
                prompt.push('`');
                after_text = false;
            }
            attached.push(found);
        }
    }
}
