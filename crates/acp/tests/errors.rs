//! Errors: what an author gets back from `?`, what the peer is told, and what a program that fails prints.

#![allow(clippy::unwrap_used)]

mod common;

use common::{in_every_dialect, pair};
use std::error::Error as _;
use tieline::agent::{About, Agent, ClientHandle, Opened, Opening, Session, Turn};
use tieline::client::Client;
use tieline::schema::AgentAuth;
use tieline::{AuthMethod, ConfigOption, ConfigValue, ContentBlock, Error, Raw, Result, StopReason};

struct Failing;
struct Conversation;

impl Agent for Failing {
    type Session = Conversation;

    fn about(&self) -> About {
        About::new("failing", "1")
    }

    async fn open(&self, _: Opening) -> Result<Opened<Conversation>> {
        Ok(Opened::new(Conversation).options(vec![ConfigOption::boolean("loud", "Loud", false)]))
    }
}

fn fail(how: &str) -> Result<()> {
    match how {
        "io" => {
            std::fs::read("/no/such/secret/file")?;
        }
        "json" => {
            serde_json::from_str::<String>("{secret")?;
        }
        _ => {
            let boxed: Box<dyn std::error::Error + Send + Sync> = "the secret cause".into();
            Err(boxed)?;
        }
    }
    Ok(())
}

impl Session for Conversation {
    async fn prompt(&self, _: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        fail(prompt[0].as_text().unwrap_or_default())?;
        Ok(StopReason::EndTurn)
    }

    async fn set_option(&self, _: String, value: ConfigValue) -> Result<Option<Vec<ConfigOption>>> {
        assert!(matches!(value, ConfigValue::Bool(true)), "{value:?}");
        Ok(None)
    }
}

#[tokio::test]
async fn the_peer_is_told_no_cause() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, Failing, Client::new("c", "1")).await;
        let session = agent.open("/").await.unwrap();
        for how in ["io", "json", "boxed"] {
            let mut turn = session.prompt(how).await.unwrap();
            while turn.next().await.is_some() {}
            let error = turn.stop().unwrap_err();
            assert_eq!(error.code(), Some(-32603), "{dialect} {how}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{dialect} {how}: {error:?}");
        }
    })
    .await;
}

/// An error with another one behind it.
#[derive(Debug)]
struct Outer(std::io::Error);
impl std::fmt::Display for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the notes can't be read")
    }
}
impl std::error::Error for Outer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn a_cause_is_kept_and_printed() {
    let error = fail("io").unwrap_err();
    assert!(error.source().unwrap().downcast_ref::<std::io::Error>().is_some());
    assert!(error.to_string().contains("No such file"), "{error}");

    let outer = Error::internal(Outer(std::io::Error::other("the disk is gone")));
    // What `fn main() -> Result<()>` prints.
    assert_eq!(format!("{outer:?}"), "the notes can't be read\ncaused by: the disk is gone");
    assert_eq!(outer, outer.clone());
    assert_eq!(outer.to_wire().message, Error::internal("other words").to_wire().message);
}

#[test]
fn a_closed_connection_is_an_error() {
    let closed: Box<dyn std::error::Error> = Box::new(tieline::rpc::Closed);
    assert_eq!(closed.to_string(), "the connection is closed");
}

#[tokio::test]
async fn an_option_is_on_or_off_in_every_dialect() {
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, Failing, Client::new("c", "1")).await;
        let session = agent.open("/").await.unwrap();
        let after = session.set_option("loud", true).await.unwrap_or_else(|error| panic!("{dialect}: {error}"));
        let value = after[0].value().unwrap();
        assert!(
            matches!(&value, ConfigValue::Bool(true)) || value == ConfigValue::Id("true".into()),
            "{dialect}: {value:?}"
        );
    })
    .await;
}

/// Refuses whatever it can until somebody logs in, which nobody can.
struct Locked;
struct Shut;

fn ways() -> Vec<AuthMethod> {
    ["key", "browser"]
        .map(|id| {
            AuthMethod::Agent(AgentAuth { method_id: id.into(), name: id.to_uppercase(), ..AgentAuth::default() })
        })
        .to_vec()
}

impl Agent for Locked {
    type Session = Shut;

    fn about(&self) -> About {
        let mut about = About::new("locked", "1");
        about.auth_methods = ways();
        about
    }

    async fn open(&self, opening: Opening) -> Result<Opened<Shut>> {
        if opening.cwd == "/locked" { Err(Error::auth_required()) } else { Ok(Opened::new(Shut)) }
    }

    async fn login(&self, _: String, _: ClientHandle) -> Result<()> {
        Err(Error::login_needed("The key is wrong.", &["key".to_owned()]))
    }

    async fn extension(&self, _: String, _: Raw, _: ClientHandle) -> Result<Raw> {
        Err(Error::wire(-32000, "Not even this."))
    }
}

impl Session for Shut {
    async fn accept(&self, _: &str, prompt: &[ContentBlock]) -> Result<()> {
        if prompt[0].as_text() == Some("refuse") { Err(Error::auth_required()) } else { Ok(()) }
    }

    async fn prompt(&self, _: Turn, _: Vec<ContentBlock>) -> Result<StopReason> {
        Err(Error::auth_required())
    }
}

#[tokio::test]
async fn a_login_that_is_needed_reaches_the_client_with_its_ways() {
    let check = |error: Error, words: &str, ids: &[&str], what: &str| match error {
        Error::AuthRequired { error, methods } => {
            assert_eq!((error.code, &*error.message), (-32000, words), "{what}");
            assert_eq!(methods.iter().map(AuthMethod::id).collect::<Vec<_>>(), ids, "{what}");
        }
        other => panic!("{what}: {other:?}"),
    };
    let (all, usual) = (["key", "browser"], "Authentication required");
    in_every_dialect(|dialect| async move {
        let agent = pair(dialect, Locked, Client::new("c", "1")).await;
        check(agent.open("/locked").await.unwrap_err(), usual, &all, &format!("{dialect} open"));
        check(agent.login("browser").await.unwrap_err(), "The key is wrong.", &["key"], &format!("{dialect} login"));
        let called = agent.call::<Raw>("_x", &()).await;
        check(called.unwrap_err(), "Not even this.", &all, &format!("{dialect} extension"));
        let session = agent.open("/").await.unwrap();
        for prompt in ["refuse", "fail"] {
            let mut turn = session.prompt(prompt).await.unwrap();
            while turn.next().await.is_some() {}
            check(turn.stop().unwrap_err(), usual, &all, &format!("{dialect} {prompt}"));
        }
    })
    .await;
}

/// Most agents of others only give the code: then the ways are those of the hello.
#[tokio::test]
async fn a_bare_code_means_the_ways_of_the_hello() {
    let (mut wire, transport) = common::wire();
    let connecting = tokio::spawn(tieline::client::connect(transport));
    let (request, _) = wire.request("initialize").await;
    let methods = serde_json::json!([{"id": "key", "name": "Key"}]);
    wire.reply(&request, serde_json::json!({"protocolVersion": 1, "authMethods": methods})).await;
    let agent = connecting.await.unwrap().unwrap();
    let opening = tokio::spawn(async move { agent.open("/").await });
    let (request, _) = wire.request("session/new").await;
    let error = serde_json::json!({"code": -32000, "message": "no"});
    wire.send(&serde_json::json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    let error = opening.await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::AuthRequired { methods, .. } if methods[0].id() == "key"), "{error:?}");
    assert_eq!(error.code(), Some(-32000));
}
