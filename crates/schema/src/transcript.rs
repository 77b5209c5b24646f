//! The transcript: turns updates into the conversation as it stands, and back.

use crate::item::{put, set};
use crate::meta::patch_meta;
use crate::{
    Chunk, Command, CommandsUpdate, CompactionItem, ConfigKind, ConfigOption, ConfigOptionsUpdate, Cost, Dialect, Item,
    MessageItem, MessageKind, Meta, ModeUpdate, Patch, Plan, SessionInfoUpdate, StateUpdate, TerminalItem,
    ToolCallItem, ToolCallStatus, Update, UsageUpdate,
};
use std::collections::HashMap;

/// How many bytes of a terminal's output are kept, unless told otherwise.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// A conversation, built from updates in the order they came.
#[derive(Debug, Clone)]
pub struct Transcript {
    dialect: Dialect,
    output_limit: usize,
    shown: Shown,
    /// Where each id is in `items`: user, agent, thought messages, tool calls, compactions.
    places: [HashMap<String, usize>; 5],
    /// True if a chunk without an id continues the last item.
    run: bool,
    terminal_places: HashMap<String, usize>,
}

/// What there is to see of a conversation.
#[derive(Debug, Clone, PartialEq, Default)]
struct Shown {
    items: Vec<Item>,
    plans: Vec<Plan>,
    terminals: Vec<TerminalItem>,
    commands: Vec<Command>,
    options: Vec<ConfigOption>,
    mode: Option<String>,
    info: Info,
    usage: Option<Usage>,
    state: Option<StateUpdate>,
}

/// What is known of the session itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Info {
    /// Its title.
    pub title: Option<String>,
    /// When something last happened (RFC 3339).
    pub updated_at: Option<String>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

/// How full the context is and what was spent.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Tokens in the context.
    pub used: u64,
    /// Tokens that fit.
    pub size: u64,
    /// What the session cost so far.
    pub cost: Option<Cost>,
}

const TOOL_CALLS: usize = 3;
const COMPACTIONS: usize = 4;

impl Transcript {
    /// An empty conversation. The dialect decides what `null` and `_meta` mean in updates.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            output_limit: MAX_OUTPUT_BYTES,
            shown: Shown::default(),
            places: Default::default(),
            run: false,
            terminal_places: HashMap::new(),
        }
    }

    /// The same, keeping only this many bytes of output per terminal.
    #[must_use]
    pub fn with_output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    /// Takes in one update. Says which item it changed, if it changed one.
    pub fn apply(&mut self, update: &Update) -> Option<usize> {
        let dialect = self.dialect;
        match update {
            Update::Chunk(chunk) => return Some(self.append(chunk)),
            Update::Message(update) => {
                let at = self.message_at(update.kind, &update.message_id);
                if let Item::Message(message) = &mut self.shown.items[at] {
                    message.apply(update, dialect);
                }
                return Some(at);
            }
            Update::ToolCall(update) => {
                let (at, call) = self.tool_call_mut(&update.tool_call_id);
                call?.apply(update, dialect);
                return Some(at);
            }
            Update::ToolCallContent(chunk) => {
                let (at, call) = self.tool_call_mut(&chunk.tool_call_id);
                call?.content.push(chunk.content.clone());
                return Some(at);
            }
            Update::Compaction(update) => {
                let (at, compaction) = self.compaction_mut(&update.compaction_id);
                compaction?.apply(update, dialect);
                return Some(at);
            }
            Update::CompactionSummary(chunk) => {
                let (at, compaction) = self.compaction_mut(&chunk.compaction_id);
                compaction?.summary.push(chunk.content.clone());
                return Some(at);
            }
            Update::Other(unknown) => {
                self.run = false;
                self.shown.items.push(Item::Other(unknown.clone()));
                return Some(self.shown.items.len() - 1);
            }
            Update::Terminal(update) => self.terminal_mut(&update.terminal_id).apply(update, dialect),
            Update::TerminalOutput(chunk) => self.terminal_mut(&chunk.terminal_id).append(&chunk.data),
            Update::Plan(update) => match self.shown.plans.iter_mut().find(|plan| plan.id() == update.plan.id()) {
                Some(plan) => plan.clone_from(&update.plan),
                None => self.shown.plans.push(update.plan.clone()),
            },
            Update::Commands(update) => self.shown.commands.clone_from(&update.commands),
            Update::ConfigOptions(update) => self.set_options(&update.options),
            Update::Mode(update) => self.set_mode(&update.mode_id),
            Update::SessionInfo(update) => {
                put(&mut self.shown.info.title, &update.title, true);
                put(&mut self.shown.info.updated_at, &update.updated_at, true);
                patch_meta(&mut self.shown.info.meta, &update.meta, dialect);
            }
            Update::Usage(update) => {
                let mut cost = self.shown.usage.take().and_then(|usage| usage.cost);
                put(&mut cost, &update.cost, true);
                self.shown.usage = Some(Usage { used: update.used, size: update.size, cost });
            }
            Update::State(update) => {
                // What is said after the work ended is not part of what was said before.
                self.run &= !update.state.is_idle();
                self.shown.state = Some(update.clone());
            }
            // Shown in passing, never part of the history.
            Update::Notice(_) => {}
        }
        None
    }

    /// The next chunk without an id begins a new message. To be called when a prompt is sent.
    pub fn end_run(&mut self) {
        self.run = false;
    }

    /// Shows all unfinished tool calls as cancelled. Later updates still count.
    pub fn cancel_pending(&mut self) {
        for item in &mut self.shown.items {
            if let Item::ToolCall(call) = item
                && !call.status.is_final()
            {
                call.status = ToolCallStatus::Cancelled;
            }
        }
    }

    /// Takes in the complete list of options, as answers also carry it.
    pub fn set_options(&mut self, options: &[ConfigOption]) {
        self.shown.options = options.to_vec();
        if let Some(ConfigKind::Select(select)) = mode_option(&mut self.shown.options).map(|option| &option.kind) {
            self.shown.mode = Some(select.current_value.clone());
        }
    }

    fn set_mode(&mut self, mode: &str) {
        self.shown.mode = Some(mode.to_owned());
        if let Some(ConfigKind::Select(select)) = mode_option(&mut self.shown.options).map(|option| &mut option.kind) {
            mode.clone_into(&mut select.current_value);
        }
    }

    fn append(&mut self, chunk: &Chunk) -> usize {
        let at = match &chunk.message_id {
            Some(id) => self.message_at(chunk.kind, id),
            None => self.run_at(chunk.kind),
        };
        if let Item::Message(message) = &mut self.shown.items[at] {
            message.append(&chunk.content);
        }
        at
    }

    fn message_at(&mut self, kind: MessageKind, id: &str) -> usize {
        // Nearly always the message that was spoken of last.
        if let Some(Item::Message(last)) = self.shown.items.last()
            && last.kind == kind
            && last.id == id
        {
            return self.shown.items.len() - 1;
        }
        self.place(kind as usize, id, |id| Item::Message(MessageItem::new(kind, id)))
    }

    /// The message that a chunk without an id belongs to: the last item, if such chunks made it.
    fn run_at(&mut self, kind: MessageKind) -> usize {
        if let Some(Item::Message(last)) = self.shown.items.last()
            && self.run
            && last.kind == kind
        {
            return self.shown.items.len() - 1;
        }
        let mut number = self.shown.items.len() + 1;
        while self.places[kind as usize].contains_key(&format!("~{number}")) {
            number += 1;
        }
        let at = self.message_at(kind, &format!("~{number}"));
        self.run = true;
        at
    }

    /// Where the item of this id is; a new one is put at the end.
    fn place(&mut self, space: usize, id: &str, new: impl FnOnce(String) -> Item) -> usize {
        if let Some(at) = self.places[space].get(id) {
            return *at;
        }
        self.run = false;
        self.shown.items.push(new(id.to_owned()));
        self.places[space].insert(id.to_owned(), self.shown.items.len() - 1);
        self.shown.items.len() - 1
    }

    fn tool_call_mut(&mut self, id: &str) -> (usize, Option<&mut ToolCallItem>) {
        let at = self.place(TOOL_CALLS, id, |id| Item::ToolCall(Box::new(ToolCallItem::new(id))));
        match &mut self.shown.items[at] {
            Item::ToolCall(call) => (at, Some(call)),
            _ => (at, None),
        }
    }

    fn compaction_mut(&mut self, id: &str) -> (usize, Option<&mut CompactionItem>) {
        let at = self.place(COMPACTIONS, id, |id| Item::Compaction(CompactionItem::new(id)));
        match &mut self.shown.items[at] {
            Item::Compaction(compaction) => (at, Some(compaction)),
            _ => (at, None),
        }
    }

    fn terminal_mut(&mut self, id: &str) -> &mut TerminalItem {
        let at = self.terminal_places.get(id).copied().unwrap_or(self.shown.terminals.len());
        if at == self.shown.terminals.len() {
            self.shown.terminals.push(TerminalItem::new(id.to_owned(), self.output_limit));
            self.terminal_places.insert(id.to_owned(), at);
        }
        &mut self.shown.terminals[at]
    }

    /// The conversation in order.
    pub fn items(&self) -> &[Item] {
        &self.shown.items
    }

    /// A message by its id.
    pub fn message(&self, kind: MessageKind, id: &str) -> Option<&MessageItem> {
        match &self.shown.items[*self.places[kind as usize].get(id)?] {
            Item::Message(message) => Some(message),
            _ => None,
        }
    }

    /// A tool call by its id.
    pub fn tool_call(&self, id: &str) -> Option<&ToolCallItem> {
        match &self.shown.items[*self.places[TOOL_CALLS].get(id)?] {
            Item::ToolCall(call) => Some(call),
            _ => None,
        }
    }

    /// A terminal by its id. It may be known before or after something refers to it.
    pub fn terminal(&self, id: &str) -> Option<&TerminalItem> {
        self.terminal_places.get(id).map(|at| &self.shown.terminals[*at])
    }

    /// All terminals, in the order they were first heard of.
    pub fn terminals(&self) -> &[TerminalItem] {
        &self.shown.terminals
    }

    /// The plans, in the order they were first heard of.
    pub fn plans(&self) -> &[Plan] {
        &self.shown.plans
    }

    /// The commands there are now.
    pub fn commands(&self) -> &[Command] {
        &self.shown.commands
    }

    /// The options there are now.
    pub fn options(&self) -> &[ConfigOption] {
        &self.shown.options
    }

    /// The mode that is on, from the mode option or from version 1's own update.
    pub fn mode(&self) -> Option<&str> {
        self.shown.mode.as_deref()
    }

    /// What is known of the session itself.
    pub fn info(&self) -> &Info {
        &self.shown.info
    }

    /// How full the context is.
    pub fn usage(&self) -> Option<&Usage> {
        self.shown.usage.as_ref()
    }

    /// What the session is doing; `None` if it was never told, which counts as idle.
    pub fn state(&self) -> Option<&StateUpdate> {
        self.shown.state.as_ref()
    }

    /// The updates that build this conversation from nothing, for replay and for storing.
    pub fn to_updates(&self) -> Vec<Update> {
        let mut updates: Vec<Update> = Vec::with_capacity(self.shown.items.len() + self.shown.terminals.len() + 6);
        let Info { title, updated_at, meta } = &self.shown.info;
        if self.shown.info != Info::default() {
            let (title, updated_at) = (set(title.as_ref()), set(updated_at.as_ref()));
            updates
                .push(SessionInfoUpdate { title, updated_at, meta: set(meta.as_ref()), ..Default::default() }.into());
        }
        if !self.shown.commands.is_empty() {
            updates.push(CommandsUpdate { commands: self.shown.commands.clone(), ..Default::default() }.into());
        }
        if !self.shown.options.is_empty() {
            updates.push(ConfigOptionsUpdate { options: self.shown.options.clone(), ..Default::default() }.into());
        }
        updates.extend(self.shown.mode.clone().map(|mode_id| ModeUpdate { mode_id, ..Default::default() }.into()));
        updates.extend(self.shown.terminals.iter().map(|terminal| terminal.to_update().into()));
        updates.extend(self.shown.items.iter().map(|item| match item {
            Item::Message(message) => message.to_update().into(),
            Item::ToolCall(call) => call.to_update().into(),
            Item::Compaction(compaction) => compaction.to_update().into(),
            Item::Other(unknown) => Update::Other(unknown.clone()),
        }));
        updates.extend(self.shown.plans.iter().map(|plan| Update::Plan(plan.clone().into())));
        updates.extend(self.shown.usage.as_ref().map(|usage| {
            let cost = usage.cost.clone().map_or(Patch::Keep, Patch::Set);
            UsageUpdate { used: usage.used, size: usage.size, cost, ..Default::default() }.into()
        }));
        updates.extend(self.shown.state.clone().map(Update::State));
        updates
    }
}

/// The option that is the mode of the session.
pub(crate) fn mode_option(options: &mut [ConfigOption]) -> Option<&mut ConfigOption> {
    options.iter_mut().find(|option| option.is_mode())
}

/// Two transcripts are equal if they show the same.
impl PartialEq for Transcript {
    fn eq(&self, other: &Self) -> bool {
        self.shown == other.shown
    }
}
