//! An interop agent on the official Rust SDK: `interop-sdk-agent 1|2`.
#![allow(clippy::print_stderr)]

use agent_client_protocol::{ConnectTo as _, Stdio};
use std::process::ExitCode;
use tieline_interop::sdk_agent::{Sessions, v1, v2};

#[tokio::main]
async fn main() -> ExitCode {
    let served = match std::env::args().nth(1).as_deref() {
        Some("1") => v1::agent(Sessions::default()).connect_to(Stdio::new()).await,
        Some("2") => v2::agent(Sessions::default()).connect_to(Stdio::new()).await,
        _ => {
            eprintln!("usage: interop-sdk-agent 1|2");
            return ExitCode::from(2);
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("interop-sdk-agent: {e}");
            ExitCode::FAILURE
        }
    }
}
