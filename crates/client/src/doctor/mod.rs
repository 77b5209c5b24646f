//! What is wrong with an agent: a run is watched, from finding its command to a finished turn, with times and what to type.

mod finding;
mod fix;
mod node;

pub use finding::{Diagnosis, Finding, Status};

use crate::agents::{AgentSpec, find_program};
use crate::live::{
    Ending, Event, Failure, Frames, Gone, LOG_IN_FIRST, NO_MESSAGE, News, Notes, Opening, PASSED_OVER, Part, Parts,
    Phase, Setup, When,
};
use crate::run::{self, Outcome, Plan, Progress, Watch};
use crate::sanitize;
use crate::services::Services;
use finding::{STEPS, name};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline::Protocol;
use tieline::process::Status as Exit;
use tieline::schema::StopReason;
use tieline_host::text::cut;

/// What the agent is asked; any model can answer it, and it costs next to nothing.
const QUESTION: &str = "Reply with the single word: OK. Do not use any tools.";
/// So much of the answer is kept.
const MAX_SAID_BYTES: usize = 400;

/// How far a check goes, and how long it may take.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long everything may take up to the turn.
    pub patience: Duration,
    /// How long the agent may be silent in the turn.
    pub turn: Duration,
    /// False if nothing is asked of the model.
    pub ask: bool,
    /// Which protocol to ask for; otherwise what the agent's entry says.
    pub protocol: Option<Protocol>,
}

/// Checks an agent. `tell` hears of each step as soon as it is known how it went.
pub async fn check(agent: &AgentSpec, options: &Options, tell: impl FnMut(&Finding)) -> Diagnosis {
    let check = Check(RefCell::new(Seen {
        steps: Vec::new(),
        tell,
        began: Instant::now(),
        first: None,
        ended: None,
        logins: 0,
        said: String::new(),
    }));
    let mut ending = Ending::Done;
    if find(agent, &check).await {
        // A folder of its own, so that nothing of the user's is touched.
        match tempfile::Builder::new().prefix("tieline-doctor-").tempdir() {
            Ok(folder) => ending = watched(agent, options, &check, folder.path()).await,
            Err(error) => check.bad(Phase::Start, format!("no folder for the check can be made: {error}"), None),
        }
    }
    let mut seen = check.0.into_inner();
    for step in STEPS {
        if seen.steps.iter().all(|finding| finding.phase != step) {
            seen.say(step, Status::Skipped, Duration::ZERO, String::new(), None);
        }
    }
    seen.steps.sort_by_key(|finding| finding.phase);
    let failed = seen.steps.iter().find(|finding| finding.status == Status::Bad);
    let exit_code = match (failed.map(|finding| finding.phase), ending) {
        (None, _) => 0,
        (_, Ending::TimedOut | Ending::LoginNeeded) => ending.code(),
        (Some(Phase::Find | Phase::Start | Phase::Initialize), _) => Ending::NotStarted.code(),
        _ => Ending::Failed.code(),
    };
    Diagnosis { agent: agent.name.clone(), command: agent.command.clone(), steps: seen.steps, exit_code }
}

/// Looks for the program, and for what it needs to run.
async fn find<T: FnMut(&Finding)>(agent: &AgentSpec, check: &Check<T>) -> bool {
    if agent.address().is_some() {
        check.good(Phase::Find, sanitize::line(&agent.name));
        return true;
    }
    let name = agent.command.first().map(String::as_str).unwrap_or_default();
    let Ok(program) = find_program(OsStr::new(name), agent.cwd.as_deref()) else {
        let (why, fix) = fix::of_missing(agent, name);
        check.bad(Phase::Find, why, Some(fix));
        return false;
    };
    let shown = tieline_host::roots::shown(&program);
    match node::check(&program).await {
        node::Node::None => check.good(Phase::Find, shown),
        node::Node::Fits(version) => check.good(Phase::Find, format!("{shown}, on Node.js {version}")),
        node::Node::Missing => {
            let fix = "install Node.js, and see that `node --version` works".to_owned();
            check.bad(Phase::Find, format!("{shown} needs Node.js, and there is no `node` on PATH"), Some(fix));
            return false;
        }
        node::Node::TooOld { version, wants } => {
            let detail = format!("{shown} wants Node.js {wants}, and `node --version` says {version}");
            check.say(Phase::Find, Status::Odd, detail, Some(fix::newer_node(&wants)));
        }
    }
    true
}

/// Runs the agent in the folder, and says what came of it. Gives how the run ended.
async fn watched<T: FnMut(&Finding)>(agent: &AgentSpec, options: &Options, check: &Check<T>, folder: &Path) -> Ending {
    let none: [PathBuf; 0] = [];
    let services = match Services::builder(folder, none) {
        Ok(builder) => builder.files(false).terminals(false).build(),
        Err(error) => {
            check.bad(Phase::Start, error.to_string(), None);
            return Ending::Failed;
        }
    };
    // An agent elsewhere does not have that folder; it knows those that others work in.
    let here = agent.address().and_then(|_| std::env::current_dir().ok());
    let plan = Plan {
        setup: Setup {
            cwd: folder.to_owned(),
            protocol: options.protocol.unwrap_or_else(|| agent.protocol_or_default()),
            framing: agent.framing,
            start_limit: options.patience,
            agent: agent.clone(),
            ..Setup::default()
        },
        opening: Opening { cwd: here.unwrap_or_else(|| folder.to_owned()), forget: true, ..Opening::default() },
        prompt: options.ask.then(|| Part::Text(QUESTION.to_owned())).into_iter().collect(),
        limit: Some(options.patience + options.turn),
        idle_limit: Some(options.turn),
        schema: None,
    };
    let notes = Notes::default();
    let frames = Arc::new(Frames::new(notes.clone()));
    let (_stop, mut stops) = tokio::sync::mpsc::channel(1);
    let outcome = run::run(plan, Parts { services, notes, frames, chooser: None }, check, &mut stops).await;
    let greeted = outcome.agent.protocol.is_some();
    let rubbish = rubbish(&outcome);
    match (&outcome.stop, &outcome.failure) {
        (Some(stop), _) => check.turn(agent, stop),
        (None, Some(failure)) => {
            check.failed(agent, failure, rubbish.as_deref().filter(|_| !greeted), &outcome.warnings);
        }
        (None, None) => {}
    }
    if let Some(status) = outcome.exit.filter(|_| greeted) {
        check.exit(status, rubbish);
    }
    outcome.ending
}

/// What the agent wrote that is no message, in words.
fn rubbish(outcome: &Outcome) -> Option<String> {
    let mut lines = outcome.warnings.iter().filter_map(|warning| warning.strip_prefix(NO_MESSAGE));
    let first = cut(&sanitize::line(lines.next()?.trim()), 80);
    let what = if lines.next().is_none() { "a line that is" } else { "lines that are" };
    Some(format!("printed {what} no message, such as {first:?}"))
}

/// Watches a run.
struct Check<T>(RefCell<Seen<T>>);

/// What was seen so far.
struct Seen<T> {
    steps: Vec<Finding>,
    tell: T,
    /// When the step began that runs.
    began: Instant,
    /// When something first came in the turn.
    first: Option<Instant>,
    /// When the agent was made to end.
    ended: Option<Instant>,
    logins: usize,
    said: String,
}

impl<T: FnMut(&Finding)> Seen<T> {
    fn say(&mut self, phase: Phase, status: Status, took: Duration, detail: String, fix: Option<String>) {
        let finding = Finding { phase, step: name(phase), status, took, detail, fix };
        (self.tell)(&finding);
        self.steps.push(finding);
        self.began = Instant::now();
    }
}

impl<T: FnMut(&Finding)> Check<T> {
    fn say(&self, step: Phase, status: Status, detail: impl Into<String>, fix: Option<String>) {
        let mut seen = self.0.borrow_mut();
        let took = seen.began.elapsed();
        seen.say(step, status, took, detail.into(), fix);
    }

    fn good(&self, step: Phase, detail: impl Into<String>) {
        self.say(step, Status::Good, detail, None);
    }

    fn bad(&self, step: Phase, detail: impl Into<String>, fix: Option<String>) {
        self.say(step, Status::Bad, detail, fix);
    }

    /// That no login was asked for comes with the answer to something else.
    fn no_login(&self) {
        let mut seen = self.0.borrow_mut();
        let (ways, began) = (seen.logins, seen.began);
        let detail = if ways == 0 { "not needed".to_owned() } else { format!("not asked for ({ways} ways offered)") };
        seen.say(Phase::Login, Status::Good, Duration::ZERO, detail, None);
        seen.began = began;
    }

    /// The turn ended, for a reason.
    fn turn(&self, agent: &AgentSpec, stop: &StopReason) {
        let mut seen = self.0.borrow_mut();
        let ended = seen.ended.unwrap_or_else(Instant::now);
        let first = seen.first.unwrap_or(ended);
        let said = sanitize::line(seen.said.trim());
        let detail = if said.is_empty() { "no text came".to_owned() } else { format!("{:?} came", cut(&said, 80)) };
        let (until, rest) = (first.saturating_duration_since(seen.began), ended.saturating_duration_since(first));
        // It was asked to say a word.
        let status = if said.is_empty() && *stop == StopReason::EndTurn { Status::Odd } else { Status::Good };
        seen.say(Phase::Prompt, status, until, detail, None);
        let detail = sanitize::line(&format!("stop reason {stop}"));
        match stop {
            StopReason::EndTurn => seen.say(Phase::Turn, Status::Good, rest, detail, None),
            // The offline agent names the ways to a model when it is asked for what only one can do.
            StopReason::Refusal if agent.is_built_in() && said.contains("tieline models") => {
                let detail = "it works, but no language model is set up yet".to_owned();
                seen.say(Phase::Turn, Status::Good, rest, detail, Some("tieline models".to_owned()));
            }
            _ => seen.say(Phase::Turn, Status::Odd, rest, detail, None),
        }
    }

    /// The run failed; `rubbish` is what came in the place of a hello.
    fn failed(&self, agent: &AgentSpec, failure: &Failure, rubbish: Option<&str>, warnings: &[String]) {
        let (mut why, mut fix) = (failure.message.clone(), fix::of_failure(agent, failure));
        let step = match (failure.ending, failure.phase) {
            // Before that it is the server that wants a credential.
            (Ending::LoginNeeded, phase) if phase > Phase::Initialize => Phase::Login,
            (Ending::TimedOut, phase) => phase,
            // What fails in the turn never came to an answer.
            (_, Phase::Turn) => Phase::Prompt,
            (_, phase) => phase,
        };
        if let (Ending::TimedOut, Some(reached)) = (failure.ending, &failure.limit) {
            let what = match step {
                Phase::Initialize => "initialize",
                Phase::Session => "session/new",
                Phase::Turn => "session/prompt",
                step => step.waits_for(),
            };
            why = format!("{what}: no answer after {} s", reached.limit);
            // It may have come, and nobody could use it.
            for said in warnings.iter().filter(|said| said.starts_with(PASSED_OVER)) {
                why.extend(["; ", said]);
            }
        } else if step == Phase::Login && failure.ending == Ending::LoginNeeded {
            self.0.borrow_mut().steps.retain(|finding| finding.phase != Phase::Login);
            let ways: Vec<_> = failure.logins.iter().map(|way| format!("{} ({})", way.id(), way.name())).collect();
            let offered = if ways.is_empty() { "it offers no way".to_owned() } else { ways.join(", ") };
            // It may say what to type.
            let said = cut(why.strip_prefix(LOG_IN_FIRST).unwrap_or(&why), 300);
            why = sanitize::line(&format!("login is needed: {offered}; it says: {said}"));
        } else if failure.exit.is_some() && !failure.stderr.is_empty() {
            why = format!("{why}; last lines of stderr: {}", failure.stderr.join("\n"));
        }
        if let Some(rubbish) = rubbish {
            (why, fix) = (format!("{why}; it {rubbish}"), fix::rubbish(agent));
        }
        if step == Phase::Session {
            self.no_login();
        }
        self.bad(step, sanitize::text(&why), Some(fix));
    }

    fn exit(&self, status: Exit, rubbish: Option<String>) {
        let mut seen = self.0.borrow_mut();
        seen.began = seen.ended.unwrap_or(seen.began);
        drop(seen);
        let ended = (status != Exit::Code(0)).then(|| format!("the process {status}"));
        let odd: Vec<_> = ended.into_iter().chain(rubbish.map(|rubbish| format!("the agent {rubbish}"))).collect();
        if odd.is_empty() {
            self.good(Phase::End, status.to_string());
        } else {
            self.say(Phase::End, Status::Odd, odd.join("; "), None);
        }
    }
}

impl<T: FnMut(&Finding)> Watch for Check<T> {
    async fn see(&self, event: Event) -> Result<(), Gone> {
        match event {
            Event::Started(pid) => self.good(Phase::Start, format!("process {pid}")),
            Event::Agent(about) => {
                // One that runs elsewhere was not started by us.
                if self.0.borrow().steps.iter().all(|finding| finding.phase != Phase::Start) {
                    let mut seen = self.0.borrow_mut();
                    let began = seen.began;
                    seen.say(Phase::Start, Status::Good, Duration::ZERO, "connected".to_owned(), None);
                    seen.began = began;
                }
                self.0.borrow_mut().logins = about.logins;
                let who: Vec<&str> = about.name.iter().chain(&about.version).map(String::as_str).collect();
                let who = format!("{}, protocol {}", who.join(" "), about.protocol.as_deref().unwrap_or_default());
                self.good(Phase::Initialize, sanitize::line(who.trim_start_matches(", ")));
            }
            Event::Session(session) => {
                self.no_login();
                let id = session.agent_id.as_deref().unwrap_or_default();
                self.good(Phase::Session, sanitize::line(&format!("session {id}")));
            }
            Event::Said { news, when: When::Turn, .. } => {
                let mut seen = self.0.borrow_mut();
                seen.first.get_or_insert_with(Instant::now);
                if let News::More(text) | News::Fresh(text) | News::Instead(text) = news {
                    seen.said.push_str(&text);
                    let end = seen.said.floor_char_boundary(MAX_SAID_BYTES);
                    seen.said.truncate(end);
                }
            }
            Event::Update { when: When::Turn, .. } => {
                self.0.borrow_mut().first.get_or_insert_with(Instant::now);
            }
            _ => {}
        }
        Ok(())
    }

    fn hear(&self, progress: Progress) {
        let mut seen = self.0.borrow_mut();
        match progress {
            Progress::Phase(Phase::Turn) => seen.began = Instant::now(),
            Progress::Phase(Phase::End) => seen.ended = Some(Instant::now()),
            _ => {}
        }
    }
}
