//! `tieline check`: every check of agents can fail, and by one defect exactly the named ones do.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tieline_check::agent::{Plan, check_agent};
use tieline_check::client;
use tieline_check::table::{Check, Level, all, parts, scenarios};
use tieline_check::{Edit, Prompts, Settings, Sheet, Verdict};
use tieline_schema::Dialect;
use tieline_trace::Side;

const TIELINE: &str = env!("CARGO_BIN_EXE_tieline");
/// Long enough for a busy machine; short where something is to be missed.
const PATIENCE: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_secs(3);

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn shell(line: &str) -> Vec<std::ffi::OsString> {
    let line = line.replace("AGENT", &format!("'{TIELINE}' agent --script puppet"));
    ["sh", "-c", &line].into_iter().map(Into::into).collect()
}

fn plan(state: &tempfile::TempDir, command: &str, edit: Option<Edit>, only: &[&'static str]) -> Plan {
    let path = |name: &str| state.path().join(name).to_string_lossy().into_owned();
    let env = [
        ("PATH", std::env::var("PATH").unwrap()),
        ("XDG_STATE_HOME", path("state")),
        ("XDG_CONFIG_HOME", path("config")),
        ("HOME", path("home")),
    ];
    Plan {
        settings: Settings {
            command: shell(command),
            env: Some(env.into_iter().map(|(name, value)| (name.into(), value.into())).collect()),
            prompts: Some(Prompts::of("directives")),
            patience: PATIENCE,
            edit,
        },
        wanted: Arc::new(|_: &Check| true),
        parallel: 2,
        only: only.to_vec(),
        progress: Arc::new(|_, _| {}),
    }
}

fn broken(sheet: &Sheet) -> BTreeSet<&'static str> {
    assert_eq!(sheet.dead, None);
    assert_eq!(sheet.unspoken, None);
    sheet
        .findings
        .values()
        .filter(|finding| finding.verdict == Verdict::Broken)
        .map(|finding| finding.check.id)
        .collect()
}

/// Changes messages; `process` is the number of the process, from 1 (which only says hello), `place` counts the messages that were changed.
fn edit(change: fn(usize, &mut usize, Value) -> Vec<Value>) -> Option<Edit> {
    let processes = AtomicUsize::new(0);
    Some(Arc::new(move || {
        let process = processes.fetch_add(1, Ordering::SeqCst) + 1;
        let mut place = 0;
        Box::new(move |line| match serde_json::from_slice(&line) {
            Ok(message) => {
                change(process, &mut place, message).iter().map(|line| line.to_string().into_bytes()).collect()
            }
            Err(_) => vec![line],
        })
    }))
}

fn failed(message: &Value, code: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": "broken on purpose"}})
}

fn answered(message: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
}

fn kind(message: &Value) -> &str {
    message["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default()
}

/// Counts the turns that end for this reason, from 1.
fn turn(message: &Value, place: &mut usize) -> usize {
    let is_turn = message["result"]["stopReason"].is_string();
    *place += usize::from(is_turn);
    if is_turn { *place } else { 0 }
}

/// Counts the results that are empty, from 1.
fn done(message: &Value, place: &mut usize) -> usize {
    let is_done = message["result"] == json!({});
    *place += usize::from(is_done);
    if is_done { *place } else { 0 }
}

/// True for what answers that a session was taken up.
fn is_loaded(message: &Value) -> bool {
    message["result"].get("configOptions").is_some() && message["result"].get("sessionId").is_none()
}

fn is_canary(message: &Value) -> bool {
    message["error"]["data"]["method"] == "_tieline.check/canary"
}

fn stops(message: &mut Value, old: &str, new: &str) {
    if message["result"]["stopReason"] == old {
        message["result"]["stopReason"] = new.into();
    }
}

/// What the agent says, under the session that was opened last.
fn astray(_: usize, _: &mut usize, mut m: Value) -> Vec<Value> {
    static LAST: std::sync::Mutex<Value> = std::sync::Mutex::new(Value::Null);
    let mut last = LAST.lock().unwrap();
    if m["result"]["sessionId"].is_string() {
        *last = m["result"]["sessionId"].clone();
    }
    if kind(&m).starts_with("agent_message") {
        m["params"]["sessionId"] = last.clone();
    }
    vec![m]
}

/// No session is opened, for this reason.
fn no_session(m: Value, code: i64) -> Vec<Value> {
    let opened = m["result"]["sessionId"].is_string();
    if m["method"] == "session/update" { vec![] } else { vec![if opened { failed(&m, code) } else { m }] }
}

/// The first turn of the first process that is to go on ends at once.
fn left_behind(process: usize, place: &mut usize, m: Value, stop: &str) -> Vec<Value> {
    let starts = m["params"]["update"]["content"]["text"].as_str().is_some_and(|text| text.contains("started"));
    *place += usize::from(starts);
    let ended = answered(&json!({"id": 4}), json!({"stopReason": stop}));
    let is_end = m["id"] == 4 && m.get("method").is_none();
    match process {
        2 if starts && *place == 1 => vec![m, ended],
        2 if is_end => vec![],
        _ => vec![m],
    }
}

type Change = fn(usize, &mut usize, Value) -> Vec<Value>;
/// What fails, in which dialect and scenario, and the defect.
type Row = (&'static str, Dialect, &'static str, Change);

use Dialect::{V1, V2};

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("hello-newer", V1, "hello", |process, _, m| vec![if process == 2 { failed(&m, -32603) } else { m }]),
    ("hello-echo", V1, "hello", |process, _, mut m| { if process == 3 { m["result"]["protocolVersion"] = 7.into(); } vec![m] }),
    ("hello-broken", V1, "hello", |process, _, m| vec![if process == 4 { answered(&m, json!({"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1"}})) } else { m }]),
    ("hello-needed", V1, "hello", |process, _, m| vec![if process == 5 { answered(&m, json!({"sessionId": "s"})) } else { m }]),
    ("stop-reason turn-ends", V1, "turn", |_, _, mut m| { stops(&mut m, "end_turn", "cancelled"); vec![m] }),
    ("stop-reason-v2 turn-ends", V2, "turn", |_, _, mut m| { if m["params"]["update"]["stopReason"] == "end_turn" { m["params"]["update"]["stopReason"] = "cancelled".into(); } vec![m] }),
    // An answer that can't be read is one fault, whatever can't be told for it.
    ("result-shape", V1, "turn", |_, _, mut m| { if m["result"]["stopReason"].is_string() { m["result"]["stopReason"] = Value::Null; } vec![m] }),
    ("result-shape", V1, "cancel", |_, _, mut m| { if m["result"]["stopReason"].is_string() { m["result"]["stopReason"] = Value::Null; } vec![m] }),
    ("result-shape", V1, "content", |_, _, mut m| { if m["result"]["stopReason"].is_string() { m["result"]["stopReason"] = Value::Null; } vec![m] }),
    ("result-shape", V1, "sessions", |_, _, mut m| {
        if m["result"]["sessionId"].is_string() { m["result"] = json!({"session_id": "s"}); }
        if m["method"] == "session/update" { vec![] } else { vec![m] }
    }),
    ("rpc-answer", V1, "hello", |_, _, mut m| { if m["error"].is_object() { m["error"] = "bad".into(); } vec![m] }),
    ("rpc-answer", V1, "probes", |_, _, mut m| { if m["error"].is_object() { m["error"] = "bad".into(); } vec![m] }),
    ("stop-reason", V1, "turn", |_, _, mut m| { stops(&mut m, "end_turn", "done"); vec![m] }),
    // A hello that can't be used is judged, and nothing else is: a version that is a text, and version 2 in the words of version 1.
    ("result-shape", V1, "end", |_, _, mut m| { if m["result"]["protocolVersion"] == 1 { m["result"]["protocolVersion"] = "1".into(); } vec![m] }),
    ("result-shape", V2, "end", |_, _, mut m| {
        if m["result"]["protocolVersion"] == 2 {
            m["result"] = json!({"protocolVersion": 2, "agentCapabilities": {}, "agentInfo": m["result"]["info"], "authMethods": []});
        }
        vec![m]
    }),
    ("turn-said", V1, "turn", |_, _, m| if kind(&m) == "agent_message_chunk" { vec![] } else { vec![m] }),
    ("session-named turn-said", V1, "turn", |_, _, mut m| { if kind(&m) == "agent_message_chunk" { m["params"]["sessionId"] = "other".into(); } vec![m] }),
    ("turn-again", V1, "turn", |_, place, m| vec![if turn(&m, place) == 2 { failed(&m, -32603) } else { m }]),
    ("sessions-parallel", V1, "sessions", |_, place, m| vec![if turn(&m, place) == 1 { failed(&m, -32603) } else { m }]),
    ("cancel-answered", V1, "cancel", |_, _, mut m| { stops(&mut m, "cancelled", "end_turn"); vec![m] }),
    ("cancel-answered", V2, "cancel", |_, _, mut m| { if m["params"]["update"]["stopReason"] == "cancelled" { m["params"]["update"]["stopReason"] = "end_turn".into(); } vec![m] }),
    ("cancel-idle stop-reason", V1, "cancel", |_, place, mut m| { if turn(&m, place) == 1 { stops(&mut m, "end_turn", "cancelled"); } vec![m] }),
    ("cancel-then", V1, "cancel", |_, place, m| vec![if turn(&m, place) == 3 { failed(&m, -32603) } else { m }]),
    ("cancel-at-once", V1, "cancel", |_, place, m| vec![if turn(&m, place) == 4 { failed(&m, -32603) } else { m }]),
    // What a cancel that was for nobody has left behind ends the turn after the next one, in one way or the other.
    ("cancel-idle stop-reason", V1, "cancel", |process, place, m| left_behind(process, place, m, "cancelled")),
    ("cancel-idle", V1, "cancel", |process, place, m| left_behind(process, place, m, "end_turn")),
    // What is said in one session comes under the id of the other.
    ("sessions-parallel", V1, "sessions", astray),
    ("sessions-parallel", V2, "sessions", astray),
    // No session is opened, and no login is asked for.
    ("sessions-differ", V1, "sessions", |_, _, m| no_session(m, -32603)),
    // Files are asked for although none are offered.
    ("can-files", V1, "tools", |process, place, m| {
        let ask = json!({"jsonrpc": "2.0", "id": 777, "method": "fs/read_text_file", "params": {"sessionId": m["params"]["sessionId"], "path": "/a.txt"}});
        *place += usize::from(kind(&m) == "tool_call");
        if process == 2 && *place == 1 && kind(&m) == "tool_call" { vec![m, ask] } else { vec![m] }
    }),
    // What version 2 has instead is none of version 1.
    ("params-shape", V1, "permission", |_, _, mut m| {
        if m["method"] == "session/request_permission" {
            let call = m["params"]["toolCall"].take();
            m["params"].as_object_mut().unwrap().remove("toolCall");
            m["params"]["title"] = call["title"].clone();
            m["params"]["toolCallId"] = call["toolCallId"].clone();
        }
        vec![m]
    }),
    ("result-shape", V1, "end", |_, _, mut m| { if m["result"]["protocolVersion"] == 1 { m["result"]["agentCapabilities"]["loadSession"] = json!({}); } vec![m] }),
    ("hello-info", V1, "end", |_, _, mut m| { if m["result"]["protocolVersion"] == 1 { m["result"]["info"] = m["result"]["agentInfo"].take(); } vec![m] }),
    // The turn beside the one that is cancelled ends with it, in the words of either version.
    ("cancel-named stop-reason", V1, "sessions", |_, place, m| {
        let beside = answered(&json!({"id": 4}), json!({"stopReason": "cancelled"}));
        match turn(&m, place) { 2 => vec![m, beside], 3 => vec![], _ => vec![m] }
    }),
    ("cancel-named stop-reason-v2", V2, "sessions", |_, _, m| {
        static SESSIONS: std::sync::Mutex<Vec<Value>> = std::sync::Mutex::new(Vec::new());
        let mut sessions = SESSIONS.lock().unwrap();
        sessions.extend(m["result"].get("sessionId").cloned());
        let ends = m["params"]["update"]["stopReason"] == "cancelled";
        let mut beside = m.clone();
        beside["params"]["sessionId"] = sessions.last().cloned().unwrap_or_default();
        if ends && Some(&m["params"]["sessionId"]) == sessions.first() { vec![m, beside] } else { vec![m] }
    }),
    ("cancel-asked", V1, "cancel-question", |_, _, mut m| { stops(&mut m, "cancelled", "end_turn"); vec![m] }),
    ("permission-allow permission-reject", V1, "permission", |_, _, mut m| {
        for option in m["params"]["options"].as_array_mut().into_iter().flatten() {
            let kind = option["kind"].as_str().unwrap();
            let (allows, times) = kind.split_once('_').unwrap();
            option["kind"] = format!("{}_{times}", if allows == "allow" { "reject" } else { "allow" }).into();
        }
        vec![m]
    }),
    ("permission-reject-turn", V1, "permission", |process, place, m| vec![if process == 2 && turn(&m, place) == 1 { failed(&m, -32603) } else { m }]),
    ("tool-told", V1, "tools", |_, _, m| if kind(&m).starts_with("tool_call") { vec![] } else { vec![m] }),
    ("tool-fails", V1, "tools", |_, place, m| vec![if turn(&m, place) == 2 { failed(&m, -32603) } else { m }]),
    ("content-link", V1, "content", |_, place, m| vec![if turn(&m, place) == 1 { failed(&m, -32603) } else { m }]),
    ("content-refused-v1", V1, "content", |_, _, m| vec![if m["error"]["code"] == -32602 { answered(&m, json!({"stopReason": "end_turn"})) } else { m }]),
    ("content-refused", V2, "content", |_, _, mut m| { if m["error"]["code"] == -32602 { m["error"]["code"] = (-32603).into(); } vec![m] }),
    ("load-replays", V1, "load", |_, _, m| if kind(&m) == "user_message_chunk" { vec![] } else { vec![m] }),
    ("load-replays", V2, "load", |process, _, m| if process == 3 && kind(&m).starts_with("agent_message") { vec![] } else { vec![m] }),
    ("load-replays", V1, "load", |_, _, m| vec![if is_loaded(&m) || m["error"]["code"] == -32002 { failed(&m, -32600) } else { m }]),
    ("resume-goes-on", V1, "resume", |_, _, m| vec![if is_loaded(&m) { failed(&m, -32600) } else { m }]),
    ("load-goes-on", V1, "load", |process, place, m| vec![if process == 3 && turn(&m, place) == 1 { failed(&m, -32603) } else { m }]),
    ("load-unknown", V1, "load", |process, _, m| vec![if process == 3 && m["error"].is_object() { answered(&m, json!({})) } else { m }]),
    ("resume-goes-on", V1, "resume", |process, place, m| vec![if process == 3 && turn(&m, place) == 1 { failed(&m, -32603) } else { m }]),
    ("list-has", V1, "list", |_, _, mut m| { if m["result"]["sessions"].is_array() { m["result"]["sessions"] = json!([]); } vec![m] }),
    ("list-folder", V1, "list", |_, _, mut m| { if m["result"]["sessions"][0].is_object() { m["result"]["sessions"][0]["cwd"] = "/elsewhere".into(); } vec![m] }),
    ("list-cursor", V1, "list", |_, _, m| vec![if m["error"]["code"] == -32602 { answered(&m, json!({"sessions": []})) } else { m }]),
    ("delete-gone", V1, "list", |_, place, m| vec![if done(&m, place) == 1 { failed(&m, -32603) } else { m }]),
    ("delete-unknown", V1, "list", |_, place, m| vec![if done(&m, place) == 2 { failed(&m, -32002) } else { m }]),
    ("close-answered", V1, "close", |_, place, m| vec![if done(&m, place) == 1 { failed(&m, -32603) } else { m }]),
    ("close-cancels", V1, "close", |_, _, mut m| { stops(&mut m, "cancelled", "end_turn"); vec![m] }),
    ("mode-set", V1, "options", |_, _, m| vec![if m["result"] == json!({}) { failed(&m, -32603) } else { m }]),
    ("mode-unknown", V1, "options", |_, place, m| { let bad = m["error"]["code"] == -32602; *place += usize::from(bad); vec![if bad && *place == 1 { answered(&m, json!({})) } else { m }] }),
    ("option-set", V1, "options", |_, _, mut m| { if m["result"].get("configOptions").is_some() && m["result"].get("sessionId").is_none() { m["result"]["configOptions"] = json!([]); } vec![m] }),
    ("option-unknown", V1, "options", |_, place, m| { let bad = m["error"]["code"] == -32602; *place += usize::from(bad); vec![if bad && *place == 2 { answered(&m, json!({"configOptions": []})) } else { m }] }),
    ("login-unknown", V1, "options", |_, place, mut m| {
        if m["result"]["protocolVersion"] == 1 { m["result"]["authMethods"] = json!([{"id": "x", "name": "X"}]); }
        let bad = m["error"].is_object();
        *place += usize::from(bad);
        vec![if bad && *place == 3 { answered(&m, json!({})) } else { m }]
    }),
    ("result-shape", V1, "end", |_, _, mut m| { if m["result"]["protocolVersion"] == 1 { m["result"]["authMethods"] = json!([{"methodId": "x", "name": "X"}]); } vec![m] }),
    ("params-shape", V1, "turn", |_, _, mut m| { if kind(&m) == "agent_message_chunk" { m["params"]["update"]["content"]["type"] = "hologram".into(); } vec![m] }),
    ("offered-only", V1, "options", |_, _, mut m| { if m["error"]["data"]["method"] == "logout" || m["error"]["code"] == -32601 { m["error"]["code"] = (-32603).into(); } vec![m] }),
];

/// Defects that no edit of frames can make: the command, what it is told, what fails.
fn others() -> Vec<(&'static str, Dialect, Plan)> {
    let state = || Box::leak(Box::new(tempfile::tempdir().unwrap()));
    let late = |mut plan: Plan| {
        plan.settings.patience = SHORT;
        plan
    };
    let drop_sessions: Change = |_, _, m| if m["result"]["sessionId"].is_string() { vec![] } else { vec![m] };
    // One that does not answer anything unknown is another matter; the first process is asked for that.
    let drop_unknown: Change = |_, _, m| if m["error"]["code"] == -32601 { vec![] } else { vec![m] };
    let drop_second: Change = |_, place, m| if turn(&m, place) == 2 { vec![] } else { vec![m] };
    let drop_canary: Change = |process, _, m| if process > 1 && is_canary(&m) { vec![] } else { vec![m] };
    let drop_turns: Change = |_, _, m| if m["result"]["stopReason"].is_string() { vec![] } else { vec![m] };
    let drop_fourth: Change = |_, place, m| if turn(&m, place) == 4 { vec![] } else { vec![m] };
    let drop_idle: Change = |_, _, m| if m["params"]["update"]["state"] == "idle" { vec![] } else { vec![m] };
    let same: Change = |_, _, mut m| {
        // The first id for every session.
        static FIRST: std::sync::Mutex<Option<Value>> = std::sync::Mutex::new(None);
        if m["result"]["sessionId"].is_string() {
            m["result"]["sessionId"] = FIRST.lock().unwrap().get_or_insert(m["result"]["sessionId"].clone()).clone();
        }
        vec![m]
    };
    let mut writes = plan(state(), "AGENT --mode edit", None, &["permission"]);
    let write = r#"{"write": "model: write made.txt made\nmodel: run touch other.txt"}"#;
    writes.settings.prompts = Some(Prompts::parse(write).unwrap());
    vec![
        ("agent-answers", V1, late(plan(state(), "AGENT", edit(drop_sessions), &["turn"]))),
        ("cancel-at-once", V1, late(plan(state(), "AGENT", edit(drop_fourth), &["cancel"]))),
        ("agent-answers turn-ends", V1, late(plan(state(), "AGENT", edit(drop_turns), &["turn"]))),
        ("agent-answers", V1, late(plan(state(), "AGENT", edit(drop_turns), &["permission"]))),
        ("agent-answers", V1, late(plan(state(), "AGENT", edit(drop_turns), &["content"]))),
        ("turn-ends", V2, late(plan(state(), "AGENT", edit(drop_idle), &["turn"]))),
        // It ends at a line that is no JSON: the probe, and whatever else it says, is not all that is wrong.
        ("agent-lives probe-json-broken", V1, plan(state(), "sed -u '/\"method\":$/q' | AGENT", None, &["probes"])),
        // What is a note, such as an array, stays one if the agent ends at it.
        ("probe-batch probe-batch-empty", V1, plan(state(), "sed -u '/^\\[/q' | AGENT", None, &["probes"])),
        ("turn-busy", V1, late(plan(state(), "AGENT", edit(drop_canary), &["cancel"]))),
        ("content-large", V1, late(plan(state(), "AGENT", edit(drop_second), &["content"]))),
        // Told once, and nothing else is: neither what can't be seen without it, nor what is behind it.
        (
            "agent-answers probe-extension-unknown probe-method-unknown",
            V1,
            late(plan(state(), "AGENT", edit(drop_unknown), &["probes", "cancel", "sessions", "end", "content"])),
        ),
        // No UTF-8, in what is said.
        ("wire-json", V1, plan(state(), "AGENT | LC_ALL=C sed -u 's/hello/\\xe9/'", None, &["turn"])),
        // A byte order mark before the hello.
        ("wire-json", V1, plan(state(), "AGENT | LC_ALL=C sed -u '1s/^/\\xef\\xbb\\xbf/'", None, &["turn"])),
        ("agent-lives", V1, plan(state(), "head -n 1 | AGENT", None, &["turn"])),
        ("session-named sessions-differ", V1, plan(state(), "AGENT", edit(same), &["sessions"])),
        // What follows from prompts that are never answered is not told as faults of their own.
        (
            "agent-answers turn-ends",
            V1,
            late(plan(state(), "AGENT", edit(drop_turns), &["turn", "sessions", "cancel-question"])),
        ),
        ("permission-reject permission-unknown", V1, writes),
        ("end-exits", V1, plan(state(), "AGENT; sleep 30", None, &["end"])),
        ("end-code", V1, plan(state(), "AGENT; exit 3", None, &["end"])),
    ]
}

#[test]
fn our_agent_keeps_every_rule_in_every_dialect() {
    let state = tempfile::tempdir().unwrap();
    for dialect in Dialect::ALL {
        let sheet = block_on(check_agent(&plan(&state, "AGENT", None, &[]), dialect));
        let wrong: Vec<String> = sheet
            .findings
            .values()
            .filter(|finding| finding.verdict == Verdict::Broken)
            .map(|finding| format!("{} {}", finding.check.id, finding.said))
            .collect();
        assert!(wrong.is_empty(), "{dialect}: {wrong:#?}");
        assert_eq!(sheet.dead, None);
        let held = sheet.findings.values().filter(|finding| finding.verdict == Verdict::Holds).count();
        assert!(held > 80, "{dialect}: only {held} were looked at");
    }
}

#[test]
fn each_defect_fails_exactly_its_checks() {
    let mut wrong = Vec::new();
    for (ids, dialect, part, change) in ROWS {
        let state = tempfile::tempdir().unwrap();
        let sheet = block_on(check_agent(&plan(&state, "AGENT", edit(*change), &[part]), *dialect));
        let named: BTreeSet<&str> = ids.split(' ').collect();
        for id in &named {
            let played = scenarios(Side::Agent, &|check| check.id == *id);
            assert!(played.contains(part), "--only {id} would not play {part}: {played:?}");
        }
        if broken(&sheet) != named {
            let said: Vec<String> = sheet
                .findings
                .values()
                .filter(|finding| finding.verdict == Verdict::Broken)
                .map(|finding| format!("{}: {}", finding.check.id, finding.said))
                .collect();
            wrong.push(format!("{ids} in {dialect} {part}: {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_other_defect_fails_exactly_its_checks() {
    let mut wrong = Vec::new();
    for (ids, dialect, plan) in others() {
        let sheet = block_on(check_agent(&plan, dialect));
        let found = broken(&sheet);
        if found != ids.split(' ').collect() {
            wrong.push(format!("{ids} in {:?}: {found:?}", plan.only));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_probe_fails_when_another_answer_comes() {
    let mut wrong = Vec::new();
    for probe in all().filter(|check| check.kind.name() == "probe") {
        let dialect = Dialect::ALL.into_iter().rev().find(|dialect| probe.dialects.has(*dialect)).unwrap();
        let state = tempfile::tempdir().unwrap();
        // Before the question behind the probe is answered, something that nobody asked for.
        let change: Change = |_, _, m| {
            let null = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -1, "message": "broken on purpose"}});
            if is_canary(&m) { vec![null, m] } else { vec![m] }
        };
        let mut plan = plan(&state, "AGENT", edit(change), &["probes"]);
        plan.wanted = Arc::new(|check: &Check| check.kind.name() != "probe" || check.id == probe.id);
        let sheet = block_on(check_agent(&plan, dialect));
        let found = broken(&sheet);
        if found != BTreeSet::from([probe.id]) {
            wrong.push(format!("{} in {dialect}: {found:?}", probe.id));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_check_of_agents_can_fail() {
    let mut shown: BTreeSet<&str> = ROWS.iter().flat_map(|(ids, ..)| ids.split(' ')).collect();
    shown.extend(others().iter().flat_map(|(ids, ..)| ids.split(' ')));
    let scenarios = all().filter(|check| check.kind.name() == "scenario" && check.side == Some(Side::Agent));
    let missing: Vec<&str> = scenarios.map(|check| check.id).filter(|id| !shown.contains(id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn only_what_is_needed_is_played() {
    let agent = |id: &str| scenarios(Side::Agent, &|check| check.id == id);
    let client = |id: &str| scenarios(Side::Client, &|check| check.id == id);
    assert_eq!(agent("end-code"), ["end"]);
    assert_eq!(client("client-unoffered"), ["files", "terminals"]);
    // These may be broken anywhere.
    for id in ["agent-answers", "turn-last"] {
        assert_eq!(agent(id), parts(Side::Agent), "{id}");
    }
    assert_eq!(client("client-answers"), parts(Side::Client));
    // Nothing is asserted by a scenario that its name does not lead to.
    let probe = all().find(|check| check.kind.name() == "probe").unwrap();
    assert_eq!(agent(probe.id), ["probes"]);
}

#[test]
fn what_dies_through_our_own_fault_is_no_fault_of_the_agent() {
    let state = tempfile::tempdir().unwrap();
    // The first process only says hello.
    let change: Change = |process, _, m| if process == 1 { vec![m] } else { panic!("broken on purpose") };
    for (part, id) in [("turn", "turn-again"), ("probes", "probe-batch")] {
        let sheet = block_on(check_agent(&plan(&state, "AGENT", edit(change), &[part]), V1));
        let finding = &sheet.findings[id];
        assert_eq!((finding.verdict, finding.fails()), (Verdict::KitAtFault, true), "{id}");
        assert!(finding.said.contains("broken on purpose"), "{}", finding.said);
        assert_eq!(broken(&sheet), BTreeSet::new());
        // What another scenario asserts is left as it is.
        assert_eq!(sheet.findings["cancel-then"].verdict, Verdict::NotExercised);
    }
}

#[test]
fn without_a_login_or_a_turn_that_goes_on_nothing_is_held_against_an_agent() {
    let state = tempfile::tempdir().unwrap();
    let login: Change = |_, _, m| no_session(m, -32000);
    let sheet = block_on(check_agent(&plan(&state, "AGENT", edit(login), &["turn", "hello"]), V1));
    assert_eq!(broken(&sheet), BTreeSet::new());
    assert_eq!(sheet.findings["turn-ends"].verdict, Verdict::NotExercised);
    assert!(sheet.barred.as_ref().unwrap().contains("wants a login"), "{:?}", sheet.barred);
    // The turn that is to be cancelled is over before.
    let mut short = plan(&state, "AGENT", None, &["cancel", "sessions", "close"]);
    short.settings.prompts =
        Some(Prompts::parse(r#"{"say": "model: say hello", "wait": "model: say hello"}"#).unwrap());
    let sheet = block_on(check_agent(&short, V1));
    assert_eq!(broken(&sheet), BTreeSet::new());
    let finding = &sheet.findings["cancel-answered"];
    assert_eq!(finding.verdict, Verdict::NotExercised);
    assert!(finding.said.contains("ended by itself"), "{}", finding.said);
    assert_eq!(sheet.barred, None);
}

#[test]
fn a_dead_agent_scores_nothing() {
    let state = tempfile::tempdir().unwrap();
    let sheet = block_on(check_agent(&plan(&state, "exit 3", None, &[]), V1));
    assert!(sheet.dead.is_some());
    assert!(sheet.findings.values().all(|finding| finding.verdict == Verdict::NotExercised));
}

/// The steps of the action are plain shell: they run here as they would there.
#[test]
fn the_github_action_runs_as_it_is_written() {
    let action =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.github/actions/check/action.yml"));
    let action = action.unwrap();
    let (_, script) = action.split_once("run: |\n").unwrap();
    let run = |agent: &str, baseline: &str| {
        let home = tempfile::tempdir().unwrap();
        let summary = home.path().join("summary.md");
        std::fs::write(home.path().join("known.txt"), baseline).unwrap();
        let bin = std::path::Path::new(TIELINE).parent().unwrap().display().to_string();
        let said = std::process::Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(home.path())
            .env_clear()
            .env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap()))
            .env("HOME", home.path())
            .env("GITHUB_STEP_SUMMARY", &summary)
            .envs([("AGENT", agent), ("DIALECT", "1"), ("PROMPTS", "directives"), ("MODEL", "")])
            .env("BASELINE", if baseline.is_empty() { "" } else { "known.txt" })
            .output()
            .unwrap();
        let summary = std::fs::read_to_string(summary).unwrap_or_default();
        let errors = String::from_utf8_lossy(&said.stderr).into_owned();
        (said.status.code(), String::from_utf8_lossy(&said.stdout).into_owned(), summary, errors)
    };
    let (code, said, summary, errors) = run("tieline agent --script puppet", "");
    assert_eq!(code, Some(0), "{said}{errors}");
    assert!(summary.contains("| agent tieline agent --script puppet | 1 | "), "{summary}{errors}");
    // What is known to be broken and holds is a failure, and so is an agent that does not start.
    let (code, said, _, errors) = run("tieline agent --script puppet", "1 rpc-once\n");
    assert_eq!(code, Some(1), "{said}{errors}");
    assert_eq!(run("false", "").0, Some(2));
}

/// Judges `tieline exec` behind a shell in these scenarios; `AGENT` is what it starts.
fn client(line: &str, parts: &[&'static str], patience: Duration) -> BTreeSet<&'static str> {
    let words = |words: &[&str]| words.iter().map(Into::into).collect();
    let line = line.replace("EXEC", &format!("'{TIELINE}' exec --allow-all --no-record hello --"));
    let plan = client::Plan {
        command: words(&["sh", "-c", &line, "{agent}"]),
        player: words(&[TIELINE, "check", "play"]),
        patience,
        only: parts.to_vec(),
        keys: None,
    };
    broken(&block_on(client::check_client(&plan, V1, &|_, _| {})).unwrap())
}

#[test]
fn each_defect_of_a_clients_process_fails_exactly_its_checks() {
    const ALL: [&str; 5] = ["talk", "crash", "hang", "hostile", "cancel"];
    assert_eq!(client("exec EXEC \"$0\"", &ALL, PATIENCE), BTreeSet::new());
    let short = Duration::from_secs(5);
    for (ids, line, part, patience) in [
        // It does not end when its agent has crashed.
        ("client-crash", "EXEC \"$0\"; sleep 60", "crash", short),
        // It is deaf to an interrupt, and so waits for ever.
        ("client-hang", "trap '' INT; EXEC \"$0\"; true", "hang", short),
        // It holds the agent's input open, and kills it.
        (
            "client-closes",
            "exec EXEC sh -c '\
            d=$(dirname \"$0\"); mkfifo $d/f; exec 3<&0; sleep 60 >$d/f & s=$!; cat <&3 >$d/f & \"$0\" <$d/f & p=$!; \
            until grep -q over $d/found.told 2>/dev/null; do sleep 0.1; done; kill -9 $p; kill $s' \"$0\"",
            "talk",
            PATIENCE,
        ),
        // It prints what it is told.
        ("client-hostile", "EXEC \"$0\"; printf '\\033]0;tieline-check\\007'", "hostile", PATIENCE),
    ] {
        assert_eq!(client(line, &[part], patience), ids.split(' ').collect(), "{line}");
    }
}

#[test]
fn our_agent_behind_a_bridge_keeps_every_rule_of_the_other_dialects() {
    for speaks in Dialect::ALL {
        for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != speaks) {
            let state = tempfile::tempdir().unwrap();
            let line = format!("exec '{TIELINE}' bridge --agent-protocol {speaks} -- AGENT");
            let sheet = block_on(check_agent(&plan(&state, &line, None, &[]), dialect));
            let wrong: Vec<String> = sheet
                .findings
                .values()
                .filter(|finding| finding.verdict == Verdict::Broken && finding.check.level != Level::Note)
                .map(|finding| format!("{} {}", finding.check.id, finding.said))
                .collect();
            assert!(wrong.is_empty(), "{dialect} before {speaks}: {wrong:#?}");
            assert_eq!((sheet.dead, sheet.unspoken), (None, None), "{dialect} before {speaks}");
            let held = sheet.findings.values().filter(|finding| finding.verdict == Verdict::Holds).count();
            assert!(held > 70, "{dialect} before {speaks}: only {held} were looked at");
        }
    }
}
