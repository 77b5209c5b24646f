//! The log at its most talkative, and no secret in it.

#![allow(clippy::unwrap_used)]

#[path = "providers/client.rs"]
mod client;

use client::{Client, FORMATS, provider};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use tieline_coder::Settings;
use tieline_coder::http::{Http, Options, Proxy};
use tieline_coder::model::provider::Secret;
use tieline_model_server::{Answer, Call, Fault, ModelServer, Script};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes down everything that anybody logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0.lock().unwrap(), "{field}={value:?} ");
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let _ = write!(self.0.lock().unwrap(), "\n{} ", event.metadata().target());
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn nothing_secret_is_logged() {
    // A client and a provider can't be printed at all, so only what is said of them counts.
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    for (format, _, model) in FORMATS {
        let answers = vec![
            Answer::call(Call::named("list", serde_json::json!({"path": "."})))
                .fault_first(1, Fault::Status { code: 500, retry_after: None }),
            Answer::text("x").fault(Fault::Status { code: 401, retry_after: None }),
        ];
        let server = ModelServer::start(Script::new(answers)).await.unwrap();
        let address = server.url().replace("://", "://user:hush-address@");
        let options = Options { proxy: Proxy::all("http://me:hush-proxy@127.0.0.1:1", ""), ..Options::default() };
        let provider = provider(format, &address, Http::new(options));
        provider.use_key(Secret::new("hush-key").unwrap());
        let settings = Settings::new(provider.model(model));
        let mut client = Client::with(settings, server).await;
        let end = client.prompt("Look.").await;
        assert!(end.contains("refused the key") && !end.contains("hush"), "{format}: {end}");
        let sent = format!("{:?}", client.server.requests());
        assert!(sent.contains("hush-key"), "{format}: the key went to the server");
    }
    let text = log.0.lock().unwrap().clone();
    assert!(text.contains("request") && text.contains("status=500"), "{text}");
    let found = text.find("hush").map(|at| &text[at.saturating_sub(200)..(at + 30).min(text.len())]);
    assert_eq!(found, None);
    for encoded in ["dXNlcjpodXNo", "bWU6aHVzaC1wcm94eQ"] {
        assert!(!text.contains(encoded), "{encoded}");
    }
}
