//! The services and an agent that is a real process, in every dialect.

use crate::harness::{block_on, me, processes_with, soon, unique};
use crate::setup::Project;
use serde_json::{Value, json};
use std::time::Duration;
use tieline::client::Client;
use tieline::process::Spec;
use tieline::{Dialect, Protocol};
use tieline_client::permission::{Engine, Preset};
use tieline_host::rules::Config;

pub const ALL: &[(&str, fn())] = &[
    ("an_agent_process_works_through_the_services", an_agent_process_works_through_the_services),
    ("tr_end_08_terminals_end_with_an_agent_that_is_gone", tr_end_08_terminals_end_with_an_agent_that_is_gone),
];

fn an_agent_process_works_through_the_services() {
    block_on(async {
        for dialect in Dialect::ALL {
            let project = Project::new();
            let services = project.services().engine(Engine::new(Preset::AllowAll, Config::default())).build();
            let client = Client::new("test", "1").offer(|can| services.offer(can)).handler(services.clone());
            let spec = Spec::new(me()).args(["agent", &dialect.to_string()]);
            let agent = client.protocol(Protocol::Only(dialect)).spawn_spec(&spec).await.unwrap();
            let session = agent.open(project.root.to_str().unwrap()).await.unwrap();
            let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
            let call = json!({"toolCallId": "c", "kind": "edit", "locations": [{"path": project.path("made.txt")}]});
            let permission = match dialect {
                Dialect::V2 => {
                    json!({"sessionId": "s", "title": "x", "subject": {"type": "tool_call", "toolCall": call}, "options": options})
                }
                _ => json!({"sessionId": "s", "toolCall": call, "options": options}),
            };
            let mut steps = vec![json!(["session/request_permission", permission])];
            if dialect == Dialect::V1 {
                let path = project.path("made.txt");
                steps = vec![
                    json!(["terminal/create", {"sessionId": "s", "command": "test -t 0 && echo tty"}]),
                    steps.remove(0),
                    json!(["terminal/wait_for_exit", {"sessionId": "s", "terminalId": "$"}]),
                    json!(["terminal/output", {"sessionId": "s", "terminalId": "$"}]),
                    json!(["terminal/release", {"sessionId": "s", "terminalId": "$"}]),
                    json!(["fs/write_text_file", {"sessionId": "s", "path": path, "content": "made"}]),
                    json!(["fs/read_text_file", {"sessionId": "s", "path": path}]),
                ];
            }
            let turn = session.prompt(Value::Array(steps).to_string()).await.unwrap();
            let (said, _) = turn.text().await.unwrap();
            let answers: Vec<Value> = serde_json::from_str(&said).unwrap();
            assert!(answers.iter().all(|answer| answer.get("error").is_none()), "{dialect}: {said}");
            let asked = &answers[usize::from(dialect == Dialect::V1)];
            assert_eq!(asked["result"]["outcome"]["optionId"], "y", "{dialect}");
            if dialect == Dialect::V1 {
                assert_eq!(answers[2]["result"]["exitCode"], 0);
                assert_eq!(answers[3]["result"]["output"], "tty\n");
                assert_eq!(answers[6]["result"]["content"], "made");
                assert_eq!(std::fs::read_to_string(project.path("made.txt")).unwrap(), "made");
            }
            agent.close().await;
        }
    });
}

fn tr_end_08_terminals_end_with_an_agent_that_is_gone() {
    block_on(async {
        let project = Project::new();
        let services = project.services().engine(Engine::new(Preset::AllowAll, Config::default())).build();
        let client = Client::new("test", "1").offer(|can| services.offer(can)).handler(services.clone());
        let spec = Spec::new(me()).args(["agent", "1"]);
        let agent = client.protocol(Protocol::Only(Dialect::V1)).spawn_spec(&spec).await.unwrap();
        let session = agent.open(project.root.to_str().unwrap()).await.unwrap();
        let mark = unique();
        let steps = json!([["terminal/create", {"sessionId": "s", "command": format!("sleep 600; echo {mark}")}]]);
        session.prompt(steps.to_string()).await.unwrap().text().await.unwrap();
        tokio::task::block_in_place(|| soon("it runs", Duration::from_secs(10), || !processes_with(&mark).is_empty()));
        agent.close().await;
        services.end();
        tokio::task::block_in_place(|| soon("it ends", Duration::from_secs(10), || processes_with(&mark).is_empty()));
    });
}
