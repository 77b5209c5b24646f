//! What the user does meanwhile is not lost, and what is asked is what is done.

#![allow(clippy::unwrap_used)]

#[path = "turn/editor.rs"]
mod editor;

use editor::{Editor, Listed, calls, text};
use serde_json::{Value, json};
use std::time::Duration;
use tieline_host::rules::{Learned, Preset, Settings};

async fn asking(model: &Listed, can: Value) -> Editor {
    Editor::open_with(model, None, can, |settings| settings.mode = Some(Preset::AllowReads)).await
}

fn read(editor: &Editor, name: &str) -> String {
    std::fs::read_to_string(editor.path(name)).unwrap_or_default()
}

#[tokio::test]
async fn what_changes_during_a_question_stays() {
    let patch = "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n";
    for (tool, input) in [
        ("write", json!({"path": "a.txt", "content": "new"})),
        ("edit", json!({"path": "a.txt", "edits": [{"old": "old", "new": "new"}]})),
        ("delete", json!({"path": "a.txt"})),
        ("patch", json!({"patch": patch})),
    ] {
        // With and without an editor that can only be read from.
        for can in [json!({}), json!({"fs": {"readTextFile": true}})] {
            let model = Listed::new([calls(vec![(tool, input.clone())]), text("done")]);
            let mut editor = asking(&model, can.clone()).await;
            let file = editor.path("a.txt");
            std::fs::write(&file, "old\n").unwrap();
            editor.answers.push((Box::new(move || std::fs::write(file, "typed meanwhile").unwrap()), "allow"));
            editor.prompt("go").await;
            assert_eq!(editor.asked.len(), 1, "{tool} {can}");
            assert_eq!(read(&editor, "a.txt"), "typed meanwhile", "{tool} {can}");
            assert!(model.results()[0].1, "{tool} {can}: {:?}", model.results());
        }
    }
}

#[tokio::test]
async fn a_client_without_the_method_does_not_say_that_a_file_is_missing() {
    let model = Listed::new([calls(vec![("write", json!({"path": "a.txt", "content": "new"}))]), text("done")]);
    let mut editor = asking(&model, json!({"fs": {"readTextFile": true}})).await;
    std::fs::write(editor.path("a.txt"), "old").unwrap();
    editor.prompt("go").await;
    let call = editor.updates.iter().find(|update| update["sessionUpdate"] == "tool_call").unwrap();
    assert_eq!((&call["title"], &call["content"][0]["oldText"]), (&json!("Write a.txt"), &json!("old")));
}

#[tokio::test]
async fn rules_of_two_sessions_add_up() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str| calls(vec![("write", json!({"path": name, "content": "x"}))]);
    let model = Listed::new([write("one"), text("done"), write("two"), text("done")]);
    let rules = home.path().to_owned();
    let mut editor = Editor::open_with(&model, None, json!({}), |settings| {
        settings.mode = Some(Preset::AllowReads);
        settings.permissions = Some(std::sync::Arc::new(move |cwd| {
            Ok(Settings { learned: Some(Learned::new(&rules, cwd)), ..Settings::default() })
        }));
    })
    .await;
    let first = editor.session.clone();
    let new = editor.call("session/new", json!({"cwd": editor.path(""), "mcpServers": []})).await;
    for session in [first, new["result"]["sessionId"].as_str().unwrap().to_owned()] {
        editor.session = session;
        editor.answers.push((Box::new(|| {}), "allow_always"));
        editor.prompt("go").await;
    }
    let text = std::fs::read_to_string(home.path().join("learned.toml")).unwrap();
    assert!(text.contains("write one") && text.contains("write two"), "{text}");
}

#[tokio::test]
async fn a_question_about_a_command_hides_no_part_of_it() {
    let long = format!("echo {}; rm -rf x", "a".repeat(300));
    for (command, want) in [("echo a # b\nrm -rf x", "⏎rm"), ("echo \u{202e}a", "\\u{202e}"), (&*long, "; rm -rf x")]
    {
        let model = Listed::new([calls(vec![("run", json!({"command": command}))]), text("done")]);
        let mut editor = asking(&model, json!({"terminal": true})).await;
        editor.answers.push((Box::new(|| {}), "reject"));
        editor.prompt("go").await;
        let call = editor.updates.iter().find(|update| update["sessionUpdate"] == "tool_call").unwrap();
        let title = call["title"].as_str().unwrap();
        assert!(title.contains(want), "{title}: {}", editor.asked[0]);
    }
}

#[tokio::test]
async fn edits_that_breed_are_refused() {
    let edit = json!({"old": "a", "new": "a".repeat(64), "all": true});
    let edits = vec![edit; 8];
    let model = Listed::new([calls(vec![("edit", json!({"path": "a.txt", "edits": edits}))]), text("done")]);
    let mut editor = Editor::open(&model, None).await;
    std::fs::write(editor.path("a.txt"), "a").unwrap();
    tokio::time::timeout(Duration::from_mins(1), editor.prompt("go")).await.expect("in time");
    assert!(model.results()[0].0.contains("too long"), "{:?}", model.results());
    assert_eq!(read(&editor, "a.txt"), "a");
}

#[tokio::test]
async fn sessions_of_other_agents_are_not_deleted() {
    use tieline_host::store::{NewSession, Store};
    let mut editor = Editor::open(&Listed::new([]), None).await;
    let store = Store::open(editor.folder.path().join("state/store.db")).unwrap();
    let new = NewSession { agent: "other".into(), cwd: "/".into(), ..NewSession::default() };
    let log = store.create(new).await.unwrap();
    let id = log.id().clone();
    log.close().await.unwrap();
    editor.call("session/delete", json!({"sessionId": id.as_str()})).await;
    assert_eq!(store.session(&id).await.unwrap().agent, "other");
}
