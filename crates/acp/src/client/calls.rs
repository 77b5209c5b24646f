//! The tool calls that are under way in a session: a question may name a call and leave out what was said of it before.

use std::collections::VecDeque;
use tieline_schema::{Patch, ToolCallStatus, ToolCallUpdate, Update};

/// So many calls are kept in mind, the newest ones.
const MOST: usize = 64;
/// An input that is longer is not kept.
const LONGEST: usize = 64 << 10;

/// What is known of the calls that have not ended, but for their content.
#[derive(Debug, Default)]
pub(crate) struct Calls(VecDeque<ToolCallUpdate>);

impl Calls {
    /// Takes note of an update.
    pub(crate) fn note(&mut self, update: &Update) {
        let Update::ToolCall(update) = update else { return };
        let at = self.0.iter().position(|call| call.tool_call_id == update.tool_call_id);
        let mut call =
            at.and_then(|at| self.0.remove(at)).unwrap_or_else(|| ToolCallUpdate::new(&*update.tool_call_id));
        if update.status.set().is_some_and(ToolCallStatus::is_final) {
            return;
        }
        renew(&mut call.title, &update.title);
        renew(&mut call.name, &update.name);
        renew(&mut call.kind, &update.kind);
        renew(&mut call.locations, &update.locations);
        match update.raw_input.set() {
            Some(input) if input.get().len() > LONGEST => call.raw_input = Patch::Keep,
            _ => renew(&mut call.raw_input, &update.raw_input),
        }
        self.0.push_back(call);
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }

    /// Fills in what a question leaves out.
    pub(crate) fn fill(&self, asked: &mut ToolCallUpdate) {
        let Some(known) = self.0.iter().find(|call| call.tool_call_id == asked.tool_call_id) else { return };
        complete(&mut asked.title, &known.title);
        complete(&mut asked.name, &known.name);
        complete(&mut asked.kind, &known.kind);
        complete(&mut asked.locations, &known.locations);
        complete(&mut asked.raw_input, &known.raw_input);
    }
}

fn renew<T: Clone>(old: &mut Patch<T>, new: &Patch<T>) {
    if !new.is_keep() {
        old.clone_from(new);
    }
}

fn complete<T: Clone>(asked: &mut Patch<T>, known: &Patch<T>) {
    if asked.is_keep() {
        asked.clone_from(known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_schema::{Raw, ToolKind};

    fn asked(calls: &Calls, call: ToolCallUpdate) -> ToolCallUpdate {
        let mut call = call;
        calls.fill(&mut call);
        call
    }

    #[test]
    fn what_was_said_before_is_filled_in_until_the_call_ends() {
        let mut calls = Calls::default();
        calls.note(&ToolCallUpdate::new("a").title("Bash").kind(ToolKind::Execute).into());
        let mut input = ToolCallUpdate::new("a");
        input.raw_input = Patch::Set(Raw::new("{\"command\":\"ls\"}").unwrap());
        calls.note(&input.clone().into());
        let found = asked(&calls, ToolCallUpdate::new("a").title("Run ls"));
        assert_eq!(
            (found.title.set().map(String::as_str), found.kind.set()),
            (Some("Run ls"), Some(&ToolKind::Execute))
        );
        assert_eq!(found.raw_input, input.raw_input);
        assert_eq!(asked(&calls, ToolCallUpdate::new("b")), ToolCallUpdate::new("b"));
        // Too long to keep, and then what was known is not true any more either.
        input.raw_input = Patch::Set(Raw::new(format!("\"{}\"", "x".repeat(LONGEST))).unwrap());
        calls.note(&input.into());
        assert!(asked(&calls, ToolCallUpdate::new("a")).raw_input.is_keep());
        calls.note(&ToolCallUpdate::new("a").status(ToolCallStatus::Completed).into());
        assert!(asked(&calls, ToolCallUpdate::new("a")).kind.is_keep());
        for id in 0..MOST + 9 {
            calls.note(&ToolCallUpdate::new(id.to_string()).kind(ToolKind::Read).into());
        }
        assert_eq!(calls.0.len(), MOST);
    }
}
