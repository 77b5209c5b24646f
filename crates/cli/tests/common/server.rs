//! The local model server for tests that have no runtime of their own.

#![allow(dead_code, clippy::unwrap_used)]

use serde_json::Value;
use tieline_model_server::{ModelServer, Script};

/// The four formats: a provider that speaks each, what follows the address of a server, and a model.
pub const FORMATS: [(&str, &str, &str); 4] = [
    ("openai-chat", "/v1", "gpt-4.1"),
    ("openai", "/v1", "gpt-5.4"),
    ("anthropic", "", "claude-sonnet-5-5"),
    ("gemini", "", "gemini-2.5-pro"),
];

pub struct Models {
    server: ModelServer,
    _runtime: tokio::runtime::Runtime,
}

impl Models {
    pub fn start(script: Script) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(ModelServer::start(script)).unwrap();
        Self { server, _runtime: runtime }
    }

    /// Its address for a format.
    pub fn url(&self, format: &str) -> String {
        let suffix = FORMATS.iter().find(|(known, ..)| *known == format).map_or("/v1", |(_, suffix, _)| suffix);
        format!("{}{suffix}", self.server.url())
    }

    /// The bodies of the requests so far.
    pub fn bodies(&self) -> Vec<Value> {
        self.server.requests().into_iter().map(|request| request.body).collect()
    }

    /// All that came, heads included, as text.
    pub fn everything(&self) -> String {
        let line = |request: tieline_model_server::Recorded| {
            format!("{} {:?} {}", request.path, request.headers, request.body)
        };
        self.server.requests().into_iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
