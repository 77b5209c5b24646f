//! The offline model: no language model, but an interpreter of a closed set of instructions.
//!
//! It drives the same turn loop as a model on the network. It keeps no state: each answer plays the whole turn again
//! from the user's message, takes the tool results that are already there, and stops at the first one that is not. So it
//! also goes on after a session was loaded.

mod action;
mod attached;
mod blocks;
mod changes;
mod commands;
mod files;
mod help;
mod player;
mod sentences;
mod show;
mod split;
mod turn;
mod understand;
mod words;
mod work;

use super::{Event, Finish, Message, Model, Reply, Request, ToolRequest, Usage};
use player::Player;
use tieline::ContentBlock;
use tieline::schema::ResourceContents;
use turn::Turn;
pub(in crate::model) use words::distance;

/// The model that is always there: it needs no key and no network.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offline;

impl Offline {
    /// The interpreter. It has no settings.
    pub fn new() -> Self {
        Self
    }

    /// The whole answer at once, as [`Model::reply`] streams it.
    pub fn answer(&self, request: &Request) -> Vec<Event> {
        let turn = Turn::of(&request.messages);
        let mut player = Player::new(&request.tools, &turn);
        work::turn(&turn, &mut player);
        let (text, wanted) = player.finish();

        let mut used = size(request) + text.len();
        let mut events = Vec::new();
        if !text.is_empty() {
            events.push(Event::Text(text));
        }
        let print = fingerprint(&request.messages);
        for (number, (name, arguments)) in wanted.into_iter().enumerate() {
            let arguments = arguments.to_string();
            used += arguments.len();
            let id = format!("offline-{print:016x}-{number}");
            events.push(Event::Call(ToolRequest { id, name: name.to_owned(), arguments }));
        }
        events.push(Event::Usage(Usage { used: used as u64 / 4, cost: None }));
        events.push(Event::Finish(Finish::Done));
        events
    }
}

impl Model for Offline {
    fn id(&self) -> &'static str {
        "offline"
    }

    fn name(&self) -> &'static str {
        "Offline (no language model)"
    }

    fn context_size(&self) -> u64 {
        0
    }

    fn reply(&self, request: Request) -> Reply {
        let model = *self;
        Reply::start(move |sender| async move {
            for event in model.answer(&request) {
                if sender.send(Ok(event)).await.is_err() {
                    return;
                }
            }
        })
    }
}

/// How many bytes the conversation has, roughly.
fn size(request: &Request) -> usize {
    let mut bytes = request.system.len();
    each_text(&request.messages, &mut |text| bytes += text.len());
    bytes
}

/// A number that is another one for each conversation, so that ids of calls are not used twice (FNV-1a).
fn fingerprint(messages: &[Message]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    each_text(messages, &mut |text| {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    });
    hash
}

fn each_text(messages: &[Message], see: &mut impl FnMut(&str)) {
    for message in messages {
        match message {
            Message::User(blocks) => blocks.iter().for_each(|block| see(block_text(block))),
            Message::Assistant { text, thought, calls, .. } => {
                see(text);
                see(thought);
                for call in calls {
                    see(&call.arguments);
                }
            }
            Message::Results(results) => {
                for result in results {
                    see(&result.id);
                    result.content.iter().for_each(|block| see(block_text(block)));
                }
            }
        }
    }
}

fn block_text(block: &ContentBlock) -> &str {
    match block {
        ContentBlock::Text(text) => &text.text,
        ContentBlock::Image(image) => &image.data,
        ContentBlock::Audio(audio) => &audio.data,
        ContentBlock::ResourceLink(link) => &link.uri,
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::Text(text) => &text.text,
            ResourceContents::Blob(blob) => &blob.blob,
        },
        ContentBlock::Other(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes are taken apart into words to answer a prompt. A sentence is looked at more than once.
    fn work(prompt: String) -> usize {
        words::TAKEN.set(0);
        let request = Request { messages: vec![Message::User(vec![prompt.into()])], ..Request::default() };
        assert!(!Offline.answer(&request).is_empty());
        words::TAKEN.get()
    }

    /// Four times the prompt is about four times the work, not sixteen times.
    #[test]
    fn work_grows_with_the_prompt_and_no_faster() {
        for part in [
            "'a ",
            "\"a ",
            "please ",
            "read a.rs and ",
            "then ",
            "`",
            "read it\n",
            "x:\n",
            "```\n",
            "/read a\n",
            "a; ",
            "- \n",
            "1. read a ",
            "read a.rs\nin b\n",
        ] {
            for start in ["", "run ", "read a.rs and "] {
                let prompt = |size: usize| format!("{start}{}", part.repeat(size / part.len()));
                let (small, large) = (work(prompt(16_000)), work(prompt(64_000)));
                assert!(large <= small * 6 + 64_000, "{start:?} {part:?}: {small} and {large}");
            }
        }
        assert!(work("read a.rs".into()) > 0, "it is counted");
    }
}
