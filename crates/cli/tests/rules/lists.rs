//! Lists of sessions, deletion, titles.

use crate::bench::{ALL, Row, V1, check, of, row};
use serde_json::{Value, json};

pub const ROWS: &[Row] = &[
    row(&["V1-LIST-02", "V1-LIST-03", "V1-LIST-11"], ALL, |b| {
        let nothing = json!({"cwd": "/nowhere/at/all"});
        assert_eq!(b.client.call("session/list", nothing.clone())["sessions"], json!([]));
        let below = b.place.project().join("below");
        b.client.open_in(&below);
        let id = b.client.session.clone();
        // One that nobody spoke in is not on the list.
        assert_eq!(b.client.call("session/list", json!({"cwd": below}))["sessions"], json!([]));
        assert_eq!(b.client.prompt("say here"), "end_turn");
        b.forget();
        let one = b.client.call("session/list", json!({"cwd": below}))["sessions"].clone();
        let ids: Vec<&Value> = one.as_array().unwrap().iter().map(|session| &session["sessionId"]).collect();
        assert_eq!(ids, [&json!(id)], "{one}");
        let all = b.client.call("session/list", json!({"cwd": b.place.project()}))["sessions"].clone();
        assert!(all.as_array().unwrap().iter().all(|session| session["cwd"] == json!(b.place.project())), "{all}");
        // Nothing has changed by looking.
        assert_eq!(b.client.call("session/list", json!({"cwd": below}))["sessions"], one);
        assert!(b.client.updates.iter().all(|update| update["sessionUpdate"] == "available_commands_update"));
        let params = json!({"sessionId": id});
        b.client.call("session/delete", params);
    }),
    row(&["V1-LIST-05"], ALL, |b| {
        for cursor in ["nonsense", "99999999999999999999999999"] {
            assert_eq!(b.client.fail("session/list", json!({"cursor": cursor}))["code"], -32602);
        }
    }),
    row(&["V1-LIST-08", "V1-LIST-09"], ALL, |b| {
        let id = b.client.session.clone();
        assert_eq!(b.client.prompt("say here"), "end_turn");
        let listed =
            |list: &Value| list["sessions"].as_array().unwrap().iter().any(|one| one["sessionId"] == json!(id));
        assert!(listed(&b.client.call("session/list", json!({}))));
        for _ in 0..2 {
            assert_eq!(b.client.call("session/delete", json!({"sessionId": id})), json!({}));
        }
        b.client.call("session/delete", json!({"sessionId": "nobody"}));
        assert!(!listed(&b.client.call("session/list", json!({}))));
    }),
    row(&["V1-LIST-10"], ALL, |b| {
        b.updates("title A new title");
        let news = of(&b.client.updates, "session_info_update");
        assert!(news.iter().any(|update| update["title"] == "A new title"), "{news:?}");
        for update in news {
            assert!(
                update.as_object().unwrap().keys().all(|key| ["sessionUpdate", "title", "updatedAt"].contains(&&**key))
            );
        }
    }),
    row(&["V1-LIST-06"], V1, |b| {
        let pages = b.place.folder.path().join("pages");
        for _ in 0..55 {
            b.client.open_in(&pages);
            assert_eq!(b.client.prompt("say here"), "end_turn");
        }
        let (mut count, mut cursor, mut largest) = (0, Value::Null, 0);
        loop {
            let page = b.client.call("session/list", json!({"cwd": pages, "cursor": cursor}));
            let size = page["sessions"].as_array().unwrap().len();
            (count, largest) = (count + size, largest.max(size));
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert!(count == 55 && largest < 55, "{count} sessions, {largest} at once");
    }),
];

#[test]
fn lists() {
    check(ROWS);
}
