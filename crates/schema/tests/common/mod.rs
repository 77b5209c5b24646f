//! Random updates for property tests.
#![allow(dead_code, clippy::unwrap_used, reason = "tests; each file uses a part")]

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use tieline_schema::*;

/// Text with the characters that JSON and terminals care about.
pub fn text() -> impl Strategy<Value = String> {
    "[a-c \"\\\\\n\u{1b}äß🦀]{0,6}"
}

/// One of a few ids, so that updates meet.
pub fn id() -> impl Strategy<Value = String> {
    "[xyz]"
}

pub fn raw() -> impl Strategy<Value = Raw> {
    prop_oneof![Just("{\"a\":[1,2.50,null]}"), Just("\"t\""), Just("[]"), Just("-0.0")]
        .prop_map(|text| Raw::new(text).unwrap())
}

pub fn meta_raw() -> impl Strategy<Value = Meta> {
    prop_oneof![Just("{}"), Just("{\"k\":1}"), Just("{\"k\":null}"), Just("{\"l\":{\"m\":1},\"k\":\"v\"}")]
        .prop_map(|text| Meta(Raw::new(text).unwrap()))
}

pub fn meta() -> impl Strategy<Value = Option<Meta>> {
    proptest::option::weighted(0.2, meta_raw())
}

pub fn patch<T: Clone + std::fmt::Debug + 'static>(set: impl Strategy<Value = T> + 'static) -> BoxedStrategy<Patch<T>> {
    prop_oneof![2 => Just(Patch::Keep), 1 => Just(Patch::Clear), 3 => set.prop_map(Patch::Set)].boxed()
}

pub fn items<T: Clone + std::fmt::Debug + 'static>(
    item: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Patch<Items<T>>> {
    patch(vec(item, 0..3).prop_map(Items))
}

fn parsed<T: Decode + Clone + std::fmt::Debug + 'static>(json: &'static str) -> BoxedStrategy<T> {
    Just(from_json::<T>(json).unwrap()).boxed()
}

pub fn block() -> BoxedStrategy<ContentBlock> {
    prop_oneof![
        4 => text().prop_map(ContentBlock::from),
        1 => (text(), meta()).prop_map(|(text, meta)| Text { text, meta, ..Text::default() }.into()),
        1 => parsed(r#"{"type":"resource_link","uri":"file:///a","name":"a","size":3,"annotations":{"priority":0.5}}"#),
        1 => parsed(r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#),
        1 => parsed(r#"{"type":"_chart","x":[1,  2]}"#),
    ]
    .boxed()
}

/// A diff in the form of current v2.
pub fn diff() -> BoxedStrategy<Diff> {
    prop_oneof![
        (text(), text()).prop_map(|(old, new)| {
            let made = Diff::of("/a b", Some(old), new);
            Diff { changes: made.changes(), patch: made.patch(), ..Diff::default() }
        }),
        parsed(r#"{"changes":[{"operation":"move","oldPath":"/a","path":"/b"},{"operation":"_x","y":1}]}"#),
        parsed(
            r#"{"changes":[{"operation":"delete","path":"/a","fileType":"binary"}],"patch":{"format":"_p","text":""}}"#
        ),
    ]
    .boxed()
}

pub fn tool_content() -> BoxedStrategy<ToolCallContent> {
    prop_oneof![
        3 => block().prop_map(ToolCallContent::from),
        1 => diff().prop_map(ToolCallContent::Diff),
        1 => id().prop_map(|terminal_id| ToolCallContent::Terminal(Terminal { terminal_id, ..Default::default() })),
        1 => parsed(r#"{"type":"_table","rows":[[1]]}"#),
    ]
    .boxed()
}

pub fn kind() -> impl Strategy<Value = MessageKind> {
    prop_oneof![Just(MessageKind::User), Just(MessageKind::Agent), Just(MessageKind::Thought)]
}

pub fn chunk() -> impl Strategy<Value = Chunk> {
    (kind(), of(id()), block(), meta()).prop_map(|(kind, message_id, content, meta)| Chunk {
        kind,
        message_id,
        content,
        meta,
        ..Default::default()
    })
}

pub fn message() -> impl Strategy<Value = Message> {
    (kind(), id(), items(block()), patch(meta_raw())).prop_map(|(kind, message_id, content, meta)| Message {
        kind,
        message_id,
        content,
        meta,
        ..Default::default()
    })
}

pub fn status() -> impl Strategy<Value = ToolCallStatus> {
    prop::sample::select(vec!["pending", "in_progress", "paused", "completed", "failed", "cancelled", "_odd"])
        .prop_map(ToolCallStatus::from)
}

pub fn tool_call() -> impl Strategy<Value = ToolCallUpdate> {
    let tool_kind = prop::sample::select(vec!["read", "other", "switch_mode", "_odd"]).prop_map(ToolKind::from);
    let place = (text(), 0..3u32).prop_map(|(path, line)| Location::new(path, line));
    let can = prop_oneof![
        Just(ToolCallCapabilities::default()),
        Just(ToolCallCapabilities { cancel: Marker::Yes, ..Default::default() }),
        parsed(r#"{"cancel":{"_meta":{"a":1}}}"#),
    ];
    let texts = (id(), patch(text()), patch(text()));
    let lists = (items(tool_content()), items(place));
    let rest = (patch(tool_kind), patch(status()), patch(raw()), patch(raw()), patch(can), patch(meta_raw()));
    (texts, lists, rest).prop_map(|((tool_call_id, title, name), (content, locations), rest)| {
        let (kind, status, raw_input, raw_output, capabilities, meta) = rest;
        ToolCallUpdate {
            tool_call_id,
            title,
            name,
            kind,
            status,
            content,
            locations,
            raw_input,
            raw_output,
            capabilities,
            meta,
            announce: false,
            ..Default::default()
        }
    })
}

pub fn tool_chunk() -> impl Strategy<Value = ToolCallContentChunk> {
    (id(), tool_content(), meta()).prop_map(|(tool_call_id, content, meta)| ToolCallContentChunk {
        tool_call_id,
        content,
        meta,
        ..Default::default()
    })
}

pub fn plan() -> BoxedStrategy<PlanUpdate> {
    let entry = (text(), 0..4usize, 0..5usize).prop_map(|(content, priority, status)| PlanEntry {
        content,
        priority: ["high", "medium", "low", "_p"][priority].into(),
        status: ["pending", "in_progress", "completed", "cancelled", "_s"][status].into(),
        ..Default::default()
    });
    prop_oneof![
        4 => (id(), vec(entry, 0..3), meta(), meta()).prop_map(|(plan_id, entries, inner, meta)| PlanUpdate {
            plan: PlanItems { plan_id, entries, meta: inner, ..Default::default() }.into(),
            meta, ..Default::default() }),
        1 => parsed(r#"{"plan":{"type":"_tree","planId":"x","root":{}}}"#),
    ]
    .boxed()
}

fn config_option() -> BoxedStrategy<ConfigOption> {
    prop_oneof![
        any::<bool>().prop_map(|on| ConfigOption::boolean("b", "B", on)),
        parsed(r#"{"configId":"m","name":"M","category":"mode","type":"select","currentValue":"a","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]}"#),
        parsed(r#"{"configId":"g","name":"G","category":"_c","type":"select","currentValue":"a","options":[{"groupId":"x","name":"X","options":[{"value":"a","name":"A"}]}]}"#),
        parsed(r#"{"configId":"o","name":"O","type":"_slider","max":9}"#),
    ]
    .boxed()
}

fn command() -> BoxedStrategy<Command> {
    prop_oneof![
        text().prop_map(|text| Command::new("plan", text).with_input("what")),
        parsed(r#"{"type":"_macro","name":"m","description":"d","keys":[]}"#),
        parsed(r#"{"type":"command","name":"i","description":"d","input":{"type":"_file","glob":"*"}}"#),
    ]
    .boxed()
}

pub fn base64() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "aGk=", "aGkK", "G1szMW0=", "w6Q=", "ww==", "pA==", "!"]).prop_map(str::to_owned)
}

pub fn terminal() -> impl Strategy<Value = TerminalUpdate> {
    let output = base64().prop_map(|data| TerminalOutput { data, ..Default::default() });
    let exit = (of(any::<i64>()), of(text())).prop_map(|(exit_code, signal)| ExitStatus {
        exit_code,
        signal,
        ..Default::default()
    });
    let size = (1..9u16, 1..9u16).prop_map(|(cols, rows)| TerminalSize { cols, rows, ..Default::default() });
    let can = Just(TerminalCapabilities { cancel: Marker::Yes, ..Default::default() });
    (id(), patch(text()), patch(text()), patch(output), patch(exit), patch(size), patch(can), patch(meta_raw()))
        .prop_map(|(terminal_id, command, cwd, output, exit_status, size, capabilities, meta)| TerminalUpdate {
            terminal_id,
            command,
            cwd,
            output,
            exit_status,
            size,
            capabilities,
            meta,
            ..Default::default()
        })
}

pub fn state() -> BoxedStrategy<StateUpdate> {
    prop_oneof![
        Just(State::Running.into()),
        Just(State::RequiresAction.into()),
        Just(State::idle("_odd".into()).into()),
        Just(State::default().into()),
        parsed(r#"{"state":"idle","stopReason":"error","error":{"code":-32603,"message":"m","data":{"a":1}}}"#),
        parsed(r#"{"state":"running","background":[{"type":"terminal","terminalId":"x"},{"type":"_cron","at":1}]}"#),
        parsed(r#"{"sessionUpdate":"state_update","state":"_dreaming","deep":true}"#),
    ]
    .boxed()
}

/// Any update, as an agent of current v2 (or of version 1, for `Mode` and chunks without id) might report it.
pub fn update() -> BoxedStrategy<Update> {
    let cost =
        (0..9u32, text()).prop_map(|(n, currency)| Cost { amount: f64::from(n) / 4.0, currency, ..Default::default() });
    let usage = (any::<u64>(), any::<u64>(), patch(cost)).prop_map(|(used, size, cost)| UsageUpdate {
        used,
        size,
        cost,
        ..Default::default()
    });
    let info = (patch(text()), patch(text()), patch(meta_raw()))
        .prop_map(|(title, updated_at, meta)| SessionInfoUpdate { title, updated_at, meta, ..Default::default() });
    let statuses = prop::sample::select(vec!["in_progress", "completed", "failed", "cancelled", "_odd"]);
    let compaction = (id(), statuses, items(block()), patch(text()), patch(meta_raw())).prop_map(
        |(compaction_id, status, summary, error, meta)| CompactionUpdate {
            compaction_id,
            status: status.into(),
            summary,
            error,
            meta,
            ..Default::default()
        },
    );
    let summary = (id(), block()).prop_map(|(compaction_id, content)| CompactionSummaryChunk {
        compaction_id,
        content,
        ..Default::default()
    });
    prop_oneof![
        4 => chunk().prop_map(Update::from),
        3 => message().prop_map(Update::from),
        4 => tool_call().prop_map(Update::from),
        2 => tool_chunk().prop_map(Update::from),
        1 => plan().prop_map(Update::from),
        1 => vec(command(), 0..3).prop_map(|commands| CommandsUpdate { commands, ..Default::default() }.into()),
        1 => vec(config_option(), 0..3).prop_map(|options| ConfigOptionsUpdate { options, ..Default::default() }.into()),
        1 => id().prop_map(|mode_id| ModeUpdate { mode_id, ..Default::default() }.into()),
        1 => info.prop_map(Update::from),
        1 => usage.prop_map(Update::from),
        1 => state().prop_map(Update::from),
        2 => terminal().prop_map(Update::from),
        2 => (id(), base64()).prop_map(|(terminal_id, data)| TerminalOutputChunk { terminal_id, data, ..Default::default() }.into()),
        1 => (text(), of(text())).prop_map(|(title, description)| Notice { title, description, ..Notice::default() }.into()),
        1 => compaction.prop_map(Update::from),
        1 => summary.prop_map(Update::from),
        1 => parsed::<Update>(r#"{"sessionUpdate":"_future","a": [1,  {"b":"ä\u00e4"}]}"#),
    ]
    .boxed()
}
