//! What a run has gathered so far: who it is with, what became of tool calls, files that changed.

use crate::journal::HowAsked;
use crate::live::{AgentFacts, Changed, Ending, Event, News, Permissions, SessionFacts, When, refused_by};
use crate::services;
use std::collections::BTreeSet;
use tieline::schema::{MessageKind, ToolCallContent, ToolCallItem, ToolCallStatus, ToolKind, Update};

/// So many changed files are listed.
const MAX_CHANGED_FILES: usize = 1000;

/// What a run has gathered so far.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) agent: AgentFacts,
    pub(super) session: SessionFacts,
    changed: BTreeSet<String>,
    /// Something came that a person could see.
    seen: bool,
    pub(super) deeds: Deeds,
}

/// What became of the tool calls of the turn.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    /// Our own agent refuses by our rules without a question; then a call did not run. By what, for the last one.
    pub(super) held: Option<String>,
    /// One of those would do more than to look around.
    held_deed: bool,
    /// One was done, if only to look around.
    done: bool,
    /// One was done that does more than to look around.
    acted: bool,
}

impl Deeds {
    fn add(&mut self, call: &ToolCallItem) {
        let (done, refused) = (call.status == ToolCallStatus::Completed, refused_by(call));
        let deed = !matches!(call.kind, ToolKind::Read | ToolKind::Search | ToolKind::Think);
        self.done |= done;
        self.acted |= done && deed;
        self.held_deed |= refused.is_some() && deed;
        self.held = refused.or(self.held.take());
    }

    /// Whether what stood in the way says more than how the turn ended: something was refused, and nothing was done; or something
    /// that does more than to read, and nothing was done but reading. An agent that was refused everything may refuse in turn. Our
    /// own agent (`ours`) needs no question for what its mode allows; of others only what they asked for is known.
    pub(super) fn were_refused(&self, ending: Ending, asked: &Permissions, ours: bool) -> bool {
        let acted = asked.allowed_deeds > 0 || ours && self.acted;
        let done = asked.allowed > 0 || ours && self.done;
        let deed = asked.denied_deeds > 0 || self.held_deed;
        let any = asked.denied > 0 || self.held.is_some();
        let refused = deed && !acted || any && (!done || ending == Ending::Refused && !acted);
        matches!(ending, Ending::Done | Ending::Refused) && refused
    }
}

impl Record {
    pub(super) fn new(label: &str, cwd: std::path::PathBuf) -> Self {
        Self {
            agent: AgentFacts { label: label.to_owned(), ..AgentFacts::default() },
            session: SessionFacts { cwd, ..SessionFacts::default() },
            changed: BTreeSet::new(),
            seen: false,
            deeds: Deeds::default(),
        }
    }

    /// Takes in an event.
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Agent(about) => self.agent = about.clone(),
            Event::Session(about) => self.session = about.clone(),
            Event::Said { kind: MessageKind::Agent, news, .. } => self.seen |= *news != News::Nothing,
            Event::Note(services::Event::Wrote { path, .. }) => self.changes([path.display().to_string()]),
            Event::Update { update, tool, when } => {
                self.seen |= match &**update {
                    Update::Chunk(chunk) => chunk.kind == MessageKind::Agent && chunk.content.as_text() != Some(""),
                    Update::Message(message) => message.kind == MessageKind::Agent,
                    Update::ToolCall(_) | Update::Plan(_) | Update::Notice(_) => *when != When::Before,
                    _ => false,
                };
                if let Some(call) = tool.as_ref().filter(|call| *when != When::Before && call.status.is_final()) {
                    self.deeds.add(call);
                }
                if let Some(call) = tool.as_ref().filter(|call| call.status == ToolCallStatus::Completed) {
                    for content in &call.content {
                        if let ToolCallContent::Diff(diff) = content {
                            self.changes(diff.paths().map(str::to_owned));
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn changes(&mut self, paths: impl IntoIterator<Item = String>) {
        let room = MAX_CHANGED_FILES.saturating_sub(self.changed.len());
        self.changed.extend(paths.into_iter().take(room));
    }

    /// True if the agent did nothing that a person could see.
    pub(super) fn is_silent(&self) -> bool {
        !self.seen && self.changed.is_empty()
    }

    pub(super) fn changed(&self) -> Vec<Changed> {
        self.changed.iter().map(|path| Changed { path: path.clone(), asked: HowAsked::Asked }).collect()
    }
}
