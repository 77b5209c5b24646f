//! Logs every prompt and adds a sentence to it: `cargo run -p tieline --example proxy -- my-agent --acp`, as the agent of any client.

use tieline::proxy::{self, Pass};
use tieline::schema::AgentCall;

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stderr, reason = "this is what it is for")]
async fn main() -> tieline::Result<()> {
    proxy::serve_stdio(std::env::args_os().skip(1), |message| {
        if let Some(AgentCall::Prompt(mut prompt)) = message.call_to_agent() {
            eprintln!("prompt: {:?}", prompt.prompt);
            prompt.prompt.push("Answer in one sentence.".into());
            message.rewrite(&prompt);
        }
        Pass::On
    })
    .await
}
