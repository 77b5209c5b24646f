//! Scenarios of one connection: the hello, turns, sessions beside each other, cancels.

use super::Stage;
use crate::peer::{Choice, Peer, Stop, Why, hello, late, survived};
use crate::sheet::{Line, Verdict};
use serde_json::{Value, json};
use tieline_schema::Dialect;
use tieline_trace::Side;

impl Stage {
    pub(super) async fn hello(&mut self) -> Result<(), Stop> {
        // In the words of all versions: nobody knows which one is answered.
        let mut params = hello(Side::Client, Dialect::V2);
        params["clientInfo"] = params["info"].clone();
        params["clientCapabilities"] = json!({});
        params["protocolVersion"] = 999.into();
        let reply = self.first("initialize", &params).await?;
        let version = reply["result"]["protocolVersion"].as_u64();
        let one = version.is_some_and(|version| (1..999).contains(&version));
        self.expect("hello-newer", one, || reply.to_string());
        if let Some(version) = version {
            params["protocolVersion"] = version.into();
            let reply = self.first("initialize", &params).await?;
            let echo = reply["result"]["protocolVersion"].as_u64();
            self.expect("hello-echo", echo == Some(version), || format!("{version} was its newest, and now: {reply}"));
        }
        params["protocolVersion"] = "one".into();
        let reply = self.first("initialize", &params).await?;
        self.expect_refusal("hello-broken", &reply, None);
        let reply = self.first("session/new", &json!({"cwd": self.folder.path(), "mcpServers": []})).await?;
        self.expect_refusal("hello-needed", &reply, None);
        // What it says without having agreed on anything is not judged.
        if let Some(mut peer) = self.peer.take() {
            peer.finish(self.end).await;
        }
        Ok(())
    }

    /// The answer of a fresh agent to the first thing that it hears.
    async fn first(&mut self, method: &str, params: &Value) -> Result<Value, Stop> {
        self.done().await;
        let peer = Peer::start(&self.plan.settings, self.dialect, self.folder.path()).await?;
        self.peer.insert(peer).call(method, params.clone()).await
    }

    pub(super) async fn turn(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let turn = self.say().await;
        if let Err(Stop(Why::Late, why)) = &turn {
            self.add("turn-ends", Verdict::Broken, why);
        }
        let turn = turn?;
        // Whether the reason is one that exists is for the laws to say.
        let ended = !["error", "cancelled", "withdrawn", ""].contains(&&*turn.stop);
        self.expect("turn-ends", ended, || format!("it stopped with {:?}", turn.stop));
        let astray = turn.astray(&self.peer()?.session);
        let said = astray.is_none() && (turn.has("agent_message") || turn.stop != "end_turn");
        self.expect("turn-said", said, || astray.unwrap_or_else(|| "nothing was said".into()));
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
        let one = self.wait().await?;
        let mut stray = self.peer()?.turn.astray(&second);
        self.peer()?.session.clone_from(&first);
        let turn = self.say().await;
        if let Err(Stop(Why::Late | Why::Endless, why)) = &turn {
            self.expect("sessions-parallel", false, || format!("while another session works: {why}"));
            return Ok(());
        }
        let turn = turn?;
        stray = stray.or_else(|| turn.astray(&first));
        let parallel = turn.stop != "error";
        let wrong = stray.or_else(|| (!parallel).then(|| "the prompt of the other session failed".into()));
        self.expect("sessions-parallel", wrong.is_none(), || wrong.unwrap_or_default());
        let both = parallel && first != second;
        if both {
            let beside = self.wait().await?;
            self.peer()?.cancel().await?;
            survived(self.peer()?.end(beside).await)?;
            self.peer()?.canary().await?;
        }
        let peer = self.peer()?;
        // Nobody has cancelled the first turn so far.
        let spread = peer.witness.log.iter().map(Line::value).any(|said| {
            let stop = said.pointer("/result/stopReason").or(said.pointer("/params/update/stopReason"));
            stop.is_some_and(|stop| stop == "cancelled")
                && (said["id"] == one || said["params"]["sessionId"] == *second)
        });
        peer.forget();
        peer.session.clone_from(&second);
        peer.cancel().await?;
        let ended = peer.end(one).await;
        if both && (spread || ended.as_ref().is_ok_and(|turn| turn.stop == "cancelled")) {
            self.expect("cancel-named", !spread, || "the turn of another session was cancelled, too".into());
        } else {
            let why = "no two turns were seen side by side of which one stopped as cancelled";
            self.add("cancel-named", Verdict::NotExercised, why);
        }
        survived(ended)
    }

    pub(super) async fn cancel(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        self.peer()?.cancel().await?;
        let turn = self.say().await?;
        let (mut hit, mut waits) = (turn.stop == "cancelled", self.wait().await);
        if matches!(waits, Err(Stop(Why::Skip, _))) && self.words("wait").is_ok() {
            // That may be what the cancel has left behind: a fresh agent has not heard of it.
            self.done().await;
            self.ready().await?;
            waits = self.wait().await;
            hit |= waits.is_ok();
        }
        self.expect("cancel-idle", !hit, || "a turn after it was cancelled, or ended at once".into());
        let id = waits?;
        let busy = self.peer()?.canary().await;
        match busy {
            Err(Stop(Why::Skip, why)) => self.add("turn-busy", Verdict::NotExercised, &why),
            busy => self.expect("turn-busy", busy.is_ok(), || "no answer to another request while a turn runs".into()),
        }
        self.peer()?.cancel().await?;
        if !self.ends_cancelled("cancel-answered", id, true).await? {
            return Ok(());
        }
        let turn = self.say().await?;
        let fine = !["error", "cancelled"].contains(&&*turn.stop);
        self.expect("cancel-then", fine, || format!("it stopped with {:?}", turn.stop));
        let words = self.words("wait")?;
        let id = self.peer()?.begin(&words).await?;
        self.peer()?.cancel().await?;
        self.ends_cancelled("cancel-at-once", id, false).await?;
        Ok(())
    }

    pub(super) async fn cancel_question(&mut self) -> Result<(), Stop> {
        self.ready().await?;
        let write = self.words("write")?;
        self.peer()?.choice = Choice::Silence;
        let id = self.peer()?.begin(&write).await?;
        let is_question = |message: &Value| message["method"] == "session/request_permission";
        let asked = self.peer()?.until("the agent did not ask for permission", is_question).await;
        let asked = asked.map_err(late)?;
        self.peer()?.cancel().await?;
        let outcome = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": {"outcome": "cancelled"}}});
        self.peer()?.send(&outcome.to_string()).await?;
        self.ends_cancelled("cancel-asked", id, true).await?;
        let said = || "the file was written although the question was cancelled".into();
        self.expect("permission-reject", !self.made(), said);
        Ok(())
    }
}
