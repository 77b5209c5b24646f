//! What goes on beside the turns: commands in the background, and work that the agent starts by itself.

use crate::bench::{CURRENT, Row, check, of, row};
use serde_json::{Value, json};

/// A command in the background that says something, waits for a file, says something else and fails.
fn command(b: &crate::bench::Bench, name: &str) -> String {
    let _ = std::fs::remove_file(b.place.project().join(name));
    let command = format!("echo begun; while [ ! -e {name} ]; do sleep 0.05; done; echo ended; exit 3");
    format!("call run {}", json!({"command": command, "background": true}))
}

fn states(updates: &[Value]) -> Vec<Value> {
    of(updates, "state_update").into_iter().cloned().collect()
}

/// Where the first update is that fits.
fn place(updates: &[Value], fits: impl Fn(&Value) -> bool) -> usize {
    updates.iter().position(fits).unwrap_or_else(|| panic!("not in {}", Value::from(updates.to_vec())))
}

/// The terminals that a state lists.
fn listed(state: &Value) -> Vec<&str> {
    let list = state["background"].as_array().unwrap_or_else(|| panic!("no list in {state}"));
    list.iter()
        .map(|item| {
            assert_eq!(item["type"], "terminal", "{state}");
            item["terminalId"].as_str().unwrap()
        })
        .collect()
}

/// The text of a terminal so far.
fn output(updates: &[Value]) -> String {
    let chunks = of(updates, "terminal_output_chunk");
    let bytes = chunks.iter().flat_map(|chunk| tieline_schema::from_base64(chunk["data"].as_str().unwrap()).unwrap());
    String::from_utf8(bytes.collect()).unwrap()
}

pub const ROWS: &[Row] = &[
    row(&["V2-STATE-05"], CURRENT, |b| {
        b.updates(&command(b, "go-1"));
        let before = b.client.updates.len();
        while !output(&b.client.updates).contains("begun") {
            b.client.until_update("terminal_output_chunk");
        }
        b.place.write("go-1", "");
        b.client.until(|message| message["params"]["update"]["exitStatus"].is_object());
        // All this came while the session was idle, and said nothing of its state.
        let idle = place(&b.client.updates, |update| update["state"] == "idle");
        assert!(idle < before);
        assert!(states(&b.client.updates[idle + 1..]).is_empty(), "{:?}", b.client.updates);
        assert_eq!(output(&b.client.updates), "begun\nended\n");
        // Only then the list changes; the state is what it was.
        let after = b.client.until_update("state_update");
        assert_eq!((&after["state"], listed(&after).len()), (&json!("idle"), 0), "{after}");
        assert!(after.get("stopReason").is_none(), "a second end: {after}");
        assert_eq!(b.turn("say on"), "end_turn");
    }),
    row(&["V2-STATE-07"], CURRENT, |b| {
        b.updates("say nothing runs yet");
        assert!(states(&b.client.updates).iter().all(|state| listed(state).is_empty()));
        b.updates(&format!("{}\n{}\nwrite c.txt x", command(b, "go-2"), command(b, "go-3")));
        let updates = b.client.updates.clone();
        let announced: Vec<&str> =
            of(&updates, "terminal_update").iter().filter_map(|update| update["terminalId"].as_str()).collect();
        assert_eq!(announced.len(), 2, "{announced:?}");
        // Each is announced, then it is on every list, together with the other.
        let mut most = 0;
        for (at, update) in updates.iter().enumerate().filter(|(_, update)| update["sessionUpdate"] == "state_update") {
            let list = listed(update);
            assert!(list.len() >= most && list == announced[..list.len()], "{update}");
            most = list.len();
            for terminal in list {
                let known = place(&updates, |update| update["terminalId"] == terminal && update["command"].is_string());
                assert!(known < at, "{terminal} was listed before it was announced");
            }
        }
        assert_eq!(most, 2);
        let last = updates.last().unwrap();
        assert_eq!((&last["state"], listed(last)), (&json!("idle"), announced.clone()), "{last}");
        // The tool calls are over, and are not on the list too.
        assert_eq!(b.calls().iter().filter(|call| call["status"] == "completed").count(), 3);
        // A cancel leaves them alone.
        b.forget();
        let id = b.client.begin("say started\nwait");
        b.client.until_update("agent_message_chunk");
        b.client.cancel();
        assert_eq!(b.client.end(id), "cancelled");
        assert!(states(&b.client.updates).iter().all(|state| listed(state) == announced), "{:?}", b.client.updates);
        // Each ends, then it is off the list.
        for (name, left) in [("go-2", &announced[1..]), ("go-3", &[])] {
            b.forget();
            b.place.write(name, "");
            let state = b.client.until_update("state_update");
            assert_eq!(listed(&state), left);
            let end = b.client.updates.iter().find(|update| update["exitStatus"].is_object()).unwrap();
            assert_eq!(
                (&end["terminalId"], &end["exitStatus"]["exitCode"]),
                (&json!(announced[2 - left.len() - 1]), &json!(3))
            );
        }
    }),
    row(&["V2-STATE-08"], CURRENT, |b| {
        b.updates("later 200 say I came by myself");
        let heard = b.client.updates.len();
        b.client.until(|message| message["params"]["update"]["state"] == "idle");
        let own = b.client.updates[heard..].to_vec();
        let states: Vec<Value> = states(&own).iter().map(|state| state["state"].clone()).collect();
        assert_eq!(states, ["running", "idle"], "{own:?}");
        assert_eq!(own.last().unwrap()["stopReason"], "end_turn");
        let said: Vec<&Value> = of(&own, "agent_message_chunk").iter().map(|chunk| &chunk["content"]["text"]).collect();
        assert_eq!(said, ["I came by myself"]);
        let by_user = |updates: &[Value]| {
            updates.iter().filter(|update| update["sessionUpdate"].as_str().unwrap().starts_with("user_")).count()
        };
        assert_eq!(by_user(&own), 0, "nobody asked: {own:?}");
        // It can be cancelled like any other, and is part of what is told again.
        b.updates("later 200 wait");
        b.client.until(|message| message["params"]["update"]["state"] == "running");
        b.client.cancel();
        let idle = b.client.until_update("state_update");
        assert_eq!((&idle["state"], &idle["stopReason"]), (&json!("idle"), &json!("cancelled")), "{idle}");
        let session = b.client.session.clone();
        b.client.call("session/close", json!({"sessionId": session}));
        b.forget();
        b.client.load(&session, &b.place.project());
        assert!(b.client.said().contains("I came by myself"), "{}", b.client.said());
        assert_eq!(by_user(&b.client.updates), 2);
        assert_eq!(b.turn("say on"), "end_turn");
    }),
];

#[test]
fn background() {
    check(ROWS);
}
