//! The tool calls that are under way in a session: a question may name a call and leave out what was said of it before.

use std::collections::VecDeque;
use tieline_schema::{Items, Patch, ToolCallStatus, ToolCallUpdate, Update};

/// So many calls are kept in mind, the newest ones.
const MAX_CALLS: usize = 64;
/// So many bytes of them; older calls are forgotten.
const MAX_BYTES: usize = 16 << 20;

/// What is known of the calls that have not ended, each with its bytes on the wire.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls(VecDeque<(ToolCallUpdate, usize)>);

impl OpenCalls {
    /// Takes note of an update that had so many bytes.
    pub(crate) fn note(&mut self, update: &Update, bytes: usize) {
        let id = match update {
            Update::ToolCall(update) => &update.tool_call_id,
            Update::ToolCallContent(chunk) => &chunk.tool_call_id,
            _ => return,
        };
        let at = self.0.iter().position(|(call, _)| call.tool_call_id == *id);
        let known = at.and_then(|at| self.0.remove(at));
        let (mut call, mut size) = known.unwrap_or_else(|| (ToolCallUpdate::new(&**id), 0));
        match update {
            Update::ToolCall(update) if update.status.set().is_some_and(ToolCallStatus::is_final) => return,
            Update::ToolCall(update) => {
                // What is long comes again as a whole.
                size = if update.content.set().is_some() { bytes } else { size.saturating_add(bytes) };
                let before = std::mem::replace(&mut call, (**update).clone());
                fill(&mut call, &before);
            }
            Update::ToolCallContent(chunk) => {
                size = size.saturating_add(bytes);
                match &mut call.content {
                    Patch::Set(content) => content.0.push(chunk.content.clone()),
                    none => *none = Patch::Set(Items(vec![chunk.content.clone()])),
                }
            }
            _ => {}
        }
        self.0.push_back((call, size));
        while self.0.len() > MAX_CALLS || self.0.iter().map(|(_, size)| size).sum::<usize>() > MAX_BYTES {
            self.0.pop_front();
        }
    }

    /// Nothing is known of a call any more.
    pub(crate) fn forget(&mut self, id: &str) {
        self.0.retain(|(call, _)| call.tool_call_id != id);
    }

    /// Fills in what a question leaves out.
    pub(crate) fn fill(&self, asked: &mut ToolCallUpdate) {
        if let Some((known, _)) = self.0.iter().find(|(call, _)| call.tool_call_id == asked.tool_call_id) {
            fill(asked, known);
        }
    }
}

/// Fills in what is not said. `null` is nothing said: in version 1 it means unchanged.
fn fill(call: &mut ToolCallUpdate, known: &ToolCallUpdate) {
    complete(&mut call.title, &known.title);
    complete(&mut call.name, &known.name);
    complete(&mut call.kind, &known.kind);
    complete(&mut call.content, &known.content);
    complete(&mut call.locations, &known.locations);
    complete(&mut call.raw_input, &known.raw_input);
    complete(&mut call.meta, &known.meta);
}

fn complete<T: Clone>(said: &mut Patch<T>, known: &Patch<T>) {
    if said.set().is_none() && known.set().is_some() {
        said.clone_from(known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_schema::{Raw, ToolCallContentChunk, ToolKind};

    fn asked(calls: &OpenCalls, call: ToolCallUpdate) -> ToolCallUpdate {
        let mut call = call;
        calls.fill(&mut call);
        call
    }

    #[test]
    fn what_was_said_before_is_filled_in_until_the_call_ends() {
        let mut calls = OpenCalls::default();
        calls.note(&ToolCallUpdate::new("a").title("Bash").kind(ToolKind::Execute).into(), 1);
        let mut input = ToolCallUpdate::new("a").content(vec!["one".into()]);
        input.raw_input = Patch::Set(Raw::new("{\"command\":\"ls\"}").unwrap());
        calls.note(&input.clone().into(), 1);
        let chunk = ToolCallContentChunk { tool_call_id: "a".into(), content: "two".into(), ..Default::default() };
        calls.note(&chunk.into(), 1);
        // As version 1 leaves something out.
        let mut question = ToolCallUpdate::new("a").title("Run ls");
        question.content = Patch::Clear;
        let found = asked(&calls, question);
        assert_eq!(
            (found.title.set().map(String::as_str), found.kind.set()),
            (Some("Run ls"), Some(&ToolKind::Execute))
        );
        assert_eq!((found.raw_input, found.content.set().map(|content| content.0.len())), (input.raw_input, Some(2)));
        assert_eq!(asked(&calls, ToolCallUpdate::new("b")), ToolCallUpdate::new("b"));
        calls.note(&ToolCallUpdate::new("a").status(ToolCallStatus::Completed).into(), 1);
        assert!(asked(&calls, ToolCallUpdate::new("a")).kind.is_keep());
        for id in 0..MAX_CALLS + 9 {
            calls.note(&ToolCallUpdate::new(id.to_string()).kind(ToolKind::Read).into(), 1);
        }
        assert_eq!(calls.0.len(), MAX_CALLS);
        // What is too long is forgotten, the oldest first.
        calls.note(&ToolCallUpdate::new("long").into(), MAX_BYTES - 1);
        assert_eq!(calls.0.len(), 2);
        calls.note(&ToolCallUpdate::new("longer").into(), MAX_BYTES + 1);
        assert!(calls.0.is_empty());
    }
}
