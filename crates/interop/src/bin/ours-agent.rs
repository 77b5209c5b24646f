//! An interop agent on our own library, one program for every dialect: `interop-ours-agent [auto|1|2|2-seed]`.
#![allow(clippy::print_stderr)]

use std::process::ExitCode;
use std::time::Duration;
use tieline::agent::{self, Server, Turn};
use tieline::schema::CreateTerminalRequest;
use tieline::{ContentBlock, Error, PlanEntry, Protocol, Result, StopReason, ToolCallStatus, ToolCallUpdate, ToolKind};
use tieline_interop::vocabulary::{CALL_RESULT, CALL_TITLE, Command, PLAN, THOUGHT, halves};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let protocol = match std::env::args().nth(1).as_deref().unwrap_or("auto").parse::<Protocol>() {
        Ok(protocol) => protocol,
        Err(e) => {
            eprintln!("interop-ours-agent: {e}");
            return ExitCode::from(2);
        }
    };
    let agent = agent::from_fn("ours-agent", |turn, prompt| async move { work(&turn, &prompt).await }).remember();
    match Server::new(agent).protocol(protocol).serve_stdio().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("interop-ours-agent: {e}");
            ExitCode::FAILURE
        }
    }
}

async fn work(turn: &Turn, prompt: &[ContentBlock]) -> Result<StopReason> {
    let Some(text) = prompt.first().and_then(ContentBlock::as_text) else {
        return Err(Error::invalid_params("the prompt must begin with text"));
    };
    match Command::parse(text) {
        Command::Say(text) => {
            turn.think(THOUGHT).await?;
            let (first, second) = halves(&text);
            turn.say(first).await?;
            turn.say(second).await?;
        }
        Command::Tool => tool(turn).await?,
        Command::Plan => {
            let entry = |&(what, priority, status): &(&str, &str, &str)| PlanEntry {
                priority: priority.into(),
                ..PlanEntry::new(what, status.into())
            };
            turn.plan(PLAN.iter().map(entry).collect()).await?;
        }
        Command::Wait => {
            turn.say("waiting").await?;
            turn.cancelled().await;
            return Ok(StopReason::Cancelled);
        }
        Command::Fail => return Err(Error::internal("told to fail")),
        command @ (Command::Read(_) | Command::Write(..) | Command::Run(..)) => {
            match with_the_client(turn, command).await {
                Ok(text) => turn.say(text).await?,
                Err(Error::NotInDialect { what, .. }) => turn.say(format!("nobody can be asked for {what}")).await?,
                Err(Error::Unsupported(what)) => turn.say(format!("the client does not offer {what}")).await?,
                Err(error) => return Err(error),
            }
        }
        Command::Unknown(prompt) => turn.say(format!("unknown prompt: {prompt}")).await?,
    }
    Ok(StopReason::EndTurn)
}

async fn tool(turn: &Turn) -> Result<()> {
    let call = turn.tool(CALL_TITLE).kind(ToolKind::Edit).start().await?;
    if !call.ask(Vec::new()).await?.is_allowed() {
        // No reason is given: the scenario wants a call without content.
        return call.update(ToolCallUpdate::default().status(ToolCallStatus::Failed)).await;
    }
    call.running().await?;
    call.complete_with(vec![CALL_RESULT.into()], None).await
}

/// Does what needs the client's files or terminals, and tells what to say.
async fn with_the_client(turn: &Turn, command: Command) -> Result<String> {
    let client = turn.client();
    match command {
        Command::Read(path) => client.read_text_file(&path, None, None).await,
        Command::Write(path, text) => client.write_text_file(&path, text).await.map(|()| "written".to_owned()),
        Command::Run(command, args) => {
            let terminal =
                client.terminal(CreateTerminalRequest { command, args, ..CreateTerminalRequest::default() }).await?;
            Ok(terminal.finish(Duration::from_secs(5)).await?.output)
        }
        other => Err(Error::Unsupported(format!("{other:?}"))),
    }
}
