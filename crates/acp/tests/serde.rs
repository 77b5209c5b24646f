//! The feature `serde`: what the protocol says, in structs of one's own and in other formats.

#![allow(clippy::unwrap_used)]

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tieline::schema::{
    AgentAuth, Chunk, Command, InitializeRequest, Items, ListRequest, Message, NewSessionRequest, PromptRequest,
    StateUpdate, ToolCallContent, as_dialect, to_json,
};
use tieline::{
    AuthMethod, ConfigOption, ContentBlock, Dialect, McpServer, MessageKind, Meta, Patch, PermissionOption,
    PermissionOptionKind, PermissionOutcome, PlanEntry, PlanStatus, Protocol, Raw, SessionId, StopReason,
    ToolCallStatus, ToolCallUpdate, ToolKind, Update,
};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    session: SessionId,
    who: MessageKind,
    stop: Option<StopReason>,
    updates: Vec<Update>,
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    title: Patch<String>,
    meta: Meta,
    dialect: Dialect,
    protocol: Protocol,
    /// Held in a buffer of serde's own on the way in.
    #[serde(flatten)]
    option: PermissionOption,
}

fn row() -> Row {
    let call = ToolCallUpdate::new("c").title("Look").status(ToolCallStatus::Completed);
    Row {
        session: "s".into(),
        who: MessageKind::Thought,
        stop: Some(StopReason::Other("_later".into())),
        updates: vec![
            Update::text(MessageKind::User, Some("m".into()), "h\u{e9} \"x\""),
            call.content(vec![ToolCallContent::from("done".to_owned())]).into(),
            StateUpdate::default().into(),
            serde_json::from_str(r#"{"sessionUpdate":"_mine","z":1,"a":[2.5,null]}"#).unwrap(),
        ],
        title: Patch::Keep,
        meta: Meta(Raw::new(r#"{"z":18446744073709551615,"a":-1}"#).unwrap()),
        dialect: Dialect::V2Seed,
        protocol: Protocol::Auto,
        option: PermissionOption {
            option_id: "yes".into(),
            name: "Yes".into(),
            kind: PermissionOptionKind::AllowAlways,
            ..Default::default()
        },
    }
}

#[test]
fn in_a_struct_of_ones_own() {
    let text = serde_json::to_string(&row()).unwrap();
    assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row(), "{text}");
    // What is not known stays in the order of its author.
    assert!(text.contains(r#"{"sessionUpdate":"_mine","z":1,"a":[2.5,null]}"#), "{text}");
    assert!(text.contains(r#""z":18446744073709551615"#) && !text.contains("title\":null"), "{text}");
    // By way of another format, here the tree of serde_json.
    let tree = serde_json::to_value(row()).unwrap();
    let back: Row = serde_json::from_value(tree.clone()).unwrap();
    assert_eq!((&back.updates[..3], &back.option, back.who), (&row().updates[..3], &row().option, row().who));
    assert_eq!(
        (&tree["who"], &tree["stop"], &tree["dialect"]),
        (&json!("thought"), &json!("_later"), &json!("2-seed"))
    );
    assert!(serde_json::from_value::<Row>(json!({"session": 7})).is_err());
}

fn same<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug + tieline::schema::Encode>(value: T) {
    let text = serde_json::to_string(&value).unwrap();
    let wire: Value = serde_json::from_str(&to_json(&value, Dialect::V2)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), wire, "as on the wire");
    assert_eq!(serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
}

#[test]
fn every_kind_of_type_is_as_on_the_wire() {
    same(SessionId::from("s"));
    same(ToolKind::Edit);
    same(ToolCallStatus::Other("_paused".into()));
    same(ContentBlock::from("x"));
    same(ToolCallUpdate::new("c").status(ToolCallStatus::Failed));
    same(PlanEntry { content: "do".into(), status: PlanStatus::InProgress, ..PlanEntry::default() });
    same(ConfigOption::boolean("b", "B", true));
    same(Command::new("go", "Goes."));
    same(AuthMethod::Agent(AgentAuth { method_id: "k".into(), name: "K".into(), ..AgentAuth::default() }));
    same(PermissionOutcome::selected("yes"));
    same(NewSessionRequest { cwd: "/".into(), mcp_servers: Some(Vec::new()), ..NewSessionRequest::default() });
    same(PromptRequest { session_id: "s".into(), prompt: vec!["x".into()], ..Default::default() });
    same(ListRequest::default());
    same(
        serde_json::from_value::<McpServer>(json!({"type": "http", "name": "n", "url": "http://x", "headers": []}))
            .unwrap(),
    );
    same(
        serde_json::from_value::<InitializeRequest>(
            json!({"protocolVersion": 2, "info": {"name": "n", "version": "1"}, "capabilities": {}}),
        )
        .unwrap(),
    );
}

/// Who speaks is no field of a message, but is kept.
#[test]
fn a_message_keeps_who_speaks() {
    for kind in [MessageKind::User, MessageKind::Agent, MessageKind::Thought] {
        let chunk = Chunk { kind, content: "x".into(), message_id: Some("m".into()), ..Default::default() };
        assert_eq!(serde_json::from_str::<Chunk>(&serde_json::to_string(&chunk).unwrap()).unwrap(), chunk);
        let content = Patch::Set(Items(vec!["x".into()]));
        let message = Message { kind, message_id: "m".into(), content, ..Message::default() };
        assert_eq!(serde_json::from_str::<Message>(&serde_json::to_string(&message).unwrap()).unwrap(), message);
    }
    assert!(serde_json::from_str::<Chunk>(r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#).is_err());
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Older {
    #[serde(with = "as_dialect::v1")]
    method: AuthMethod,
    #[serde(with = "as_dialect::v2_seed")]
    seed: AuthMethod,
    newest: AuthMethod,
}

#[test]
fn in_any_dialect() {
    let method = || AuthMethod::Agent(AgentAuth { method_id: "k".into(), name: "K".into(), ..AgentAuth::default() });
    let older = Older { method: method(), seed: method(), newest: method() };
    let tree = serde_json::to_value(&older).unwrap();
    assert_eq!(tree["method"], json!({"id": "k", "name": "K"}));
    assert_eq!((&tree["seed"]["id"], &tree["newest"]["methodId"]), (&json!("k"), &json!("k")));
    assert_eq!(serde_json::from_value::<Older>(tree).unwrap(), older);
}
