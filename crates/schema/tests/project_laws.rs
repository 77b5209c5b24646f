//! What holds for any updates, whoever is told.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashSet;
use tieline_schema::*;

const OPEN: Gates = Gates { boolean_options: true, notices: true, compaction: true, first_kinds: false, longest: None };

fn project(projector: &mut Projector, updates: &[Update]) -> Vec<Update> {
    let mut told = Vec::new();
    for update in updates {
        projector.update(update.clone(), &mut |update| told.push(update));
    }
    told
}

/// What a peer of `dialect` has after reading the projected updates from the wire.
fn heard(dialect: Dialect, told: &[Update]) -> Transcript {
    let mut transcript = Transcript::new(dialect);
    for update in told {
        transcript.apply(&from_json(&to_json(update, dialect)).unwrap());
    }
    transcript
}

fn closed(status: &ToolCallStatus) -> String {
    to_json(status, Dialect::V1)
}

proptest! {
    #[test]
    fn only_what_the_dialect_has_is_told(updates in vec(common::update(), 0..20), dialect in 0..3usize) {
        let dialect = Dialect::ALL[dialect];
        let mut announced = HashSet::new();
        for update in project(&mut Projector::new(dialect).with_gates(OPEN), &updates) {
            prop_assert!(update.speaks(dialect), "{:?}", update);
            if dialect == Dialect::V1 && let Update::ToolCall(call) = &update {
                prop_assert_eq!(call.announce, announced.insert(call.tool_call_id.clone()));
                let patched = to_json(&update, dialect);
                prop_assert!(!["title", "kind", "status", "content", "locations", "rawInput", "rawOutput", "name"].iter()
                    .any(|key| patched.contains(&format!("\"{key}\":null"))), "{}", patched);
            }
        }
    }

    #[test]
    fn v2_passes_through(updates in vec(common::update(), 0..20)) {
        let exact = |update: &&Update| !matches!(update, Update::Mode(_) | Update::Chunk(Chunk { message_id: None, .. }));
        let empty = |update: &&Update| !matches!(update, Update::Notice(notice) if notice.title.is_empty());
        let updates: Vec<Update> = updates.iter().filter(exact).filter(empty).cloned().collect();
        prop_assert_eq!(project(&mut Projector::new(Dialect::V2), &updates), updates);
    }

    #[test]
    fn older_clients_end_up_with_the_same_calls(updates in vec(common::update(), 0..20), dialect in 0..2usize, lazy in any::<bool>()) {
        let dialect = Dialect::ALL[dialect];
        let mut meant = Transcript::new(Dialect::V2);
        let mut projector = Projector::new(dialect);
        if lazy {
            projector = projector.throttled();
        }
        let mut told = Vec::new();
        for update in &updates {
            meant.apply(update);
            projector.update(update.clone(), &mut |update| told.push(update));
        }
        projector.flush(&mut |update| told.push(update));
        prop_assert!(!projector.is_stale());
        let heard = heard(dialect, &told);
        for item in meant.items() {
            if let Item::ToolCall(call) = item {
                let there = heard.tool_call(&call.id).unwrap();
                prop_assert_eq!(closed(&there.status), closed(&call.status));
                let title = if dialect == Dialect::V1 { there.title.clone().filter(|title| title != "Tool call") } else { there.title.clone() };
                prop_assert_eq!(&title, &call.title);
                prop_assert_eq!(&there.locations, &call.locations);
            }
        }
    }

    #[test]
    fn v1_clients_read_the_same_messages(updates in vec(common::message(), 0..12), chunks in vec(common::chunk(), 0..12), order in any::<u32>()) {
        // Of every message the newest version says what the message says now.
        let mut chunks = chunks.into_iter().filter(|chunk| chunk.message_id.is_some());
        let mut mixed: Vec<Update> = Vec::new();
        for (at, message) in updates.into_iter().enumerate() {
            if order >> (at % 32) & 1 == 1 {
                mixed.extend(chunks.next().map(Update::from));
            }
            mixed.push(message.into());
        }
        mixed.extend(chunks.map(Update::from));
        let mut projector = Projector::new(Dialect::V1);
        projector.set_replaying(true);
        let told = project(&mut projector, &mixed);
        let heard = heard(Dialect::V1, &told);
        let mut meant = Transcript::new(Dialect::V2);
        for update in &mixed { meant.apply(update); }
        for item in meant.items() {
            let Item::Message(message) = item else { continue };
            let newest = (1..20).rev().map(|n| format!("{}~{n}", message.id)).chain([message.id.clone()])
                .find_map(|id| heard.message(message.kind, &id));
            prop_assert_eq!(newest.map(MessageItem::text).unwrap_or_default(), message.text());
        }
    }
}
