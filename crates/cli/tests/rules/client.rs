//! What the client offers: its files and its terminals.

use crate::bench::{ALL, Row, V1, check, row};
use crate::common::Editor;
use serde_json::{Value, json};

pub const ROWS: &[Row] = &[
    row(&["V1-FS-01", "V1-TERM-01"], ALL, |b| {
        b.updates("read a.txt\nwrite f.txt x\nrun true");
        let used = b.client.methods();
        assert!(!used.iter().any(|method| method.starts_with("fs/") || method.starts_with("terminal/")), "{used:?}");
        // One of the two is not both.
        let mut client = b.other(json!({"fs": {"readTextFile": true}}), &["--script", "puppet", "--mode", "edit"]);
        client.editor = Some(Editor::default());
        client.prompt("read a.txt\nwrite f.txt y");
        let editor = client.editor.take().unwrap();
        assert_eq!(editor.count("fs/write_text_file"), 0);
        assert_eq!(editor.count("fs/read_text_file") > 0, !b.is("2"));
        assert_eq!(b.place.read("f.txt"), "y");
    }),
    row(&["V1-TERM-03", "V1-TERM-11"], V1, |b| {
        let mut client = b.other(Editor::offers(), &["--script", "puppet"]);
        client.editor = Some(Editor::default());
        client.prompt("run echo shown there; exit 4\nresult");
        assert!(client.said().contains("shown there") && client.said().contains("status 4"), "{}", client.said());
        let place = |fits: &dyn Fn(&Value) -> bool| client.heard.iter().position(fits).unwrap();
        let embedded = place(&|message| message["params"]["update"]["content"][0]["type"] == "terminal");
        let released = place(&|message| message["method"] == "terminal/release");
        assert!(embedded < released);
        // Also when the turn is cancelled.
        let id = client.begin(&format!("run exec sleep {}", b.mark(3)));
        client.until(|message| message["params"]["update"]["content"][0]["type"] == "terminal");
        client.cancel();
        assert_eq!(client.end(id), "cancelled");
        if client.editor.as_ref().unwrap().has_terminals() {
            client.until(|message| message["method"] == "terminal/release");
        }
        assert!(!client.editor.as_ref().unwrap().has_terminals());
        crate::common::gone(&format!("sleep\0{}", b.mark(3)));
    }),
    row(&["V1-TERM-13"], V1, |b| {
        let mut client = b.other(Editor::offers(), &["--script", "puppet"]);
        client.editor = Some(Editor::default());
        let work = "call run {\"command\": \"echo before; exec sleep 86409\", \"timeout\": 0.3}\nresult";
        assert_eq!(client.prompt(work), "end_turn");
        assert!(client.said().contains("before") && client.said().contains("time was over"), "{}", client.said());
        let asked: Vec<String> = client.editor.take().unwrap().asked.iter().map(|(method, _)| method.clone()).collect();
        let order = ["create", "wait_for_exit", "kill", "output", "release"].map(|name| format!("terminal/{name}"));
        assert_eq!(asked, order);
    }),
];

#[test]
fn client() {
    check(ROWS);
}
