//! The first exchange: versions, names, capabilities; what may come before and after it.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Wire, agent_wire, agent_wire_with, hello, in_every_dialect, wire};
use serde_json::{Value, json};
use tieline::agent::{About, FnAgent, Server, Turn, from_fn};
use tieline::client::Client;
use tieline::schema::{AgentAuth, TerminalAuth};
use tieline::{AuthMethod, ContentBlock, Dialect, Error, Protocol, StopReason};

type Echo = FnAgent<fn(Turn, Vec<ContentBlock>) -> std::future::Ready<tieline::Result<StopReason>>>;

fn echo() -> Echo {
    from_fn("echo", |_, _| std::future::ready(Ok(StopReason::EndTurn)))
}

async fn answer(params: Value) -> Value {
    agent_wire(echo()).call("initialize", params).await
}

#[tokio::test]
async fn d1_to_d12_the_dialect_is_told_by_the_keys() {
    let info = json!({"name": "c", "version": "1"});
    // Hello, dialect, keys that the answer must have, keys it must not have.
    let rows = [
        ("D1", json!({"protocolVersion": 1}), Dialect::V1, "agentCapabilities agentInfo", "capabilities info"),
        ("D2", json!({"protocolVersion": 1, "info": info}), Dialect::V1, "agentCapabilities", "capabilities info"),
        (
            "D3",
            json!({"protocolVersion": 2, "capabilities": {}}),
            Dialect::V2Seed,
            "capabilities agentInfo",
            "info agentCapabilities",
        ),
        (
            "D4",
            json!({"protocolVersion": 2, "capabilities": {}, "clientInfo": info}),
            Dialect::V2Seed,
            "agentInfo",
            "info",
        ),
        (
            "D5",
            json!({"protocolVersion": 2, "clientCapabilities": {"fs": {"readTextFile": true}}}),
            Dialect::V2Seed,
            "capabilities agentCapabilities",
            "info",
        ),
        (
            "D6",
            json!({"protocolVersion": 2, "info": info}),
            Dialect::V2,
            "capabilities info",
            "agentInfo agentCapabilities",
        ),
        (
            "D7",
            json!({"protocolVersion": 2, "info": info, "capabilities": {}, "clientInfo": info, "clientCapabilities": {"terminal": true}}),
            Dialect::V2,
            "info",
            "agentInfo",
        ),
        ("D8", json!({"protocolVersion": 7, "info": info}), Dialect::V2, "info", "agentInfo"),
        ("D9", json!({"protocolVersion": 0}), Dialect::V1, "agentCapabilities", "info"),
        ("D11", json!({"protocolVersion": 2, "info": null}), Dialect::V2Seed, "agentInfo", "info"),
    ];
    for (row, params, dialect, has, has_not) in rows {
        let mut wire = agent_wire(echo());
        let result = wire.result("initialize", params).await;
        assert_eq!(result["protocolVersion"], dialect.version(), "{row}");
        assert!(result["authMethods"].is_array(), "{row}: V1-INIT-17");
        assert!(has.split(' ').all(|key| result[key].is_object()), "{row}: {result}");
        assert!(has_not.split(' ').all(|key| result.get(key).is_none()), "{row}: {result}");
        let session = wire.new_session().await;
        let prompt =
            wire.call("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}]})).await;
        let by_id = prompt["result"]["messageId"].is_string();
        assert_eq!(by_id, dialect == Dialect::V2, "{row}: V2-PROMPT-04: {prompt}");
        assert_eq!(prompt["result"]["stopReason"] == "end_turn", dialect != Dialect::V2, "{row}: {prompt}");
    }
    // D10 and D12, V1-INIT-09: what is no version, and a broken name where one is required.
    for params in [
        json!({"protocolVersion": "2"}),
        json!({}),
        json!({"protocolVersion": -1}),
        json!({"protocolVersion": 1.5}),
        json!({"protocolVersion": 70000}),
        json!({"protocolVersion": 2, "info": {"name": 5}}),
    ] {
        assert_eq!(answer(params.clone()).await["error"]["code"], -32602, "{params}");
    }
}

#[tokio::test]
async fn v1_init_02_03_04_the_version_is_echoed_or_the_newest() {
    assert_eq!(answer(json!({"protocolVersion": 1})).await["result"]["protocolVersion"], 1, "V1-INIT-03");
    assert_eq!(
        answer(json!({"protocolVersion": 999})).await["result"]["protocolVersion"],
        2,
        "V1-INIT-04, V2-INIT-04 (seed)"
    );
    let mut wire = agent_wire_with(Server::new(echo()).protocol(Protocol::Only(Dialect::V1)));
    let result = wire.result("initialize", json!({"protocolVersion": 2, "info": {"name": "c", "version": "1"}})).await;
    assert_eq!(result["protocolVersion"], 1, "v2 switched off");
    let mut wire = agent_wire_with(Server::new(echo()).protocol(Protocol::Only(Dialect::V2)));
    let answer = wire.call("initialize", json!({"protocolVersion": 1})).await;
    assert_eq!(answer["error"]["code"], -32022, "V2-INIT-04: {answer}");
    assert_eq!(answer["error"]["data"], json!({"requested": 1, "supported": [2]}));
}

#[tokio::test]
async fn v1_init_14_v2_init_06_the_agent_says_who_it_is() {
    let result = answer(hello(Dialect::V1)).await;
    assert_eq!(result["result"]["agentInfo"]["name"], "echo");
    let result = answer(hello(Dialect::V2)).await;
    assert_eq!(result["result"]["info"]["name"], "echo");
    assert!(result["result"]["capabilities"]["session"].is_object(), "V2-INIT-08");
}

#[tokio::test]
async fn v1_init_15_nothing_goes_before_the_hello() {
    let mut wire = agent_wire(echo());
    for method in ["session/new", "session/prompt", "session/list", "_x", "session/set_mode"] {
        let params = json!({"cwd": "/tmp", "mcpServers": [], "sessionId": "s", "prompt": [], "modeId": "m"});
        assert_eq!(wire.code(method, params).await, -32600, "{method}");
    }
    wire.notify("session/cancel", json!({"sessionId": "x"})).await;
    wire.result("initialize", hello(Dialect::V1)).await;
    assert_eq!(wire.code("nothing/such", json!({})).await, -32601, "V1-ERR-02");
}

#[tokio::test]
async fn v1_init_16_v2_init_11_a_second_hello() {
    for (dialect, again) in [(Dialect::V1, false), (Dialect::V2Seed, false), (Dialect::V2, true)] {
        let mut wire = agent_wire(echo());
        wire.result("initialize", hello(dialect)).await;
        let second = wire.call("initialize", hello(dialect)).await;
        assert_eq!(second.get("result").is_some(), again, "{dialect}: {second}");
        if again {
            assert_eq!(wire.code("initialize", hello(Dialect::V1)).await, -32600, "a lower version");
        }
        wire.new_session().await;
        assert_eq!(wire.code("initialize", hello(dialect)).await, -32600, "{dialect}: after another request");
    }
}

#[tokio::test]
async fn v1_auth_10_v2_auth_06_terminal_logins_only_for_clients_that_can() {
    let agent = || {
        echo().about(|about| {
            about.auth_methods = vec![
                AuthMethod::Agent(AgentAuth { method_id: "key".into(), name: "Key".into(), ..AgentAuth::default() }),
                AuthMethod::Terminal(TerminalAuth {
                    method_id: "tty".into(),
                    name: "Terminal".into(),
                    ..TerminalAuth::default()
                }),
            ];
        })
    };
    for (dialect, id) in [(Dialect::V1, "id"), (Dialect::V2, "methodId")] {
        let methods = agent_wire(agent()).result("initialize", hello(dialect)).await["authMethods"].clone();
        assert_eq!(methods.as_array().unwrap().len(), 2, "{dialect}");
        assert_eq!(methods[0][id], "key");
        assert_eq!(methods[0].get("type").is_some(), dialect == Dialect::V2, "V1-AUTH-14, V2-AUTH-01");
        assert_eq!(methods[1]["type"], "terminal");
    }
    let methods = agent_wire(agent()).result("initialize", json!({"protocolVersion": 1})).await["authMethods"].clone();
    assert_eq!(methods.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn v1_rpc_05_v2_ids_by_dialect() {
    for (dialect, fine) in [(Dialect::V1, true), (Dialect::V2Seed, true), (Dialect::V2, false)] {
        for id in ["null", "1.5"] {
            let mut wire = agent_wire(echo());
            wire.result("initialize", hello(dialect)).await;
            wire.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"_x"}}"#)).await;
            let code = wire.get().await["error"]["code"].clone();
            assert_eq!(code, if fine { -32601 } else { -32600 }, "{dialect} {id}");
        }
    }
}

/// What a raw agent answers, and what our client makes of it.
async fn settles(protocol: Protocol, answers: Vec<Value>) -> (Result<Dialect, Error>, Vec<Value>) {
    let (mut wire, transport) = wire();
    let agent = tokio::spawn(async move {
        let mut hellos = Vec::new();
        for answer in answers {
            let (request, _) = wire.request("initialize").await;
            let mut message = json!({"jsonrpc": "2.0", "id": request["id"]});
            message.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
            wire.send(&message).await;
            hellos.push(request["params"].clone());
        }
        (hellos, wire)
    });
    let settled = Client::new("c", "1").protocol(protocol).offer(|can| can.fs_read = true).connect(transport).await;
    let (hellos, _wire): (Vec<Value>, Wire) = agent.await.unwrap();
    (settled.map(|agent| agent.dialect()), hellos)
}

#[tokio::test]
async fn the_client_settles_on_what_the_agent_speaks() {
    let ok = |result: Value| vec![json!({"result": result})];
    let auto = Protocol::Auto;
    let rows = [
        (auto, ok(json!({"protocolVersion": 1, "agentCapabilities": {}})), Dialect::V1),
        (
            auto,
            ok(json!({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"session": {}}})),
            Dialect::V2,
        ),
        (auto, ok(json!({"protocolVersion": 2, "capabilities": {"session": {}}})), Dialect::V2Seed),
        // An agent of version 1 that only sends our number back.
        (auto, ok(json!({"protocolVersion": 2, "agentCapabilities": {"loadSession": true}})), Dialect::V1),
        (Protocol::Only(Dialect::V1), ok(json!({"protocolVersion": 1})), Dialect::V1),
    ];
    for (protocol, answers, dialect) in rows {
        assert_eq!(settles(protocol, answers.clone()).await.0, Ok(dialect), "{answers:?}");
    }
}

#[tokio::test]
async fn v1_init_01_13_v2_init_01_the_client_says_hello_in_a_form_that_all_read() {
    let (_, hellos) = settles(Protocol::Auto, vec![json!({"result": {"protocolVersion": 1}})]).await;
    assert_eq!(hellos[0]["protocolVersion"], 2);
    assert_eq!(hellos[0]["info"], hellos[0]["clientInfo"]);
    assert_eq!(hellos[0]["clientCapabilities"]["fs"]["readTextFile"], true);
    let (_, hellos) = settles(Protocol::Only(Dialect::V1), vec![json!({"result": {"protocolVersion": 1}})]).await;
    assert_eq!(hellos[0]["protocolVersion"], 1);
    assert!(hellos[0].get("info").is_none() && hellos[0].get("capabilities").is_none());
}

#[tokio::test]
async fn the_client_tries_other_hellos_and_then_gives_up() {
    let v1 = json!({"result": {"protocolVersion": 1}});
    let refuse = |code: i64| json!({"error": {"code": code, "message": "no"}});
    let unsupported = json!({"error": {"code": -32022, "message": "no", "data": {"requested": 2, "supported": [1]}}});
    let (settled, hellos) = settles(Protocol::Auto, vec![refuse(-32602), refuse(-32602), v1.clone()]).await;
    assert_eq!((settled, hellos.len()), (Ok(Dialect::V1), 3));
    assert!(hellos[1].get("clientInfo").is_none() && hellos[2].get("info").is_none(), "pure v2, then pure v1");
    assert_eq!(settles(Protocol::Auto, vec![unsupported.clone(), v1]).await.0, Ok(Dialect::V1));
    assert!(matches!(settles(Protocol::Only(Dialect::V2), vec![unsupported]).await.0, Err(Error::Version(_))));
    assert!(matches!(settles(Protocol::Auto, vec![refuse(-32603)]).await.0, Err(Error::Wire(_))));
    // V1-INIT-05, V2-INIT-05: an answer we don't speak.
    let odd = vec![json!({"result": {"protocolVersion": 9}})];
    assert!(matches!(settles(Protocol::Auto, odd).await.0, Err(Error::Version(_))));
}

#[tokio::test]
async fn v1_ext_05_06_v2_init_12_meta_is_kept_both_ways() {
    in_every_dialect(|dialect| async move {
        let about = echo().about(|about: &mut About| {
            about.capabilities.meta = Some(tieline::Meta(tieline::Raw::new(r#"{"x.example":{"y":1}}"#).unwrap()));
        });
        let result = agent_wire(about).result("initialize", hello(dialect)).await;
        let key = if dialect == Dialect::V1 { "agentCapabilities" } else { "capabilities" };
        assert_eq!(result[key]["_meta"]["x.example"]["y"], 1, "{dialect}: {result}");
    })
    .await;
}
