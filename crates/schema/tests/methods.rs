//! The method table: names per dialect, dispatch in one pass, and random calls that survive a round trip.

#![allow(clippy::unwrap_used, reason = "tests")]

mod wire;

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use tieline_json::Reader;
use tieline_schema::Dialect::{V1, V2, V2Seed};
use tieline_schema::*;
use wire::value;

fn agent(method: &str, params: &str) -> Result<Option<AgentCall>, Error> {
    AgentCall::decode(method, &mut Reader::new(params))
}

fn client(method: &str, params: &str) -> Result<Option<ClientCall>, Error> {
    ClientCall::decode(method, &mut Reader::new(params))
}

/// Method, params, and the name in v1, seed-era v2 and current v2.
const TO_AGENT: &[(&str, &str, [Option<&str>; 3])] = &[
    ("initialize", r#"{"protocolVersion":1}"#, [Some("initialize"); 3]),
    ("auth/login", r#"{"methodId":"m"}"#, [Some("authenticate"), Some("authenticate"), Some("auth/login")]),
    ("authenticate", r#"{"methodId":"m"}"#, [Some("authenticate"), Some("authenticate"), Some("auth/login")]),
    ("auth/logout", "{}", [Some("logout"), Some("logout"), Some("auth/logout")]),
    ("logout", "null", [Some("logout"), Some("logout"), Some("auth/logout")]),
    ("session/new", r#"{"cwd":"/x"}"#, [Some("session/new"); 3]),
    (
        "session/load",
        r#"{"sessionId":"s","cwd":"/x"}"#,
        [Some("session/load"), Some("session/load"), Some("session/resume")],
    ),
    ("session/resume", r#"{"sessionId":"s","cwd":"/x"}"#, [Some("session/resume"); 3]),
    (
        "session/resume",
        r#"{"sessionId":"s","cwd":"/x","replayFrom":{"type":"start"}}"#,
        [Some("session/load"), Some("session/load"), Some("session/resume")],
    ),
    (
        "session/resume",
        r#"{"sessionId":"s","cwd":"/x","replayFrom":{"type":"_x"}}"#,
        [None, None, Some("session/resume")],
    ),
    ("session/list", "null", [Some("session/list"); 3]),
    ("session/list", r#"{"cursor":"c"}"#, [Some("session/list"); 3]),
    ("session/close", r#"{"sessionId":"s"}"#, [Some("session/close"); 3]),
    ("session/delete", r#"{"sessionId":"s"}"#, [Some("session/delete"); 3]),
    ("session/set_mode", r#"{"sessionId":"s","modeId":"m"}"#, [Some("session/set_mode"), None, None]),
    (
        "session/set_config_option",
        r#"{"sessionId":"s","configId":"c","value":"v"}"#,
        [Some("session/set_config_option"); 3],
    ),
    ("session/prompt", r#"{"sessionId":"s","prompt":[]}"#, [Some("session/prompt"); 3]),
    ("session/cancel", r#"{"sessionId":"s"}"#, [Some("session/cancel"); 3]),
    ("tool_call/cancel", r#"{"sessionId":"s","toolCallId":"t"}"#, [None, None, Some("tool_call/cancel")]),
    ("terminal/cancel", r#"{"sessionId":"s","terminalId":"t"}"#, [None, None, Some("terminal/cancel")]),
    ("_x.y/z", "[1, 2]", [Some("_x.y/z"); 3]),
];

const TO_CLIENT: &[(&str, &str, [Option<&str>; 3])] = &[
    (
        "session/update",
        r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"x"}}}"#,
        [Some("session/update"); 3],
    ),
    (
        "session/update",
        r#"{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"running"}}"#,
        [None, None, Some("session/update")],
    ),
    (
        "session/request_permission",
        r#"{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[]}"#,
        [Some("session/request_permission"); 3],
    ),
    (
        "fs/read_text_file",
        r#"{"sessionId":"s","path":"/x"}"#,
        [Some("fs/read_text_file"), Some("fs/read_text_file"), None],
    ),
    (
        "fs/write_text_file",
        r#"{"sessionId":"s","path":"/x","content":""}"#,
        [Some("fs/write_text_file"), Some("fs/write_text_file"), None],
    ),
    ("terminal/create", r#"{"sessionId":"s","command":"c"}"#, [Some("terminal/create"), Some("terminal/create"), None]),
    (
        "terminal/output",
        r#"{"sessionId":"s","terminalId":"t"}"#,
        [Some("terminal/output"), Some("terminal/output"), None],
    ),
    (
        "terminal/wait_for_exit",
        r#"{"sessionId":"s","terminalId":"t"}"#,
        [Some("terminal/wait_for_exit"), Some("terminal/wait_for_exit"), None],
    ),
    ("terminal/kill", r#"{"sessionId":"s","terminalId":"t"}"#, [Some("terminal/kill"), Some("terminal/kill"), None]),
    (
        "terminal/release",
        r#"{"sessionId":"s","terminalId":"t"}"#,
        [Some("terminal/release"), Some("terminal/release"), None],
    ),
    (
        "elicitation/create",
        r#"{"mode":"url","sessionId":"s","message":"m","elicitationId":"e","url":"u"}"#,
        [Some("elicitation/create"), None, Some("elicitation/create")],
    ),
    (
        "elicitation/complete",
        r#"{"elicitationId":"e"}"#,
        [Some("elicitation/complete"), None, Some("elicitation/complete")],
    ),
    ("_x", "null", [Some("_x"); 3]),
];

#[test]
fn names_in_every_dialect() {
    for (method, params, names) in TO_AGENT {
        let call = agent(method, params).unwrap().unwrap_or_else(|| panic!("{method} is unknown"));
        assert_eq!(Dialect::ALL.map(|dialect| call.wire_name(dialect)), *names, "{method} {params}");
        assert_eq!(client(method, params), if method.starts_with('_') { client("_x.y/z", params) } else { Ok(None) });
    }
    for (method, params, names) in TO_CLIENT {
        let call = client(method, params).unwrap().unwrap_or_else(|| panic!("{method} is unknown"));
        assert_eq!(Dialect::ALL.map(|dialect| call.wire_name(dialect)), *names, "{method} {params}");
    }
}

#[test]
fn the_table_and_the_dispatch_agree() {
    let tested = |rows: &[(&str, &str, [Option<&str>; 3])], name: &str| rows.iter().any(|row| row.0 == name);
    for method in METHODS {
        let name = method.name;
        assert_eq!(find(name), Some(method), "{name} is there twice");
        assert!(!method.about.is_empty() && !method.about.starts_with(' ') && !method.gate.is_empty(), "{name}");
        match method.direction {
            Direction::ToAgent => {
                assert!(tested(TO_AGENT, name), "{name}");
                assert_eq!(AgentCall::kind(name), Some(method.kind));
            }
            Direction::ToClient => {
                assert!(tested(TO_CLIENT, name), "{name}");
                assert_eq!(ClientCall::kind(name), Some(method.kind));
            }
            Direction::Both => assert_eq!((AgentCall::kind(name), ClientCall::kind(name)), (None, None)),
        }
    }
    // Where a call has a name, the table says that the name exists there.
    for (rows, decode) in [(TO_AGENT, true), (TO_CLIENT, false)] {
        for (method, params, names) in rows.iter().filter(|row| !is_extension(row.0)) {
            for (dialect, name) in Dialect::ALL.into_iter().zip(names) {
                if let Some(name) = name {
                    assert!(find(name).unwrap().dialects.has(dialect), "{name} in {dialect}");
                }
            }
            assert_eq!(agent(method, params).unwrap().is_some(), decode);
        }
    }
}

#[test]
fn v1_ext_02_v2_ext_04_unknown_and_custom_methods() {
    assert_eq!(agent("session/fork", "{}"), Ok(None));
    assert_eq!(client("session/prompt", "{}"), Ok(None));
    assert_eq!(agent("session/update", "{}"), Ok(None));
    let call = agent("_zed/x", r#"{"a": 1}"#).unwrap().unwrap();
    assert_eq!(call, AgentCall::Extension { method: "_zed/x".into(), params: Raw::new(r#"{"a": 1}"#).unwrap() });
    assert_eq!(to_json(&call, V1), r#"{"a": 1}"#);
    assert_eq!(AgentCall::kind("_zed/x"), None);
}

#[test]
fn params_of_the_wrong_shape_are_refused() {
    let rows = [
        ("session/prompt", "null", ""),
        ("session/prompt", "[]", ""),
        ("session/prompt", r#"{"sessionId":"s","prompt":[{}]}"#, "prompt.0"),
        ("session/list", "[]", ""),
        ("logout", "[]", ""),
        ("session/cancel", r#"{"sessionId":7}"#, "sessionId"),
    ];
    for (method, params, path) in rows {
        assert_eq!(agent(method, params).unwrap_err().path(), path, "{method} {params}");
    }
    assert!(client("session/update", r#"{"sessionId":"s","update":{"sessionUpdate":"plan_update"}}"#).is_err());
    assert!(agent("session/prompt", "{").unwrap_err().is_syntax());
    // V1-RPC-11: an unknown update is kept.
    let later = client("session/update", r#"{"sessionId":"s","update":{"sessionUpdate":"_later","x":1}}"#);
    assert!(matches!(later, Ok(Some(ClientCall::Update(told))) if matches!(told.update, Update::Other(_))));
}

fn text() -> impl Strategy<Value = String> {
    "[a-c/\"\\\\\n{}🦀ä]{0,5}"
}

fn meta() -> impl Strategy<Value = Option<Meta>> {
    of(prop_oneof![Just("{}"), Just(r#"{"k":[1,{}],"k":null}"#)].prop_map(|json| Meta(Raw::new(json).unwrap())))
}

fn env() -> impl Strategy<Value = Vec<EnvVariable>> {
    // Names are unique: version 1 keeps them in an object.
    btree_map(text(), text(), 0..3).prop_map(|map| {
        map.into_iter().map(|(name, value)| EnvVariable { name, value, ..Default::default() }).collect()
    })
}

fn client_capabilities() -> impl Strategy<Value = ClientCapabilities> {
    (any::<[bool; 9]>(), meta()).prop_map(|(flags, meta)| {
        let [fs_read, fs_write, terminal, terminal_auth, elicit_form, elicit_url, boolean_options, notices, compaction] =
            flags;
        ClientCapabilities {
            fs_read,
            fs_write,
            terminal,
            terminal_auth,
            elicit_form,
            elicit_url,
            boolean_options,
            notices,
            compaction,
            meta,
            ..ClientCapabilities::default()
        }
    })
}

fn server() -> impl Strategy<Value = McpServer> {
    let http = (text(), text(), vec((text(), text()), 0..2), meta()).prop_map(|(name, url, headers, meta)| McpHttp {
        name,
        url,
        headers: headers.into_iter().map(|(name, value)| HttpHeader { name, value, ..Default::default() }).collect(),
        meta,
        ..Default::default()
    });
    prop_oneof![
        (text(), text(), vec(text(), 0..3), env(), meta()).prop_map(|(name, command, args, env, meta)| {
            McpServer::Stdio(McpStdio { name, command, args, env, meta, ..Default::default() })
        }),
        http.prop_map(McpServer::Http),
    ]
}

fn auth_method() -> impl Strategy<Value = AuthMethod> {
    (any::<bool>(), text(), text(), of(text()), vec(text(), 0..3), env(), meta()).prop_map(
        |(terminal, method_id, name, description, args, env, meta)| {
            if terminal {
                AuthMethod::Terminal(TerminalAuth {
                    method_id,
                    name,
                    description,
                    args,
                    env: LoginEnv(env),
                    meta,
                    ..Default::default()
                })
            } else {
                AuthMethod::Agent(AgentAuth { method_id, name, description, meta, ..Default::default() })
            }
        },
    )
}

fn call() -> impl Strategy<Value = AgentCall> {
    let resume = (text(), text(), vec(text(), 0..2), of(vec(server(), 0..2)), any::<bool>(), meta()).prop_map(
        |(session, cwd, additional_directories, mcp_servers, start, meta)| ResumeRequest {
            session_id: session.into(),
            cwd,
            additional_directories,
            mcp_servers,
            replay: if start { Replay::Start } else { Replay::None },
            meta,
            ..Default::default()
        },
    );
    let new = (text(), vec(text(), 0..2), of(vec(server(), 0..2)), meta()).prop_map(
        |(cwd, additional_directories, mcp_servers, meta)| NewSessionRequest {
            cwd,
            additional_directories,
            mcp_servers,
            meta,
            ..Default::default()
        },
    );
    let option =
        (text(), text(), prop_oneof![text().prop_map(ConfigValue::Id), any::<bool>().prop_map(ConfigValue::Bool)])
            .prop_map(|(session, config_id, value)| SetOptionRequest {
                session_id: session.into(),
                config_id,
                value,
                meta: None,
            });
    let prompt = (text(), vec(text(), 0..3), meta()).prop_map(|(session, texts, meta)| PromptRequest {
        session_id: session.into(),
        prompt: texts.into_iter().map(ContentBlock::from).collect(),
        meta,
        ..Default::default()
    });
    let session = (text(), meta()).prop_map(|(session, meta)| SessionRequest {
        session_id: session.into(),
        meta,
        ..Default::default()
    });
    prop_oneof![
        resume.prop_map(|request| AgentCall::Resume(Box::new(request))),
        new.prop_map(AgentCall::NewSession),
        option.prop_map(AgentCall::SetOption),
        prompt.prop_map(AgentCall::Prompt),
        session.prop_map(AgentCall::Close),
        (of(text()), of(text())).prop_map(|(cwd, cursor)| AgentCall::List(ListRequest {
            cwd,
            cursor,
            ..Default::default()
        })),
        text().prop_map(|method_id| AgentCall::Login(LoginRequest { method_id, ..Default::default() })),
    ]
}

proptest! {
    #[test]
    fn calls_come_back(call in call(), dialect in prop::sample::select(&Dialect::ALL[..])) {
        let name = call.wire_name(dialect).unwrap();
        let json = to_json(&call, dialect);
        let back = agent(name, &json).unwrap().unwrap();
        match (&call, &back) {
            // The older dialects always write the list, and seed-era v2 has no switch.
            (AgentCall::Resume(a), AgentCall::Resume(b)) if dialect != V2 => {
                prop_assert_eq!(&ResumeRequest { mcp_servers: a.mcp_servers.clone().or(Some(vec![])), ..(**a).clone() }, &**b);
            }
            (AgentCall::NewSession(a), AgentCall::NewSession(b)) if dialect != V2 => {
                let expect = NewSessionRequest { mcp_servers: a.mcp_servers.clone().or(Some(vec![])), ..a.clone() };
                prop_assert_eq!(&expect, b);
            }
            (AgentCall::SetOption(a), AgentCall::SetOption(b)) if dialect == V2Seed => {
                prop_assert_eq!(a.value.as_bool(), b.value.as_bool());
            }
            _ => prop_assert_eq!(&call, &back),
        }
        prop_assert_eq!(to_json(&back, dialect), json);
    }

    #[test]
    fn hellos_and_answers_come_back(
        client in client_capabilities(), flags in any::<[bool; 14]>(), methods in vec(auth_method(), 0..3), title in of(text()),
        meta in meta(), dialect in prop::sample::select(&Dialect::ALL[..]),
    ) {
        let info = Some(Implementation { title, ..Implementation::new("n", "v") });
        let hello = InitializeRequest { info: info.clone(), capabilities: client, meta: meta.clone(), ..InitializeRequest::default() };
        let json = to_json(&HelloAs(&hello, HelloForm::Superset), V2);
        let back: InitializeRequest = from_json(&json).unwrap();
        prop_assert_eq!((&back.info, &back.capabilities, &back.meta), (&hello.info, &hello.capabilities, &hello.meta));
        prop_assert_eq!(choose(&back, Protocol::Auto).unwrap().dialect, V2);

        let json = to_json(&HelloAs(&hello, HelloForm::Only(dialect)), dialect);
        let back: InitializeRequest = from_json(&json).unwrap();
        prop_assert_eq!(choose(&back, Protocol::Auto).unwrap().dialect, dialect);
        prop_assert_eq!(to_json(&back, dialect), json);

        let [session, load, list, resume, close, delete, additional_directories, image, audio, embedded_context,
            mcp_stdio, mcp_http, mcp_sse, logout] = flags;
        let capabilities = AgentCapabilities {
            session, load, list, resume, close, delete, additional_directories, image, audio, embedded_context, mcp_stdio,
            mcp_http, mcp_sse, logout, ..AgentCapabilities::default()
        };
        let answer = InitializeResponse {
            protocol_version: dialect.version(), info, capabilities, auth_methods: methods, meta, ..InitializeResponse::default()
        };
        let json = to_json(&answer, dialect);
        let back: InitializeResponse = from_json(&json).unwrap();
        prop_assert_eq!(&back.auth_methods, &answer.auth_methods);
        prop_assert_eq!(settle(&back, Protocol::Auto), Settled::Dialect(dialect));
        prop_assert_eq!(value(&to_json(&back, dialect)), value(&json));
    }

    #[test]
    fn damaged_params_never_panic(row in 0..TO_AGENT.len() + TO_CLIENT.len(), at in 0usize..200, with in "[{}\\[\\],:\"0-9a-z]{0,3}") {
        let (method, params, _) = if row < TO_AGENT.len() { TO_AGENT[row] } else { TO_CLIENT[row - TO_AGENT.len()] };
        let mut damaged = params.to_owned();
        let at = at.min(damaged.len());
        let end = (at + 2).min(damaged.len());
        damaged.replace_range(at..end, &with);
        for text in [&damaged[..], &params[..at]] {
            if let Ok(Some(call)) = agent(method, text) {
                let _ = Dialect::ALL.map(|dialect| to_json(&call, dialect));
            }
            if let Ok(Some(call)) = client(method, text) {
                let _ = Dialect::ALL.map(|dialect| to_json(&call, dialect));
            }
        }
    }
}

/// What comes in floods is moved often, and waits in queues: it must not have the size of what is rare.
#[test]
fn what_comes_in_floods_is_small() {
    let sizes = (size_of::<SessionNotification>(), size_of::<ContentBlock>(), size_of::<AgentCall>());
    assert!(sizes.0 <= 200 && sizes.1 <= 112 && sizes.2 <= 112, "{sizes:?}");
}
