//! A client in a few lines: starts the agent that the arguments name, asks it one thing, prints what it says.
//!
//! `cargo run --example ask -- "What is this?" my-agent --acp`

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::Write as _;
use std::process::ExitCode;
use tieline::{Result, Update, client};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(question), command) = (arguments.next(), arguments.collect::<Vec<_>>()) else {
        eprintln!("usage: ask QUESTION AGENT [ARGUMENT…]");
        return ExitCode::from(2);
    };
    match ask(&question, command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ask: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn ask(question: &str, command: Vec<String>) -> Result<()> {
    let agent = client::spawn(command).await?;
    let session = agent.open(std::env::current_dir()?.display().to_string()).await?;
    let mut turn = session.prompt(question).await?;
    while let Some(update) = turn.next().await {
        if let Update::Chunk(chunk) = update {
            let _ = write!(std::io::stdout(), "{}", chunk.content.as_text().unwrap_or_default());
        }
    }
    let _ = writeln!(std::io::stdout(), "\n({})", turn.stop()?);
    agent.close().await;
    Ok(())
}
