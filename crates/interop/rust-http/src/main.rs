//! Peers on the official Rust SDK over HTTP and WebSocket: `client 1|2 -- URL` runs the scenario, `server 1|2` prints its port.

use agent_client_protocol_http::{AcpHttpServer, HttpClient};
use std::io::Write as _;
use std::process::ExitCode;
use tieline_interop::sdk_agent::{Sessions, v1, v2};
use tieline_interop::{scenario, sdk_client};

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["client", version, "--", url] => {
            let agent = HttpClient::builder_with_endpoint(url).configure_http(|http| http.no_proxy()).build();
            let ran = match agent {
                Ok(agent) => sdk_client::run(version, agent).await.unwrap_or(false),
                Err(error) => {
                    scenario::fail(&format!("no client: {error}"), &mut std::io::stdout());
                    false
                }
            };
            if ran { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        ["server", version] => match serve(version == "1").await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("usage: client 1|2 -- URL, or server 1|2");
            ExitCode::from(2)
        }
    }
}

async fn serve(first: bool) -> std::io::Result<()> {
    // Sessions are those of the server: another connection can take them up.
    let sessions = Sessions::default();
    let server = if first {
        AcpHttpServer::new(move || v1::agent(sessions.clone()))
    } else {
        AcpHttpServer::new(move || v2::agent(sessions.clone()))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    std::io::stdout().flush()?;
    axum::serve(listener, server.into_router()).await
}
