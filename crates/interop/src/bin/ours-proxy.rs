//! A proxy for a conductor's chain: it signs the agent's name, and everything else goes on as it came.

use tieline::proxy::{self, Pass};
use tieline::schema::InitializeResponse;
use tieline::{Dialect, Transport};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (client, agent) = proxy::chain(Transport::stdio().detect_framing());
    proxy::run(client, agent, |message| {
        if message.method() == Some("initialize")
            && message.dialect() == Some(Dialect::V1)
            && let Some(mut hello) = message.result::<InitializeResponse>()
            && let Some(info) = &mut hello.info
        {
            info.name.push_str(" through ours-proxy");
            message.rewrite(&hello);
        }
        Pass::On
    })
    .await;
}
