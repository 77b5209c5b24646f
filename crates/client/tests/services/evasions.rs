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

fn what_is_denied_has_no_other_way() {
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
            for (what, preset, rules, call, expect) in links() {
                let engine = Engine::new(preset, Config::parse(rules).unwrap());
                let services = project.services().engine(engine).build();
                let mut scene = Scene::new(&project, services, dialect).await;
                let call = call.to_string().replace("ROOT", project.root.to_str().unwrap());
                let mut call: Value = serde_json::from_str(&call).unwrap();
                (call["toolCallId"], call["title"]) = ("c".into(), "x".into());
                assert_eq!(scene.permission(call, options()).await["optionId"], expect, "{dialect}: {what}");
            }
        }
    });
}
