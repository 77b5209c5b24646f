//! Scenarios of sessions that last: loaded, resumed, listed, closed.

use super::{Stage, part_checks};
use crate::peer::{Reply, Stop, Turn};
use crate::sheet::Verdict;
use serde_json::{Value, json};
use tieline_schema::Dialect;

impl Stage {
    fn loads(&mut self) -> Result<(bool, bool), Stop> {
        let current = self.dialect == Dialect::V2;
        let peer = self.peer()?;
        Ok((
            current || peer.offers("session/load", "loadSession"),
            current || peer.offers("session/resume", "sessionCapabilities/resume"),
        ))
    }

    pub(super) async fn load(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        if !self.loads()?.0 {
            self.not_applicable("the agent does not offer to load sessions");
            return Ok(());
        }
        let words = self.words("say")?;
        let (turn, session) = self.again(true).await?;
        let heard = &self.peer()?.turn().updates;
        let who = |start: &str| {
            heard.iter().any(|update| update["sessionUpdate"].as_str().is_some_and(|kind| kind.starts_with(start)))
        };
        let (user, agent) = (who("user_message"), who("agent_message"));
        // What it says about its own troubles is no part of the conversation.
        let said = turn.updates.iter().any(|update| {
            let text = update["content"]["text"].as_str().or(update["content"][0]["text"].as_str());
            update["sessionUpdate"].as_str().is_some_and(|kind| kind.starts_with("agent_message"))
                && text.is_some_and(|text| text.contains("hello"))
        });
        self.expect("load-replays", user && (agent || !said), || {
            format!("user: {user}, agent: {agent}, after the prompt {words:?}")
        });
        self.peer()?.session = session;
        let turn = self.say().await?;
        self.expect("load-goes-on", turn.stop != "error", || "the prompt failed".into());
        let reply = self.take_up("tieline-check-no-such-session", true).await?;
        self.expect("load-unknown", reply.code().is_some(), || reply.message.to_string());
        Ok(())
    }

    /// A session with a turn, taken up again: by another process, or by the same one if its sessions end with it.
    async fn again(&mut self, replay: bool) -> Result<(Turn, String), Stop> {
        let turn = self.say().await?;
        let session = self.peer()?.session.clone();
        self.done().await;
        self.greeted().await?;
        if self.take_up(&session, replay).await?.is_ok() {
            return Ok((turn, session));
        }
        self.peer()?.open().await?;
        let turn = self.say().await?;
        let session = self.peer()?.session.clone();
        if self.dialect == Dialect::V2 || self.peer()?.offers("session/close", "sessionCapabilities/close") {
            self.peer()?.call_in("session/close", json!({})).await?;
        }
        self.peer()?.forget();
        let taken = self.take_up(&session, replay).await?;
        if taken.is_ok() {
            return Ok((turn, session));
        }
        if taken.code() == Some(-32601) {
            let id = part_checks(self.part).first().copied().unwrap_or_default();
            self.expect(id, false, || format!("this is offered, and not there: {}", taken.message["error"]));
        }
        Err(Stop::Skip(format!("a session of before could not be taken up: {}", taken.message["error"])))
    }

    async fn take_up(&mut self, session: &str, replay: bool) -> Result<Reply, Stop> {
        let current = self.dialect == Dialect::V2;
        let peer = self.peer()?;
        let mut params = json!({"sessionId": session, "cwd": peer.folder, "mcpServers": []});
        if replay && current {
            params["replayFrom"] = json!({"type": "start"});
        }
        peer.call(if replay && !current { "session/load" } else { "session/resume" }, params).await
    }

    pub(super) async fn resume(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        if !self.loads()?.1 {
            self.not_applicable("the agent does not offer to resume sessions");
            return Ok(());
        }
        let (_, session) = self.again(false).await?;
        self.peer()?.session = session;
        let turn = self.say().await?;
        self.expect("resume-goes-on", turn.stop != "error", || "the prompt failed".into());
        Ok(())
    }

    pub(super) async fn list(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let current = self.dialect == Dialect::V2;
        if !current && !self.peer()?.offers("session/list", "sessionCapabilities/list") {
            self.not_applicable("the agent does not offer to list sessions");
            return Ok(());
        }
        self.say().await?;
        let (session, folder) = (self.peer()?.session.clone(), self.peer()?.folder.clone());
        let ids = |reply: &Reply| -> Vec<(String, String)> {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let sessions = reply.result()["sessions"].as_array().cloned().unwrap_or_default();
            sessions.iter().map(|one| (text(&one["sessionId"]), text(&one["cwd"]))).collect()
        };
        let reply = self.peer()?.call("session/list", json!({"cwd": folder})).await?;
        let listed = ids(&reply);
        self.expect("list-has", listed.iter().any(|(id, _)| *id == session), || {
            format!("{session:?} is not among {} sessions", listed.len())
        });
        let foreign = listed.iter().find(|(_, cwd)| std::path::Path::new(cwd) != folder);
        self.expect("list-folder", reply.is_ok() && foreign.is_none(), || {
            format!("{foreign:?} is of another folder; {}", reply.message["error"])
        });
        let reply = self.peer()?.call("session/list", json!({"cursor": "tieline-check-no-such-cursor"})).await?;
        self.expect("list-cursor", reply.code().is_some(), || reply.message.to_string());
        if self.peer()?.offers("session/delete", "sessionCapabilities/delete") {
            let reply = self.peer()?.call_in("session/delete", json!({})).await?;
            let left = ids(&self.peer()?.call("session/list", json!({"cwd": folder})).await?);
            let gone = reply.is_ok() && !left.iter().any(|(id, _)| *id == session);
            self.expect("delete-gone", gone, || format!("still listed, or: {}", reply.message["error"]));
            let reply = self.peer()?.call_in("session/delete", json!({})).await?;
            self.expect("delete-unknown", reply.is_ok(), || reply.message["error"].to_string());
        } else {
            let why = "the agent does not offer to delete sessions";
            self.leave(&["delete-gone", "delete-unknown"], &Verdict::NotApplicable, why);
        }
        Ok(())
    }

    pub(super) async fn close(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let current = self.dialect == Dialect::V2;
        if !current && !self.peer()?.offers("session/close", "sessionCapabilities/close") {
            self.not_applicable("the agent does not offer to close sessions");
            return Ok(());
        }
        let reply = self.peer()?.call_in("session/close", json!({})).await?;
        self.expect("close-answered", reply.is_ok(), || reply.message["error"].to_string());
        self.peer()?.open().await?;
        let wait = self.words("wait")?;
        let id = self.peer()?.begin(&wait).await?;
        self.work_seen().await?;
        let session = self.peer()?.session.clone();
        self.peer()?.ask("session/close", json!({"sessionId": session})).await?;
        self.ends_cancelled("close-cancels", id).await?;
        let _ = self.peer()?.canary().await?;
        Ok(())
    }
}
