//! A server as a whole: a hub behind HTTP and WebSocket.

use crate::gate::{Door, visitor};
use crate::hub::Hub;
use std::time::Duration;
use tieline_http::Server as Http;
use tieline_http::server::{Listener, Rules};
use tokio::sync::mpsc;

/// So many clients wait to be served.
const MAX_ARRIVALS: usize = 64;
/// How long clients get to hear of the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a hub to whoever comes through the door, until `stop` is done; then everything ends in good order.
pub async fn serve(hub: Hub, door: Door, rules: Rules, listeners: Vec<Listener>, stop: impl Future<Output = ()>) {
    let (arrivals, mut clients) = mpsc::channel(MAX_ARRIVALS);
    let http = Http::new(Rules { cookie: door.cookie_name().to_owned(), ..rules }, door, arrivals);
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
        let (hub, visitor) = (hub.clone(), visitor(&client.guest));
        tokio::spawn(async move {
            if let Err(error) = hub.serve(client.transport, visitor).await {
                tracing::debug!(%error, "a client left");
            }
        });
    }
    hub.stop().await;
    http.stop(STOP_TIMEOUT).await;
}
