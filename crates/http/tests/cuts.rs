//! Connections that are cut at any byte: nothing is lost or doubled, no prompt is sent twice, and nobody waits for ever.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Open, Running, with_agent};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tieline::agent::{self, Agent};
use tieline::client::Client;
use tieline::{Dialect, Protocol, StopReason};
use tieline_http::Remote;
use tieline_http::server::Rules;
use tieline_web::{Http, Options};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const SOON: Duration = Duration::from_mins(1);
const WORDS: usize = 300;
static PROMPTS: AtomicU32 = AtomicU32::new(0);

fn counter() -> impl Agent {
    agent::from_fn("counter", |turn, _| async move {
        PROMPTS.fetch_add(1, Ordering::SeqCst);
        for number in 0..WORDS {
            turn.say(format!("{number} ")).await?;
        }
        Ok(StopReason::EndTurn)
    })
}

fn expected() -> String {
    (0..WORDS).fold(String::new(), |text, number| format!("{text}{number} "))
}

/// Numbers that look random and are the same each time.
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

/// Stands before a server and cuts what comes from it after some bytes, if `cuts` says so of the beginning of what is asked.
async fn cutter(running: &Running, mut seed: u64, range: usize, cuts: fn(&[u8]) -> bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, server) = (listener.local_addr().unwrap(), running.address);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let most = next(&mut seed) % range;
            tokio::spawn(async move {
                let (mut up_in, mut down_out) = client.into_split();
                let (mut down_in, mut up_out) = TcpStream::connect(server).await.unwrap().into_split();
                let mut first = [0; 4096];
                let Ok(count) = up_in.read(&mut first).await else { return };
                let left = if cuts(&first[..count]) { most } else { usize::MAX };
                up_out.write_all(&first[..count]).await.unwrap();
                let up = tokio::spawn(async move { drop(tokio::io::copy(&mut up_in, &mut up_out).await) });
                let _ = tokio::io::copy(&mut (&mut down_in).take(left as u64), &mut down_out).await;
                up.abort();
            });
        }
    });
    address
}

async fn turn(scheme: &str, address: SocketAddr, dialect: Dialect) -> Result<String, tieline::Error> {
    let http = Http::new(Options::default());
    let remote = Remote::new(&format!("{scheme}://{address}")).unwrap().http(http);
    let transport = remote.connect().await.map_err(|error| tieline::Error::internal(error.to_string()))?;
    let agent = Client::new("c", "1").protocol(Protocol::Only(dialect)).connect(transport).await?;
    let session = agent.open("/").await?;
    let (said, stop) = session.prompt("go").await?.text().await?;
    assert_eq!(stop, StopReason::EndTurn);
    Ok(said)
}

/// One after the other: the count of prompts is shared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_at_any_byte() {
    let running = with_agent(Rules::default(), Open, counter).await;
    // Event streams only: a turn always comes to its end, whole.
    for (seed, dialect) in Dialect::ALL.into_iter().cycle().take(6).enumerate() {
        let address = cutter(&running, seed as u64, 12_000, |asked| {
            // A stream that is cut before it has said where it begins is given up if something is open; see below.
            asked.starts_with(b"GET ")
                && !asked.windows(17).any(|part| part.eq_ignore_ascii_case(b"upgrade: websocket"))
        });
        let address = address.await;
        match timeout(SOON, turn("http", address, dialect)).await.expect("nobody waits for ever") {
            Ok(said) => assert_eq!(said, expected(), "{dialect} seed {seed}"),
            Err(error) => panic!("{dialect} seed {seed}: {error}"),
        }
    }
    // Anything: whole, or an error; and the agent has had each prompt once at most.
    let (mut whole, mut failed) = (0, 0);
    for scheme in ["http", "ws"] {
        for seed in 0..30 {
            let before = PROMPTS.load(Ordering::SeqCst);
            let address = cutter(&running, 1000 + seed, 40_000, |_| true).await;
            match timeout(SOON, turn(scheme, address, Dialect::V1)).await.expect("nobody waits for ever") {
                Ok(said) => {
                    assert_eq!(said, expected(), "{scheme} seed {seed}");
                    whole += 1;
                }
                Err(_) => failed += 1,
            }
            assert!(PROMPTS.load(Ordering::SeqCst) <= before + 1, "{scheme} seed {seed}: a prompt came twice");
        }
    }
    assert!(whole > 5 && failed > 5, "{whole} whole, {failed} failed: both must be seen");
}
