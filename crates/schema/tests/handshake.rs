//! The first exchange: shapes of both messages per dialect, and the choice of the dialect.

mod wire;

use tieline_schema::Dialect::{self, V1, V2, V2Seed};
use tieline_schema::{
    AgentCapabilities, ClientCapabilities, ErrorCode, ErrorData, HelloAs, HelloForm, Implementation, InitializeRequest,
    InitializeResponse, Protocol, Raw, Refusal, Settled, choose, first_hello, next_hello, settle, to_json,
};
use wire::{check, deviates, read, refuse, same, value};

const SUPERSET: &str = r#"{"protocolVersion":2,
    "info":{"name":"c","version":"1"},
    "capabilities":{"elicitation":{"form":{},"url":{}},"auth":{"terminal":{}}},
    "clientInfo":{"name":"c","version":"1"},
    "clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true,"elicitation":{"form":{},"url":{}},
        "auth":{"terminal":true},"session":{"configOptions":{"boolean":{}},"notices":{},"compaction":{}}}}"#;

fn all_client() -> ClientCapabilities {
    ClientCapabilities {
        fs_read: true,
        fs_write: true,
        terminal: true,
        terminal_auth: true,
        elicit_form: true,
        elicit_url: true,
        boolean_options: true,
        notices: true,
        compaction: true,
        ..ClientCapabilities::default()
    }
}

#[test]
fn detection_d1_to_d12() {
    let auto = Protocol::Auto;
    let chosen = |dialect: Dialect, legacy: bool| Ok((dialect, dialect.version(), legacy));
    let rows = [
        ("D1", r#"{"protocolVersion":1}"#, auto, chosen(V1, false)),
        ("D2", r#"{"protocolVersion":1,"info":{"name":"c","version":"1"}}"#, auto, chosen(V1, false)),
        ("D2 malformed", r#"{"protocolVersion":1,"info":{"name":5}}"#, auto, chosen(V1, false)),
        ("D3", r#"{"protocolVersion":2,"capabilities":{}}"#, auto, chosen(V2Seed, false)),
        (
            "D4",
            r#"{"protocolVersion":2,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#,
            auto,
            chosen(V2Seed, false),
        ),
        (
            "D5",
            r#"{"protocolVersion":2,"clientCapabilities":{"fs":{"readTextFile":true}}}"#,
            auto,
            chosen(V2Seed, true),
        ),
        ("D6", r#"{"protocolVersion":2,"info":{"name":"c","version":"1"}}"#, auto, chosen(V2, false)),
        ("D7", SUPERSET, auto, chosen(V2, false)),
        ("D8", r#"{"protocolVersion":7,"info":{"name":"c","version":"1"}}"#, auto, chosen(V2, false)),
        ("D8 seed", r#"{"protocolVersion":65535}"#, auto, chosen(V2Seed, false)),
        ("D9", r#"{"protocolVersion":0}"#, auto, chosen(V1, false)),
        ("D11", r#"{"protocolVersion":2,"info":null}"#, auto, chosen(V2Seed, false)),
        ("D12", r#"{"protocolVersion":2,"info":{"name":5}}"#, auto, Err(ErrorCode::INVALID_PARAMS)),
        ("no object is no info", r#"{"protocolVersion":2,"info":"c"}"#, auto, chosen(V2Seed, false)),
        ("v2 off", SUPERSET, Protocol::Only(V1), chosen(V1, false)),
        ("v2 off, bad info", r#"{"protocolVersion":2,"info":{}}"#, Protocol::Only(V1), chosen(V1, false)),
        ("seed forced", SUPERSET, Protocol::Only(V2Seed), chosen(V2Seed, true)),
        ("seed forced on version 1", r#"{"protocolVersion":1}"#, Protocol::Only(V2Seed), chosen(V2Seed, false)),
        ("v2 forced without info", r#"{"protocolVersion":2}"#, Protocol::Only(V2), chosen(V2, false)),
        ("v2 forced on version 1", r#"{"protocolVersion":1}"#, Protocol::Only(V2), Err(ErrorCode::UNSUPPORTED_VERSION)),
    ];
    for (name, hello, protocol, expect) in rows {
        let found = choose(&read(hello), protocol);
        let found = found.map(|it| (it.dialect, it.version, it.legacy_keys)).map_err(|refusal| refusal.code());
        assert_eq!(found, expect, "{name}");
    }
    let refused = choose(&read(r#"{"protocolVersion":1}"#), Protocol::Only(V2));
    assert_eq!(refused, Err(Refusal::Unsupported { requested: 1, supported: vec![2] }));
}

#[test]
fn d10_v1_init_09_the_version_is_a_small_integer() {
    for text in [r#"{"protocolVersion":"2"}"#, r#"{"protocolVersion":-1}"#, r#"{"protocolVersion":1.5}"#] {
        refuse::<InitializeRequest>(text, "protocolVersion");
    }
    refuse::<InitializeRequest>(r#"{"protocolVersion":70000}"#, "protocolVersion");
    refuse::<InitializeRequest>(r#"{"protocolVersion":null}"#, "protocolVersion");
    refuse::<InitializeRequest>("{}", "");
    refuse::<InitializeRequest>("[]", "");
    refuse::<InitializeResponse>("{}", "");
}

#[test]
fn client_rule() {
    let auto = Protocol::Auto;
    let rows = [
        ("version 1", r#"{"protocolVersion":1,"info":{"name":"a","version":"1"}}"#, auto, Settled::Dialect(V1)),
        ("info", r#"{"protocolVersion":2,"info":{"name":"a","version":"1"}}"#, auto, Settled::Dialect(V2)),
        ("malformed info", r#"{"protocolVersion":2,"info":{}}"#, auto, Settled::Dialect(V2)),
        ("capabilities", r#"{"protocolVersion":2,"capabilities":{}}"#, auto, Settled::Dialect(V2Seed)),
        ("both", r#"{"protocolVersion":2,"capabilities":{},"agentCapabilities":{}}"#, auto, Settled::Dialect(V2Seed)),
        ("bare", r#"{"protocolVersion":2}"#, auto, Settled::Dialect(V2Seed)),
        ("echo", r#"{"protocolVersion":2,"agentCapabilities":{},"agentInfo":null}"#, auto, Settled::Dialect(V1)),
        ("unknown", r#"{"protocolVersion":3,"info":{"name":"a","version":"1"}}"#, auto, Settled::Unsupported(3)),
        ("zero", r#"{"protocolVersion":0}"#, auto, Settled::Unsupported(0)),
        ("forced", r#"{"protocolVersion":2,"capabilities":{}}"#, Protocol::Only(V2), Settled::Dialect(V2)),
        ("forced 1", r#"{"protocolVersion":2,"capabilities":{}}"#, Protocol::Only(V1), Settled::Unsupported(2)),
        ("forced 2", r#"{"protocolVersion":1}"#, Protocol::Only(V2Seed), Settled::Unsupported(1)),
    ];
    for (name, answer, protocol, expect) in rows {
        assert_eq!(settle(&read(answer), protocol), expect, "{name}");
    }
}

#[test]
fn client_retries() {
    let data = |text: &str| Some(Raw::new(text).unwrap());
    let both = data(r#"{"requested":2,"supported":[2,1]}"#);
    let one = data(r#"{"supported":[1]}"#);
    let none = data(r#"{"supported":[9]}"#);
    let v2 = Some(HelloForm::Only(V2));
    let v1 = Some(HelloForm::Only(V1));
    let rows = [
        (HelloForm::Superset, ErrorCode::UNSUPPORTED_VERSION, &both, v2),
        (HelloForm::Superset, ErrorCode::UNSUPPORTED_VERSION, &one, v1),
        (HelloForm::Superset, ErrorCode::UNSUPPORTED_VERSION, &none, None),
        (HelloForm::Superset, ErrorCode::UNSUPPORTED_VERSION, &None, None),
        (HelloForm::Only(V2), ErrorCode::UNSUPPORTED_VERSION, &both, v1),
        (HelloForm::Only(V1), ErrorCode::UNSUPPORTED_VERSION, &both, None),
        (HelloForm::Superset, ErrorCode::INVALID_PARAMS, &None, v2),
        (HelloForm::Superset, ErrorCode::INVALID_REQUEST, &None, v2),
        (HelloForm::Only(V2), ErrorCode::INVALID_PARAMS, &None, v1),
        (HelloForm::Only(V1), ErrorCode::INVALID_PARAMS, &None, None),
        (HelloForm::Superset, ErrorCode::INTERNAL_ERROR, &None, None),
        (HelloForm::Superset, ErrorCode(-1), &both, None),
    ];
    for (last, code, data, expect) in rows {
        assert_eq!(next_hello(Protocol::Auto, last, code, data.as_ref()), expect, "{last:?} {code}");
        assert_eq!(next_hello(Protocol::Only(V1), last, code, data.as_ref()), None);
    }
    assert_eq!(first_hello(Protocol::Auto), HelloForm::Superset);
    assert_eq!(first_hello(Protocol::Only(V1)), HelloForm::Only(V1));
}

#[test]
fn protocol_names() {
    for name in ["auto", "1", "2", "2-seed"] {
        assert_eq!(name.parse::<Protocol>().unwrap().to_string(), name);
    }
    assert!("3".parse::<Protocol>().unwrap_err().contains("auto, 1, 2 or 2-seed"));
}

#[test]
fn hello_forms() {
    let hello = InitializeRequest {
        protocol_version: 2,
        info: Some(Implementation::new("c", "1")),
        capabilities: all_client(),
        ..InitializeRequest::default()
    };
    let v1_capabilities = r#"{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true,"elicitation":{"form":{},"url":{}},
        "auth":{"terminal":true},"session":{"configOptions":{"boolean":{}},"notices":{},"compaction":{}}}"#;
    let rows = [
        (HelloForm::Superset, SUPERSET.to_owned()),
        (
            HelloForm::Only(V1),
            format!(
                r#"{{"protocolVersion":1,"clientInfo":{{"name":"c","version":"1"}},"clientCapabilities":{v1_capabilities}}}"#
            ),
        ),
        (
            HelloForm::Only(V2Seed),
            r#"{"protocolVersion":2,"clientInfo":{"name":"c","version":"1"},"capabilities":{}}"#.to_owned(),
        ),
        (
            HelloForm::Only(V2),
            r#"{"protocolVersion":2,"info":{"name":"c","version":"1"},
                "capabilities":{"elicitation":{"form":{},"url":{}},"auth":{"terminal":{}}}}"#
                .to_owned(),
        ),
    ];
    for (form, expect) in rows {
        // The form decides, not the dialect of the writer.
        for dialect in Dialect::ALL {
            assert_eq!(value(&to_json(&HelloAs(&hello, form), dialect)), value(&expect), "{form:?}");
        }
    }
    let back: InitializeRequest = read(SUPERSET);
    assert_eq!(back.capabilities, all_client());
    assert_eq!(back.info, hello.info);
    let bare = InitializeRequest { protocol_version: 2, ..InitializeRequest::default() };
    assert_eq!(
        value(&to_json(&bare, V2)),
        value(r#"{"protocolVersion":2,"info":{"name":"unknown","version":"unknown"},"capabilities":{}}"#)
    );
}

#[test]
fn v1_init_07_capabilities_are_yes_only_when_said() {
    let rows = [
        (r#"{"terminal":true}"#, true),
        (r#"{"terminal":{}}"#, true),
        (r#"{"terminal":{"_meta":{"x":1}}}"#, true),
        (r#"{"terminal":false}"#, false),
        (r#"{"terminal":null}"#, false),
        (r#"{"terminal":"yes"}"#, false),
        (r#"{"terminal":1}"#, false),
        (r#"{"terminal":[]}"#, false),
        ("{}", false),
        (r#"{"terminal":true,"terminal":false}"#, false),
    ];
    for (text, expect) in rows {
        assert_eq!(read::<ClientCapabilities>(text).terminal, expect, "{text}");
    }
    assert_eq!(read::<ClientCapabilities>(r#"{"elicitation":{}}"#), ClientCapabilities::default());
    // A malformed capability object counts as absent.
    let hello: InitializeRequest = read(r#"{"protocolVersion":1,"clientCapabilities":7,"clientInfo":{"name":1}}"#);
    assert_eq!((hello.capabilities, hello.info), (ClientCapabilities::default(), None));
    deviates::<InitializeRequest>(
        r#"{"protocolVersion":1,"clientCapabilities":{"terminal":"yes","fs":{"readTextFile":3,"_meta":4}},"clientInfo":{"name":1}}"#,
        &[
            "clientCapabilities.terminal",
            "clientCapabilities.fs.readTextFile",
            "clientCapabilities.fs._meta",
            "clientInfo.name",
        ],
    );
}

#[test]
fn client_capabilities_keep_nested_extensions() {
    let text = r#"{"_meta":{"top":1},"auth":{"terminal":{"_meta":{"a":1}},"_meta":{"b":2}}}"#;
    same::<ClientCapabilities>(text, &[V2]);
    // A version 1 flag is a plain boolean, it has no room for extensions.
    check::<ClientCapabilities>(
        text,
        V1,
        r#"{"_meta":{"top":1},"auth":{"terminal":true,"_meta":{"b":2}},"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}"#,
    );
    check::<ClientCapabilities>(text, V2Seed, r#"{"_meta":{"top":1}}"#);
}

#[test]
fn agent_capabilities_per_dialect() {
    let all = AgentCapabilities {
        session: true,
        load: true,
        list: true,
        resume: true,
        close: true,
        delete: true,
        additional_directories: true,
        image: true,
        audio: true,
        embedded_context: true,
        mcp_stdio: true,
        mcp_http: true,
        mcp_sse: true,
        logout: true,
        ..AgentCapabilities::default()
    };
    let v1 = r#"{"loadSession":true,"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true},
        "mcpCapabilities":{"http":true,"sse":true},
        "sessionCapabilities":{"list":{},"resume":{},"close":{},"delete":{},"additionalDirectories":{}},"auth":{"logout":{}}}"#;
    let seed = r#"{"session":{"prompt":{"image":{},"audio":{},"embeddedContext":{}},"mcp":{"stdio":{},"http":{}},
        "load":{},"list":{},"resume":{},"close":{},"delete":{},"additionalDirectories":{}},"auth":{"logout":{}}}"#;
    let v2 = r#"{"session":{"prompt":{"image":{},"audio":{},"embeddedContext":{}},"mcp":{"stdio":{},"http":{}},
        "delete":{},"additionalDirectories":{}}}"#;
    for (dialect, expect) in [(V1, v1), (V2Seed, seed), (V2, v2)] {
        assert_eq!(value(&to_json(&all, dialect)), value(expect), "{dialect}");
    }
    // Reading takes the union and fills in what a dialect takes for granted.
    let response = |text: String| read::<InitializeResponse>(&text).capabilities;
    assert_eq!(response(format!(r#"{{"protocolVersion":1,"agentCapabilities":{v1}}}"#)), all);
    let seed_read = response(format!(r#"{{"protocolVersion":2,"capabilities":{seed}}}"#));
    assert_eq!(seed_read, AgentCapabilities { mcp_sse: false, ..all.clone() });
    let method = r#"{"type":"agent","methodId":"m","name":"M"}"#;
    let info = r#"{"name":"a","version":"1"}"#;
    let v2_read =
        response(format!(r#"{{"protocolVersion":2,"info":{info},"capabilities":{v2},"authMethods":[{method}]}}"#));
    assert_eq!(v2_read, seed_read);
    let none = response(format!(r#"{{"protocolVersion":2,"info":{info}}}"#));
    assert_eq!(none, AgentCapabilities::default());
    assert_eq!(response(r#"{"protocolVersion":1}"#.into()), AgentCapabilities::v1_baseline());
    assert_eq!(response(r#"{"protocolVersion":2,"agentCapabilities":{}}"#.into()), AgentCapabilities::v1_baseline());
    // V2-INIT-08: `session` alone promises list, resume and close; seed-era v2 promises none of them.
    let session = response(format!(r#"{{"protocolVersion":2,"info":{info},"capabilities":{{"session":{{}}}}}}"#));
    assert!(session.list && session.resume && session.close && session.load && !session.logout && !session.mcp_stdio);
    let session = response(r#"{"protocolVersion":2,"capabilities":{"session":{}}}"#.into());
    assert_eq!(session, AgentCapabilities { session: true, ..AgentCapabilities::default() });
    // Without sessions nothing inside is said.
    let odd = AgentCapabilities { image: true, ..AgentCapabilities::default() };
    assert_eq!(to_json(&odd, V2), "{}");
    let v1_none = r#"{"loadSession":false,"promptCapabilities":{"image":false,"audio":false,"embeddedContext":false},
        "mcpCapabilities":{"http":false,"sse":false}}"#;
    assert_eq!(value(&to_json(&AgentCapabilities::v1_baseline(), V1)), value(v1_none));
}

#[test]
fn agent_capabilities_move_extensions_between_shapes() {
    check::<AgentCapabilities>(
        r#"{"sessionCapabilities":{"list":{"_meta":{"a":1}},"_meta":{"b":2}},"promptCapabilities":{"_meta":{"c":3}}}"#,
        V2Seed,
        r#"{"session":{"list":{"_meta":{"a":1}},"_meta":{"b":2},"prompt":{"_meta":{"c":3}}}}"#,
    );
    check::<AgentCapabilities>(
        r#"{"session":{"list":{"_meta":{"a":1}},"prompt":{"_meta":{"c":3}},"_meta":{"b":2}}}"#,
        V1,
        r#"{"loadSession":false,"sessionCapabilities":{"list":{"_meta":{"a":1}},"_meta":{"b":2}},
            "promptCapabilities":{"image":false,"audio":false,"embeddedContext":false,"_meta":{"c":3}},
            "mcpCapabilities":{"http":false,"sse":false}}"#,
    );
    // Current v2 has no `list`, so its extension has no place either.
    check::<AgentCapabilities>(r#"{"session":{"list":{"_meta":{"a":1}}}}"#, V2, r#"{"session":{}}"#);
}

#[test]
fn answers_per_dialect() {
    let mut answer = InitializeResponse {
        protocol_version: 1,
        info: Some(Implementation::new("a", "1")),
        capabilities: AgentCapabilities { delete: true, ..AgentCapabilities::v1_baseline() },
        ..InitializeResponse::default()
    };
    let v1_capabilities = r#"{"loadSession":false,"promptCapabilities":{"image":false,"audio":false,"embeddedContext":false},
        "mcpCapabilities":{"http":false,"sse":false},"sessionCapabilities":{"delete":{}}}"#;
    let v2_capabilities = r#"{"session":{"mcp":{"stdio":{}},"delete":{}}}"#;
    let info = r#"{"name":"a","version":"1"}"#;
    let says = |answer: &InitializeResponse, dialect: Dialect, expect: String| {
        assert_eq!(value(&to_json(answer, dialect)), value(&expect));
    };
    // V1-INIT-17: `authMethods` is there even when empty.
    says(
        &answer,
        V1,
        format!(r#"{{"protocolVersion":1,"agentCapabilities":{v1_capabilities},"agentInfo":{info},"authMethods":[]}}"#),
    );
    answer.protocol_version = 2;
    let seed =
        format!(r#"{{"protocolVersion":2,"capabilities":{v2_capabilities},"agentInfo":{info},"authMethods":[]}}"#);
    says(&answer, V2Seed, seed);
    let v2 = format!(r#"{{"protocolVersion":2,"capabilities":{v2_capabilities},"info":{info},"authMethods":[]}}"#);
    says(&answer, V2, v2.clone());
    answer.keys.old_capabilities = true;
    says(&answer, V2, v2);
    says(
        &answer,
        V2Seed,
        format!(
            r#"{{"protocolVersion":2,"capabilities":{v2_capabilities},"agentCapabilities":{v1_capabilities},
                "agentInfo":{info},"authMethods":[]}}"#
        ),
    );
}

#[test]
fn error_data() {
    let versions = ErrorData::Versions { requested: 0, supported: &[1, 2] };
    let rows = [
        (versions, r#"{"requested":0,"supported":[1,2]}"#),
        (ErrorData::Method("_x"), r#"{"method":"_x"}"#),
        (ErrorData::Session("s\"1"), r#"{"sessionId":"s\"1"}"#),
        (ErrorData::Uri("file:///x"), r#"{"uri":"file:///x"}"#),
        (ErrorData::AuthRequired(&[]), r#"{"reason":"auth_required","authMethods":[]}"#),
        (ErrorData::RateLimited { retry_after: Some(3), scope: None }, r#"{"reason":"rate_limited","retryAfter":3}"#),
        (ErrorData::PermissionDenied { scope: Some("fs") }, r#"{"reason":"permission_denied","scope":"fs"}"#),
        (ErrorData::Correlation("7"), r#"{"correlationId":"7"}"#),
        (ErrorData::Reason("turn_in_progress"), r#"{"reason":"turn_in_progress"}"#),
    ];
    for (data, expect) in rows {
        assert_eq!(data.to_raw(V2).unwrap().get(), expect);
    }
    let error = tieline_schema::Error::data("expected a string").inside("cwd");
    let detail = ErrorData::Detail(&error).to_raw(V1).unwrap();
    assert_eq!(detail.get(), r#"{"path":"cwd","detail":"expected a string"}"#);
    assert_eq!(ErrorCode::KNOWN.iter().filter_map(|code| code.message()).count(), 9);
    assert_eq!(ErrorCode::REQUEST_CANCELLED.message(), Some("Request cancelled"));
    assert!(ErrorCode(-32001).is_custom() && !ErrorCode::RESOURCE_NOT_FOUND.is_custom());
}
