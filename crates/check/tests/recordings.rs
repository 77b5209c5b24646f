//! What `check trace` says of a whole recording: of its end, of what has only the shape of values, of faults of several kinds.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use std::fmt::Write as _;
use tieline_check::{Finding, Sheet, Verdict, trace};
use tieline_trace::{Frames, Kept, Side};

const HELLO: [(Side, &str); 4] = [
    (
        Side::Client,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientInfo":{"name":"c","version":"1"}}}"#,
    ),
    (
        Side::Agent,
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"a","version":"1"}}}"#,
    ),
    (Side::Client, r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#),
    (Side::Agent, r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#),
];
const PROMPT: (Side, &str) = (
    Side::Client,
    r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}"#,
);
const ENDED: (Side, &str) = (Side::Agent, r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#);

fn update(update: &str) -> (Side, String) {
    let frame =
        format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#);
    (Side::Agent, frame)
}

/// The sheets of client and agent of a recording with these frames, and what ends it.
fn judged<'f>(frames: impl IntoIterator<Item = (Side, &'f str)>, ends: &[Side], kept: Kept) -> [Sheet; 2] {
    let mut text = json!({"tieline-trace": 1, "started": 0, "kept": kept, "command": ["a"]}).to_string() + "\n";
    for (from, frame) in frames {
        let _ = writeln!(text, "{}", json!({"at": 1, "from": from, "raw": format!("{frame}\n")}));
    }
    for from in ends {
        let _ = writeln!(text, "{}", json!({"at": 2, "from": from, "raw": "", "end": true}));
    }
    let sheets = trace::judge(&mut Frames::new(text.as_bytes(), kept), &|_| true).unwrap();
    sheets.try_into().unwrap()
}

fn found<'s>(sheet: &'s Sheet, id: &str) -> (Verdict, &'s str) {
    let Finding { verdict, said, .. } = &sheet.findings[id];
    (*verdict, said)
}

#[test]
fn a_prompt_that_is_never_answered_is_told() {
    let frames = || HELLO.into_iter().chain([PROMPT]);
    // The agent is gone: it will not answer any more.
    let [_, agent] = judged(frames(), &[Side::Agent, Side::Exit], Kept::Exact);
    assert_eq!(found(&agent, "rpc-once"), (Verdict::Broken, "`session/prompt` is not answered when the agent ends"));
    // The client left first, or the recording stops: nobody can tell what would have come.
    for ends in [&[Side::Client, Side::Agent][..], &[]] {
        let [_, agent] = judged(frames(), ends, Kept::Exact);
        let (verdict, said) = found(&agent, "rpc-once");
        assert_eq!(
            (verdict, said),
            (Verdict::NotExercised, "`session/prompt` is not answered when the recording ends")
        );
    }
    let [_, agent] = judged(frames().chain([ENDED]), &[Side::Agent], Kept::Exact);
    assert_eq!(found(&agent, "rpc-once"), (Verdict::Holds, ""));
}

#[test]
fn what_the_shape_of_values_can_show_is_judged_and_the_rest_says_why_not() {
    let paths = ["/w/a", "C:\\\\w\\\\a", "w/a"].map(|path| {
        let call = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","status":"completed","locations":[{"path":"PATH"}]}"#;
        let image = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"%%%%","mimeType":"image/png"}}"#;
        (path, [update(&call.replace("PATH", path)), update(image)])
    });
    for (path, updates) in &paths {
        let updates = updates.iter().map(|(from, frame)| (*from, frame.as_str()));
        let frames = HELLO.into_iter().chain([PROMPT]).chain(updates).chain([ENDED]);
        let [_, agent] = judged(frames, &[Side::Client], Kept::Shape);
        let wanted = if *path == "w/a" { Verdict::Broken } else { Verdict::Holds };
        assert_eq!(found(&agent, "path-absolute").0, wanted, "{path}");
        let (verdict, said) = found(&agent, "content-base64");
        assert!(verdict == Verdict::NotExercised && said.contains("--shape"), "{verdict:?} {said}");
    }
}

#[test]
fn each_different_fault_of_a_law_is_told_once() {
    let faults = [
        r#"{"sessionUpdate":"plan","entries":5}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":"no"}"#,
        r#"{"sessionUpdate":"plan","entries":5}"#,
    ];
    let updates = faults.map(update);
    let frames = HELLO.into_iter().chain([PROMPT]).chain(updates.iter().map(|(from, frame)| (*from, frame.as_str())));
    let [_, mut agent] = judged(frames.chain([ENDED]), &[Side::Client], Kept::Exact);
    let said = found(&agent, "params-shape").1.to_owned();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains("update.entries") && lines[1].contains("update.content"), "{said}");
    // What another part found is added, and ids don't make it another fault.
    let mut other = agent.findings["params-shape"].clone();
    other.said = "something else with \"c1\"\nsomething else with \"c2\"".to_owned();
    agent.add(other);
    assert_eq!(found(&agent, "params-shape").1, format!("{said}\nsomething else with \"c1\""));
}

#[test]
fn a_mode_in_a_session_without_modes_is_none_of_its_modes() {
    let mode = update(r#"{"sessionUpdate":"current_mode_update","currentModeId":"x"}"#);
    let frames = HELLO.into_iter().chain([(mode.0, mode.1.as_str())]);
    let [_, agent] = judged(frames, &[Side::Client], Kept::Exact);
    assert_eq!(found(&agent, "mode-known"), (Verdict::Broken, "the mode \"x\" is none of the modes of the session"));
}

#[test]
fn a_byte_order_mark_is_the_agents_and_nobody_elses() {
    for kept in [Kept::Exact, Kept::Redacted, Kept::Shape] {
        let marked = format!("\u{feff}{}", HELLO[1].1);
        let frames = [HELLO[0], (Side::Agent, &*marked), HELLO[2], HELLO[3]];
        let [client, agent] = judged(frames, &[Side::Client], kept);
        assert_eq!(found(&client, "hello-first").0, Verdict::Holds);
        let (verdict, said) = found(&agent, "wire-json");
        assert!(verdict == Verdict::Broken && said.contains("U+FEFF"), "{kept:?} {said}");
        let broken = agent.findings.values().filter(|finding| finding.verdict == Verdict::Broken).count();
        assert_eq!(broken, 1);
    }
}

#[test]
fn a_client_is_not_blamed_for_an_answer_that_could_not_be_read() {
    let frames = [HELLO[0], (Side::Agent, "{\"jsonrpc\":"), (Side::Agent, "\"2.0\"}"), HELLO[2], HELLO[3]];
    let [client, agent] = judged(frames, &[Side::Client], Kept::Exact);
    assert_ne!(found(&client, "hello-first").0, Verdict::Broken);
    assert_eq!(found(&agent, "wire-json").0, Verdict::Broken);
}
