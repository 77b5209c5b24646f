//! The smallest agent: it says back what it is told, to clients of every version.

use tieline::{Result, StopReason, agent};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    agent::serve_stdio(agent::from_fn("echo", |turn, prompt| async move {
        for block in prompt {
            turn.say(block).await?;
        }
        Ok(StopReason::EndTurn)
    }))
    .await
}
