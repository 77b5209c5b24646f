//! The turn loop and its tools with a model made of a list, and a client made of lines.

#![allow(clippy::unwrap_used)]

#[path = "turn/editor.rs"]
mod editor;
#[path = "turn/fetch.rs"]
mod fetch;
#[path = "turn/limits.rs"]
mod limits;
#[path = "turn/rules.rs"]
mod rules;

use editor::{Editor, Listed, calls, text};
use serde_json::{Value, json};
use std::collections::HashMap;
use tieline_coder::model::{Event, Message, ModelError};

#[tokio::test]
async fn unsaved_text_wins_and_a_missing_file_is_new() {
    let model = Listed::new([
        calls(vec![("read", json!({"path": "a.txt"}))]),
        calls(vec![("edit", json!({"path": "a.txt", "edits": [{"old": "unsaved", "new": "edited"}]}))]),
        calls(vec![("write", json!({"path": "new.txt", "content": "fresh"}))]),
        text("done"),
    ]);
    let mut editor = Editor::open(&model, Some(HashMap::new())).await;
    std::fs::write(editor.path("a.txt"), "saved").unwrap();
    let path = editor.path("a.txt");
    editor.unsaved.as_mut().unwrap().insert(path.clone(), "unsaved".into());
    assert_eq!(editor.prompt("go").await["result"]["stopReason"], "end_turn");
    let files = editor.unsaved.clone().unwrap();
    assert_eq!(files[&path], "edited");
    assert_eq!(files[&editor.path("new.txt")], "fresh");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "saved", "the editor saves, not we");
    assert!(editor.asked.is_empty());
    // Once for the read; for each change once before it, and once for what the editor made of it.
    let new = editor.path("new.txt");
    assert_eq!(editor.reads, [path.clone(), path.clone(), path, new.clone(), new]);
}

/// A client that does not know a file does not make it a new one.
#[tokio::test]
async fn a_file_that_only_the_disk_knows_is_not_overwritten_unseen() {
    let write = ("write", json!({"path": "a.txt", "content": "new"}));
    let edit = ("edit", json!({"path": "b.txt", "edits": [{"old": "precious", "new": "edited"}]}));
    let model = Listed::new([calls(vec![write, edit]), text("done")]);
    let mut editor = Editor::open(&model, Some(HashMap::new())).await;
    std::fs::write(editor.path("a.txt"), "precious").unwrap();
    std::fs::write(editor.path("b.txt"), "precious").unwrap();
    editor.prompt("go").await;
    assert!(model.results().iter().all(|(_, failed)| !failed), "{:?}", model.results());
    let diffs: Vec<_> = editor.updates.iter().filter(|update| update["content"][0]["type"] == "diff").collect();
    assert!(diffs.iter().all(|update| update["content"][0]["oldText"] == "precious"), "{diffs:?}");
    assert_eq!(diffs.len(), 2, "{diffs:?}");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_left_alone() {
    let model = Listed::new([calls(vec![("read", json!({"path": "a.txt"}))]), text("read")]);
    let mut editor = Editor::open(&model, None).await;
    std::fs::write(editor.path("a.txt"), "one").unwrap();
    editor.prompt("read").await;
    std::fs::write(editor.path("a.txt"), "two").unwrap();
    model.answers.lock().unwrap().push(calls(vec![("write", json!({"path": "a.txt", "content": "three"}))]));
    editor.prompt("write").await;
    let [(why, true)] = &model.results()[..] else { panic!("{:?}", model.results()) };
    assert!(why.contains("changed since"), "{why}");
    assert_eq!(std::fs::read_to_string(editor.path("a.txt")).unwrap(), "two");
}

#[tokio::test]
async fn results_come_in_the_order_of_the_calls() {
    let mut list: Vec<(&str, Value)> = (0..8).map(|at| ("read", json!({"path": format!("{at}.txt")}))).collect();
    list.insert(3, ("write", json!({"path": "5.txt", "content": "written before it is read"})));
    let model = Listed::new([calls(list), text("done")]);
    let mut editor = Editor::open(&model, None).await;
    for at in 0..8 {
        std::fs::write(editor.path(&format!("{at}.txt")), format!("file {at}")).unwrap();
    }
    editor.prompt("go").await;
    let results = model.results();
    assert_eq!(results.len(), 9);
    assert!(results[0].0.contains("file 0") && results[2].0.contains("file 2"));
    assert!(results[3].0.contains("Written") && results[6].0.contains("written before"), "{results:?}");
    assert!(results[8].0.contains("file 7"));
}

#[tokio::test]
async fn what_a_model_gets_wrong_goes_back_to_it() {
    let table = vec![
        ("nonsense", json!({}), "There is no tool `nonsense`"),
        ("read", json!("{oops"), "no JSON"),
        ("read", json!({"line": 3}), "missing field `path`"),
        ("read", json!({"path": 7}), "not right"),
        ("read", json!({"path": "missing.txt"}), "There is no file"),
        ("read", json!({"path": "../../etc/passwd"}), "outside"),
        ("edit", json!({"path": "missing.txt", "edits": []}), "There is no file"),
        ("patch", json!({"patch": "nothing"}), "no file in the patch"),
        ("grep", json!({"pattern": "("}), "can't be read"),
        ("glob", json!({"pattern": "["}), "error"),
        ("run", json!({"command": " "}), "empty"),
        ("run", json!({"command": "true", "timeout": -1}), "timeout"),
        ("output", json!({"id": 9}), "no command 9"),
        ("fetch", json!({"url": "file:///etc/passwd"}), "http"),
        ("todo", json!({"entries": [{"content": "x", "status": "soon"}]}), "no status"),
        ("ask", json!({"question": "why?"}), "can't be asked"),
        ("switch_mode", json!({"mode": "wild"}), "no mode"),
    ];
    let list = table.iter().map(|(name, input, _)| (*name, input.clone())).collect();
    let model = Listed::new([calls(list), text("done")]);
    let mut editor = Editor::open(&model, None).await;
    assert_eq!(editor.prompt("go").await["result"]["stopReason"], "end_turn");
    for ((name, input, want), (text, failed)) in table.iter().zip(model.results()) {
        assert!(failed && text.contains(want), "{name} {input}: {text}");
    }
    let failed = editor.updates.iter().filter(|update| update["status"] == "failed").count();
    assert_eq!(failed, table.len(), "each is shown");
}

#[tokio::test]
async fn patch_search_move_delete_and_plan() {
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-needle\n+thread\n--- /dev/null\n+++ b/sub/b.txt\n@@ -0,0 +1 @@\n+needle\n";
    let model = Listed::new([
        calls(vec![("patch", json!({"patch": patch}))]),
        calls(vec![
            ("grep", json!({"pattern": "NEEDLE", "ignore_case": true})),
            ("glob", json!({"pattern": "*.txt"})),
            ("list", json!({})),
            ("move", json!({"from": "a.txt", "to": "c.txt"})),
            ("delete", json!({"path": "sub/b.txt"})),
            ("todo", json!({"entries": [{"content": "one", "status": "completed"}, {"content": "two"}]})),
        ]),
        text("done"),
    ]);
    let mut editor = Editor::open(&model, None).await;
    std::fs::write(editor.path("a.txt"), "needle\n").unwrap();
    editor.prompt("go").await;
    let results = model.results();
    assert!(results.iter().all(|(_, failed)| !failed), "{results:?}");
    assert_eq!(results[0].0, "sub/b.txt:1: needle\n");
    assert_eq!(results[1].0, "a.txt\nsub/b.txt");
    assert!(results[2].0.contains("sub/\n"));
    assert_eq!(std::fs::read_to_string(editor.path("c.txt")).unwrap(), "thread\n");
    assert!(!std::path::Path::new(&editor.path("sub/b.txt")).exists());
    let plan = editor.updates.iter().find(|update| update["sessionUpdate"] == "plan").unwrap();
    assert_eq!(plan["entries"][0]["status"], "completed");
}

#[tokio::test]
async fn errors_of_a_model_answer_the_prompt() {
    let cut = vec![Ok(Event::Text("half a".into()))];
    let failed = vec![Err(ModelError::Failed("the cable is out".into()))];
    let login = vec![Err(ModelError::LoginNeeded("who are you?".into()))];
    let model = Listed::new([cut, failed, login, text("fine again")]);
    let mut editor = Editor::open(&model, None).await;
    assert!(editor.prompt("1").await["error"]["message"].as_str().unwrap().contains("cut off"));
    assert!(editor.prompt("2").await["error"]["message"].as_str().unwrap().contains("cable"));
    assert_eq!(editor.prompt("3").await["error"]["code"], -32000);
    assert_eq!(editor.prompt("4").await["result"]["stopReason"], "end_turn");
    // What was said before the cut is part of the conversation.
    assert!(
        model
            .last()
            .messages
            .iter()
            .any(|message| matches!(message, Message::Assistant { text, .. } if text == "half a"))
    );
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_shortened() {
    let long = "word ".repeat(2000);
    let mut model = Listed::new((0..8).map(|_| text(&long)));
    model.context = 8000;
    let mut editor = Editor::open(&model, None).await;
    for at in 0..8 {
        editor.prompt(&format!("question {at}")).await;
    }
    let messages = model.last().messages;
    assert!(messages.len() < 15, "{}", messages.len());
    assert!(matches!(&messages[0], Message::User(blocks) if blocks[0].as_text().unwrap().contains("question 0")));
}

#[tokio::test]
async fn the_first_request_is_small_and_knows_the_project() {
    let model = Listed::new([text("hi")]);
    let mut editor = Editor::open(&model, None).await;
    std::fs::write(editor.path("AGENTS.md"), "Use tabs. ".repeat(1000)).unwrap();
    editor.prompt("hello").await;
    let request = model.last();
    assert!(request.system.contains("Use tabs."));
    let tools: usize =
        request.tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.parameters.get().len()).sum();
    assert!(request.system.len() + tools < 12 * 1024, "{} + {tools}", request.system.len());
}

#[tokio::test]
async fn the_terminal_and_the_forms_of_the_client_are_used() {
    let model = Listed::new([
        calls(vec![
            ("run", json!({"command": "make"})),
            ("ask", json!({"question": "Which?", "options": ["red", "blue"]})),
        ]),
        text("done"),
    ]);
    let mut editor = Editor::open(&model, Some(HashMap::new())).await;
    editor.prompt("go").await;
    let results = model.results();
    assert!(
        results[0].1 && results[0].0.contains("seen in the editor") && results[0].0.contains("status 3"),
        "{results:?}"
    );
    assert_eq!(results[1], ("blue".into(), false));
    assert_eq!(editor.asked.len(), 1, "a command outside our sandbox is asked for");
    assert!(editor.updates.iter().any(|update| update["content"][0]["terminalId"] == "t1"));
}
