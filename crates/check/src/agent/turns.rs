//! Scenarios of one connection: the hello, turns, sessions beside each other, cancels.

use super::Stage;
use crate::peer::{Choice, Peer, Stop, hello, late};
use serde_json::{Value, json};
use tieline_schema::Dialect;

impl Stage {
    pub(super) async fn hello(&mut self) -> Result<(), Stop> {
        let (settings, dialect, folder) = (self.settings.clone(), self.dialect, self.folder.path().to_owned());
        // In the words of all versions: nobody knows which one is answered.
        let mut params = hello(Dialect::V2, &json!({}));
        params["clientInfo"] = params["info"].clone();
        params["clientCapabilities"] = json!({});
        params["protocolVersion"] = 999.into();
        self.peer = Some(Peer::start(&settings, dialect, &folder).await?);
        let reply = self.peer()?.call("initialize", params.clone()).await?;
        let version = reply.result()["protocolVersion"].as_u64();
        self.expect("hello-newer", version.is_some_and(|version| (1..999).contains(&version)), || {
            reply.message.to_string()
        });
        self.done().await;
        if let Some(version) = version {
            params["protocolVersion"] = version.into();
            self.peer = Some(Peer::start(&settings, dialect, &folder).await?);
            let reply = self.peer()?.call("initialize", params.clone()).await?;
            let echo = reply.result()["protocolVersion"].as_u64();
            self.expect("hello-echo", echo == Some(version), || {
                format!("{version} was its newest, and now: {}", reply.message)
            });
            self.done().await;
        }
        self.peer = Some(Peer::start(&settings, dialect, &folder).await?);
        params["protocolVersion"] = "one".into();
        let reply = self.peer()?.call("initialize", params).await?;
        self.expect("hello-broken", reply.code().is_some(), || reply.message.to_string());
        self.done().await;
        self.peer = Some(Peer::start(&settings, dialect, &folder).await?);
        let reply = self.peer()?.call("session/new", json!({"cwd": folder, "mcpServers": []})).await?;
        self.expect("hello-needed", reply.code().is_some(), || reply.message.to_string());
        // What it says without having agreed on anything is not judged.
        if let Some(mut peer) = self.peer.take() {
            peer.finish().await;
        }
        Ok(())
    }

    pub(super) async fn turn(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let turn = self.say().await?;
        let ended = ["end_turn", "refusal", "max_tokens", "max_turn_requests"].contains(&&*turn.stop);
        self.expect("turn-ends", ended, || format!("it stopped with {:?}", turn.stop));
        let said = turn
            .updates
            .iter()
            .any(|update| matches!(update["sessionUpdate"].as_str(), Some("agent_message_chunk" | "agent_message")));
        self.expect("turn-said", said || turn.stop != "end_turn", || "nothing was said".into());
        let again = self.say().await?;
        self.expect("turn-again", again.stop == turn.stop, || format!("the second turn stopped with {:?}", again.stop));
        Ok(())
    }

    pub(super) async fn sessions(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let first = self.peer()?.session.clone();
        self.peer()?.open().await?;
        let second = self.peer()?.session.clone();
        self.expect("sessions-differ", first != second, || format!("both are {first:?}"));
        let (wait, say) = (self.words("wait")?, self.words("say")?);
        let one = self.peer()?.begin(&wait).await?;
        self.work_seen().await?;
        self.peer()?.session.clone_from(&first);
        let turn = match self.peer()?.prompt(&say).await {
            Ok(turn) => turn,
            Err(Stop::Skip(why) | Stop::Late(why)) => {
                self.expect("sessions-parallel", false, || format!("while another session works: {why}"));
                return Ok(());
            }
            Err(stop) => return Err(stop),
        };
        self.expect("sessions-parallel", turn.stop != "error", || "the prompt of the other session failed".into());
        self.peer()?.session.clone_from(&second);
        self.peer()?.cancel().await?;
        let _ = self.peer()?.end(one).await;
        Ok(())
    }

    /// Waits until a turn is surely under way.
    pub(super) async fn work_seen(&mut self) -> Result<(), Stop> {
        let is_work = |message: &Value| {
            let kind = message["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default();
            kind.starts_with("agent_message") || kind == "tool_call" || kind.starts_with("tool_call_")
        };
        if !self.peer()?.turn().updates.iter().any(|update| is_work(&json!({"params": {"update": update}}))) {
            let seen = self.peer()?.until("the turn does not begin", is_work).await;
            seen.map_err(late)?;
        }
        Ok(())
    }

    pub(super) async fn cancel(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        self.peer()?.cancel().await?;
        let turn = self.say().await?;
        self.expect("cancel-idle", turn.stop != "cancelled", || "the turn after it was cancelled".into());
        let wait = self.words("wait")?;
        let id = self.peer()?.begin(&wait).await?;
        self.work_seen().await?;
        let busy = self.peer()?.canary().await;
        self.expect("turn-busy", busy.is_ok(), || "no answer to another request while a turn runs".into());
        self.peer()?.cancel().await?;
        if !self.ends_cancelled("cancel-answered", id).await? {
            return Ok(());
        }
        let turn = self.say().await?;
        self.expect("cancel-then", !["error", "cancelled"].contains(&&*turn.stop), || {
            format!("it stopped with {:?}", turn.stop)
        });
        Ok(())
    }

    pub(super) async fn cancel_question(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let write = self.words("write")?;
        self.peer()?.choice = Choice::Silence;
        let id = self.peer()?.begin(&write).await?;
        let asked =
            self.peer()?.until("nothing is asked", |message| message["method"] == "session/request_permission").await;
        let Ok(asked) = asked else { return Err(Stop::Skip("the agent did not ask for permission".into())) };
        self.peer()?.cancel().await?;
        let outcome = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": {"outcome": "cancelled"}}});
        self.peer()?.send(&outcome.to_string()).await?;
        self.ends_cancelled("cancel-asked", id).await?;
        let made = self.folder.path().join("made.txt").exists();
        self.expect("permission-reject", !made, || "the file was written although the question was cancelled".into());
        Ok(())
    }
}
