//! Tool calls: how they are told, their places, diffs, terminals, and their own cancel.

use crate::bench::{ALL, CURRENT, Row, SEED, V1, V2, check, of, row};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// One of everything, under the rules of the mode.
const WORK: &str = "read a.txt\nwrite b.txt x\nrun echo hi\ncall list {}\ncall grep {\"pattern\": \"two\"}\n\
    call edit {\"path\": \"b.txt\", \"edits\": [{\"old\": \"x\", \"new\": \"y\"}]}\ncall move {\"from\": \"b.txt\", \"to\": \"c.txt\"}\n\
    call delete {\"path\": \"c.txt\"}\ncall todo {\"items\": []}\nread nowhere";

fn only(object: &Value, keys: &str) {
    for key in object.as_object().unwrap().keys() {
        assert!(keys.split_whitespace().any(|known| known == key), "`{key}` in {object}");
    }
}

fn diffs(calls: &[Value]) -> Vec<Value> {
    let contents = calls.iter().flat_map(|call| call["content"].as_array().into_iter().flatten());
    contents.filter(|content| content["type"] == "diff").cloned().collect()
}

pub const ROWS: &[Row] = &[
    row(&["V1-TOOL-01", "V1-TOOL-03", "V1-TOOL-04", "V2-TOOL-01", "V2-TOOL-02", "V2-TOOL-08"], ALL, |b| {
        b.updates(WORK);
        let mut calls: HashMap<String, Vec<Value>> = HashMap::new();
        for update in b.calls() {
            calls.entry(update["toolCallId"].as_str().unwrap().to_owned()).or_default().push(update);
        }
        assert_eq!(calls.len(), 10);
        let started = if b.is("1") { "tool_call" } else { "tool_call_update" };
        for updates in calls.values() {
            assert!(updates[0]["title"].is_string() && updates[0]["sessionUpdate"] == started, "{}", updates[0]);
            assert_eq!(updates[0]["status"], "pending", "{}", updates[0]);
            let statuses: Vec<&str> = updates.iter().filter_map(|update| update["status"].as_str()).collect();
            let last = *statuses.last().unwrap();
            assert!(["completed", "failed"].contains(&last), "{statuses:?}");
            assert!(last == "failed" || statuses == ["pending", "in_progress", "completed"], "{statuses:?}");
        }
        // Permission comes before it runs.
        let place = |fits: &dyn Fn(&Value) -> bool| b.client.heard.iter().position(fits).unwrap();
        let asked = place(&|message| message["method"] == "session/request_permission");
        let id =
            b.calls().iter().find(|call| call["title"].as_str().is_some_and(|title| title.contains("b.txt"))).unwrap()
                ["toolCallId"]
                .clone();
        let runs =
            place(&|m| m["params"]["update"]["toolCallId"] == id && m["params"]["update"]["status"] == "in_progress");
        assert!(asked < runs);
    }),
    row(&["V1-TOOL-02"], ALL, |b| {
        b.updates("read a.txt\nread a.txt");
        let mut ids: Vec<String> = b.calls().iter().map(|call| call["toolCallId"].to_string()).collect();
        b.updates("read a.txt");
        ids.extend(b.calls().iter().map(|call| call["toolCallId"].to_string()));
        assert_eq!(ids.into_iter().collect::<HashSet<_>>().len(), 3);
    }),
    row(&["V1-TOOL-08", "V1-TOOL-10", "V1-TOOL-12", "V2-TOOL-12"], ALL, |b| {
        b.updates("call read {\"path\": \"a.txt\", \"line\": 2}\nread a.txt\nwrite b.txt x");
        let mut count = 0;
        for update in b.calls() {
            for place in update["locations"].as_array().into_iter().flatten() {
                count += 1;
                assert!(place["path"].as_str().unwrap().starts_with('/'), "{place}");
                assert!(place.get("line").is_none_or(|line| line.as_u64() >= Some(1)), "{place}");
            }
            if update["title"].is_string() && !b.is("2-seed") {
                assert!(["read", "write"].contains(&update["name"].as_str().unwrap()), "{update}");
            }
        }
        assert_eq!(count, 3);
        assert_eq!(b.calls()[0]["locations"][0]["line"], 2);
    }),
    row(&["V1-TOOL-09"], ALL, |b| {
        b.updates("read nowhere\ncall edit {\"path\": \"a.txt\", \"edits\": [{\"old\": \"zzz\", \"new\": \"y\"}]}\nrun echo why; exit 3");
        let failed: Vec<Value> = b.calls().into_iter().filter(|call| call["status"] == "failed").collect();
        assert_eq!(failed.len(), 3);
        assert!(failed[0]["rawOutput"]["error"].as_str().unwrap().contains("nowhere"), "{}", failed[0]);
        assert!(failed[1]["rawOutput"]["error"].is_string(), "{}", failed[1]);
        assert_eq!(failed[2]["rawOutput"]["exitCode"], 3, "{}", failed[2]);
    }),
    row(&["V2-TOOL-06"], V2, |b| {
        // What failed keeps what it showed, and gets its reason as one more piece.
        b.client.choose = "reject_once";
        b.updates("write b.txt x");
        let pieces = of(&b.client.updates, "tool_call_content_chunk");
        assert!(pieces.iter().any(|piece| piece.to_string().contains("the client said no")), "{pieces:?}");
    }),
    row(&["V2-TOOL-09", "V2-EXT-01"], V2, |b| {
        b.updates(WORK);
        let words = |list: &str, value: &Value| {
            value.as_str().is_none_or(|value| value.starts_with('_') || list.split(' ').any(|known| known == value))
        };
        let updates = "user_message agent_message_chunk tool_call_update tool_call_content_chunk plan_update \
            session_info_update state_update terminal_update terminal_output_chunk";
        for kind in b.client.kinds() {
            assert!(words(updates, &kind.as_str().into()), "{kind}");
        }
        for call in b.calls() {
            assert!(
                words("read edit delete move search execute think fetch switch_mode other", &call["kind"]),
                "{call}"
            );
            assert!(words("pending in_progress completed failed", &call["status"]), "{call}");
            for content in call["content"].as_array().into_iter().flatten() {
                let known = if b.is("2") { "content diff terminal" } else { "content diff" };
                assert!(words(known, &content["type"]), "{content}");
            }
        }
    }),
    row(&["V2-TOOL-13"], SEED, |b| {
        let _ = std::fs::remove_file(b.place.project().join("new.txt"));
        b.updates("write new.txt one\nwrite new.txt two");
        let diffs: Vec<Value> = diffs(&b.calls());
        let path = b.place.project().canonicalize().unwrap().join("new.txt");
        assert_eq!((&diffs[0]["path"], &diffs[0]["newText"]), (&json!(path), &json!("one")));
        assert!(diffs[0]["oldText"].is_null(), "{}", diffs[0]);
        let last = diffs.last().unwrap();
        assert_eq!((&last["oldText"], &last["newText"]), (&json!("one"), &json!("two")));
    }),
    row(&["V2-TOOL-14", "V2-TOOL-15"], CURRENT, |b| {
        let _ = std::fs::remove_file(b.place.project().join("new.txt"));
        b.updates("write new.txt one\\n\nwrite new.txt two\\n\ncall move {\"from\": \"new.txt\", \"to\": \"moved.txt\"}\ncall delete {\"path\": \"moved.txt\"}");
        let diffs = diffs(&b.calls());
        let folder = b.place.project().canonicalize().unwrap();
        let path = folder.join("new.txt").to_str().unwrap().to_owned();
        let find = |operation: &str| {
            let fits = |diff: &&Value| diff["changes"][0]["operation"] == operation;
            diffs.iter().find(fits).unwrap_or_else(|| panic!("{operation}: {diffs:?}")).clone()
        };
        for (operation, lines) in [
            ("add", vec!["--- /dev/null".to_owned(), format!("+++ {path}"), "+one".into()]),
            ("modify", vec![format!("--- {path}"), format!("+++ {path}"), "-one".into(), "+two".into()]),
        ] {
            let diff = find(operation);
            assert_eq!((&diff["changes"][0]["path"], &diff["patch"]["format"]), (&json!(path), &json!("git_patch")));
            let patch = diff["patch"]["text"].as_str().unwrap();
            assert!(lines.iter().all(|line| patch.lines().any(|other| other == line)), "{patch}");
        }
        assert_eq!(find("move")["changes"][0]["oldPath"], json!(path));
        let gone = find("delete")["patch"]["text"].as_str().unwrap().to_owned();
        assert!(gone.contains("\n+++ /dev/null\n") && gone.contains("\n-two\n"), "{gone}");
        assert_eq!(find("delete")["changes"][0]["path"], json!(folder.join("moved.txt")));
    }),
    row(&["V2-TOOL-17"], CURRENT, |b| {
        let id = b.client.begin(&format!("run exec sleep {}\nsay on", b.mark(2)));
        b.client.until(|message| message["params"]["update"]["status"] == "in_progress");
        let call = b.call();
        assert!(call["capabilities"]["cancel"].is_object(), "{call}");
        let params = b.named(json!({"toolCallId": call["toolCallId"]}));
        assert_eq!(b.client.call("tool_call/cancel", params.clone()), json!({}));
        assert_eq!(b.client.end(id), "end_turn");
        assert_eq!((b.call()["status"].as_str(), b.client.said().as_str()), (Some("cancelled"), "on"));
        crate::common::gone(&format!("sleep\0{}", b.mark(2)));
        assert_eq!(b.client.fail("tool_call/cancel", params)["code"], -32602);
        let nobody = b.named(json!({"toolCallId": "nobody"}));
        assert_eq!(b.client.fail("tool_call/cancel", nobody)["code"], -32602);
        let nobody = b.named(json!({"terminalId": "nobody"}));
        assert_eq!(b.client.fail("terminal/cancel", nobody)["code"], -32602);
    }),
    row(&["V2-TERMD-01", "V2-TERMD-05"], CURRENT, |b| {
        b.updates("run echo one\nrun echo two");
        let mut ids: Vec<Value> = Vec::new();
        for _ in 0..2 {
            let opened: Vec<_> = of(&b.client.updates, "terminal_update")
                .into_iter()
                .filter(|update| update["command"].is_string())
                .cloned()
                .collect();
            for terminal in &opened {
                assert!(terminal["cwd"].as_str().is_some_and(|cwd| cwd.starts_with('/')), "{terminal}");
                let first = b.client.updates.iter().find(|update| update["terminalId"] == terminal["terminalId"]);
                assert_eq!(first, Some(terminal), "the command is told first");
                ids.push(terminal["terminalId"].clone());
            }
            b.updates("run echo three\nrun echo four");
        }
        let unique: HashSet<String> = ids.iter().map(Value::to_string).collect();
        assert_eq!((ids.len(), unique.len()), (4, 4));
    }),
    row(&["V1-EXT-01", "V2-EXT-05"], ALL, |b| {
        b.updates(&format!("say a\nthink b\nplan A\ncontext 1 2\ntitle T\ncommands\nmode edit\n{WORK}"));
        let keys = "sessionUpdate messageId content toolCallId title kind status locations rawInput rawOutput name \
            capabilities entries plan availableCommands currentModeId configOptions updatedAt used size cost state \
            stopReason background terminalId command cwd output exitStatus data _meta";
        for message in &b.client.heard {
            if message["method"] == "session/update" {
                only(&message["params"], "sessionId update _meta");
                only(&message["params"]["update"], keys);
            }
            if message["method"] == "session/request_permission" {
                only(&message["params"], "sessionId toolCall options title description subject _meta");
                for option in message["params"]["options"].as_array().unwrap() {
                    only(option, "optionId name kind _meta");
                }
            }
        }
    }),
    row(&["V1-EXT-02"], V1, |b| {
        b.updates(WORK);
        let known = ["session/update", "session/request_permission", "$/cancel_request"];
        assert!(b.client.methods().iter().all(|method| known.contains(&&**method) || method.starts_with('_')));
    }),
];

#[test]
fn tools() {
    check(ROWS);
}
