//! What only some versions of the protocol can say: how it is chosen, and what is said where it can't be.

#![allow(clippy::unwrap_used)]

mod common;

use common::{SOON, agent_wire, hello};
use serde_json::json;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Once;
use tieline::agent::{FnAgent, Server, Turn, from_fn};
use tieline::client::{Client, Handler};
use tieline::schema::ReadTextFileRequest;
use tieline::{ContentBlock, Dialect, Error, Protocol, Result, StopReason, Transport};

type Work = std::pin::Pin<Box<dyn Future<Output = Result<StopReason>> + Send>>;

/// Reads a file of the client, and says what came of it.
fn reader() -> FnAgent<fn(Turn, Vec<ContentBlock>) -> Work> {
    from_fn("reader", |turn: Turn, _| {
        Box::pin(async move {
            let said = match turn.client().read_text_file("/note", None, None).await {
                Ok(text) => text,
                Err(Error::NotInDialect { what, dialect, way_out }) => format!("{dialect}: {what}: {way_out}"),
                Err(error) => format!("other: {error}"),
            };
            turn.say(said).await?;
            Ok(StopReason::EndTurn)
        })
    })
}

struct Note;

impl Handler for Note {
    async fn read_text_file(&self, _: ReadTextFileRequest) -> Result<String> {
        Ok("the note".into())
    }
}

async fn read(prefer: bool, offer: bool, protocol: Protocol) -> (Dialect, String) {
    LISTENING.call_once(|| tracing::subscriber::set_global_default(Log).unwrap());
    let (near, far) = Transport::memory();
    tokio::spawn(Server::new(reader().about(|about| about.prefer_client_tools = prefer)).serve(far));
    let client = Client::new("c", "1").handler(Note).offer(|can| can.fs_read = offer).protocol(protocol);
    let agent = client.connect(near).await.unwrap();
    let said = agent.open("/").await.unwrap().prompt("go").await.unwrap().text().await.unwrap().0;
    (agent.dialect(), said)
}

#[tokio::test]
async fn files_of_the_client_decide_on_the_version_if_the_agent_says_so() {
    let auto = Protocol::Auto;
    assert_eq!(read(true, true, auto).await, (Dialect::V1, "the note".into()));
    assert_eq!(read(true, false, auto).await.0, Dialect::V2, "there is nothing to prefer it for");
    assert_eq!(read(false, true, auto).await.0, Dialect::V2, "nobody asked for it");
    // A client that wants one version gets it.
    assert_eq!(read(true, true, Protocol::Only(Dialect::V2)).await.0, Dialect::V2);
    assert_eq!(read(false, true, Protocol::Only(Dialect::V1)).await, (Dialect::V1, "the note".into()));
}

#[tokio::test]
async fn a_file_that_can_t_be_asked_for_is_an_error_that_names_the_way_out() {
    let (_, said) = read(false, true, Protocol::Auto).await;
    assert!(said.starts_with("2: reading files: ") && said.contains("About::prefer_client_tools"), "{said}");
    let (_, said) = read(false, false, Protocol::Auto).await;
    assert!(said.starts_with("2: reading files: ") && said.contains("the client has to offer them"), "{said}");
    let (_, said) = read(false, false, Protocol::Only(Dialect::V1)).await;
    assert_eq!(said, "other: the other side does not offer reading files");
}

/// Seed-era v2 has files, so it needs no change of version.
#[tokio::test]
async fn only_current_v2_is_left_for_the_sake_of_files() {
    let mut wire = agent_wire(reader().about(|about| about.prefer_client_tools = true));
    let params = json!({"protocolVersion": 2, "clientCapabilities": {"fs": {"readTextFile": true}}});
    assert_eq!(wire.result("initialize", params).await["protocolVersion"], 2);
    let mut wire = agent_wire(reader().about(|about| about.prefer_client_tools = true));
    assert_eq!(wire.result("initialize", hello(Dialect::V2)).await["protocolVersion"], 2);
}

/// One subscriber for the whole program, set before the first line can be logged: a subscriber of one thread misses
/// the lines whose place another thread reached first.
static LISTENING: Once = Once::new();

thread_local! {
    /// What was logged on this thread; each test has its own.
    static WARNED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

struct Log;

struct Words(String);

impl tracing::field::Visit for Words {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, " {value:?}");
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut words = Words(event.metadata().target().to_owned());
        event.record(&mut words);
        WARNED.with_borrow_mut(|warned| warned.push(words.0));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn an_offer_that_can_t_be_asked_for_is_warned_of() {
    tokio::time::timeout(SOON, read(false, true, Protocol::Auto)).await.unwrap();
    let warned = WARNED.take();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(
        warned[0].starts_with("tieline::offer ") && warned[0].contains("Protocol::Only(Dialect::V1)"),
        "{warned:?}"
    );
    for (prefer, offer, protocol) in
        [(true, true, Protocol::Auto), (false, false, Protocol::Auto), (false, true, Protocol::Only(Dialect::V1))]
    {
        read(prefer, offer, protocol).await;
    }
    assert_eq!(WARNED.take(), [""; 0]);
}
