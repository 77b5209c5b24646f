//! The test as an agent: a process that speaks one dialect, asks what its prompts tell it to, and may want a login.
//!
//! `agent DIALECT` serves; `agent DIALECT login` is the login in a terminal, which makes the file in `LOGIN_FILE`.

use serde_json::{Value, json};
use std::io::{BufRead, Write};
use tieline::Dialect;

pub fn run(args: &[String]) {
    let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.to_string() == args[0]).expect("a dialect");
    let file = std::env::var_os("LOGIN_FILE");
    match (args.get(1).map(String::as_str), &file) {
        (Some("login"), Some(file)) => {
            let tty = rustix::termios::isatty(std::io::stdin());
            let extra = std::env::var("EXTRA").unwrap_or_default();
            std::fs::write(file, format!("terminal {extra} {tty}")).unwrap();
            return;
        }
        (Some("fail"), _) => std::process::exit(3),
        _ => {}
    }
    let methods = if file.is_some() { methods(dialect) } else { json!([]) };
    let mut lines = std::io::stdin().lock().lines().map_while(Result::ok);
    let mut next_id = 0;
    while let Some(line) = lines.next() {
        let message: Value = serde_json::from_str(&line).unwrap();
        let (id, params) = (&message["id"], &message["params"]);
        let answer = |result: Value| send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => answer(crate::setup::hello(dialect, &methods)),
            "authenticate" | "auth/login" => {
                std::fs::write(file.as_ref().unwrap(), format!("by {}", params["methodId"].as_str().unwrap())).unwrap();
                answer(json!({}));
            }
            "session/new" if file.as_ref().is_some_and(|file| !std::path::Path::new(file).exists()) => {
                let error = json!({"code": -32000, "message": "Authentication required"});
                send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            "session/new" => answer(json!({"sessionId": "s"})),
            "session/prompt" => {
                if dialect == Dialect::V2 {
                    answer(json!({"messageId": "m"}));
                    update(&json!({"sessionUpdate": "state_update", "state": "running"}));
                }
                let steps: Vec<Value> = serde_json::from_str(params["prompt"][0]["text"].as_str().unwrap()).unwrap();
                let mut answers: Vec<Value> = Vec::new();
                for step in steps {
                    next_id += 1;
                    // `$` stands for what the first step brought.
                    let known = answers.first().and_then(|first| first["result"]["terminalId"].as_str()).unwrap_or("");
                    let params: Value = serde_json::from_str(&step[1].to_string().replace('$', known)).unwrap();
                    send(&json!({"jsonrpc": "2.0", "id": next_id, "method": step[0], "params": params}));
                    let answer: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
                    assert_eq!(answer["id"], next_id);
                    answers.push(answer);
                }
                let text = serde_json::to_string(&answers).unwrap();
                let content = json!({"type": "text", "text": text});
                update(&json!({"sessionUpdate": "agent_message_chunk", "messageId": "a", "content": content}));
                match dialect {
                    Dialect::V2 => {
                        update(&json!({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}));
                    }
                    _ => answer(json!({"stopReason": "end_turn"})),
                }
            }
            _ => {}
        }
    }
}

/// One of each kind. Methods have other names for their ids and environments in each dialect.
pub fn methods(dialect: Dialect) -> Value {
    let id = if dialect == Dialect::V2 { "methodId" } else { "id" };
    let env = if dialect == Dialect::V1 { json!({"EXTRA": "env"}) } else { json!([{"name": "EXTRA", "value": "env"}]) };
    json!([
        {"type": "agent", id: "key", "name": "Key\u{1b}[31m"},
        {"type": "terminal", id: "term", "name": "Terminal", "args": ["login"], "env": env},
        {"type": "terminal", id: "broken", "name": "Broken", "args": ["fail"]},
        {"type": "env_var", id: "var", "name": "Variable", "vars": [{"name": "SOME_API_KEY"}], "link": "https://example.com/keys"},
        {"type": "_odd", id: "odd", "name": "Odd"}
    ])
}

fn send(message: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}").unwrap();
    out.flush().unwrap();
}

fn update(update: &Value) {
    send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}));
}
