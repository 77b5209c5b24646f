//! A counting client on the official Rust SDK, written as its documentation shows.

#![allow(clippy::print_stdout, reason = "the report line is this program's output")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::util::MatchDispatch;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, NewSessionRequest, PromptRequest, SessionNotification, SessionUpdate, TextContent,
};
use agent_client_protocol::v1::{ConnectionTo, SessionMessage};
use agent_client_protocol::{AcpAgent, Agent, Client, Error, Result, on_receive_notification};
use tieline_bench::{Meter, Task};

/// Counts what arrives; shared between the handler and the program.
#[derive(Clone, Default)]
struct Tally {
    updates: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

impl Tally {
    fn add(&self, notification: &SessionNotification) {
        if let SessionUpdate::AgentMessageChunk(chunk) = &notification.update
            && let ContentBlock::Text(text) = &chunk.content
        {
            self.updates.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(text.text.len(), Ordering::Relaxed);
        }
    }

    fn print(&self, meter: &Meter) {
        println!("{}", meter.report(self.updates.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed)));
    }
}

/// One session, counted in a handler for all notifications.
async fn stream(agent: AcpAgent, prompt: String) -> Result<()> {
    let tally = Tally::default();
    let seen = tally.clone();
    Client
        .v1()
        .name("sdk-client")
        .on_receive_notification(
            async move |notification: SessionNotification, _agent| {
                seen.add(&notification);
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_with(agent, async move |agent: ConnectionTo<Agent>| {
            agent.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            let session = agent.send_request(NewSessionRequest::new("/")).block_task().await?.session_id;
            let meter = Meter::start();
            let blocks = vec![ContentBlock::Text(TextContent::new(prompt))];
            agent.send_request(PromptRequest::new(session, blocks)).block_task().await?;
            tally.print(&meter);
            Ok(())
        })
        .await
}

/// Many sessions, each read through the SDK's session object.
async fn fan(agent: AcpAgent, prompt: String, count: usize, sessions: usize) -> Result<()> {
    let tally = Tally::default();
    Client
        .v1()
        .name("sdk-client")
        .connect_with(agent, async move |agent: ConnectionTo<Agent>| {
            agent.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            let mut open = Vec::with_capacity(sessions);
            for _ in 0..sessions {
                open.push(agent.build_session("/").block_task().start_session().await?.session);
            }
            let meter = Meter::start();
            open[0].send_prompt(&prompt)?;
            for (index, session) in open.iter_mut().enumerate() {
                // The agent deals the updates out in turn, so the first sessions get the remainder.
                let share = count / sessions + usize::from(index < count % sessions);
                for _ in 0..share {
                    let SessionMessage::Message(message) = session.read_update().await? else {
                        return Err(Error::internal_error().data("the turn ended before its updates"));
                    };
                    MatchDispatch::new(message.into_raw())
                        .if_notification(async |notification: SessionNotification| {
                            tally.add(&notification);
                            Ok(())
                        })
                        .await
                        .otherwise_ignore()?;
                }
            }
            tally.print(&meter);
            Ok(())
        })
        .await
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let prompt = args.next().ok_or_else(|| Error::invalid_params().data("usage: sdk-client PROMPT AGENT COMMAND"))?;
    let agent = AcpAgent::from_args(args)?;
    match Task::parse(&prompt) {
        Some(Task::Stream { .. }) => stream(agent, prompt).await,
        Some(Task::Fan { count, sessions, .. }) => fan(agent, prompt, count, sessions).await,
        _ => Err(Error::invalid_params().data("the prompt is neither `stream N SIZE` nor `fan N SIZE K`")),
    }
}
