//! Tool calls as older dialects are told of them: whole content, diffs as texts, display terminals as text.

use crate::item::replace;
use crate::sent_messages::note;
use crate::update::NO_TITLE;
use crate::{
    Content, ContentBlock, Dialect, Items, Patch, TerminalItem, TerminalOutputChunk, TerminalUpdate, ToolCallContent,
    ToolCallContentChunk, ToolCallStatus, ToolCallUpdate, Update, plain_text,
};
use std::collections::{BTreeMap, BTreeSet};

/// How much of a terminal is shown as text.
const MAX_SHOWN_OUTPUT_BYTES: usize = 16 * 1024;

/// The key in `_meta` that has a status which the dialect has no word for.
pub const META_STATUS: &str = "tieline/status";

/// The live tool calls and the terminals of a session.
#[derive(Debug)]
pub(crate) struct Calls {
    dialect: Dialect,
    /// Content changes wait for `flush`.
    lazy: bool,
    /// All calls that were ever told of.
    seen: BTreeSet<String>,
    /// The content of the calls that are not finished.
    live: BTreeMap<String, Vec<ToolCallContent>>,
    terminals: BTreeMap<String, TerminalItem>,
    /// Calls whose content changed since they were told.
    stale: BTreeSet<String>,
}

impl Calls {
    pub(crate) fn new(dialect: Dialect, lazy: bool) -> Self {
        Self {
            dialect,
            lazy,
            seen: BTreeSet::new(),
            live: BTreeMap::new(),
            terminals: BTreeMap::new(),
            stale: BTreeSet::new(),
        }
    }

    pub(crate) fn update(&mut self, mut call: Box<ToolCallUpdate>, emit: &mut dyn FnMut(Update)) {
        let first = self.seen.insert(call.tool_call_id.clone());
        let ends = call.status.set().is_some_and(ToolCallStatus::is_final);
        let stale = self.stale.remove(&call.tool_call_id);
        let restarts = !ends && call.status.set().is_some();
        if first || restarts || self.live.contains_key(&call.tool_call_id) {
            let content = self.live.entry(call.tool_call_id.clone()).or_default();
            replace(content, &call.content);
            if stale && call.content.is_keep() {
                call.content = Patch::Set(Items(content.clone()));
            }
        }
        if ends {
            self.live.remove(&call.tool_call_id);
        }
        if let Patch::Set(Items(items)) = call.content {
            call.content = Patch::Set(Items(items.into_iter().flat_map(|item| self.lower(item)).collect()));
        }
        call.announce = first;
        if self.dialect == Dialect::V1 {
            settle(&mut call);
        }
        if first || says_something(&call) {
            emit(Update::ToolCall(call));
        }
    }

    pub(crate) fn chunk(&mut self, chunk: ToolCallContentChunk, emit: &mut dyn FnMut(Update)) {
        let ToolCallContentChunk { tool_call_id, content, mut meta, .. } = chunk;
        let first = self.seen.insert(tool_call_id.clone());
        if first {
            self.live.insert(tool_call_id.clone(), Vec::new());
        }
        if self.dialect == Dialect::V1 {
            // What comes after the end has no list left that it could be added to.
            let Some(list) = self.live.get_mut(&tool_call_id) else { return };
            list.push(content);
            if first || !self.lazy {
                self.tell(&tool_call_id, first, emit);
            } else {
                self.stale.insert(tool_call_id);
            }
            return;
        }
        for content in self.lower(content.clone()) {
            emit(
                ToolCallContentChunk {
                    tool_call_id: tool_call_id.clone(),
                    content,
                    meta: meta.take(),
                    ..Default::default()
                }
                .into(),
            );
        }
        if let Some(list) = self.live.get_mut(&tool_call_id) {
            list.push(content);
        }
    }

    pub(crate) fn terminal(&mut self, update: &TerminalUpdate, emit: &mut dyn FnMut(Update)) {
        // `_meta` is not shown, so the way it changes does not matter here.
        self.terminal_mut(&update.terminal_id).apply(update, Dialect::V2);
        self.refresh(&update.terminal_id, emit);
    }

    pub(crate) fn output(&mut self, chunk: &TerminalOutputChunk, emit: &mut dyn FnMut(Update)) {
        self.terminal_mut(&chunk.terminal_id).append(&chunk.data);
        self.refresh(&chunk.terminal_id, emit);
    }

    /// Tells what waits.
    pub(crate) fn flush(&mut self, emit: &mut dyn FnMut(Update)) {
        for id in std::mem::take(&mut self.stale) {
            self.tell(&id, false, emit);
        }
    }

    pub(crate) fn is_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    fn terminal_mut(&mut self, id: &str) -> &mut TerminalItem {
        self.terminals.entry(id.to_owned()).or_insert_with(|| TerminalItem::new(id.to_owned(), MAX_SHOWN_OUTPUT_BYTES))
    }

    /// Tells the calls again that show this terminal.
    fn refresh(&mut self, terminal: &str, emit: &mut dyn FnMut(Update)) {
        let shows =
            |item: &ToolCallContent| matches!(item, ToolCallContent::Terminal(it) if it.terminal_id == terminal);
        let calls = self.live.iter().filter(|(_, content)| content.iter().any(shows));
        self.stale.extend(calls.map(|(id, _)| id.clone()));
        if !self.lazy {
            self.flush(emit);
        }
    }

    /// Tells the whole content of a call.
    fn tell(&mut self, id: &str, first: bool, emit: &mut dyn FnMut(Update)) {
        self.stale.remove(id);
        let Some(content) = self.live.get(id) else { return };
        let content = content.iter().flat_map(|item| self.lower(item.clone())).collect();
        let mut call = ToolCallUpdate::new(id).content(content);
        call.announce = first;
        if first {
            call = call.title(NO_TITLE);
        }
        emit(call.into());
    }

    /// What the dialect can be told instead of `item`.
    fn lower(&self, item: ToolCallContent) -> Vec<ToolCallContent> {
        match item {
            ToolCallContent::Diff(diff) if diff.texts().is_none() => diff.lower(),
            ToolCallContent::Terminal(it) => match self.terminals.get(&it.terminal_id) {
                Some(terminal) => vec![shown(terminal).into()],
                // Seed-era v2 has no terminals; in version 1 this is a terminal of the client.
                None if self.dialect == Dialect::V2Seed => vec![format!("[terminal {}]", it.terminal_id).into()],
                None => vec![ToolCallContent::Terminal(it)],
            },
            ToolCallContent::Other(_) | ToolCallContent::Content(Content { content: ContentBlock::Other(_), .. })
                if self.dialect == Dialect::V1 =>
            {
                Vec::new()
            }
            item => vec![item],
        }
    }
}

/// A display terminal as fenced text.
fn shown(terminal: &TerminalItem) -> String {
    let mut text = terminal.command.as_ref().map(|command| format!("$ {command}\n")).unwrap_or_default();
    text.push_str(plain_text(terminal.output()).trim_end());
    if let Some(exit) = &terminal.exit_status {
        let how = match (exit.exit_code, &exit.signal) {
            (Some(code), _) => format!("\n[exit code {code}]"),
            (None, Some(signal)) => format!("\n[ended by {signal}]"),
            (None, None) => "\n[ended]".to_owned(),
        };
        text.push_str(&how);
    }
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

/// Says in version 1's words what it has words for: there `null` means unchanged.
fn settle(call: &mut ToolCallUpdate) {
    if call.announce && call.title.is_keep() || call.title == Patch::Clear {
        call.title = Patch::Set(NO_TITLE.to_owned());
    }
    call.kind.spell_out_null();
    call.status.spell_out_null();
    call.content.spell_out_null();
    call.locations.spell_out_null();
    call.ignore_nulls();
    call.capabilities = Patch::Keep;
    if let Patch::Set(ToolCallStatus::Paused | ToolCallStatus::Cancelled | ToolCallStatus::Other(_)) = &call.status
        && call.meta.is_keep()
    {
        let status = call.status.set().map(ToolCallStatus::as_str).unwrap_or_default();
        call.meta = note(META_STATUS, status).map_or(Patch::Keep, Patch::Set);
    }
}

/// True if an update changes anything that older dialects know.
fn says_something(call: &ToolCallUpdate) -> bool {
    let nothing = ToolCallUpdate {
        announce: call.announce,
        capabilities: call.capabilities.clone(),
        ..ToolCallUpdate::new(&*call.tool_call_id)
    };
    *call != nothing
}
