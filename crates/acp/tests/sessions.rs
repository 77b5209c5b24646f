//! Sessions: opened, loaded, resumed, listed, closed, deleted; their options, modes, commands and logins.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Wire, agent_wire, hello, in_every_dialect, said, updates};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tieline::agent::{About, Agent, Memory, Opened, Opening, Resuming, Session, Turn};
use tieline::schema::{AgentAuth, ConfigCategory, SelectOption, SelectOptions};
use tieline::{
    AuthMethod, Command, ConfigOption, ConfigValue, ContentBlock, Dialect, Error, Result, Severity, StopReason, Update,
};

/// Remembers by itself, has options and a command, and can want a login.
struct Full {
    needs_login: AtomicBool,
    opened: Arc<Mutex<Vec<String>>>,
}

struct Conversation;

fn choice(value: &str) -> SelectOption {
    SelectOption { value: value.into(), name: value.into(), ..SelectOption::default() }
}

fn options() -> Vec<ConfigOption> {
    let mut mode =
        ConfigOption::select("mode", "Mode", "ask", SelectOptions::Flat(vec![choice("ask"), choice("code")]));
    mode.category = Some(ConfigCategory::Mode);
    vec![mode, ConfigOption::boolean("loud", "Loud", false)]
}

impl Agent for Full {
    type Session = Conversation;

    fn about(&self) -> About {
        let mut about = About::new("full", "1").remember();
        let can = &mut about.capabilities;
        (can.additional_directories, can.mcp_http, can.logout) = (true, true, true);
        about.auth_methods =
            vec![AuthMethod::Agent(AgentAuth { method_id: "key".into(), name: "Key".into(), ..AgentAuth::default() })];
        about
    }

    async fn open(&self, opening: Opening) -> Result<Opened<Conversation>> {
        if self.needs_login.load(Ordering::SeqCst) {
            return Err(Error::auth_required());
        }
        let what = format!("{} {:?} {}", opening.cwd, opening.additional_directories, opening.mcp_servers.len());
        self.opened.lock().unwrap().push(what);
        opening.session.title("Fresh").await?;
        Ok(Opened::new(Conversation).options(options()).commands(vec![Command::new("go", "Goes.").with_input("where")]))
    }

    async fn login(&self, method_id: String, _: tieline::agent::ClientHandle) -> Result<()> {
        assert_eq!(method_id, "key");
        self.needs_login.store(false, Ordering::SeqCst);
        Ok(())
    }

    async fn logout(&self, _: tieline::agent::ClientHandle) -> Result<()> {
        self.needs_login.store(true, Ordering::SeqCst);
        Ok(())
    }
}

impl Session for Conversation {
    async fn accept(&self, _: &str, prompt: &[ContentBlock]) -> Result<()> {
        if prompt[0].as_text() == Some("refuse") { Err(Error::auth_required()) } else { Ok(()) }
    }

    async fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        match prompt[0].as_text().unwrap_or_default() {
            "wait" => turn.cancelled().await,
            "login" => return Err(Error::auth_required()),
            "log in with these words" => return Err(Error::wire(-32000, "The key has expired.")),
            "mode" => turn.session().set_option("mode", ConfigValue::Id("code".into())).await?,
            "notice" => turn.session().notice(Severity::Warning, "Careful").await?,
            text => {
                turn.think("hm").await?;
                turn.say(format!("echo {text}")).await?;
                turn.tool("T").id(format!("call-{text}")).start().await?.complete().await?;
            }
        }
        Ok(StopReason::EndTurn)
    }

    async fn set_option(&self, id: String, value: ConfigValue) -> Result<Option<Vec<ConfigOption>>> {
        if id == "loud" {
            assert!(matches!(value, ConfigValue::Bool(_)), "{value:?}");
        }
        Ok(None)
    }
}

fn full() -> (Full, Arc<Mutex<Vec<String>>>) {
    let opened = Arc::default();
    (Full { needs_login: AtomicBool::new(false), opened: Arc::clone(&opened) }, opened)
}

async fn connect(dialect: Dialect) -> (Wire, Arc<Mutex<Vec<String>>>) {
    let (agent, opened) = full();
    let mut wire = agent_wire(agent);
    wire.result("initialize", hello(dialect)).await;
    (wire, opened)
}

async fn setup(wire: &mut Wire) -> Value {
    wire.result("session/new", json!({"cwd": "/tmp", "mcpServers": []})).await
}

/// The messages before the answer to a harmless request.
async fn drain(wire: &mut Wire) -> Vec<Value> {
    let id = wire.ask("_probe", json!({})).await;
    wire.answer(id).await.1
}

#[tokio::test]
async fn v1_mode_01_v1_conf_01_08_v2_conf_01_05_v1_cmd_04_v2_sess_18_what_the_answer_carries() {
    in_every_dialect(|dialect| async move {
        let (mut wire, _) = connect(dialect).await;
        let setup = setup(&mut wire).await;
        let key = if dialect == Dialect::V2 { "configId" } else { "id" };
        assert_eq!(setup["configOptions"][0][key], "mode", "{dialect}: {setup}");
        assert_eq!(setup["configOptions"][0]["currentValue"], "ask", "V1-CONF-02");
        let boolean = &setup["configOptions"][1];
        assert_eq!(boolean["type"], if dialect == Dialect::V2Seed { "select" } else { "boolean" }, "V1-CONF-03: {boolean}");
        assert_eq!(setup["modes"]["currentModeId"] == "ask", dialect == Dialect::V1);
        let after = drain(&mut wire).await;
        assert_eq!(updates(&after, "session_info_update")[0]["title"], "Fresh", "held until the client knows the session");
        let commands = updates(&after, "available_commands_update");
        if dialect == Dialect::V2 {
            assert!(commands.is_empty());
            let expect = json!([{"type": "command", "name": "go", "description": "Goes.", "input": {"type": "text", "hint": "where"}}]);
            assert_eq!(setup["availableCommands"], expect, "V2-CMD-03");
        } else {
            let expect = json!([{"name": "go", "description": "Goes.", "input": {"hint": "where"}}]);
            assert_eq!(commands[0]["availableCommands"], expect, "V1-CMD-01, V2-CMD-01");
        }
    })
    .await;
    // A client that shows no switches gets a list instead.
    let (agent, _) = full();
    let mut wire = agent_wire(agent);
    wire.result("initialize", json!({"protocolVersion": 1})).await;
    let setup = setup(&mut wire).await;
    assert_eq!(setup["configOptions"][1]["type"], "select");
    let session = &setup["sessionId"];
    let set = json!({"sessionId": session, "configId": "loud", "value": "true"});
    assert_eq!(wire.result("session/set_config_option", set).await["configOptions"][1]["currentValue"], "true");
}

#[tokio::test]
async fn v1_mode_02_03_04_v1_conf_04_05_11_v2_conf_02_03_changing_options() {
    in_every_dialect(|dialect| async move {
        let (mut wire, _) = connect(dialect).await;
        let session = setup(&mut wire).await["sessionId"].clone();
        drain(&mut wire).await;
        let set = |id: &str, kind: &str, value: Value| {
            let mut params = json!({"sessionId": session, "configId": id, "value": value});
            if dialect == Dialect::V2 {
                params["type"] = json!(kind);
            }
            params
        };
        for bad in
            [set("mode", "id", json!("nowhere")), set("nothing", "id", json!("x")), set("mode", "boolean", json!(true))]
        {
            assert_eq!(wire.code("session/set_config_option", bad.clone()).await, -32602, "{dialect}: {bad}");
        }
        let id = wire.ask("session/set_config_option", set("mode", "id", json!("code"))).await;
        let (answer, before) = wire.answer(id).await;
        let list = answer["result"]["configOptions"].clone();
        assert_eq!((list.as_array().unwrap().len(), &list[0]["currentValue"]), (2, &json!("code")), "V1-CONF-04");
        if dialect == Dialect::V1 {
            assert_eq!(
                updates(&before, "current_mode_update")[0]["currentModeId"],
                "code",
                "both views are kept in step"
            );
            let unknown = json!({"sessionId": session, "modeId": "nowhere"});
            assert_eq!(wire.code("session/set_mode", unknown).await, -32602, "V1-MODE-02");
            let id = wire.ask("session/set_mode", json!({"sessionId": session, "modeId": "ask"})).await;
            let (answer, before) = wire.answer(id).await;
            assert_eq!(answer["result"], json!({}), "V1-MODE-03");
            assert_eq!(updates(&before, "config_option_update")[0]["configOptions"][0]["currentValue"], "ask");
        }
        // The agent changes the mode by itself, in a turn.
        wire.result("session/set_config_option", set("mode", "id", json!("ask"))).await;
        drain(&mut wire).await;
        let (_, seen) = wire.turn(dialect, session.as_str().unwrap(), "mode").await;
        assert_eq!(
            updates(&seen, "config_option_update")[0]["configOptions"].as_array().unwrap().len(),
            2,
            "V1-CONF-05"
        );
        let told = updates(&seen, "current_mode_update");
        assert_eq!(told.len(), usize::from(dialect == Dialect::V1), "V1-MODE-04");
        // While a turn runs, options can be changed too.
        let running = wire.prompt(session.as_str().unwrap(), "wait").await;
        wire.result("session/set_config_option", set("mode", "id", json!("ask"))).await;
        wire.notify("session/cancel", json!({"sessionId": session})).await;
        assert_eq!(wire.turn_end(dialect, running).await.0, "cancelled");
    })
    .await;
}

#[tokio::test]
async fn v1_notice_01_v2_notice_01_notices_where_they_are_shown() {
    for (hi, dialect, shown) in [
        (hello(Dialect::V1), Dialect::V1, true),
        (json!({"protocolVersion": 1}), Dialect::V1, false),
        (hello(Dialect::V2Seed), Dialect::V2Seed, false),
        (hello(Dialect::V2), Dialect::V2, true),
    ] {
        let mut wire = agent_wire(full().0);
        wire.result("initialize", hi).await;
        let session = wire.new_session().await;
        let (_, seen) = wire.turn(dialect, &session, "notice").await;
        assert_eq!(updates(&seen, "notice").len(), usize::from(shown), "{dialect}");
    }
}

#[tokio::test]
async fn v1_sess_01_10_20_21_v2_sess_01_13_14_what_a_session_may_be_opened_with() {
    in_every_dialect(|dialect| async move {
        let (mut wire, opened) = connect(dialect).await;
        let stdio = json!({"type": "stdio", "name": "s", "command": "/bin/s", "args": [], "env": []});
        let bad = [
            json!({"cwd": "relative", "mcpServers": []}),
            json!({"cwd": "file:///tmp", "mcpServers": []}),
            json!({"mcpServers": []}),
            json!({"cwd": 5, "mcpServers": []}),
            json!({"cwd": "/tmp", "mcpServers": "x"}),
            json!({"cwd": "/tmp", "mcpServers": [{"name": "x"}]}),
            json!({"cwd": "/tmp", "mcpServers": [], "additionalDirectories": ["also/relative"]}),
            json!({"cwd": "/tmp", "mcpServers": [{"type": "sse", "name": "s", "url": "http://x", "headers": []}]}),
        ];
        for params in bad {
            assert_eq!(wire.code("session/new", params.clone()).await, -32602, "{dialect}: {params}");
        }
        let missing = wire.call("session/new", json!({"cwd": "/tmp"})).await;
        assert_eq!(missing.get("error").is_some(), dialect != Dialect::V2, "AMB-12: {missing}");
        wire.result("session/new", json!({"cwd": "/tmp", "mcpServers": null})).await;
        let with_stdio = wire.call("session/new", json!({"cwd": "/tmp", "mcpServers": [stdio]})).await;
        assert_eq!(with_stdio.get("error").is_none(), dialect == Dialect::V1, "V1-SESS-09, AMB-13: {with_stdio}");
        opened.lock().unwrap().clear();
        let http = json!({"type": "http", "name": "h", "url": "http://x", "headers": [{"name": "a", "value": "b"}]});
        wire.result(
            "session/new",
            json!({"cwd": "/no/such/folder", "mcpServers": [http], "additionalDirectories": ["/a", "/b"]}),
        )
        .await;
        assert_eq!(*opened.lock().unwrap(), ["/no/such/folder [\"/a\", \"/b\"] 1"], "V1-SESS-02/23/25");
    })
    .await;
}

#[tokio::test]
async fn v1_sess_24_v2_sess_17_unknown_sessions() {
    in_every_dialect(|dialect| async move {
        let (mut wire, _) = connect(dialect).await;
        let id = "no-such-session";
        for (method, params) in [
            ("session/prompt", json!({"sessionId": id, "prompt": [{"type": "text", "text": "x"}]})),
            ("session/set_config_option", json!({"sessionId": id, "configId": "mode", "type": "id", "value": "x"})),
            ("session/resume", json!({"sessionId": id, "cwd": "/tmp"})),
            ("session/load", json!({"sessionId": id, "cwd": "/tmp", "mcpServers": []})),
        ] {
            let answer = wire.call(method, params).await;
            assert_eq!(
                (&answer["error"]["code"], &answer["error"]["data"]["sessionId"]),
                (&json!(-32002), &json!(id)),
                "{dialect} {method}"
            );
        }
        let close = wire.call("session/close", json!({"sessionId": id})).await;
        assert_eq!(close.get("result").is_some(), dialect == Dialect::V2, "V1-SESS-19, V2-SESS-11");
        wire.result("session/delete", json!({"sessionId": id})).await;
    })
    .await;
}

fn replay(dialect: Dialect, session: &str) -> (&'static str, Value) {
    match dialect {
        Dialect::V2 => {
            ("session/resume", json!({"sessionId": session, "cwd": "/tmp", "replayFrom": {"type": "start"}}))
        }
        _ => ("session/load", json!({"sessionId": session, "cwd": "/tmp", "mcpServers": []})),
    }
}

#[tokio::test]
async fn v1_sess_06_07_08_18_v2_sess_05_08_10_close_and_load_again() {
    in_every_dialect(|dialect| async move {
        let (mut wire, _) = connect(dialect).await;
        let session = setup(&mut wire).await["sessionId"].as_str().unwrap().to_owned();
        wire.turn(dialect, &session, "first").await;
        let running = wire.prompt(&session, "wait").await;
        let closing = wire.ask("session/close", json!({"sessionId": session})).await;
        let (closed, before) = wire.answer(closing).await;
        assert_eq!(closed["result"], json!({}));
        let ended = if dialect == Dialect::V2 {
            updates(&before, "state_update").last().is_some_and(|u| u["stopReason"] == "cancelled")
        } else {
            before.iter().any(|m| m["id"] == json!(running) && m["result"]["stopReason"] == "cancelled")
        };
        assert!(ended, "{dialect}: the running turn ends first: {before:?}");
        let gone = json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}]});
        assert_eq!(wire.code("session/prompt", gone).await, -32002);

        let (method, params) = replay(dialect, &session);
        let id = wire.ask(method, params).await;
        let (answer, told) = wire.answer(id).await;
        assert!(answer.get("error").is_none(), "{dialect}: {answer}");
        assert!(told.iter().all(|m| m["params"]["sessionId"] == json!(session)), "V1-SESS-08");
        let shown = told.iter().map(|m| m["params"]["update"]["sessionUpdate"].as_str().unwrap()).collect::<Vec<_>>();
        let all = serde_json::to_string(&told).unwrap();
        assert!(
            all.contains("echo first") && all.contains("\"first\"") && all.contains("call-first"),
            "V1-SESS-06: {all}"
        );
        if dialect == Dialect::V2 {
            assert_eq!(shown.last(), Some(&"state_update"), "V2-SESS-08");
        }
        // V1-SESS-08: goes on as if never interrupted.
        drain(&mut wire).await;
        assert_eq!(said(&wire.turn(dialect, &session, "again").await.1), "echo again");
    })
    .await;
}

#[tokio::test]
async fn v1_sess_15_16_v2_sess_06_07_resume_tells_nothing_again() {
    in_every_dialect(|dialect| async move {
        let (mut wire, _) = connect(dialect).await;
        let session = setup(&mut wire).await["sessionId"].as_str().unwrap().to_owned();
        wire.turn(dialect, &session, "first").await;
        let id = wire.ask("session/resume", json!({"sessionId": session, "cwd": "/tmp"})).await;
        let (answer, told) = wire.answer(id).await;
        assert!(!serde_json::to_string(&told).unwrap().contains("first"), "{told:?}");
        assert_eq!(answer["result"]["configOptions"][0]["currentValue"], "ask");
        assert_eq!(said(&wire.turn(dialect, &session, "more").await.1), "echo more");
        if dialect == Dialect::V2 {
            let odd = json!({"sessionId": session, "cwd": "/tmp", "replayFrom": {"type": "_middle"}});
            assert_eq!(wire.code("session/resume", odd).await, -32602, "V2-SESS-07");
        }
    })
    .await;
}

#[tokio::test]
async fn v1_list_02_03_05_08_09_11_list_and_delete() {
    in_every_dialect(|dialect| async move {
        let (mut wire, _) = connect(dialect).await;
        assert_eq!(wire.result("session/list", json!({})).await["sessions"], json!([]), "V1-LIST-02");
        let one = setup(&mut wire).await["sessionId"].clone();
        let two = wire
            .result("session/new", json!({"cwd": "/other", "mcpServers": [], "additionalDirectories": ["/a"]}))
            .await["sessionId"]
            .clone();
        let list = wire.result("session/list", Value::Null).await["sessions"].clone();
        assert_eq!(list.as_array().unwrap().len(), 2, "V1-RPC-07: null parameters");
        let other = wire.result("session/list", json!({"cwd": "/other"})).await["sessions"].clone();
        assert_eq!(
            other,
            json!([{"sessionId": two, "cwd": "/other", "additionalDirectories": ["/a"], "title": "Fresh"}]),
            "V1-LIST-03"
        );
        assert_eq!(wire.code("session/list", json!({"cursor": "rubbish"})).await, -32602, "V1-LIST-05");
        wire.result("session/close", json!({"sessionId": one})).await;
        assert_eq!(
            wire.result("session/list", json!({})).await["sessions"].as_array().unwrap().len(),
            2,
            "closed is not deleted"
        );
        for id in [&one, &two, &one] {
            wire.result("session/delete", json!({"sessionId": id})).await;
        }
        assert_eq!(wire.result("session/list", json!({})).await["sessions"], json!([]), "V1-LIST-08/09");
    })
    .await;
}

#[tokio::test]
async fn v1_list_06_pages() {
    let (mut wire, _) = connect(Dialect::V1).await;
    for _ in 0..150 {
        setup(&mut wire).await;
    }
    let first = wire.result("session/list", json!({})).await;
    assert_eq!(first["sessions"].as_array().unwrap().len(), 100);
    let second = wire.result("session/list", json!({"cursor": first["nextCursor"]})).await;
    assert_eq!((second["sessions"].as_array().unwrap().len(), second.get("nextCursor")), (50, None));
}

#[tokio::test]
async fn v1_auth_02_03_05_08_v2_auth_02_03_04_08_login_and_logout() {
    in_every_dialect(|dialect| async move {
        let (mut wire, _) = connect(dialect).await;
        let (login, logout) =
            if dialect == Dialect::V2 { ("auth/login", "auth/logout") } else { ("authenticate", "logout") };
        // V1-RPC-07: logout takes no parameters.
        assert_eq!(wire.result(logout, Value::Null).await, json!({}));
        let refused = wire.call("session/new", json!({"cwd": "/tmp", "mcpServers": []})).await;
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["message"]),
            (&json!(-32000), &json!("Authentication required"))
        );
        let data = &refused["error"]["data"];
        assert_eq!(data["reason"], "auth_required", "V1-AUTH-03");
        assert_eq!(data["authMethods"][0][if dialect == Dialect::V2 { "methodId" } else { "id" }], "key");
        assert_eq!(wire.code(login, json!({"methodId": "unknown"})).await, -32602, "V1-AUTH-02");
        assert_eq!(wire.result(login, json!({"methodId": "key"})).await, json!({}), "V1-AUTH-05");
        setup(&mut wire).await;
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_needs_a_login_says_how() {
    in_every_dialect(|dialect| async move {
        let (mut wire, _) = connect(dialect).await;
        let session = wire.new_session().await;
        for (text, message) in [
            ("refuse", "Authentication required"),
            ("login", "Authentication required"),
            ("log in with these words", "The key has expired."),
        ] {
            let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
            let mut error = wire.call("session/prompt", prompt).await["error"].clone();
            if dialect == Dialect::V2 && text != "refuse" {
                error = loop {
                    let update = wire.get().await["params"]["update"].clone();
                    if update["state"] == "idle" {
                        break update["error"].clone();
                    }
                };
            }
            assert_eq!((&error["code"], &error["message"]), (&json!(-32000), &json!(message)), "{dialect}: {text}");
            assert_eq!(error["data"]["reason"], "auth_required", "{dialect}: {text}");
            let id = if dialect == Dialect::V2 { "methodId" } else { "id" };
            assert_eq!(error["data"]["authMethods"][0][id], "key", "{dialect}: {text}: {error}");
        }
    })
    .await;
}

#[tokio::test]
async fn v1_sess_05_14_17_v1_list_01_what_is_not_offered_is_not_found() {
    let agent = || tieline::agent::from_fn("bare", |_, _| async { Ok(StopReason::EndTurn) });
    for dialect in [Dialect::V1, Dialect::V2Seed] {
        let mut wire = agent_wire(agent());
        wire.result("initialize", hello(dialect)).await;
        for (method, params) in [
            ("session/load", json!({"sessionId": "x", "cwd": "/tmp", "mcpServers": []})),
            ("session/resume", json!({"sessionId": "x", "cwd": "/tmp"})),
            ("session/list", json!({})),
            ("session/close", json!({"sessionId": "x"})),
            ("session/delete", json!({"sessionId": "x"})),
            ("authenticate", json!({"methodId": "x"})),
            ("logout", json!({})),
        ] {
            assert_eq!(wire.code(method, params).await, -32601, "{dialect}: {method}");
        }
    }
    // V2-INIT-08, V2-SESS-04: list, resume and close are promised with sessions.
    let mut wire = agent_wire(agent());
    wire.result("initialize", hello(Dialect::V2)).await;
    assert_eq!(wire.result("session/list", json!({})).await["sessions"], json!([]));
    let session = wire.new_session().await;
    assert_eq!(
        wire.code("session/resume", json!({"sessionId": session, "cwd": "/tmp"})).await,
        -32002,
        "no memory, so not found"
    );
    wire.result("session/close", json!({"sessionId": session})).await;
    assert_eq!(wire.code("auth/login", json!({"methodId": "x"})).await, -32601, "V2-AUTH-03");
}

/// An agent with its own memory: it tells the conversation itself.
struct Own;

impl Agent for Own {
    type Session = Conversation;

    fn about(&self) -> About {
        let mut about = About::new("own", "1");
        (about.capabilities.load, about.capabilities.resume) = (true, true);
        about
    }

    async fn open(&self, _: Opening) -> Result<Opened<Conversation>> {
        Ok(Opened::new(Conversation))
    }

    async fn resume(&self, resuming: Resuming) -> Result<Opened<Conversation>> {
        if resuming.replay {
            resuming.session.update(Update::text(tieline::MessageKind::User, Some("u1".into()), "asked")).await?;
            resuming.session.update(Update::text(tieline::MessageKind::Agent, Some("a1".into()), "answered")).await?;
        }
        Ok(Opened::new(Conversation))
    }
}

#[tokio::test]
async fn v1_sess_07_an_agent_tells_its_own_memory_before_the_answer() {
    in_every_dialect(|dialect| async move {
        let mut wire = agent_wire(Own);
        wire.result("initialize", hello(dialect)).await;
        let (method, params) = replay(dialect, "from-disk");
        let id = wire.ask(method, params).await;
        let (answer, told) = wire.answer(id).await;
        assert!(answer.get("error").is_none(), "{answer}");
        assert_eq!(updates(&told, "user_message_chunk")[0]["content"]["text"], "asked", "{dialect}");
        assert_eq!(said(&told), "answered");
        if dialect != Dialect::V2 {
            assert_eq!(answer["result"], Value::Null, "AMB-03");
        }
        assert_eq!(said(&wire.turn(dialect, "from-disk", "x").await.1), "echo x");
    })
    .await;
}

#[tokio::test]
async fn an_open_session_that_is_loaded_again_stays_whole() {
    in_every_dialect(|dialect| async move {
        let (mut wire, opened) = connect(dialect).await;
        let session = setup(&mut wire).await["sessionId"].as_str().unwrap().to_owned();
        wire.turn(dialect, &session, "first").await;
        let (method, params) = replay(dialect, &session);
        let id = wire.ask(method, params).await;
        let (answer, told) = wire.answer(id).await;
        assert!(serde_json::to_string(&told).unwrap().contains("echo first"), "{dialect}: {told:?}");
        if dialect == Dialect::V2 {
            assert_eq!(answer["result"]["availableCommands"][0]["name"], "go");
        }
        assert_eq!(opened.lock().unwrap().len(), 1, "the agent is not asked again");
        let listed = wire.result("session/list", json!({})).await["sessions"].clone();
        assert_eq!((listed.as_array().unwrap().len(), &listed[0]["title"]), (1, &json!("Fresh")));
        // The agent's own handle still works: the mode change is told.
        let (_, seen) = wire.turn(dialect, &session, "mode").await;
        assert_eq!(updates(&seen, "config_option_update").len(), 1, "{dialect}");
        wire.result("session/close", json!({"sessionId": session})).await;
        let (method, params) = replay(dialect, &session);
        wire.result(method, params).await;
        assert_eq!(
            wire.result("session/list", json!({})).await["sessions"][0]["title"],
            "Fresh",
            "the title comes back"
        );
    })
    .await;
}

/// An agent whose memory is its own: what was said over one connection is there on the next, and can be read out.
struct Lasting(Memory);

impl Agent for Lasting {
    type Session = Conversation;

    fn about(&self) -> About {
        About::new("lasting", "1").remember_in(&self.0)
    }

    async fn open(&self, _: Opening) -> Result<Opened<Conversation>> {
        Ok(Opened::new(Conversation).options(options()))
    }
}

#[tokio::test]
async fn what_is_remembered_spans_connections_and_can_be_read_out() {
    in_every_dialect(|dialect| async move {
        let memory = Memory::default();
        let agent = Arc::new(Lasting(memory.clone()));
        let (near, far) = tieline::Transport::memory();
        let serving = tokio::spawn(tieline::agent::serve(Arc::clone(&agent), far));
        let client = || tieline::client::Client::default().protocol(tieline::Protocol::Only(dialect));
        let first = client().connect(near).await.unwrap();
        let session = first.open("/w").await.unwrap();
        session.prompt("one").await.unwrap().text().await.unwrap();
        session.set_option("mode", "code").await.unwrap();
        let id = session.id().clone();
        let said = |memory: &Memory| {
            let transcript = memory.transcript(&id).unwrap();
            let words = transcript.items().iter().filter_map(|item| match item {
                tieline::schema::Item::Message(message) => Some(message.text()),
                _ => None,
            });
            (words.collect::<Vec<_>>(), transcript.mode().map(str::to_owned))
        };
        let expect = (vec!["one".to_owned(), "hm".into(), "echo one".into()], Some("code".to_owned()));
        assert_eq!(said(&memory), expect, "{dialect}: while it is open");
        assert_eq!(memory.sessions()[0].cwd, "/w");
        assert!(!memory.forget(&id), "{dialect}: it is open");

        // Open here, so not given to anybody else, nor deleted by them.
        let (near, far) = tieline::Transport::memory();
        let other = tokio::spawn(tieline::agent::serve(Arc::clone(&agent), far));
        let second = client().connect(near).await.unwrap();
        let listed = second.list(tieline::schema::ListRequest::default()).await.unwrap().sessions;
        assert_eq!(listed.iter().map(|info| &info.session_id).collect::<Vec<_>>(), [&id], "{dialect}");
        let refused = second.load(id.clone(), "/w").await.unwrap_err();
        assert!(refused.data().is_some_and(|data| data.get().contains("open_elsewhere")), "{dialect}: {refused:?}");
        assert_eq!(second.delete(id.clone()).await.unwrap_err().code(), Some(-32600), "{dialect}");

        // The first client goes without closing anything.
        first.close().await;
        serving.await.unwrap().unwrap();
        assert_eq!(said(&memory), expect, "{dialect}: after its connection");
        let again = second.load(id.clone(), "/w").await.unwrap();
        let replayed = std::iter::from_fn(|| again.try_next()).count();
        assert!(replayed >= 3, "{dialect}: {replayed}");
        assert_eq!(again.prompt("two").await.unwrap().text().await.unwrap().0, "echo two");
        second.close().await;
        other.await.unwrap().unwrap();

        // Stored and put into another memory.
        let stored: Vec<Update> = memory.transcript(&id).unwrap().to_updates();
        let mut transcript = tieline::Transcript::new(Dialect::V2);
        for update in &stored {
            transcript.apply(update);
        }
        let fresh = Memory::default();
        assert!(fresh.keep(memory.sessions().remove(0), transcript));
        assert_eq!(said(&fresh).0.len(), 6, "{dialect}");
        assert!(memory.forget(&id) && memory.sessions().is_empty());
        let (near, far) = tieline::Transport::memory();
        tokio::spawn(tieline::agent::serve(Lasting(fresh), far));
        let third = client().connect(near).await.unwrap();
        let session = third.load(id.clone(), "/w").await.unwrap();
        assert_eq!(session.options().iter().find(|option| option.is_mode()).unwrap().value(), Some("code".into()));
    })
    .await;
}
