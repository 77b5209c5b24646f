//! Scenarios of sessions that last: loaded, resumed, listed, closed.

use super::Stage;
use crate::peer::{Stop, Turn, Why, is_kind, is_ok};
use crate::report::items;
use crate::sheet::Verdict;
use serde_json::{Value, json};
use tieline_schema::Dialect;

impl Stage {
    pub(super) async fn load(&mut self) -> Result<(), Stop> {
        self.ready_to("load").await?;
        let words = self.words("say")?;
        let turn = self.again(true).await?;
        let heard = &self.peer()?.turn;
        let (user, agent) = (heard.has("user_message"), heard.has("agent_message"));
        // What it says about its own troubles is no part of the conversation.
        let said = turn.updates.iter().any(|update| {
            let text = update["content"]["text"].as_str().or(update["content"][0]["text"].as_str());
            is_kind(update, "agent_message") && text.is_some_and(|text| text.contains("hello"))
        });
        let heard = || format!("user: {user}, agent: {agent}, after the prompt {words:?}");
        self.expect("load-replays", user && (agent || !said), heard);
        // What comes behind the answer is heard before the next prompt: it would be taken for the work of that one.
        self.peer()?.pause().await?;
        let turn = self.say().await?;
        self.expect("load-goes-on", turn.stop != "error", || "the prompt failed".into());
        let reply = self.take_up("tieline-check-no-such-session", true).await?;
        self.expect_refusal("load-unknown", &reply, None);
        Ok(())
    }

    /// A session with a turn, taken up again: by another process, or by the same one if its sessions end with it.
    async fn again(&mut self, replay: bool) -> Result<Turn, Stop> {
        let turn = self.say().await?;
        let session = self.peer()?.session.clone();
        self.done().await;
        self.greeted().await?;
        if is_ok(&self.take_up(&session, replay).await?) {
            self.peer()?.session = session;
            return Ok(turn);
        }
        self.peer()?.open().await?;
        let turn = self.say().await?;
        let session = self.peer()?.session.clone();
        if self.peer()?.offers("session/close") {
            self.peer()?.call_in("session/close", json!({})).await?;
        }
        self.peer()?.forget();
        let taken = self.take_up(&session, replay).await?;
        if is_ok(&taken) {
            return Ok(turn);
        }
        // Without a login, or after a prompt that failed, there may be nothing to take up.
        if taken["error"]["code"] != -32000 && turn.stop != "error" {
            let id = if replay { "load-replays" } else { "resume-goes-on" };
            let said = || format!("this is offered, and refused for a session of this process: {}", taken["error"]);
            self.expect(id, false, said);
        }
        Err(Stop(Why::Skip, format!("a session of before could not be taken up: {}", taken["error"])))
    }

    async fn take_up(&mut self, session: &str, replay: bool) -> Result<Value, Stop> {
        let current = self.dialect == Dialect::V2;
        let peer = self.peer()?;
        let mut params = json!({"sessionId": session, "cwd": peer.folder, "mcpServers": []});
        if replay && current {
            params["replayFrom"] = json!({"type": "start"});
        }
        peer.call(if replay && !current { "session/load" } else { "session/resume" }, params).await
    }

    pub(super) async fn resume(&mut self) -> Result<(), Stop> {
        self.ready_to("resume").await?;
        self.again(false).await?;
        let turn = self.say().await?;
        self.expect("resume-goes-on", turn.stop != "error", || "the prompt failed".into());
        Ok(())
    }

    pub(super) async fn list(&mut self) -> Result<(), Stop> {
        self.ready_to("list").await?;
        self.say().await?;
        let (session, folder) = (self.peer()?.session.clone(), self.peer()?.folder.clone());
        let ids = |reply: &Value| -> Vec<(String, String)> {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            items(&reply["result"]["sessions"]).iter().map(|one| (text(&one["sessionId"]), text(&one["cwd"]))).collect()
        };
        let reply = self.peer()?.call("session/list", json!({"cwd": folder})).await?;
        let listed = ids(&reply);
        let has = listed.iter().any(|(id, _)| *id == session);
        self.expect("list-has", has, || format!("{session:?} is not among {} sessions", listed.len()));
        let foreign = listed.iter().find(|(_, cwd)| std::path::Path::new(cwd) != folder);
        let said = || format!("{foreign:?} is of another folder; {}", reply["error"]);
        self.expect("list-folder", is_ok(&reply) && foreign.is_none(), said);
        let reply = self.peer()?.call("session/list", json!({"cursor": "tieline-check-no-such-cursor"})).await?;
        self.expect_refusal("list-cursor", &reply, None);
        if self.peer()?.offers("session/delete") {
            let reply = self.peer()?.call_in("session/delete", json!({})).await?;
            let left = ids(&self.peer()?.call("session/list", json!({"cwd": folder})).await?);
            let gone = is_ok(&reply) && !left.iter().any(|(id, _)| *id == session);
            self.expect("delete-gone", gone, || format!("still listed, or: {}", reply["error"]));
            let reply = self.peer()?.call_in("session/delete", json!({})).await?;
            self.expect("delete-unknown", is_ok(&reply), || reply["error"].to_string());
        } else {
            let why = "the agent does not offer to delete sessions";
            self.leave(&["delete-gone", "delete-unknown"], Verdict::NotApplicable, why);
        }
        Ok(())
    }

    pub(super) async fn close(&mut self) -> Result<(), Stop> {
        self.ready_to("close").await?;
        let reply = self.peer()?.call_in("session/close", json!({})).await?;
        self.expect("close-answered", is_ok(&reply), || reply["error"].to_string());
        self.peer()?.open().await?;
        let id = self.wait().await?;
        let session = self.peer()?.session.clone();
        self.peer()?.ask("session/close", json!({"sessionId": session})).await?;
        self.ends_cancelled("close-cancels", id, true).await?;
        self.peer()?.pause().await
    }
}
