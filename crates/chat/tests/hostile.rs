//! Hostile text in every field of everything that an agent, a model or a file can bring: nothing of it drives the terminal, turns the
//! direction of text, or begins a row as our own do.
#![allow(clippy::unwrap_used)]

mod desk;

use crossterm::event::{KeyCode, KeyModifiers};
use desk::{Chat, facts, question};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use tieline::json::Reader;
use tieline::rpc::Direction;
use tieline::schema::{
    AuthMethod, Decode, Diff, DiffPatch, ElicitMode, ElicitRequest, PermissionOption, StopReason, ToolCallUpdate,
    Update,
};
use tieline_chat::event::{About, Event, OpenedFacts};
use tieline_chat::pick::{self, Change, Stored};
use tieline_chat::rows::Detail;
use tieline_chat::{AgentChoice, Log};
use tieline_client::elicit::{Form, Page};
use tieline_client::live::{self, Conversation, Ending, Failure, Now, Phase, State as Doing, What, When};
use tieline_client::login::Method;
use tieline_client::permission::Question;
use tieline_host::rules::hidden;
use tieline_host::snapshot::{Hunk, Undone};

/// Escapes, bidi, what breaks lines somewhere, and lines that look like our own.
const EVIL: &str = "a\u{1b}[2J\u{1b}[H\u{1b}]0;x\u{7}\u{9b}31m\u{202e}b\u{2066}c\u{200b}\u{7f}\u{0}\n· FAKE\n! FAKE\n✗ FAKE\n━ FAKE\n\
    ━━ FAKE\nwould: FAKE\n❯ 1 FAKE\n 1 FAKE\n❯ FAKE\n1 waits: FAKE\nready FAKE\r· FAKE\u{2028}· FAKE\u{85}· FAKE\u{b}· FAKE\u{c}· FAKE\t· FAKE";
/// How rows of ours begin.
const OURS: [&str; 10] = [
    "· FAKE",
    "! FAKE",
    "✗ FAKE",
    "━ FAKE",
    "━━ FAKE",
    "would: FAKE",
    "❯ 1 FAKE",
    "❯ FAKE",
    "1 waits: FAKE",
    "ready FAKE",
];

/// No cell of the screen holds what can't be seen, and no row begins as our own do.
fn is_harmless(chat: &mut Chat, what: &str) {
    for (width, height) in [(40, 12), (80, 24), (140, 45)] {
        let (buffer, _) = chat.buffer(width, height);
        for y in 0..height {
            let row: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
            assert!(!row.chars().any(hidden), "{what}: {row:?}");
            for begin in [0, 1] {
                let rest: String = row.chars().skip(begin).collect();
                let fake = OURS.iter().find(|fake| rest.starts_with(**fake));
                assert!(fake.is_none(), "{what}: {row:?}");
            }
        }
    }
}

/// The value with one of its texts made evil, for each of them; then with all of them.
fn evils(value: &Value) -> Vec<(String, Value)> {
    fn texts(value: &Value, at: String, found: &mut Vec<String>) {
        match value {
            Value::String(_) => found.push(at),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(number, item)| texts(item, format!("{at}/{number}"), found));
            }
            Value::Object(fields) => {
                fields.iter().for_each(|(name, field)| texts(field, format!("{at}/{name}"), found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    texts(value, String::new(), &mut found);
    let mut all = Vec::new();
    let mut whole = value.clone();
    for at in found {
        let mut one = value.clone();
        *one.pointer_mut(&at).unwrap() = EVIL.into();
        if !at.ends_with("sessionUpdate") && !at.ends_with("type") && !at.ends_with("state") && !at.ends_with("status")
        {
            *whole.pointer_mut(&at).unwrap() = EVIL.into();
        }
        all.push((at, one));
    }
    all.push(("all".into(), whole));
    all
}

fn decoded<T: Decode>(value: &Value) -> Option<T> {
    T::decode(&mut Reader::new(&value.to_string())).ok()
}

fn updates() -> Vec<Value> {
    let text = json!({"type": "text", "text": "x"});
    let blocks = [
        text.clone(),
        json!({"type": "resource_link", "uri": "x", "name": "x", "title": "x", "description": "x", "mimeType": "x"}),
        json!({"type": "resource", "resource": {"uri": "x", "text": "x", "mimeType": "x"}}),
        json!({"type": "image", "data": "", "mimeType": "x", "uri": "x"}),
        json!({"type": "new_kind", "words": "x"}),
    ];
    let mut all: Vec<Value> = Vec::new();
    for kind in ["agent_message_chunk", "user_message_chunk", "agent_thought_chunk"] {
        all.extend(blocks.iter().map(|block| json!({"sessionUpdate": kind, "messageId": "m", "content": block})));
    }
    for kind in ["agent_message", "user_message", "agent_thought"] {
        all.push(json!({"sessionUpdate": kind, "messageId": "m", "content": blocks}));
    }
    let content = json!([
        {"type": "content", "content": text}, {"type": "diff", "path": "x", "oldText": "x", "newText": "y"},
        {"type": "diff", "changes": [{"operation": "move", "path": "x", "oldPath": "x"}], "patch": {"format": "x", "text": "@@ -1 +1 @@ x\n-x\n+y\n"}},
        {"type": "terminal", "terminalId": "t"}, {"type": "new_kind", "words": "x"}]);
    for kind in ["tool_call", "tool_call_update"] {
        all.push(json!({"sessionUpdate": kind, "toolCallId": "c", "title": "x", "name": "x", "kind": "read", "status": "pending",
            "locations": [{"path": "x", "line": 1}], "rawInput": {"command": "x"}, "rawOutput": {"out": "x"}, "content": content,
            "_meta": {"parentToolCallId": "x"}}));
    }
    all.extend([
        json!({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": content[0]}),
        json!({"sessionUpdate": "plan", "entries": [{"content": "x", "priority": "high", "status": "pending"}]}),
        json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [{"content": "x", "priority": "high", "status": "pending"}]}}),
        json!({"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p", "content": "x"}}),
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "x", "description": "x", "input": {"hint": "x"}}]}),
        json!({"sessionUpdate": "config_option_update", "configOptions": [
            {"id": "x", "configId": "x", "name": "x", "description": "x", "type": "select", "category": "model", "currentValue": "x",
             "options": [{"value": "x", "name": "x", "description": "x"}, {"value": "y", "name": "x"}]},
            {"id": "x", "configId": "x", "name": "x", "type": "boolean", "currentValue": true}]}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": "x"}),
        json!({"sessionUpdate": "session_info_update", "title": "x"}),
        json!({"sessionUpdate": "usage_update", "used": 1000, "size": 2000, "cost": {"amount": 1.0, "currency": "x"}}),
        json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "x"}),
        json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "x", "cwd": "x", "title": "x"}),
        json!({"sessionUpdate": "notice", "severity": "warning", "title": "x", "description": "x"}),
        json!({"sessionUpdate": "notice_update", "severity": "warning", "title": "x", "description": "x"}),
        json!({"sessionUpdate": "compaction_update", "compactionId": "x", "summary": [text], "status": "x", "error": "x"}),
        json!({"sessionUpdate": "compaction_summary_chunk", "compactionId": "x", "content": text}),
        json!({"sessionUpdate": "brand_new_thing", "words": "x"}),
    ]);
    all
}

#[test]
fn every_field_of_every_update_is_harmless() {
    for update in updates() {
        let mut read = 0;
        for (field, value) in evils(&update) {
            let Some(decoded) = decoded::<Update>(&value) else { continue };
            read += 1;
            let what = format!("{} {field}", update["sessionUpdate"]);
            let mut chat = Chat::new();
            chat.state.tab_mut().cache.screens.feed("t", EVIL.as_bytes());
            let mut about = About { options: Vec::new(), commands: Vec::new(), now: Now::Join };
            match &decoded {
                Update::ConfigOptions(list) => about.options.clone_from(&list.options),
                Update::Commands(list) => about.commands.clone_from(&list.commands),
                _ => {}
            }
            for when in [When::Before, When::Turn, When::Late] {
                for event in chat.talk.take(decoded.clone(), when) {
                    chat.live(event);
                }
            }
            chat.state.handle(Event::About(1, Box::new(about)), chat.now);
            for detail in [Detail::Brief, Detail::Normal, Detail::Full] {
                chat.state.detail = detail;
                is_harmless(&mut chat, &what);
            }
            if matches!(decoded, Update::ConfigOptions(_) | Update::Commands(_)) {
                chat.key(KeyCode::Char('/'));
                is_harmless(&mut chat, &what);
                chat.key(KeyCode::F(3));
                is_harmless(&mut chat, &what);
                chat.key(KeyCode::Enter);
                is_harmless(&mut chat, &what);
            }
            // What is printed on leaving, too: there the rows begin at the edge.
            for line in chat.state.print(80, 100) {
                assert!(!line.chars().any(hidden), "{what}: {line:?}");
                assert!(!OURS.iter().any(|fake| line.starts_with(fake)), "{what}: {line:?}");
            }
        }
        assert!(read > 0, "nothing of {update} can be read");
    }
}

/// The question as a strip, with the keys, with each choice, and read whole.
fn asked_is_harmless(what: &str, ask: impl Fn() -> What) {
    let mut chat = Chat::new();
    chat.typed("x");
    chat.ask_what(ask());
    is_harmless(&mut chat, what);
    let mut chat = Chat::new();
    chat.later(2000).ask_what(ask());
    chat.key(KeyCode::Tab);
    is_harmless(&mut chat, what);
    for _ in 0..8 {
        chat.key(KeyCode::Down);
        is_harmless(&mut chat, what);
    }
    chat.key(KeyCode::Enter);
    is_harmless(&mut chat, what);
    let mut chat = Chat::new();
    let number = chat.later(2000).ask_what(ask());
    chat.chord(KeyCode::Char('o'), KeyModifiers::CONTROL);
    is_harmless(&mut chat, what);
    chat.key(KeyCode::Esc);
    // It is not asked any more: that is said with its title.
    chat.live(live::Event::Settled(number));
    is_harmless(&mut chat, what);
}

#[test]
fn every_field_of_every_question_is_harmless() {
    let evil = || EVIL.to_owned();
    let call = json!({"toolCallId": "c", "title": "x", "kind": "edit", "rawInput": {"command": "x", "x": ["x"]},
        "content": [{"type": "diff", "path": "x", "oldText": "x", "newText": "y"}, {"type": "content", "content": {"type": "text", "text": "x"}}]});
    for (field, value) in evils(&call) {
        let call = decoded::<ToolCallUpdate>(&value);
        asked_is_harmless(&format!("a call, {field}"), || {
            What::Permission(Box::new(Question { call: call.clone(), ..question() }))
        });
    }
    let option = json!({"optionId": "x", "name": "x", "kind": "allow_always"});
    for (field, value) in evils(&option) {
        let option = decoded::<PermissionOption>(&value);
        asked_is_harmless(&format!("an option, {field}"), || {
            What::Permission(Box::new(Question { options: option.clone().into_iter().collect(), ..question() }))
        });
    }
    asked_is_harmless("title, description, rules", || {
        let patch = DiffPatch { text: format!("@@ -1 +1 @@\n-{EVIL}\n+{EVIL}\n{EVIL}"), ..DiffPatch::default() };
        let changes = vec![Diff { patch: Some(patch), ..Diff::of(EVIL, Some(evil()), "y") }];
        let (title, description, lasting) = (evil(), Some(evil()), vec![evil()]);
        What::Permission(Box::new(Question { title, description, lasting, changes, ..question() }))
    });
    let form = json!({"message": "x", "mode": "form", "sessionId": "s", "requestedSchema": {"type": "object", "title": "x", "description": "x", "required": ["a"],
        "properties": {"a": {"type": "string", "title": "x", "description": "x", "default": "x"}, "b": {"type": "boolean", "title": "x"},
            "c": {"type": "string", "enum": ["x", "y"], "enumNames": ["x", "y"]}, "d": {"type": "string", "oneOf": [{"const": "x", "title": "x"}]},
            "e": {"type": "array", "items": {"type": "string", "enum": ["x"]}}, "f": {"type": "new_kind", "title": "x"}}}});
    for (field, value) in evils(&form) {
        let Some(request) = decoded::<ElicitRequest>(&value) else { continue };
        let ElicitMode::Form(schema) = &request.mode else { continue };
        asked_is_harmless(&format!("a form, {field}"), || What::Form(Form::of(&request, schema, EVIL)));
    }
    for kind in ["agent", "terminal", "env_var", "new_kind"] {
        let method = json!({"type": kind, "id": "x", "methodId": "x", "name": "x", "description": "x", "vars": [{"name": "x"}], "link": "x", "args": ["x"]});
        for (field, value) in evils(&method) {
            let Some(method) = decoded::<AuthMethod>(&value) else { continue };
            asked_is_harmless(&format!("a login, {kind} {field}"), || What::Login(vec![Method::of(&method)]));
        }
    }
    // An address is made safe where it is looked at; its message is the agent's.
    asked_is_harmless("a page", || {
        let message = tieline_client::sanitize::exact(EVIL);
        let (agent, url, host) = ("a".into(), "https://example.org/".into(), "example.org".into());
        What::Page(Page { agent, session: None, message, url, host, warnings: Vec::new() })
    });
}

#[test]
fn every_other_word_of_an_agent_is_harmless() {
    let evil = || EVIL.to_owned();
    let failure = || {
        let mut failure = Failure::new(Ending::Failed, Phase::Turn, EVIL).hint(EVIL);
        (failure.exit, failure.stderr) = (None, vec![evil(), evil()]);
        failure
    };
    let session = live::SessionFacts {
        id: Some("s".into()),
        agent_id: Some(evil()),
        cwd: PathBuf::from(EVIL),
        resumed: true,
        handed_over: false,
        anew: None,
    };
    let events = vec![
        live::Event::Session(session),
        live::Event::GoesOn(evil()),
        live::Event::Warning(evil()),
        live::Event::Given(Err(evil())),
        live::Event::Ended { stop: Err(failure()), changed: Vec::new(), remarks: vec![evil()] },
        live::Event::Ended { stop: Ok(StopReason::Other(EVIL.into())), changed: Vec::new(), remarks: Vec::new() },
        live::Event::Lost(failure()),
    ];
    for event in events {
        let what = format!("{event:?}").chars().take(40).collect::<String>();
        let mut chat = Chat::new();
        chat.live(event);
        is_harmless(&mut chat, &what);
    }
    // Names of agents and folders, in the head and in the title of the window.
    let mut chat = Chat::new();
    let known = vec![
        AgentChoice { name: evil(), about: evil(), found: true },
        AgentChoice { name: evil(), about: evil(), found: false },
    ];
    let opened = OpenedFacts {
        agent: evil(),
        cwd: PathBuf::from(EVIL),
        agents: known.clone().into(),
        ..facts(&Conversation::default())
    };
    chat.state.handle(Event::Opened(1, Box::new(opened)), chat.now);
    is_harmless(&mut chat, "names");
    assert!(!tieline_chat::view::title(&chat.state).chars().any(hidden));
    chat.state.handle(Event::Told(evil()), chat.now);
    is_harmless(&mut chat, "told in passing");
    chat.doing(Doing::Running);
    chat.state.handle(Event::Ran(1, 0, format!("! x\n{}", tieline_client::sanitize::text(EVIL)), true), chat.now);
    is_harmless(&mut chat, "a line of the shell");
    // What is kept and picked from: sessions of before, agents, turns that changed files.
    let stored = Stored { id: evil(), title: Some(evil()), agent: evil(), turns: 3, ago: String::new(), cwd: evil() };
    let restored = Undone { restored: vec![PathBuf::from(EVIL)], ..Undone::default() };
    let hunk = Hunk { old_lines: 0..1, new_lines: 0..1, old: evil(), new: evil() };
    let lists = [
        pick::sessions([stored].into_iter()),
        pick::agents(known),
        pick::turns([Change::new("1", EVIL, "", &[])].into_iter()),
        pick::files("1", "", &restored, &BTreeSet::new(), &[Some(evil())], "/project".as_ref()),
        pick::hunks("1", EVIL, &[hunk], "/project".as_ref()),
    ];
    for list in lists {
        let title = list.title.clone();
        let mut chat = Chat::new();
        chat.key(KeyCode::F(2));
        chat.state.handle(Event::Found(list), chat.now);
        is_harmless(&mut chat, &title);
        chat.key(KeyCode::Enter);
        is_harmless(&mut chat, &title);
    }
    let log = Log::default();
    log.push(Direction::In, &json!({"jsonrpc": "2.0", "method": EVIL, "params": {"x": EVIL}}).to_string());
    log.push(Direction::In, EVIL);
    let mut chat = Chat::new();
    chat.state.handle(Event::Read("Frames".into(), log.lines()), chat.now);
    is_harmless(&mut chat, "frames");
}
