//! Our client against our server, over every way and in every dialect: turns with a question, a cancel, sessions taken up again.

#![allow(clippy::unwrap_used)]

mod common;

use common::{TOKEN, asker, expected, reach, tokens, with_agent};
use std::time::Duration;
use tieline::{Dialect, StopReason};
use tieline_http::server::Rules;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn turns_over_every_way_in_every_dialect() {
    for strict in [false, true] {
        let running = with_agent(Rules { strict, ..Rules::default() }, tokens(), asker).await;
        for scheme in ["ws", "http"] {
            for dialect in Dialect::ALL {
                let remote = running.remote(scheme).header("Authorization", &format!("Bearer {TOKEN}")).unwrap();
                let turns = async {
                    let agent = reach(&remote, dialect).await;
                    let session = agent.open("/").await.unwrap();
                    let (said, stop) = session.prompt("go").await.unwrap().text().await.unwrap();
                    assert_eq!((said, stop), (expected(), StopReason::EndTurn));
                    let mut turn = session.prompt("wait").await.unwrap();
                    while !format!("{:?}", turn.next().await.unwrap()).contains("waiting") {}
                    turn.cancel().await.unwrap();
                    while turn.next().await.is_some() {}
                    assert_eq!(turn.stop().unwrap(), StopReason::Cancelled);
                    agent.close().await;
                };
                timeout(SOON, turns).await.unwrap_or_else(|_| panic!("{scheme} {dialect} strict {strict}"));
            }
        }
    }
}
