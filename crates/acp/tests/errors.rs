//! Errors: what an author gets back from `?`, what the peer is told, and what a program that fails prints.

#![allow(clippy::unwrap_used)]

mod common;

use common::{in_every_dialect, pair};
use std::error::Error as _;
use tieline::agent::{About, Agent, Opened, Opening, Session, Turn};
use tieline::client::Client;
use tieline::{ConfigOption, ConfigValue, ContentBlock, Error, Result, StopReason};

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
