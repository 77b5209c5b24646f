//! The benchmark's agent on our own library.

use std::sync::atomic::{AtomicUsize, Ordering};
use tieline::agent::{About, Agent, Ask, Opened, Opening, Session, Turn};
use tieline::schema::ConfigCategory;
use tieline::{ConfigOption, ContentBlock, Error, PermissionOptionKind, Result, StopReason, ToolCallUpdate, agent};
use tieline_bench::{Task, session_id, text};

#[derive(Default)]
struct Echo {
    sessions: AtomicUsize,
}

struct Conversation;

impl Agent for Echo {
    type Session = Conversation;

    fn about(&self) -> About {
        About::new("echo-agent", env!("CARGO_PKG_VERSION"))
    }

    async fn open(&self, opening: Opening) -> Result<Opened<Conversation>> {
        opening.session.set_id(session_id(self.sessions.fetch_add(1, Ordering::Relaxed) + 1).into());
        let mode = ConfigOption::select("mode", "Mode", "code", [("code", "Code")]).category(ConfigCategory::Mode);
        Ok(Opened::new(Conversation).options(vec![mode]))
    }
}

impl Session for Conversation {
    async fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        let prompt = prompt.first().and_then(ContentBlock::as_text).unwrap_or_default();
        match Task::parse(prompt).ok_or_else(|| Error::invalid_params("an unknown task"))? {
            Task::Stream { count, size } => {
                let text = text(size);
                for _ in 0..count {
                    turn.say(&text).await?;
                }
            }
            Task::Drip { count, size, pause } => {
                let text = text(size);
                for _ in 0..count {
                    turn.say(&text).await?;
                    tokio::time::sleep(pause).await;
                }
            }
            Task::Perm { count } => {
                for _ in 0..count {
                    let call = ToolCallUpdate::new("call-1").title("Edit file");
                    let question = Ask::about(call).option("allow", "Allow", PermissionOptionKind::AllowOnce).option(
                        "reject",
                        "Reject",
                        PermissionOptionKind::RejectOnce,
                    );
                    turn.ask(question).await?;
                }
            }
            Task::Len(length) => turn.say(length.to_string()).await?,
            Task::Fan { .. } => return Err(Error::invalid_params("`fan` is for the flood agent")),
        }
        Ok(StopReason::EndTurn)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    agent::serve_stdio(Echo::default()).await
}
