//! Permission: who is asked, with which choices, and what counts as a yes.

use crate::bench::{ALL, CURRENT, Row, check, row};
use crate::common::Reply;
use serde_json::{Value, json};

pub const ROWS: &[Row] = &[
    row(&["V1-PERM-01", "V1-PERM-08", "V2-PERM-01", "V2-PERM-05"], ALL, |b| {
        let _ = std::fs::remove_file(b.place.project().join("p.txt"));
        b.client.choose = "reject_once";
        b.updates("write p.txt x");
        assert!(!b.place.project().join("p.txt").exists());
        b.client.choose = "allow_once";
        b.updates("write p.txt x");
        assert_eq!(b.place.read("p.txt"), "x");
        let kinds: Vec<&str> = b.client.asked[0]["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|option| option["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["allow_once", "allow_always", "reject_once", "reject_always"]);
    }),
    // Clients such as acpx show and judge a question by what it says itself, not by what was told before.
    row(&["V1-PERM-01", "V2-PERM-01"], ALL, |b| {
        b.place.write("whole.txt", "old\n");
        b.updates("write whole.txt new\\n");
        let asked = &b.client.asked[0];
        let call = asked.get("toolCall").unwrap_or(&asked["subject"]["toolCall"]);
        assert_eq!(
            (call["kind"].as_str(), call["rawInput"]["path"].as_str()),
            (Some("edit"), Some("whole.txt")),
            "{asked}"
        );
        assert!(call["title"].as_str().is_some_and(|title| title.contains("whole.txt")), "{asked}");
        assert_eq!(call["content"][0]["type"], "diff", "{asked}");
    }),
    row(&["V1-PERM-05", "V2-PERM-04"], ALL, |b| {
        let _ = std::fs::remove_file(b.place.project().join("q.txt"));
        let answers = [
            json!({"outcome": {"outcome": "selected", "optionId": "nobody"}}),
            json!({"outcome": {"outcome": "selected"}}),
            json!({"outcome": {"outcome": "_odd", "optionId": "allow"}}),
            json!({"outcome": {"outcome": "cancelled"}}),
            json!({"outcome": "selected", "optionId": "allow"}),
            json!({}),
            Value::Null,
        ];
        for answer in answers {
            let given = answer.clone();
            b.client.serve = Some(Box::new(move |_| Some(Reply::Result(answer.clone()))));
            let stop = b.turn("write q.txt x");
            assert!(!b.place.project().join("q.txt").exists(), "{given}: {stop}");
        }
        b.client.serve = Some(Box::new(|_| Some(Reply::Error(-32603, "no"))));
        b.turn("write q.txt x");
        assert!(!b.place.project().join("q.txt").exists());
    }),
    row(&["V1-PERM-06"], ALL, |b| {
        let name = "always.txt";
        b.client.choose = "allow_always";
        b.updates(&format!("write {name} one\nwrite {name} two"));
        assert_eq!((b.client.asked.len(), b.place.read(name).as_str()), (1, "two"));
        b.client.choose = "reject_always";
        b.updates("run echo never > never.txt\nrun echo never > never.txt");
        assert_eq!(b.client.asked.len(), 1);
        assert!(!b.place.project().join("never.txt").exists());
    }),
    row(&["V2-PERM-06"], CURRENT, |b| {
        b.updates("write r.txt x");
        let asked = &b.client.asked[0];
        assert!(asked["title"].as_str().is_some_and(|title| title.contains("r.txt")), "{asked}");
        let titles: Vec<Value> =
            b.calls().iter().filter(|call| call.get("title").is_some()).map(|call| call["title"].clone()).collect();
        assert_eq!(titles.len(), 1, "{titles:?}");
        // The call itself keeps its own title, whatever the question is called.
        assert_eq!(asked["subject"]["toolCall"]["title"], titles[0], "{asked}");
    }),
    row(&["V2-PERM-08"], CURRENT, |b| {
        let name = format!("ran-{:?}.txt", b.framing);
        for (choose, runs) in [("reject_once", false), ("allow_once", true)] {
            b.client.choose = choose;
            b.updates(&format!("run echo once >> {name}"));
            let asked = &b.client.asked[0];
            let subject = &asked["subject"];
            assert_eq!(
                (&subject["type"], &subject["command"]),
                (&json!("command"), &json!(format!("echo once >> {name}"))),
                "{asked}"
            );
            assert_eq!(subject["cwd"], json!(b.place.project()), "{asked}");
            assert_eq!(subject["toolCallId"], b.call()["toolCallId"], "{asked}");
            // The client only said yes; that it ran, and once, is the agent's doing.
            assert_eq!(b.place.project().join(&name).exists(), runs);
            assert!(!b.client.methods().iter().any(|method| method.starts_with("terminal/")));
        }
        assert_eq!(b.place.read(&name), "once\n");
    }),
];

#[test]
fn permission() {
    check(ROWS);
}
