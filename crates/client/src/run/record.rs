//! What a run has gathered so far: words, tool calls, changes, answers.

use super::{AgentFacts, Changed, Event, Said, SessionFacts, When};
use crate::services;
use std::collections::BTreeSet;
use tieline::schema::{
    ContentBlock, Dialect, Item, MessageKind, StopReason, ToolCallContent, ToolCallStatus, Transcript, Update,
};

/// So many changed files are listed.
const FILES: usize = 1000;

/// What a run has gathered so far.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) agent: AgentFacts,
    pub(super) session: SessionFacts,
    pub(super) said: Said,
    thought: Said,
    /// Everything but messages, which may be huge.
    transcript: Transcript,
    changed: BTreeSet<String>,
    pub(super) stop: Option<StopReason>,
}

impl Record {
    pub(super) fn new(label: &str, cwd: std::path::PathBuf) -> Self {
        Self {
            agent: AgentFacts { label: label.to_owned(), ..AgentFacts::default() },
            session: SessionFacts { cwd, ..SessionFacts::default() },
            said: Said::default(),
            thought: Said::default(),
            transcript: Transcript::new(Dialect::V1),
            changed: BTreeSet::new(),
            stop: None,
        }
    }

    /// The dialect is known now.
    pub(super) fn speaks(&mut self, dialect: Dialect) {
        self.transcript = Transcript::new(dialect);
    }

    /// Takes in an update and gives the events that it makes.
    pub(super) fn take<'e>(&'e mut self, update: &'e Update, when: When, events: &mut Vec<Event<'e>>) {
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
                        events.push(Event::Said { kind: chunk.kind, news });
                    }
                    (_, true) => events.push(Event::Update { update, tool: None, when }),
                    _ => {}
                }
            }
            Update::Message(message) if when != When::Before && message.kind != MessageKind::User => {
                let Some(blocks) = message.content.set() else { return };
                let said = if message.kind == MessageKind::Agent { &mut self.said } else { &mut self.thought };
                match &blocks[..] {
                    [ContentBlock::Text(text)] => {
                        let news = said.set(&message.message_id, &text.text);
                        events.push(Event::Said { kind: message.kind, news });
                    }
                    _ => events.push(Event::Update { update, tool: None, when }),
                }
            }
            Update::Chunk(_) | Update::Message(_) => events.push(Event::Update { update, tool: None, when }),
            update => {
                if matches!(update, Update::ToolCall(_) | Update::ToolCallContent(_) | Update::Plan(_)) {
                    self.said.interrupt();
                    self.thought.interrupt();
                }
                let at = self.transcript.apply(update);
                let tool = at.and_then(|at| match &self.transcript.items()[at] {
                    Item::ToolCall(call) => Some(&**call),
                    _ => None,
                });
                if let Some(call) = tool
                    && call.status == ToolCallStatus::Completed
                {
                    for content in &call.content {
                        if let ToolCallContent::Diff(diff) = content {
                            let room = FILES.saturating_sub(self.changed.len());
                            self.changed.extend(diff.paths().take(room).map(str::to_owned));
                        }
                    }
                }
                events.push(Event::Update { update, tool, when });
            }
        }
    }

    /// Takes in what was done for the agent.
    pub(super) fn note(&mut self, note: &services::Event) {
        if let services::Event::Wrote { path, .. } = note
            && self.changed.len() < FILES
        {
            self.changed.insert(path.display().to_string());
        }
    }

    /// Shows what is unfinished as cancelled.
    pub(super) fn cancelled(&mut self) {
        self.transcript.cancel_pending();
    }

    pub(super) fn usage(&self) -> Option<&tieline::schema::Usage> {
        self.transcript.usage()
    }

    pub(super) fn changed(&self) -> Vec<Changed> {
        self.changed.iter().map(|path| Changed { path: path.clone(), told: true }).collect()
    }
}

/// True for content that can be shown only as a placeholder.
fn placeholder(block: &ContentBlock) -> bool {
    !matches!(block, ContentBlock::Text(_))
}
