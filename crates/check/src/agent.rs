//! Scenarios for agents: each plays a client for one fresh process, and asserts checks along the way.

mod checks;
mod options;
mod sessions;
mod turns;
mod work;

pub use checks::{CHECKS, SCENARIOS, scenarios};

use crate::peer::{Peer, Settings, Stop, Turn};
use crate::probes;
use crate::sheet::{Sheet, Verdict};
use crate::table::Check;
use crate::witness::Witness;
use checks::part_checks;
use serde_json::{Value, json};
use std::sync::Arc;
use tieline_schema::Dialect;
use tieline_trace::Side;
use tokio::sync::Semaphore;

/// Where a scenario is played.
pub(crate) struct Stage {
    settings: Settings,
    dialect: Dialect,
    part: &'static str,
    folder: tempfile::TempDir,
    pub peer: Option<Peer>,
    sheet: Sheet,
    offers: Value,
    wanted: Arc<dyn Fn(&Check) -> bool + Send + Sync>,
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
    let mut first = match Stage::new(plan, dialect, "start") {
        Ok(stage) => stage,
        Err(why) => {
            sheet.dead = Some(why);
            return sheet;
        }
    };
    match first.greeted().await {
        Ok(()) => first.done().await,
        Err(Stop::Skip(why)) if why.contains("does not speak") => sheet.unspoken = Some(why),
        Err(stop) => sheet.dead = Some(stop.said()),
    }
    if sheet.dead.is_some() || sheet.unspoken.is_some() {
        sheet.complete(&*plan.wanted);
        return sheet;
    }
    sheet.merge(first.sheet);
    let mut tasks = tokio::task::JoinSet::new();
    for part in SCENARIOS.into_iter().filter(|part| plan.only.is_empty() || plan.only.contains(part)) {
        let (plan, places) = (plan.clone(), places.clone());
        tasks.spawn(async move {
            let _place = places.acquire_owned().await;
            let sheet = match Stage::new(&plan, dialect, part) {
                Ok(stage) => stage.play().await,
                Err(_) => Sheet::new(Side::Agent, dialect),
            };
            (plan.progress)(dialect, part);
            sheet
        });
    }
    while let Some(done) = tasks.join_next().await {
        if let Ok(done) = done {
            sheet.merge(done);
        }
    }
    sheet.complete(&*plan.wanted);
    sheet
}

impl Stage {
    fn new(plan: &Plan, dialect: Dialect, part: &'static str) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("tieline-check-").tempdir().map_err(|error| error.to_string())?;
        std::fs::write(folder.path().join("a.txt"), "one\ntwo\nthree\n").map_err(|error| error.to_string())?;
        Ok(Self {
            settings: plan.settings.clone(),
            dialect,
            part,
            folder,
            peer: None,
            sheet: Sheet::new(Side::Agent, dialect),
            offers: json!({}),
            wanted: plan.wanted.clone(),
        })
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
        match played {
            Ok(()) => {}
            Err(Stop::Gone(why)) => self.add("agent-lives", Verdict::Broken, &why),
            Err(Stop::Late(why)) => self.add("agent-answers", Verdict::Broken, &why),
            Err(Stop::Skip(why)) => self.leave(part_checks(self.part), &Verdict::NotExercised, &why),
        }
        self.done().await;
        self.sheet
    }

    pub fn wants(&self, check: &Check) -> bool {
        check.applies(Side::Agent, self.dialect) && (self.wanted)(check)
    }

    async fn greeted(&mut self) -> Result<(), Stop> {
        let offers = self.offers.clone();
        self.peer = Some(Peer::greeted(&self.settings, self.dialect, self.folder.path(), offers).await?);
        Ok(())
    }

    pub async fn ready(&mut self) -> Result<Value, Stop> {
        self.greeted().await?;
        self.peer()?.open().await
    }

    pub fn peer(&mut self) -> Result<&mut Peer, Stop> {
        self.peer.as_mut().ok_or_else(|| Stop::Skip("there is no agent".into()))
    }

    /// Ends the agent, and lets the laws look at what was said.
    pub async fn done(&mut self) {
        if let Some(mut peer) = self.peer.take() {
            peer.finish().await;
            peer.witness.judged(Side::Agent, self.dialect, self.part, &mut self.sheet);
            for id in ["agent-answers", "agent-lives"] {
                self.sheet.add_some(peer.witness.finding(id, Verdict::Holds, "", self.part));
            }
        }
    }

    pub fn add(&mut self, id: &str, verdict: Verdict, said: &str) {
        let finding = match &self.peer {
            Some(peer) => peer.witness.finding(id, verdict, said, self.part),
            None => Witness::default().finding(id, verdict, said, self.part),
        };
        self.sheet.add_some(finding);
    }

    /// A finding is about this frame.
    pub fn point(&mut self, id: &str, frame: usize) {
        if let Some(finding) = self.sheet.findings.get_mut(id) {
            finding.frame = frame;
        }
    }

    /// None of these is for this agent, or none could be looked at.
    fn leave(&mut self, ids: &[&str], verdict: &Verdict, why: &str) {
        for id in ids {
            self.add(id, verdict.clone(), why);
        }
    }

    pub fn expect(&mut self, id: &str, holds: bool, said: impl FnOnce() -> String) {
        if holds {
            self.add(id, Verdict::Holds, "");
        } else {
            self.add(id, Verdict::Broken, &said());
        }
    }

    /// A turn that was cancelled has to end, and with `cancelled`. False if it did not end.
    async fn ends_cancelled(&mut self, id: &str, prompt: i64) -> Result<bool, Stop> {
        match self.peer()?.end(prompt).await {
            Ok(turn) => {
                self.expect(id, turn.stop == "cancelled", || format!("the turn stopped with {:?}", turn.stop));
                Ok(true)
            }
            Err(Stop::Skip(why)) => {
                self.expect(id, false, || why);
                Ok(false)
            }
            Err(stop) => Err(stop),
        }
    }

    /// Words that make the agent do something.
    fn words(&mut self, what: &str) -> Result<String, Stop> {
        let folder = self.peer()?.folder.to_string_lossy().into_owned();
        let prompts = &self.peer()?.prompts;
        let words = match what {
            "say" => &prompts.say,
            "read" => &prompts.read,
            "write" => &prompts.write,
            "wait" => &prompts.wait,
            _ => &prompts.fail,
        };
        let words = words.as_ref().map(|words| words.replace("{cwd}", &folder));
        words.ok_or_else(|| {
            Stop::Skip(format!("no prompt is known for `{what}`: give one with --prompts, or use --model-server"))
        })
    }

    async fn say(&mut self) -> Result<Turn, Stop> {
        let words = self.words("say")?;
        self.peer()?.prompt(&words).await
    }

    fn not_applicable(&mut self, why: &str) {
        self.leave(part_checks(self.part), &Verdict::NotApplicable, why);
    }
}
