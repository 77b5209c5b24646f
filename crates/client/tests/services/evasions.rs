//! Questions of an agent that wants to get around a rule: other names, other readings, parts that are not looked at.

use crate::harness::block_on;
use crate::setup::{Project, Scene};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use tieline::Dialect;
use tieline_client::permission::{Engine, Preset};
use tieline_host::rules::Config;

pub const ALL: &[(&str, fn())] = &[("what_is_denied_has_no_other_way", what_is_denied_has_no_other_way)];

fn options() -> Value {
    json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}])
}

/// What it tries, the preset, the rules, the call, and whether it may.
type Row = (&'static str, Preset, &'static str, Value, &'static str);

fn at(kind: &str, path: &str) -> Value {
    json!({"kind": kind, "locations": [{"path": format!("ROOT/{path}")}]})
}

fn links() -> Vec<Row> {
    const DENY: &str = "deny = [\"read **/.env\", \"write **/.env\", \"read alias/**\", \"write kept.txt\"]";
    let row = |what, preset, call, expect| (what, preset, DENY, call, expect);
    vec![
        row("a link by its name", Preset::AllowReads, at("read", ".env"), "no"),
        row("what it leads to", Preset::AllowReads, at("read", "config/dev"), "no"),
        row("another link to it", Preset::AllowReads, at("read", "other"), "no"),
        row("below a link", Preset::AllowReads, at("read", "alias/k.txt"), "no"),
        row("below what it leads to", Preset::AllowReads, at("read", "sec/k.txt"), "no"),
        row("a change through a link", Preset::AllowEdits, at("edit", ".env"), "no"),
        row("a change by another hard link", Preset::AllowEdits, at("edit", "hard.txt"), "no"),
        row("another file", Preset::AllowEdits, at("edit", "config/other"), "yes"),
    ]
}

fn tools() -> Vec<Row> {
    const GIT: &str = "allow = [\"mcp git/*\"]";
    let call = |name: &str| json!({"name": name, "kind": "other"});
    let row = |what, rules, name, expect| (what, Preset::AllowReads, rules, call(name), expect);
    let denied = |what, name, expect| (what, Preset::AllowAll, "deny = [\"mcp a__b/*\"]", call(name), expect);
    vec![
        row("a tool of the server", GIT, "mcp__git__status", "yes"),
        row("a server whose name begins alike", GIT, "mcp__git__evil__run", "no"),
        row("a line more", GIT, "mcp__git___run", "no"),
        row("all that it can mean", "allow = [\"mcp git/*\", \"mcp git__evil/*\"]", "mcp__git__evil__run", "yes"),
        denied("a server with a line in its name", "mcp__a__b__c", "no"),
        denied("another one", "mcp__a__c", "yes"),
    ]
}

fn parts() -> Vec<Row> {
    const DENY: &str = "deny = [\"read **/.env\", \"write **/.env\"]";
    let patch = "diff --git a/config/dev b/out\nsimilarity index 100%\ncopy from config/dev\ncopy to out\n";
    let moved = "diff --git a/config/dev b/out\nsimilarity index 100%\nrename from config/dev\nrename to out\n";
    let search = |path: &str| json!({"kind": "search", "rawInput": {"pattern": "x", "path": format!("ROOT{path}")}});
    let row = |what, preset, call, expect| (what, preset, DENY, call, expect);
    vec![
        row("a search of the whole folder", Preset::AllowReads, search(""), "no"),
        row("the same where all is allowed", Preset::AllowAll, search("/config"), "no"),
        row("to read the folder", Preset::AllowReads, at("read", "config"), "no"),
        row("a folder without it", Preset::AllowReads, search("/src"), "yes"),
        row("a patch that copies it", Preset::AllowEdits, json!({"kind": "edit", "rawInput": {"patch": patch}}), "no"),
        row("a patch that moves it", Preset::AllowEdits, json!({"kind": "edit", "rawInput": {"patch": moved}}), "no"),
        row(
            "content of an unknown kind",
            Preset::AllowEdits,
            json!({"kind": "edit", "locations": [{"path": "ROOT/src/a.txt"}], "content": [{"type": "_change", "path": "ROOT/.env"}]}),
            "no",
        ),
    ]
}

/// What only current version 2 can say.
fn newest() -> Vec<Row> {
    const DENY: &str = "deny = [\"read **/.env\"]";
    let change = |operation: &str, from: &str| {
        let change = json!({"operation": operation, "oldPath": from, "path": "ROOT/src/b.txt", "fileType": "text"});
        json!({"kind": "edit", "content": [{"type": "diff", "changes": [change]}]})
    };
    let row = |what, call, expect| (what, Preset::AllowEdits, DENY, call, expect);
    vec![
        row("a copy of it", change("copy", "ROOT/.env"), "no"),
        row("a copy of another", change("copy", "ROOT/src/a.txt"), "yes"),
        row("a change that names it", change("modify", "ROOT/.env"), "no"),
    ]
}

fn what_is_denied_has_no_other_way() {
    let mut wrong: Vec<String> = Vec::new();
    block_on(async {
        for dialect in [Dialect::V1, Dialect::V2] {
            let project = Project::new();
            for folder in ["config", "sec", "src"] {
                std::fs::create_dir(project.root.join(folder)).unwrap();
            }
            for file in ["config/dev", "config/other", "sec/k.txt", "kept.txt", "src/a.txt"] {
                project.file(file, "text");
            }
            symlink("config/dev", project.root.join(".env")).unwrap();
            symlink(".env", project.root.join("other")).unwrap();
            symlink("sec", project.root.join("alias")).unwrap();
            std::fs::hard_link(project.root.join("kept.txt"), project.root.join("hard.txt")).unwrap();
            let newest = if dialect == Dialect::V2 { newest() } else { Vec::new() };
            for (what, preset, rules, call, expect) in links().into_iter().chain(tools()).chain(parts()).chain(newest) {
                let engine = Engine::new(preset, Config::parse(rules).unwrap());
                let services = project.services().engine(engine).build();
                let mut scene = Scene::new(&project, services, dialect).await;
                let call = call.to_string().replace("ROOT", project.root.to_str().unwrap());
                let mut call: Value = serde_json::from_str(&call).unwrap();
                (call["toolCallId"], call["title"]) = ("c".into(), "x".into());
                let answer = scene.permission(call, options()).await;
                if answer["optionId"] != expect {
                    wrong.push(format!("{dialect}: {what}: {}", answer["optionId"]));
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}
