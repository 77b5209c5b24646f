//! What a run has gathered so far: words, tool calls, changes, answers.

use super::notes::Note;
use super::{AgentFacts, Changed, Ending, Event, Said, SessionFacts, When};
use crate::journal::HowAsked;
use crate::live::refused_by;
use crate::services;
use std::collections::BTreeSet;
use tieline::schema::{
    ContentBlock, MessageKind, Patch, ToolCallContent, ToolCallItem, ToolCallStatus, ToolKind, Update,
};

/// So many changed files are listed.
const MAX_CHANGED_FILES: usize = 1000;

/// What a run has gathered so far.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) agent: AgentFacts,
    pub(super) session: SessionFacts,
    pub(super) said: Said,
    thought: Said,
    /// The text of a message of several parts.
    joined: String,
    changed: BTreeSet<String>,
    /// Nothing came that a person could see.
    silent: bool,
    pub(super) deeds: Deeds,
}

/// What became of the tool calls of the turn.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    /// Our own agent refuses by our rules without a question; then a call did not run. By what, for the last one.
    pub(super) held: Option<String>,
    /// One was done, if only to look around.
    done: bool,
    /// One was done that does more than to look around.
    acted: bool,
}

impl Deeds {
    fn add(&mut self, call: &ToolCallItem) {
        self.held = refused_by(call).or(self.held.take());
        let done = call.status == ToolCallStatus::Completed;
        self.done |= done;
        self.acted |= done && !matches!(call.kind, ToolKind::Read | ToolKind::Search | ToolKind::Think);
    }

    /// Whether what stood in the way says more than how the turn ended: an agent that was refused everything may refuse in turn.
    /// Our own agent (`ours`) needs no question for what its mode allows.
    pub(super) fn were_refused(&self, ending: Ending, denied: bool, ours: bool) -> bool {
        let refused = denied || (self.held.is_some() && (ending == Ending::Refused || !self.done));
        matches!(ending, Ending::Done | Ending::Refused) && refused && !(ours && self.acted)
    }
}

impl Record {
    pub(super) fn new(label: &str, cwd: std::path::PathBuf) -> Self {
        Self {
            agent: AgentFacts { label: label.to_owned(), ..AgentFacts::default() },
            session: SessionFacts { cwd, ..SessionFacts::default() },
            said: Said::default(),
            thought: Said::default(),
            joined: String::new(),
            changed: BTreeSet::new(),
            silent: true,
            deeds: Deeds::default(),
        }
    }

    /// Takes in an update, with the tool call that it is about, and gives the events that it makes.
    pub(super) fn take<'e>(
        &'e mut self,
        update: &'e Update,
        tool: Option<&'e ToolCallItem>,
        when: When,
        events: &mut Vec<Event<'e>>,
    ) {
        if let Some(call) = tool.filter(|call| when != When::Before && call.status.is_final()) {
            self.deeds.add(call);
        }
        self.silent &= match update {
            Update::Chunk(chunk) => chunk.kind != MessageKind::Agent || chunk.content.as_text() == Some(""),
            Update::Message(message) => message.kind != MessageKind::Agent,
            Update::ToolCall(_) | Update::Plan(_) | Update::Notice(_) => when == When::Before,
            _ => true,
        };
        match update {
            Update::Chunk(chunk) if when != When::Before => {
                let said = match chunk.kind {
                    MessageKind::Agent => &mut self.said,
                    MessageKind::Thought => &mut self.thought,
                    // What the user said is known.
                    MessageKind::User => return,
                };
                match (&chunk.content, placeholder(&chunk.content)) {
                    (ContentBlock::Text(text), _) => {
                        let news = said.append(chunk.message_id.as_deref(), &text.text);
                        events.push(Event::Said { kind: chunk.kind, news, when });
                    }
                    (_, true) => events.push(Event::Update { update, tool: None, when }),
                    _ => {}
                }
            }
            Update::Message(message) if when != When::Before && message.kind != MessageKind::User => {
                let blocks = match &message.content {
                    Patch::Keep => return,
                    Patch::Clear => &[],
                    Patch::Set(blocks) => &blocks[..],
                };
                let said = if message.kind == MessageKind::Agent { &mut self.said } else { &mut self.thought };
                let text = if let [ContentBlock::Text(text)] = blocks {
                    &text.text
                } else {
                    self.joined = blocks.iter().filter_map(ContentBlock::as_text).collect();
                    &self.joined
                };
                let news = said.set(&message.message_id, text);
                events.push(Event::Said { kind: message.kind, news, when });
                if blocks.iter().any(placeholder) {
                    events.push(Event::Update { update, tool: None, when });
                }
            }
            Update::Chunk(_) | Update::Message(_) => events.push(Event::Update { update, tool: None, when }),
            update => {
                if matches!(update, Update::ToolCall(_) | Update::ToolCallContent(_) | Update::Plan(_)) {
                    self.said.interrupt();
                    self.thought.interrupt();
                }
                if let Some(call) = tool
                    && call.status == ToolCallStatus::Completed
                {
                    for content in &call.content {
                        if let ToolCallContent::Diff(diff) = content {
                            let room = MAX_CHANGED_FILES.saturating_sub(self.changed.len());
                            self.changed.extend(diff.paths().take(room).map(str::to_owned));
                        }
                    }
                }
                events.push(Event::Update { update, tool, when });
            }
        }
    }

    /// Takes in what was done for the agent.
    pub(super) fn note(&mut self, note: &Note) {
        if let Note::Done(services::Event::Wrote { path, .. }) = note
            && self.changed.len() < MAX_CHANGED_FILES
        {
            self.changed.insert(path.display().to_string());
        }
    }

    /// True if the agent did nothing that a person could see.
    pub(super) fn is_silent(&self) -> bool {
        self.silent && self.changed.is_empty()
    }

    pub(super) fn changed(&self) -> Vec<Changed> {
        self.changed.iter().map(|path| Changed { path: path.clone(), asked: HowAsked::Asked }).collect()
    }
}

/// True for content that can be shown only as a placeholder.
fn placeholder(block: &ContentBlock) -> bool {
    !matches!(block, ContentBlock::Text(_))
}
