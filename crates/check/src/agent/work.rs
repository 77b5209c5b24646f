//! Scenarios of work: permission, tools, content.

use super::Stage;
use crate::peer::{Choice, Stop, Why, is_ok, survived};
use crate::report::items;
use crate::sheet::Verdict;
use serde_json::{Value, json};
use tieline_schema::Dialect;

impl Stage {
    pub(super) async fn permission(&mut self) -> Result<(), Stop> {
        for (choice, id) in [
            (Choice::Reject, "permission-reject"),
            (Choice::Unknown, "permission-unknown"),
            (Choice::Allow, "permission-allow"),
        ] {
            let _ = std::fs::remove_file(self.folder.path().join("made.txt"));
            self.ready().await?;
            self.peer()?.choice = choice;
            let turn = self.prompt("write").await?;
            let mut asked = turn.asked.iter();
            let Some(question) = asked.find(|message| message["method"] == "session/request_permission") else {
                return Err(Stop(Why::Skip, "the agent did not ask for permission".into()));
            };
            let (made, allowed) = (self.made(), choice == Choice::Allow);
            let allows = |option: &Value| option["kind"].as_str().is_some_and(|kind| kind.starts_with("allow_"));
            if allowed && !items(&question["params"]["options"]).iter().any(allows) {
                self.add(id, Verdict::NotExercised, "the question has no option of a kind that allows it");
            } else {
                let said = if made { "the file was written" } else { "the file was not written" };
                self.expect(id, made == allowed, || said.into());
            }
            if choice == Choice::Reject {
                self.expect("permission-reject-turn", turn.stop != "error", || "the prompt failed".into());
            }
            self.done().await;
        }
        Ok(())
    }

    pub(super) async fn tools(&mut self) -> Result<(), Stop> {
        // One that offers no files first: who asks for them all the same does so here.
        if self.dialect == Dialect::V1 {
            self.ready().await?;
            if self.words("read").is_ok() {
                survived(self.prompt("read").await)?;
            }
            self.done().await;
        }
        // Files are offered here, and nowhere else.
        self.offers = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
        self.ready().await?;
        if let Ok(read) = self.words("read") {
            self.peer()?.prompt(&read).await?;
        }
        let turn = self.prompt("fail").await?;
        self.expect("tool-fails", turn.stop != "error", || "the prompt failed".into());
        let turn = self.prompt("write").await?;
        // Only what was done is known to have been a tool.
        if self.made() {
            let said = || "a file was written, and no tool call was reported".into();
            self.expect("tool-told", turn.has("tool_call"), said);
        } else {
            self.add("tool-told", Verdict::NotExercised, "the file was not written");
        }
        Ok(())
    }

    pub(super) async fn content(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let say = self.words("say")?;
        let link = format!("file://{}", self.folder.path().join("a.txt").display());
        let text = json!({"type": "text", "text": say});
        let prompt = json!({"prompt": [text, {"type": "resource_link", "uri": link, "name": "a.txt"}]});
        let reply = self.peer()?.call_in("session/prompt", prompt).await?;
        self.expect("content-link", is_ok(&reply), || reply["error"].to_string());
        self.settle(&reply).await?;
        let offers = self.peer()?.witness.judge.state.agent.clone().unwrap_or_default();
        let none = [("image", offers.image), ("audio", offers.audio)].into_iter().find(|(_, offered)| !offered);
        let id = if self.dialect == Dialect::V2 { "content-refused" } else { "content-refused-v1" };
        if let Some((kind, _)) = none {
            let prompt = json!({"prompt": [text, {"type": kind, "data": "AAAA", "mimeType": format!("{kind}/x")}]});
            let reply = self.peer()?.call_in("session/prompt", prompt).await?;
            self.expect_refusal(id, &reply, Some(-32602));
            self.settle(&reply).await?;
        } else {
            self.add(id, Verdict::NotApplicable, "the agent takes all content");
        }
        // A model may find it too long, which is an answer.
        let filler = format!("{say}\n{}", "x".repeat(1 << 20));
        let id = self.peer()?.begin(&filler).await?;
        let ended = self.peer()?.end(id).await;
        if !matches!(ended, Err(Stop(Why::Skip, _))) {
            let said = || "the prompt was never answered, or its turn never ended".into();
            self.expect("content-large", ended.is_ok(), said);
        }
        survived(ended)
    }

    /// In current version 2 the work goes on after the answer.
    async fn settle(&mut self, answer: &Value) -> Result<(), Stop> {
        if self.dialect == Dialect::V2 && answer.get("result").is_some() {
            let id = answer["id"].as_i64().unwrap_or_default();
            self.peer()?.end(id).await?;
        }
        Ok(())
    }
}
