//! The benchmark's counting client on our own library.

#![allow(clippy::print_stdout, reason = "the report line is this program's output")]

use tieline::client::{AgentHandle, Client, Session};
use tieline::{Dialect, Error, Protocol, Result, Update};
use tieline_bench::{Meter, Task};

#[derive(Default)]
struct Tally {
    updates: usize,
    bytes: usize,
}

impl Tally {
    fn add(&mut self, update: &Update) {
        if let Update::Chunk(chunk) = update {
            self.updates += 1;
            self.bytes += chunk.content.as_text().map_or(0, str::len);
        }
    }

    fn print(&self, meter: &Meter) {
        println!("{}", meter.report(self.updates, self.bytes));
    }
}

async fn stream(agent: &AgentHandle, prompt: &str) -> Result<()> {
    let session = agent.open("/").await?;
    let meter = Meter::start();
    let mut tally = Tally::default();
    let mut turn = session.prompt(prompt).await?;
    while let Some(update) = turn.next().await {
        tally.add(&update);
    }
    turn.stop()?;
    tally.print(&meter);
    Ok(())
}

async fn fan(agent: &AgentHandle, prompt: &str, count: usize, sessions: usize) -> Result<()> {
    let mut open: Vec<Session> = Vec::with_capacity(sessions);
    for _ in 0..sessions {
        open.push(agent.open("/").await?);
    }
    let meter = Meter::start();
    let mut tally = Tally::default();
    let mut turn = open[0].prompt(prompt).await?;
    while let Some(update) = turn.next().await {
        tally.add(&update);
    }
    turn.stop()?;
    for (index, session) in open.iter().enumerate().skip(1) {
        let share = count / sessions + usize::from(index < count % sessions);
        for _ in 0..share {
            let update = session.next().await.ok_or(Error::TurnOver)?;
            tally.add(&update);
        }
    }
    tally.print(&meter);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let prompt = args.next().ok_or_else(|| Error::Invalid("usage: echo-client PROMPT AGENT COMMAND".into()))?;
    let client = Client::new("echo-client", env!("CARGO_PKG_VERSION")).protocol(Protocol::Only(Dialect::V1));
    let agent = client.spawn(args).await?;
    match Task::parse(&prompt) {
        Some(Task::Stream { .. }) => stream(&agent, &prompt).await?,
        Some(Task::Fan { count, sessions, .. }) => fan(&agent, &prompt, count, sessions).await?,
        _ => return Err(Error::Invalid("the prompt is neither `stream N SIZE` nor `fan N SIZE K`".into())),
    }
    agent.close().await;
    Ok(())
}
