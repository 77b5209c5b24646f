//! Scenarios for agents: each plays a client for one fresh process, and asserts checks along the way.

mod options;
mod sessions;
mod turns;
mod work;

use crate::peer::{END, Peer, Settings, Stop, Turn, Why, is_work, late};
use crate::probes;
use crate::sheet::{Finding, Sheet, Verdict};
use crate::table::{Check, parts};
use crate::witness::Witness;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tieline_schema::Dialect;
use tieline_trace::Side;
use tokio::sync::Semaphore;

/// So long is waited for the end of an agent that is known to stay.
const STAYED: Duration = Duration::from_millis(500);
/// Why nothing else can be said of an agent whose answer to the hello is broken.
const UNUSABLE: &str = "the answer to `initialize` can't be used: mend it first, then check again";

/// Where a scenario is played.
pub(crate) struct Stage {
    plan: Plan,
    dialect: Dialect,
    part: &'static str,
    folder: tempfile::TempDir,
    pub peer: Option<Peer>,
    sheet: Sheet,
    offers: Value,
    /// As in [`Peer::mute`].
    pub mute: bool,
    /// How long the agent gets to end.
    end: Duration,
}

/// What is judged, and how.
#[derive(Clone)]
pub struct Plan {
    /// How to reach the agent.
    pub settings: Settings,
    /// Which checks are wanted.
    pub wanted: Arc<dyn Fn(&Check) -> bool + Send + Sync>,
    /// How many processes at once.
    pub parallel: usize,
    /// Which scenarios; none: all.
    pub only: Vec<&'static str>,
    /// Told after each scenario.
    pub progress: Arc<dyn Fn(Dialect, &'static str) + Send + Sync>,
}

/// Judges an agent in one dialect.
pub async fn check_agent(plan: &Plan, dialect: Dialect) -> Sheet {
    let mut sheet = Sheet::new(Side::Agent, dialect);
    let places = Arc::new(Semaphore::new(plan.parallel.max(1)));
    let end = start(plan, &mut sheet).await;
    if !sheet.is_judged() || sheet.barred.is_some() {
        sheet.complete(&*plan.wanted);
        return sheet;
    }
    let mute = sheet.findings.contains_key("probe-extension-unknown");
    let mut tasks = Vec::new();
    for part in parts(Side::Agent).into_iter().filter(|part| plan.only.is_empty() || plan.only.contains(part)) {
        let (plan, places) = (plan.clone(), places.clone());
        let task = tokio::spawn(async move {
            let _place = places.acquire_owned().await;
            let stage = Stage::new(&plan, dialect, part);
            let mut stage = stage.map_err(|why| format!("there is no folder to work in: {why}"))?;
            (stage.mute, stage.end) = (mute, end);
            let sheet = stage.play().await;
            (plan.progress)(dialect, part);
            Ok(sheet)
        });
        tasks.push((part, task));
    }
    for (part, task) in tasks {
        match task.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(done) => sheet.merge(done),
            Err(why) => sheet.leave(part, Verdict::KitAtFault, &why),
        }
    }
    sheet.complete(&*plan.wanted);
    sheet
}

/// The agent can be started, and speaks this dialect. If it does not answer what it does not know, or does not end, that is found out here,
/// and once: gives the time that it gets to end from here on.
async fn start(plan: &Plan, sheet: &mut Sheet) -> Duration {
    // Without a folder each scenario says that there is none.
    let Ok(mut stage) = Stage::new(plan, sheet.dialect, "start") else { return END };
    let greeted = stage.greeted().await;
    if greeted.is_ok()
        && let Some(peer) = &mut stage.peer
        && let Err(stop @ Stop(Why::Late, _)) = peer.canary().await
    {
        stage.add("probe-extension-unknown", Verdict::Broken, &stop.1);
        stage.blame(&stop);
    }
    let end = if stage.done().await { END } else { STAYED };
    let found = &stage.sheet.findings;
    let faulty = found.contains_key("rpc-answer") && found.values().any(Finding::fails);
    match greeted {
        Err(Stop(Why::Unspoken, why)) => sheet.unspoken = Some(why),
        // What is wrong with the answer is told; everything else has to wait.
        Err(_) if faulty => stage.sheet.barred = Some(UNUSABLE.into()),
        Err(stop) => sheet.dead = Some(stop.1),
        Ok(()) => {}
    }
    if sheet.is_judged() {
        sheet.merge(stage.sheet);
    }
    end
}

impl Stage {
    fn new(plan: &Plan, dialect: Dialect, part: &'static str) -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("tieline-check-").tempdir()?;
        std::fs::write(folder.path().join("a.txt"), "one\ntwo\nthree\n")?;
        let sheet = Sheet::new(Side::Agent, dialect);
        let (plan, offers) = (plan.clone(), json!({}));
        Ok(Self { plan, dialect, part, folder, peer: None, sheet, offers, mute: false, end: END })
    }

    async fn play(mut self) -> Sheet {
        let played = match self.part {
            "probes" => probes::play(&mut self).await,
            "hello" => self.hello().await,
            "turn" => self.turn().await,
            "sessions" => self.sessions().await,
            "cancel" => self.cancel().await,
            "cancel-question" => self.cancel_question().await,
            "permission" => self.permission().await,
            "tools" => self.tools().await,
            "content" => self.content().await,
            "load" => self.load().await,
            "resume" => self.resume().await,
            "list" => self.list().await,
            "close" => self.close().await,
            "options" => self.options().await,
            _ => self.end().await,
        };
        if let Err(stop) = played {
            self.blame(&stop);
            if let Stop(Why::Barred | Why::Login, why) = &stop {
                self.sheet.barred = Some(why.clone());
            }
            let idle = if stop.0 == Why::NotFor { Verdict::NotApplicable } else { Verdict::NotExercised };
            self.sheet.leave(self.part, idle, &stop.1);
        }
        self.done().await;
        self.sheet
    }

    /// Why it can't go on is broken, too, if that is a fault of the agent.
    pub fn blame(&mut self, stop: &Stop) {
        let id = match stop.0 {
            Why::Gone => "agent-lives",
            Why::Late => "agent-answers",
            Why::Endless => "turn-ends",
            Why::Barred => "sessions-differ",
            Why::Login | Why::Skip | Why::NotFor | Why::Unspoken => return,
        };
        self.add(id, Verdict::Broken, &stop.1);
    }

    pub fn wants(&self, check: &Check) -> bool {
        check.applies(Side::Agent, self.dialect) && (self.plan.wanted)(check)
    }

    async fn greeted(&mut self) -> Result<(), Stop> {
        let peer = Peer::start(&self.plan.settings, self.dialect, self.folder.path()).await?;
        let peer = self.peer.insert(peer);
        peer.mute = self.mute;
        peer.greet(&self.offers).await
    }

    pub async fn ready(&mut self) -> Result<Value, Stop> {
        self.greeted().await?;
        let setup = self.peer()?.open().await?;
        self.sheet.opened = true;
        Ok(setup)
    }

    /// The same, if the agent offers to do something with sessions.
    async fn ready_to(&mut self, what: &str) -> Result<(), Stop> {
        self.ready().await?;
        let can = self.peer()?.offers(&format!("session/{what}"));
        can.then_some(()).ok_or_else(|| Stop(Why::NotFor, format!("the agent does not offer to {what} sessions")))
    }

    pub fn peer(&mut self) -> Result<&mut Peer, Stop> {
        self.peer.as_mut().ok_or_else(|| Stop(Why::Skip, "there is no agent".into()))
    }

    /// Ends the agent, and lets the laws look at what was said. False if it had to be killed.
    pub async fn done(&mut self) -> bool {
        let mut ended = true;
        if let Some(mut peer) = self.peer.take() {
            ended = peer.finish(self.end).await.is_some();
            peer.witness.judged(self.part, &mut self.sheet);
            for id in ["agent-answers", "agent-lives"] {
                peer.witness.found(id, Verdict::Holds, "", self.part, &mut self.sheet);
            }
        }
        ended
    }

    pub fn add(&mut self, id: &str, verdict: Verdict, said: &str) {
        let nobody = Witness::default();
        let witness = self.peer.as_ref().map_or(&nobody, |peer| &peer.witness);
        witness.found(id, verdict, said, self.part, &mut self.sheet);
    }

    /// A finding is about this frame.
    pub fn point(&mut self, id: &str, frame: usize) {
        if let Some(finding) = self.sheet.findings.get_mut(id) {
            finding.frame = frame;
        }
    }

    /// None of these is for this agent, or none could be looked at.
    fn leave(&mut self, ids: &[&str], verdict: Verdict, why: &str) {
        for id in ids {
            self.add(id, verdict, why);
        }
    }

    pub fn expect(&mut self, id: &str, holds: bool, said: impl FnOnce() -> String) {
        let (verdict, said) = Verdict::of(holds, said);
        self.add(id, verdict, &said);
    }

    /// A request has to be refused, perhaps with this code. What is wrong with an error that has none is said by the laws.
    pub fn expect_refusal(&mut self, id: &str, reply: &Value, code: Option<i64>) {
        let found = reply["error"]["code"].as_i64();
        if found.is_none() && reply.get("error").is_some() {
            return self.add(id, Verdict::NotExercised, "the error has no `code` that can be read");
        }
        let fine = found.is_some() && (code.is_none() || found == code);
        self.expect(id, fine, || format!("this came back: {reply}"));
    }

    /// A turn that was cancelled has to end, and with `cancelled`. False if it did not end. One that was not surely under way may have
    /// ended by itself.
    async fn ends_cancelled(&mut self, id: &str, prompt: i64, sure: bool) -> Result<bool, Stop> {
        let (verdict, said) = match self.peer()?.end(prompt).await {
            Ok(turn) if !sure && turn.stop == "withdrawn" => (Verdict::Holds, String::new()),
            Ok(turn) if !sure && !["cancelled", "error"].contains(&&*turn.stop) => {
                (Verdict::NotExercised, format!("it stopped with {:?}, maybe before the cancel came", turn.stop))
            }
            Ok(turn) => Verdict::of(turn.stop == "cancelled", || format!("the turn stopped with {:?}", turn.stop)),
            Err(Stop(Why::Late | Why::Endless, why)) => {
                self.add(id, Verdict::Broken, &why);
                return Ok(false);
            }
            Err(stop) => return Err(stop),
        };
        self.add(id, verdict, &said);
        Ok(true)
    }

    /// Words that make the agent do something.
    fn words(&mut self, what: &str) -> Result<String, Stop> {
        let peer = self.peer()?;
        peer.prompts.get(what, &peer.folder).ok_or_else(|| {
            Stop(Why::Skip, format!("no prompt is known for `{what}`: give one with --prompts, or use --model-server"))
        })
    }

    /// A whole turn in which it does something.
    async fn prompt(&mut self, what: &str) -> Result<Turn, Stop> {
        let words = self.words(what)?;
        self.peer()?.prompt(&words).await
    }

    async fn say(&mut self) -> Result<Turn, Stop> {
        self.prompt("say").await
    }

    /// A turn that goes on until it is cancelled, and is surely under way. Gives the id of its prompt.
    async fn wait(&mut self) -> Result<i64, Stop> {
        let words = self.words("wait")?;
        let peer = self.peer()?;
        let id = peer.begin(&words).await?;
        if !peer.turn.updates.iter().any(is_work) {
            let seen = peer.until("the turn does not begin", |message| is_work(&message["params"]["update"])).await;
            seen.map_err(late)?;
        }
        if peer.is_over(id).await? {
            return Err(Stop(Why::Skip, "the turn of `wait` ended by itself, before it could be cancelled".into()));
        }
        Ok(id)
    }

    /// True if the agent has written the file that it was asked to write.
    fn made(&self) -> bool {
        self.folder.path().join("made.txt").exists()
    }
}
