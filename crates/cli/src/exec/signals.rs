//! Ctrl-C and the signals that end us, as messages.

use tieline_client::run::Stop;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Listens from now on. A terminal that is closed ends us like a request to.
pub fn listen() -> std::io::Result<mpsc::Receiver<Stop>> {
    let (sender, stops) = mpsc::channel(8);
    let kinds = [
        (SignalKind::interrupt(), Stop::Interrupt),
        (SignalKind::terminate(), Stop::Terminate),
        (SignalKind::hangup(), Stop::Terminate),
    ];
    for (kind, stop) in kinds {
        let mut signal = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                // Who presses more often than eight times has said it.
                let _ = sender.try_send(stop);
            }
        });
    }
    Ok(stops)
}
