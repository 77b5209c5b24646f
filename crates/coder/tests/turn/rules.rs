//! Rules come before everything: before a file is looked at, and for each call of a step on its own.

use super::editor::{Editor, Listed, calls, text};
use serde_json::{Value, json};
use std::sync::Arc;
use tieline_coder::Settings;
use tieline_host::rules::{Config, Preset, Settings as Stated};

/// An editor with rules of the user.
async fn ruled(model: &Listed, mode: &str, rules: &str) -> Editor {
    ruled_with(model, mode, rules, |_| ()).await
}

/// The same with other settings.
pub async fn ruled_with(model: &Listed, mode: &str, rules: &str, extra: impl FnOnce(&mut Settings)) -> Editor {
    let rules = Config::parse(rules).unwrap();
    let change = |settings: &mut Settings| {
        settings.mode = Preset::of_mode(mode);
        settings.permissions = Some(Arc::new(move |_| Ok(Stated { rules: rules.clone(), ..Stated::default() })));
        extra(settings);
    };
    Editor::open_with(model, None, json!({}), change).await
}

/// All that could be tried on a file: the tool and its arguments.
fn deeds(path: &str) -> Vec<(&'static str, Value)> {
    let change = |line: &str| json!({"patch": format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{line}\n+new\n")});
    let new = json!({"patch": format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+new\n")});
    let gone = json!({"patch": format!("--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-secret\n")});
    let edit = |old: &str| json!({"path": path, "edits": [{"old": old, "new": "x"}]});
    vec![
        ("edit", edit("secret")),
        ("edit", edit("wrong")),
        ("edit", edit("e")),
        ("patch", change("secret")),
        ("patch", change("wrong")),
        ("patch", new),
        ("patch", gone),
        ("write", json!({"path": path, "content": "new"})),
        ("delete", json!({"path": path})),
        ("read", json!({"path": path})),
    ]
}

/// Whatever is in a file that nobody may read, and whether there is one: the model hears the same.
#[tokio::test]
async fn a_refusal_tells_nothing_about_a_file() {
    let mut heard = Vec::new();
    for kind in ["text", "missing", "folder", "no text"] {
        let model = Listed::new([calls(deeds("secret.txt")), text("done")]);
        let mut editor = ruled(&model, "edit", "deny = [\"read secret.txt\"]").await;
        let path = editor.path("secret.txt");
        match kind {
            "text" => std::fs::write(&path, "secret\n").unwrap(),
            "folder" => std::fs::create_dir(&path).unwrap(),
            "no text" => std::fs::write(&path, [0xff, 0xfe]).unwrap(),
            _ => {}
        }
        editor.prompt("go").await;
        let results = model.results();
        for ((name, input), (text, failed)) in deeds("secret.txt").iter().zip(&results) {
            assert!(
                *failed && text.starts_with("Not allowed (rule: read secret.txt)"),
                "{kind}: {name} {input}: {text}"
            );
        }
        let told = serde_json::to_string(&editor.updates).unwrap();
        assert!(editor.asked.is_empty() && !told.contains("\"oldText\":\"secret"), "{kind}: {told}");
        let titles: Vec<Value> = editor.updates.iter().filter_map(|update| update.get("title").cloned()).collect();
        heard.push((results, titles));
        if kind == "text" {
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "secret\n");
        }
    }
    assert!(heard.windows(2).all(|two| two[0] == two[1]), "{heard:?}");
}

/// Where reading is asked for, it is asked for before anything is told, and done after that.
#[tokio::test]
async fn what_is_asked_for_is_not_looked_at_before() {
    let edit = |old: &str| ("edit", json!({"path": "a.txt", "edits": [{"old": old, "new": "new"}]}));
    let model = Listed::new([calls(vec![edit("nowhere"), edit("old"), edit("new"), edit("nowhere")]), text("done")]);
    let mut editor = ruled(&model, "edit", "ask = [\"read a.txt\"]").await;
    std::fs::write(editor.path("a.txt"), "old text").unwrap();
    // The last one answers first.
    for option in ["allow", "reject", "allow", "reject"] {
        editor.answers.push((Box::new(|| ()), option));
    }
    editor.prompt("go").await;
    let results = model.results();
    assert_eq!(editor.asked.len(), 4, "{results:?}");
    assert!(!serde_json::to_string(&editor.asked).unwrap().contains("old text"));
    assert!(results[0].1 && results[0].0.starts_with("Not allowed (the client said no"), "{results:?}");
    assert_eq!(results[1], ("Written: a.txt.".into(), false));
    assert!(results[2].1 && results[2].0.starts_with("Not allowed (the client said no"), "{results:?}");
    assert!(results[3].1 && results[3].0.contains("`old` is not there"), "{results:?}");
    assert_eq!(std::fs::read_to_string(editor.path("a.txt")).unwrap(), "new text");
    let shown = editor.updates.iter().find(|update| update["status"] == "completed").unwrap();
    assert_eq!(shown["content"][0]["newText"], "new text", "the diff is shown when it is made: {shown}");
}

/// A call that the user rejects goes back to the model; the others of the same step still have their own questions.
#[tokio::test]
async fn a_rejected_call_decides_nothing_about_the_others() {
    let write = |name: &str| ("write", json!({"path": name, "content": name}));
    let model =
        Listed::new([calls(vec![write("a"), write("b"), ("read", json!({"path": "c"})), write("d")]), text("ok")]);
    let mut editor = ruled(&model, "ask", "deny = [\"write d\"]").await;
    std::fs::write(editor.path("c"), "read me").unwrap();
    for option in ["allow", "reject"] {
        editor.answers.push((Box::new(|| ()), option));
    }
    assert_eq!(editor.prompt("go").await["result"]["stopReason"], "end_turn");
    let results = model.results();
    assert_eq!(editor.asked.len(), 2, "{results:?}");
    assert!(results[0].1 && results[0].0.starts_with("Not allowed (the client said no"), "{results:?}");
    assert_eq!(results[1], ("Written: b.".into(), false));
    assert!(!results[2].1 && results[2].0.contains("read me"), "{results:?}");
    assert!(results[3].1 && results[3].0.starts_with("Not allowed (rule: write d)"), "{results:?}");
    let there = |name: &str| std::path::Path::new(&editor.path(name)).exists();
    assert!(!there("a") && there("b") && !there("d"));
}
