//! An interop client on the official Rust SDK: `interop-sdk-client 1|2 -- AGENT COMMAND…`.
#![allow(clippy::print_stderr)]

use agent_client_protocol::AcpAgent;
use std::process::ExitCode;
use tieline_interop::{scenario, sdk_client};

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [version @ ("1" | "2"), "--", command @ ..] = &args.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        eprintln!("usage: interop-sdk-client 1|2 -- AGENT COMMAND...");
        return ExitCode::from(2);
    };
    let ran = match AcpAgent::from_args(command) {
        Ok(agent) => sdk_client::run(version, agent).await.unwrap_or(false),
        Err(error) => {
            scenario::fail(&format!("no agent: {error}"), &mut std::io::stdout());
            false
        }
    };
    if ran { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
