//! The projector: turns updates of the model into what a peer of a dialect may be told.

use crate::downgrade::Calls;
use crate::fit::fit;
use crate::sent_messages::SentMessages;
use crate::transcript::mode_option;
use crate::{
    Chunk, ConfigKind, ConfigOption, ConfigOptionsUpdate, ContentBlock, Dialect, Items, Message, MessageKind,
    ModeUpdate, Patch, Plan, PlanEntry, PlanItems, PlanStatus, PlanUpdate, State, StateUpdate, Update,
};

/// What a version 1 client has said it can take. Other dialects have no such gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each gate is open or not")]
pub struct Gates {
    /// Options that are switches.
    pub boolean_options: bool,
    /// Notices.
    pub notices: bool,
    /// Compactions.
    pub compaction: bool,
    /// Nothing but the kinds of the protocol's first year: clients of then log an error for each that they don't know.
    pub first_kinds: bool,
    /// No update that is longer, in bytes of JSON.
    pub longest: Option<usize>,
}

impl Gates {
    /// True if every update passes as it is.
    fn is_open(self) -> bool {
        !self.first_kinds && self.longest.is_none()
    }

    /// Lets through what the client can take, in a form that it can take.
    fn pass(self, update: Update, emit: &mut dyn FnMut(Update)) {
        // What has a gate of its own was asked for.
        let young =
            matches!(update, Update::ConfigOptions(_) | Update::SessionInfo(_) | Update::Usage(_) | Update::Other(_));
        match self.longest {
            _ if self.first_kinds && young => {}
            Some(longest) => fit(update, longest, emit),
            None => emit(update),
        }
    }
}

/// Turns updates into what a peer of one dialect may be told about one session. Remembers as little as it can: what was
/// told of each message (as a fingerprint), the content of unfinished tool calls, the last output of terminals.
#[derive(Debug)]
pub struct Projector {
    dialect: Dialect,
    gates: Gates,
    replaying: bool,
    /// Growing tool content waits for [`Self::flush`].
    throttled: bool,
    /// Made with the first message; what follows with the first call. Most sessions of an agent are at rest.
    told: Option<Box<SentMessages>>,
    calls: Option<Box<Calls>>,
    /// Who speaks in chunks without an id, where ids are needed.
    run: Option<MessageKind>,
    runs: u64,
    plans: Vec<PlanItems>,
    options: Vec<ConfigOption>,
    mode: Option<String>,
}

impl Projector {
    /// For one session with a peer of this dialect. Without gates nothing optional is told.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            gates: Gates::default(),
            replaying: false,
            throttled: false,
            told: None,
            calls: None,
            run: None,
            runs: 0,
            plans: Vec::new(),
            options: Vec::new(),
            mode: None,
        }
    }

    /// The same, with what the client can take.
    #[must_use]
    pub fn with_gates(mut self, gates: Gates) -> Self {
        self.gates = gates;
        self
    }

    /// The same, but growing tool content is told by [`Self::flush`] and not at once. Older dialects must be told all
    /// content each time, so call it every 50 ms or so while [`Self::is_stale`].
    #[must_use]
    pub fn throttled(mut self) -> Self {
        self.throttled = true;
        self
    }

    fn calls(&mut self) -> &mut Calls {
        self.calls.get_or_insert_with(|| Box::new(Calls::new(self.dialect, self.throttled)))
    }

    /// Whether history is replayed now. A version 1 client hears of user messages only then; live it knows them. Gives what was.
    pub fn set_replaying(&mut self, replaying: bool) -> bool {
        std::mem::replace(&mut self.replaying, replaying)
    }

    /// Takes note of options that an answer carried, so that changes of the mode can be told.
    pub fn set_options(&mut self, options: Vec<ConfigOption>) {
        self.options = options;
        self.mode = self.mode_now();
    }

    /// Takes note of options that an update will tell.
    pub fn expect_options(&mut self, options: Vec<ConfigOption>) {
        self.options = options;
    }

    /// The options as they are now.
    pub fn options(&self) -> &[ConfigOption] {
        &self.options
    }

    /// The next chunk without an id begins a new message. To be called when a prompt comes.
    pub fn end_run(&mut self) {
        self.run = None;
    }

    /// Gives `emit` what the peer may be told instead of `update`: nothing, one update, or several.
    pub fn update(&mut self, update: Update, emit: &mut dyn FnMut(Update)) {
        let gates = self.gates;
        if gates.is_open() {
            return self.project(update, emit);
        }
        self.project(update, &mut |update| gates.pass(update, emit));
    }

    fn project(&mut self, update: Update, emit: &mut dyn FnMut(Update)) {
        match update {
            Update::Chunk(chunk) => self.chunk(chunk, emit),
            Update::Message(message) => self.message(message, emit),
            Update::Mode(mode) => self.mode(mode, emit),
            Update::ConfigOptions(update) => self.config_options(update, emit),
            Update::ToolCall(_) | Update::ToolCallContent(_) if self.dialect == Dialect::V2 => {
                self.run = None;
                emit(update);
            }
            Update::ToolCall(call) => {
                self.run = None;
                self.calls().update(call, emit);
            }
            Update::ToolCallContent(chunk) => {
                self.run = None;
                self.calls().chunk(*chunk, emit);
            }
            Update::State(StateUpdate { state: State::Idle { .. }, .. }) => {
                self.run = None;
                if self.dialect == Dialect::V2 {
                    emit(update);
                }
            }
            // A notice without a title is malformed in every dialect.
            Update::Notice(notice) if notice.title.is_empty() => {}
            update if self.dialect == Dialect::V2 => emit(update),
            Update::Terminal(update) => self.calls().terminal(&update, emit),
            Update::TerminalOutput(chunk) => self.calls().output(&chunk, emit),
            Update::Plan(update) => self.plan(update, emit),
            Update::Notice(_) if !self.gates.notices => {}
            Update::Compaction(_) | Update::CompactionSummary(_) if !self.gates.compaction => {}
            Update::Compaction(mut update) if self.dialect == Dialect::V1 => {
                known_only(&mut update.summary);
                emit(update.into());
            }
            update if update.speaks(self.dialect) => emit(update),
            _ => {}
        }
    }

    /// True if [`Self::flush`] has something to tell.
    pub fn is_stale(&self) -> bool {
        self.calls.as_ref().is_some_and(|calls| calls.is_stale())
    }

    /// Tells what was held back.
    pub fn flush(&mut self, emit: &mut dyn FnMut(Update)) {
        let gates = self.gates;
        if let Some(calls) = &mut self.calls {
            calls.flush(&mut |update| gates.pass(update, emit));
        }
    }

    /// True if a version 1 client knows this already: its own prompt.
    fn is_echo(&self, kind: MessageKind) -> bool {
        self.dialect == Dialect::V1 && kind == MessageKind::User && !self.replaying
    }

    fn chunk(&mut self, mut chunk: Chunk, emit: &mut dyn FnMut(Update)) {
        if self.dialect != Dialect::V1 {
            if chunk.message_id.is_some() {
                self.run = None;
            } else {
                if self.run != Some(chunk.kind) {
                    self.run = Some(chunk.kind);
                    self.runs += 1;
                }
                chunk.message_id = Some(format!("~{}", self.runs));
            }
        } else if self.is_echo(chunk.kind) || matches!(chunk.content, ContentBlock::Other(_)) {
            return;
        } else {
            self.told.get_or_insert_default().chunk(&mut chunk);
        }
        emit(Update::Chunk(chunk));
    }

    fn message(&mut self, mut message: Message, emit: &mut dyn FnMut(Update)) {
        self.run = None;
        if self.dialect != Dialect::V1 {
            return emit(Update::Message(message));
        }
        if !self.is_echo(message.kind) {
            known_only(&mut message.content);
            self.told.get_or_insert_default().message(message, emit);
        }
    }

    fn mode_now(&mut self) -> Option<String> {
        match mode_option(&mut self.options).map(|option| &option.kind) {
            Some(ConfigKind::Select(select)) => Some(select.current_value.clone()),
            _ => None,
        }
    }

    /// Version 1 hears of a new mode and of the option; elsewhere the mode is only an option.
    fn mode(&mut self, mode: ModeUpdate, emit: &mut dyn FnMut(Update)) {
        let mut changed = false;
        if let Some(ConfigKind::Select(select)) = mode_option(&mut self.options).map(|option| &mut option.kind) {
            changed = select.current_value != mode.mode_id;
            select.current_value.clone_from(&mode.mode_id);
        }
        self.mode = Some(mode.mode_id.clone());
        if self.dialect == Dialect::V1 {
            emit(mode.into());
        }
        if changed {
            self.tell_options(ConfigOptionsUpdate { options: self.options.clone(), ..Default::default() }, emit);
        }
    }

    fn config_options(&mut self, update: ConfigOptionsUpdate, emit: &mut dyn FnMut(Update)) {
        self.options.clone_from(&update.options);
        let mode = self.mode_now();
        if self.dialect == Dialect::V1
            && let Some(mode_id) = mode.clone()
            && mode != self.mode
        {
            emit(ModeUpdate { mode_id, ..Default::default() }.into());
        }
        self.mode = mode.or(self.mode.take());
        self.tell_options(update, emit);
    }

    fn tell_options(&self, mut update: ConfigOptionsUpdate, emit: &mut dyn FnMut(Update)) {
        if self.dialect == Dialect::V1 && !self.gates.boolean_options {
            update.options = update.options.into_iter().map(ConfigOption::without_boolean).collect();
        }
        emit(update.into());
    }

    /// Seed-era v2 has no cancelled steps. Version 1 has one plan: several are joined, each under a heading.
    fn plan(&mut self, update: PlanUpdate, emit: &mut dyn FnMut(Update)) {
        let PlanUpdate { plan, meta, .. } = update;
        let known = self.plans.iter().position(|plan_items| plan_items.plan_id == plan.id());
        match plan {
            Plan::Items(mut items) => {
                items.entries.iter_mut().for_each(mark_cancelled);
                if self.dialect != Dialect::V1 {
                    return emit(PlanUpdate { plan: items.into(), meta, ..Default::default() }.into());
                }
                match known {
                    Some(at) => self.plans[at] = items,
                    None => self.plans.push(items),
                }
            }
            plan if self.dialect != Dialect::V1 => return emit(PlanUpdate { plan, meta, ..Default::default() }.into()),
            // No form for it, but it takes the place of what was there.
            Plan::Other { .. } => match known {
                Some(at) => drop(self.plans.remove(at)),
                None => return,
            },
        }
        let shown: Vec<&PlanItems> = self.plans.iter().filter(|plan| !plan.entries.is_empty()).collect();
        let mut entries = Vec::new();
        for plan in &shown {
            if shown.len() > 1 {
                entries.push(heading(plan));
            }
            entries.extend_from_slice(&plan.entries);
        }
        emit(PlanUpdate { plan: Plan::main(entries), meta, ..Default::default() }.into());
    }
}

/// Version 1 unions are closed: what it does not know is left out.
fn known_only(content: &mut Patch<Items<ContentBlock>>) {
    if let Patch::Set(items) = content {
        items.0.retain(|block| !matches!(block, ContentBlock::Other(_)));
    }
}

fn mark_cancelled(entry: &mut PlanEntry) {
    if entry.status == PlanStatus::Cancelled {
        entry.status = PlanStatus::Completed;
        entry.content.push_str(" (cancelled)");
    }
}

fn heading(plan: &PlanItems) -> PlanEntry {
    let all = |status: PlanStatus| plan.entries.iter().all(|entry| entry.status == status);
    let status = if all(PlanStatus::Completed) {
        PlanStatus::Completed
    } else if all(PlanStatus::Pending) {
        PlanStatus::Pending
    } else {
        PlanStatus::InProgress
    };
    PlanEntry::new(format!("{}:", plan.plan_id), status)
}
