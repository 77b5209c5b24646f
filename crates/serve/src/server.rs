//! A server as a whole: a hub behind HTTP and WebSocket.

use crate::gate::{Door, visitor};
use crate::hub::{Hub, Visitor};
use crate::tokens::Tokens;
use crate::watch::Now;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::rpc::Cancel;
use tieline::rpc::sync::Lock as _;
use tieline_http::Server as Http;
use tieline_http::server::{Listener, Rules};
use tokio::sync::mpsc;
use tokio::time::interval;

/// So many clients wait to be served.
const MAX_ARRIVALS: usize = 64;
/// How long clients get to hear of the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is looked whether the tokens of those who are here are still good.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who is here, by the name of the connection, and how it is ended.
type Here = Arc<Mutex<HashMap<String, (Visitor, Cancel)>>>;

/// Serves a hub to whoever comes through the door, until `stop` is done; then turns that run get so long to end, and everything ends in
/// good order.
pub async fn serve(
    hub: Hub,
    door: Door,
    rules: Rules,
    listeners: Vec<Listener>,
    (stop, drain): (impl Future<Output = ()>, Duration),
) {
    let (arrivals, mut clients) = mpsc::channel(MAX_ARRIVALS);
    let here = Here::default();
    let looking = door.tokens().map(|tokens| tokio::spawn(end_the_revoked(tokens, Arc::clone(&here))));
    let (figures, health) = (door.figures.clone(), door.health.clone());
    let obeying = tokio::spawn(hub.clone().obey_others());
    let http = Http::new(Rules { cookie: door.cookie_name().to_owned(), ..rules }, door, arrivals);
    let (of_hub, of_http) = (hub.clone(), http.clone());
    let _ = figures.0.set(Box::new(move || {
        let now = Now { clients: of_http.clients(), waiting_bytes: of_http.waiting_bytes(), ..of_hub.now() };
        of_hub.watch().page(now)
    }));
    let of_hub = hub.clone();
    let _ = health.0.set(Box::new(move || of_hub.unwell()));
    for listener in listeners {
        let http = http.clone();
        tokio::spawn(async move { http.listen(listener).await });
    }
    tokio::pin!(stop);
    loop {
        let client = tokio::select! {
            () = &mut stop => break,
            client = clients.recv() => client,
        };
        let Some(client) = client else { break };
        let (hub, here, visitor, over) = (hub.clone(), Arc::clone(&here), visitor(&client.guest), Cancel::default());
        here.locked().insert(client.id.clone(), (visitor.clone(), over.clone()));
        tokio::spawn(async move {
            let streams = client.streams;
            let stopped = move |session: &str| streams.as_ref()?.stopped(session);
            if let Err(error) = hub.serve_until(client.transport, visitor, over, stopped).await {
                tracing::debug!(%error, "a client left");
            }
            here.locked().remove(&client.id);
        });
    }
    if let Some(looking) = looking {
        looking.abort();
    }
    hub.drain(drain).await;
    // Clients hear first that the server goes away, not that their turns were cancelled.
    tokio::join!(http.stop(STOP_TIMEOUT), hub.stop());
    obeying.abort();
}

/// Ends the connections of those whose token was taken back, or has ended, or has another role now. Their sessions stay.
async fn end_the_revoked(tokens: Tokens, here: Here) {
    let mut look = interval(LOOK_EVERY);
    loop {
        look.tick().await;
        if here.locked().is_empty() {
            continue;
        }
        // A file that can't be read now says nothing about anybody; nobody new is let in meanwhile.
        let Ok(known) = tokens.list() else { continue };
        let good = |visitor: &Visitor| {
            known.iter().any(|token| token.name == visitor.name && token.role == visitor.role && token.is_good())
        };
        for (visitor, over) in here.locked().values().filter(|(visitor, _)| !good(visitor)) {
            tracing::info!(client = %visitor.name, "its token is good no more; its connection ends");
            over.cancel();
        }
    }
}
