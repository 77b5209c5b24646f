//! Every law is broken by one edit of a good recording, and by that edit no other law is.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use tieline_check::table::{Kind, all};
use tieline_check::{Breach, Judge};
use tieline_schema::{AgentCall, Dialect, Direction, METHODS, MethodKind, find};
use tieline_trace::Side;

/// One edit of a recording.
enum Edit {
    /// In the first line that holds the first text, the second becomes the third.
    Change(&'static str, &'static str, &'static str),
    /// The first line that holds this is left out.
    Drop(&'static str),
    /// It comes twice.
    Twice(&'static str),
    /// A line before it.
    Before(&'static str, &'static str),
    /// A line after it.
    After(&'static str, &'static str),
}
use Edit::{After, Before, Change, Drop, Twice};

const UPDATE: &str = r#"< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"late"}}}}"#;

#[rustfmt::skip]
const ROWS: &[(&str, &str, &str, Edit)] = &[
    ("wire-json", "agent", "1", Before("id\":1,\"result", "< npm WARN deprecated")),
    ("wire-json", "agent", "1", Change("authMethods", "< {", "< \u{feff}{")),
    ("wire-json", "client", "1", Before("session/set_mode", "> oops")),
    ("rpc-version", "agent", "1", Change("< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\"", "\"jsonrpc\":\"2.0\",", "")),
    ("rpc-version", "client", "2", Change("session/list", "\"2.0\"", "\"1.0\"")),
    ("rpc-message", "agent", "1", Before("\"id\":8,\"result", "< {\"jsonrpc\":\"2.0\"}")),
    ("rpc-message", "client", "1", Before("session/list", "> []")),
    ("rpc-message", "agent", "1", Change("\"id\":8,\"result", "\"id\":8", "\"id\":8,\"id\":8")),
    ("rpc-answer", "agent", "1", Change("\"code\":-32601", "-32601", "\"-32601\"")),
    ("rpc-answer", "client", "1", Change("> {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\"", "}}", "},\"error\":{\"code\":1,\"message\":\"m\"}}")),
    ("rpc-once", "agent", "1", Twice("\"id\":8,\"result")),
    ("rpc-once", "client", "1", Twice("\"outcome\":\"selected\"")),
    ("rpc-ids", "client", "2", Before("\"id\":6,\"result", "> {\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"_x/y\"}")),
    ("rpc-ids-v1", "client", "1", Before("\"id\":8,\"result", "> {\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"_x/y\"}")),
    ("method-known", "agent", "1", Before("\"id\":8,\"result", "< {\"jsonrpc\":\"2.0\",\"method\":\"session/weather\"}")),
    ("method-known", "client", "2", Before("session/list", "> {\"jsonrpc\":\"2.0\",\"id\":70,\"method\":\"authenticate\",\"params\":{\"methodId\":\"t\"}}")),
    ("method-kind", "agent", "1", Change("agent_message_chunk", "\"method\"", "\"id\":77,\"method\"")),
    ("method-kind", "client", "1", Before("\"id\":9,\"method", "> {\"jsonrpc\":\"2.0\",\"method\":\"session/list\",\"params\":{}}")),
    ("params-shape", "agent", "1", Change("available_commands", "[{\"name\":\"help\",\"description\":\"d\"}]", "5")),
    ("params-shape", "client", "1", Change("session/list", "\"/w\"", "5")),
    ("params-shape", "agent", "1", Change("\"kind\":\"edit\"", "\"edit\"", "\"editing\"")),
    ("params-shape", "agent", "1", Change("agent_message_chunk", "\"type\":\"text\"", "\"type\":\"hologram\"")),
    ("params-shape", "agent", "1", Change("\"type\":\"diff\"", "\"type\":\"diff\"", "\"type\":\"_patch\"")),
    ("params-shape", "client", "1", Change("session/prompt", "\"type\":\"text\"", "\"type\":\"_note\"")),
    ("params-shape tool-finished", "agent", "1", Change("\"tool_call_update\"", "\"completed\"", "\"done\"")),
    ("result-shape", "agent", "1", Change("\"sessions\"", "\"sessions\":[{\"sessionId\":\"s\",\"cwd\":\"/w\"}]", "\"sessions\":5")),
    ("result-shape", "agent", "1", Change("authMethods", "\"id\":\"t\"", "\"methodId\":\"t\"")),
    ("result-shape", "agent", "1", Change("authMethods", "\"image\":true", "\"image\":{}")),
    ("result-shape", "agent", "1", Change("authMethods", "\"protocolVersion\":1", "\"protocolVersion\":2")),
    ("hello-info", "agent", "1", Change("agentInfo", "\"agentInfo\"", "\"info\"")),
    ("params-shape", "agent", "1", Change("session/request_permission", "\"toolCall\"", "\"title\":\"Write\",\"call\"")),
    ("result-shape", "agent", "2", Change("authMethods", "\"methodId\":\"t\"", "\"id\":\"t\"")),
    ("result-shape", "client", "1", Change("\"content\":\"x\"}}", "\"x\"", "5")),
    ("update-known", "agent", "2", Before("\"id\":6,\"result", "< {\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"plan\",\"entries\":[]}}}")),
    ("hello-first", "client", "1", Before("\"id\":0,\"result\":{\"protocolVersion", "> {\"jsonrpc\":\"2.0\",\"id\":90,\"method\":\"session/list\",\"params\":{}}")),
    ("hello-info", "agent", "1", Change("agentInfo", "\"agentInfo\":{\"name\":\"a\",\"version\":\"1\"},", "")),
    ("hello-info", "client", "1", Change("clientInfo", ",\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}", "")),
    ("session-named", "agent", "1", Change("available_commands", "\"sessionId\":\"s\"", "\"sessionId\":\"other\"")),
    ("session-early", "agent", "1", Before("\"id\":1,\"result\":{\"sessionId", "< {\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"available_commands_update\",\"availableCommands\":[]}}}")),
    ("session-open", "client", "1", Change("set_mode", "\"sessionId\":\"s\"", "\"sessionId\":\"other\"")),
    ("path-absolute", "agent", "1", Change("\"type\":\"diff\"", "\"type\":\"diff\",\"path\":\"/w/a\"", "\"type\":\"diff\",\"path\":\"w/a\"")),
    ("path-absolute", "client", "1", Change("session/list", "/w", "w")),
    ("path-absolute", "agent", "2", Change("\"operation\"", "/w/a", "a")),
    ("turn-last", "agent", "1", After("\"stopReason\":\"end_turn\"", UPDATE)),
    ("turn-last", "agent", "1", After("\"id\":6,\"result", UPDATE)),
    ("stop-reason", "agent", "1", Change("end_turn", "end_turn", "_tired")),
    ("stop-reason-v2", "agent", "2", Change("end_turn", "end_turn", "tired")),
    ("prompt-message", "agent", "2", Change("\"user_message\"", "\"messageId\":\"u1\"", "\"messageId\":\"u9\"")),
    ("state-told", "agent", "2", Drop("\"running\"")),
    ("message-id", "agent", "2", Change("agent_message_chunk", "\"messageId\":\"a1\",", "")),
    ("resume-state", "agent", "2", Drop("\"state\":\"idle\"}")),
    ("resume-silent", "agent", "1", Before("\"id\":7,\"result", "< {\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"user_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"go\"}}}}")),
    ("tool-unique", "agent", "1", Before("\"stopReason\":\"cancelled\"", "< {\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c1\",\"title\":\"Again\"}}}")),
    ("tool-announced", "agent", "1", Before("\"stopReason\":\"end_turn\"", "< {\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c7\",\"status\":\"completed\"}}}")),
    ("tool-finished", "agent", "1", Drop("\"tool_call_update\"")),
    ("tool-finished", "agent", "1", Before("\"stopReason\":\"end_turn\"", "< {\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c1\",\"status\":\"in_progress\"}}}")),
    ("tool-title", "agent", "2", Change("\"title\":\"Edit\"", "\"title\":\"Edit\",", "")),
    ("can-files", "agent", "1", Change("readTextFile", "\"readTextFile\":true", "\"readTextFile\":false")),
    ("can-terminal", "agent", "1", Change("clientCapabilities", "\"terminal\":true,\"auth\"", "\"terminal\":false,\"auth\"")),
    ("can-elicit", "agent", "1", Change("clientCapabilities", "\"elicitation\":{\"form\":{}}", "\"elicitation\":{}")),
    ("can-elicit", "agent", "2", Change("\"protocolVersion\"", "\"elicitation\":{\"form\":{}}", "\"elicitation\":{}")),
    ("can-update", "agent", "1", Change("clientCapabilities", "\"notices\":{},", "")),
    ("can-login", "agent", "1", Change("clientCapabilities", "\"auth\":{\"terminal\":true},", "")),
    ("can-login", "agent", "2", Change("\"protocolVersion\"", ",\"auth\":{\"terminal\":{}}", "")),
    ("can-sessions", "client", "1", Change("agentCapabilities", "\"loadSession\":true", "\"loadSession\":false")),
    ("can-prompt", "client", "1", Change("agentCapabilities", "\"image\":true", "\"image\":false")),
    ("can-mcp", "client", "1", Change("agentCapabilities", "\"http\":true", "\"http\":false")),
    ("prompt-empty", "client", "2", Change("session/prompt", "[{\"type\":\"text\",\"text\":\"go\"},{\"type\":\"image\",\"data\":\"AAAA\",\"mimeType\":\"image/png\"}]", "[]")),
    ("permission-options", "agent", "1", Change("\"optionId\":\"no\"", "\"optionId\":\"no\"", "\"optionId\":\"yes\"")),
    ("permission-answer", "client", "1", Change("\"selected\"", "\"yes\"", "\"maybe\"")),
    ("permission-cancel", "client", "1", Change("> {\"jsonrpc\":\"2.0\",\"id\":5,\"result\":", "{\"outcome\":\"cancelled\"}", "{\"outcome\":\"selected\",\"optionId\":\"yes\"}")),
    ("option-value", "agent", "1", Change("\"currentValue\":\"a\"", "\"currentValue\":\"a\"", "\"currentValue\":\"z\"")),
    ("option-choice", "client", "1", Change("set_config_option", "\"value\":\"b\"", "\"value\":\"z\"")),
    ("option-choice", "client", "1", Change("set_mode", "\"plan\"", "\"fly\"")),
    ("mode-known", "agent", "1", Change("current_mode_update", "\"plan\"", "\"fly\"")),
    ("command-name", "agent", "2", Change("availableCommands", "\"help\"", "\"/help\"")),
    ("content-base64", "client", "1", Change("session/prompt", "AAAA", "%%%%")),
    ("terminal-released", "agent", "1", After("> {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}", "< {\"jsonrpc\":\"2.0\",\"id\":30,\"method\":\"terminal/output\",\"params\":{\"sessionId\":\"s\",\"terminalId\":\"t1\"}}")),
];

fn good(dialect: &str) -> Vec<String> {
    let path = format!("{}/tests/good/{dialect}.txt", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn judged(lines: &[String]) -> Vec<Breach> {
    let mut judge = Judge::default();
    judge.alone = true;
    let look = |line: &String| {
        let from = if line.starts_with('<') { Side::Agent } else { Side::Client };
        judge.frame(from, &line.as_bytes()[2..])
    };
    lines.iter().flat_map(look).collect()
}

#[test]
fn good_recordings_break_nothing() {
    for dialect in ["1", "2"] {
        assert_eq!(judged(&good(dialect)), [], "{dialect}");
    }
}

#[test]
fn each_edit_breaks_exactly_its_law() {
    let mut wrong = Vec::new();
    for (number, (law, side, dialect, edit)) in ROWS.iter().enumerate() {
        let mut lines = good(dialect);
        let place = |lines: &[String], text: &str| {
            lines
                .iter()
                .position(|line| line.contains(text))
                .unwrap_or_else(|| panic!("row {number}: nothing has {text}"))
        };
        match edit {
            Change(on, old, new) => {
                let at = place(&lines, on);
                assert!(lines[at].contains(old), "row {number} {law}: {old}");
                lines[at] = lines[at].replacen(old, new, 1);
            }
            Drop(on) => drop(lines.remove(place(&lines, on))),
            Twice(on) => {
                let at = place(&lines, on);
                lines.insert(at, lines[at].clone());
            }
            Before(on, line) => lines.insert(place(&lines, on), (*line).to_owned()),
            After(on, line) => lines.insert(place(&lines, on) + 1, (*line).to_owned()),
        }
        let found: BTreeSet<(&str, String)> =
            judged(&lines).iter().map(|breach| (breach.law, breach.side.to_string())).collect();
        let named: BTreeSet<(&str, String)> = law.split(' ').map(|law| (law, (*side).to_owned())).collect();
        if found != named {
            wrong.push(format!("row {number} {law} {side} {dialect}: {:?}", judged(&lines)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn words_are_told_apart_where_their_list_is_closed() {
    const STATUS: &str = "`session/update`: update.status: `WORD` is none of pending, in_progress, completed, failed";
    const OPTION: &str = "`session/request_permission`: options.1.kind: `WORD` is none of allow_once, allow_always, reject_once, reject_always";
    const PRIORITY: &str = "`session/update`: update.entries.0.priority: `WORD` is none of high, medium, low";
    let plan = r#"< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[{"content":"c","priority":"low","status":"completed"}]}}}"#;
    for (dialect, old, word, said) in [
        ("1", "\"status\":\"pending\"", "running", STATUS),
        // Version 2 has it, and there a word of one's own is fine.
        ("1", "\"status\":\"pending\"", "paused", STATUS),
        ("1", "\"status\":\"pending\"", "_mine", STATUS),
        ("1", "\"kind\":\"reject_once\"", "no", OPTION),
        ("1", "\"priority\":\"low\"", "urgent", PRIORITY),
        ("2", "\"status\":\"pending\"", "paused", ""),
        ("2", "\"status\":\"pending\"", "_mine", ""),
        ("2", "\"kind\":\"reject_once\"", "_no", ""),
    ] {
        let mut lines = good(dialect);
        if dialect == "1" {
            let at = lines.iter().position(|line| line.contains("\"tool_call\"")).unwrap();
            lines.insert(at, plan.to_owned());
        }
        let line = lines.iter_mut().find(|line| line.contains(old)).unwrap();
        let key = old.split(':').next().unwrap();
        *line = line.replacen(old, &format!("{key}:\"{word}\""), 1);
        let found: Vec<String> = judged(&lines).into_iter().map(|breach| breach.said).collect();
        let wanted = said.replace("WORD", word) + "; right is, for example: {";
        assert_eq!(found.len(), usize::from(!said.is_empty()), "{dialect} {word}: {found:?}");
        assert!(found.iter().all(|found| found.starts_with(&wanted)), "{wanted}: {found:?}");
    }
}

/// What a judge who knows the dialect says about the shape of params.
fn shape_of(dialect: Dialect, method: &str, params: &str) -> Option<String> {
    let from = if AgentCall::kind(method).is_some() { Side::Client } else { Side::Agent };
    let request = find(method).unwrap().kind == MethodKind::Request;
    let id = if request { "\"id\":1," } else { "" };
    let mut judge = Judge::default();
    judge.dialect = Some(dialect);
    let frame = format!("{{\"jsonrpc\":\"2.0\",{id}\"method\":\"{method}\",\"params\":{params}}}");
    let found = judge.frame(from, frame.as_bytes());
    assert!(
        found.iter().all(|breach| !["method-kind", "update-known", "wire-json"].contains(&breach.law)),
        "{found:?}"
    );
    found.into_iter().find(|breach| breach.law == "params-shape").map(|breach| breach.said)
}

#[test]
fn params_that_are_said_to_be_right_are_and_every_method_has_some() {
    let mut shown = BTreeSet::new();
    for line in include_str!("../rules/shapes.txt").lines().filter(|line| !line.starts_with('#')) {
        let [dialects, method, params] = line.split(" | ").collect::<Vec<_>>().try_into().unwrap();
        for dialect in Dialect::ALL {
            if dialects == "all" || dialects.split(' ').any(|name| name == dialect.name()) {
                assert_eq!(shape_of(dialect, method, params), None, "{line} in {dialect}");
                shown.insert((dialect.name(), method));
            }
        }
    }
    for method in METHODS.iter().filter(|method| method.direction != Direction::Both) {
        for dialect in Dialect::ALL.into_iter().filter(|dialect| method.dialects.has(*dialect)) {
            assert!(shown.contains(&(dialect.name(), method.name)), "{} in {dialect}", method.name);
        }
    }
}

#[test]
fn everything_that_is_wrong_with_params_is_told() {
    let right = "right is, for example: {\"sessionId\":\"s1\"";
    for (dialect, method, params, said) in [
        (Dialect::V1, "session/prompt", "{}", &["missing field `sessionId`", "missing field `prompt`"][..]),
        (Dialect::V1, "session/prompt", "[]", &["expected an object"]),
        (Dialect::V2, "session/prompt", r#"{"sessionId":5,"prompt":"hi"}"#, &["sessionId: ", "prompt: "]),
        (
            Dialect::V1,
            "session/update",
            r#"{"sessionId":5,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text"}}}"#,
            &["sessionId: ", "update.content: missing field `text`"],
        ),
        // What is right for its own kind is not blamed for being none of the example.
        (
            Dialect::V1,
            "session/update",
            r#"{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AAAA","mimeType":"image/png"}}}"#,
            &["missing field `sessionId`"],
        ),
        (
            Dialect::V1,
            "session/request_permission",
            r#"{"title":"t","options":5}"#,
            &["sessionId", "options: ", "toolCall"],
        ),
        (Dialect::V1, "session/update", r#"{"sessionId":"s","update":"hello"}"#, &["update: "]),
        // Each item of a list.
        (
            Dialect::V1,
            "session/request_permission",
            r#"{"sessionId":"s1","toolCall":{"toolCallId":"c"},"options":[{"optionId":1,"name":null,"kind":"allow"},{"id":"n"},"x"]}"#,
            &[
                "options.0.optionId: ",
                "options.0.name: ",
                "options.0.kind: `allow` is none of",
                "options.1: missing field `optionId`",
                "options.1: missing field `name`",
                "options.1: missing field `kind`",
                "options.2: ",
            ],
        ),
        (
            Dialect::V1,
            "session/prompt",
            r#"{"sessionId":"s1","prompt":[{"type":"text"},{"type":"text","text":"fine"},5]}"#,
            &["prompt.0: missing field `text`", "prompt.2: "],
        ),
    ] {
        let found = shape_of(dialect, method, params).unwrap();
        let (wrong, example) = found.split_once("; right").unwrap();
        assert!(said.iter().all(|said| wrong.contains(said)), "{said:?}: {wrong}");
        assert_eq!(wrong.split("; ").count(), said.len(), "{wrong}");
        assert!(format!("right{example}").starts_with(right), "{example}");
    }
}

#[test]
fn what_is_no_breach() {
    let idle = r#"< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}}}"#;
    let prompt = r#"> {"jsonrpc":"2.0","id":91,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"x"}]}}"#;
    let refused = r#"< {"jsonrpc":"2.0","id":91,"error":{"code":-32602,"message":"no"}}"#;
    let own = UPDATE
        .replace("\"type\":\"text\"", "\"type\":\"_note\"")
        .replace("\"content\"", "\"messageId\":\"m9\",\"content\"");
    for (dialect, on, lines) in [
        // A prompt that was refused has started no work, and ends none.
        ("2", "\"stopReason\":\"end_turn\"", &[prompt, refused, idle][..]),
        ("2", "\"running\"", &[prompt, refused]),
        // In version 2 an agent may have kinds of content of its own.
        ("2", "\"running\"", &[&*own]),
    ] {
        let mut all = good(dialect);
        let at = all.iter().position(|line| line.contains(on)).unwrap() + 1;
        all.splice(at..at, lines.iter().map(|line| (*line).to_owned()));
        assert_eq!(judged(&all), [], "{on}: {lines:?}");
    }
}

#[test]
fn a_turn_is_cancelled_by_a_cancel_or_a_no_and_not_by_itself() {
    let prompt = r#"> {"jsonrpc":"2.0","id":91,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"x"}]}}"#;
    let ended = r#"< {"jsonrpc":"2.0","id":91,"result":{"stopReason":"cancelled"}}"#;
    let taken = r#"< {"jsonrpc":"2.0","id":91,"result":{"messageId":"u9"}}"#;
    let user = r#"< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"user_message","messageId":"u9","content":[]}}}"#;
    let runs = r#"< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"running"}}}"#;
    let idle = r#"< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}}}"#;
    let cancel = r#"> {"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
    let withdraw = r#"> {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":91}}"#;
    let asks = r#"< {"jsonrpc":"2.0","id":92,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c1"},"options":[{"optionId":"y","name":"Y","kind":"allow_once"},{"optionId":"n","name":"N","kind":"reject_once"}]}}"#;
    let no = r#"> {"jsonrpc":"2.0","id":92,"result":{"outcome":{"outcome":"selected","optionId":"n"}}}"#;
    let yes = r#"> {"jsonrpc":"2.0","id":92,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#;
    let refused = r#"> {"jsonrpc":"2.0","id":92,"error":{"code":-32603,"message":"no"}}"#;
    for (dialect, lines, law) in [
        ("1", &[prompt, ended][..], "stop-reason"),
        // A cancel of before is over with its turn.
        ("1", &[cancel, prompt, ended], "stop-reason"),
        ("1", &[prompt, asks, yes, ended], "stop-reason"),
        ("1", &[prompt, cancel, ended], ""),
        ("1", &[prompt, withdraw, ended], ""),
        ("1", &[prompt, asks, no, ended], ""),
        ("1", &[prompt, asks, refused, ended], ""),
        ("2", &[prompt, taken, user, runs, idle], "stop-reason-v2"),
        ("2", &[prompt, taken, user, runs, cancel, idle], ""),
    ] {
        let mut all = good(dialect);
        let last = if dialect == "1" { "\"stopReason\":\"cancelled\"" } else { "\"stopReason\":\"end_turn\"" };
        let at = all.iter().position(|line| line.contains(last)).unwrap() + 1;
        all.splice(at..at, lines.iter().map(|line| (*line).to_owned()));
        let found: Vec<&str> = judged(&all).iter().map(|breach| breach.law).collect();
        assert_eq!(found, if law.is_empty() { vec![] } else { vec![law] }, "{lines:?}");
    }
}

#[test]
fn every_law_can_fail() {
    let shown: BTreeSet<&str> = ROWS.iter().flat_map(|(law, ..)| law.split(' ')).collect();
    let laws = all().filter(|check| check.kind == Kind::Law).map(|check| check.id);
    let missing: Vec<&str> = laws.filter(|law| !shown.contains(law)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn names_are_told_apart_and_the_revision_is_frozen() {
    let path = format!("{}/rules/2026-11.txt", env!("CARGO_MANIFEST_DIR"));
    let table: Vec<String> = all()
        .map(|check| {
            format!(
                "{} {} {}",
                check.id,
                check.level.name(),
                check.side.map_or("both".to_owned(), |side| side.to_string())
            )
        })
        .collect();
    let names: BTreeSet<&str> = all().map(|check| check.id).collect();
    assert_eq!(names.len(), table.len(), "two checks have one name");
    let frozen = std::fs::read_to_string(path).unwrap();
    assert_eq!(frozen.lines().collect::<Vec<_>>(), table, "a check may change only with a new revision");
}
