//! What is wrong with an agent: every step from finding its command to a finished turn, with times and what to type.

mod finding;
mod fix;
mod node;

pub use finding::{Diagnosis, Finding, Status, Step};

use crate::agents::{AgentSpec, find_program};
use crate::{login, sanitize};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tieline::client::{AgentHandle, Client, Session};
use tieline::process::{ChildProcess, Guard};
use tieline::rpc::sync::Lock;
use tieline::rpc::{Direction, Transport};
use tieline::schema::{AuthMethod, Update};
use tieline::{Error, Protocol};

/// What the agent is asked; any model can answer it, and it costs next to nothing.
const QUESTION: &str = "Reply with the single word: OK. Do not use any tools.";

/// How far a check goes, and how long it may take.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long each step may take.
    pub patience: Duration,
    /// How long the turn may take.
    pub turn: Duration,
    /// False if nothing is asked of the model.
    pub ask: bool,
    /// Which protocol to ask for; otherwise what the agent's entry says.
    pub protocol: Option<Protocol>,
}

impl Default for Options {
    fn default() -> Self {
        Self { patience: Duration::from_secs(30), turn: Duration::from_mins(2), ask: true, protocol: None }
    }
}

/// Checks an agent. `tell` hears of each step as soon as it is done.
pub async fn check(agent: &AgentSpec, options: &Options, tell: impl FnMut(&Finding)) -> Diagnosis {
    let mut check = Check { agent, options, steps: Vec::new(), tell, began: Instant::now() };
    let folder = Scratch::new();
    match folder {
        Ok(folder) => check.run(&folder.0).await,
        Err(error) => check.bad(Step::Start, format!("no folder for the check can be made: {error}"), None),
    }
    for step in Step::ALL {
        if check.steps.iter().all(|finding| finding.step != step) {
            check.say(step, Status::Skipped, String::new(), None);
        }
    }
    check.steps.sort_by_key(|finding| Step::ALL.iter().position(|step| *step == finding.step));
    Diagnosis { agent: agent.name.clone(), command: agent.command.clone(), steps: check.steps }
}

/// A folder of its own for the check, so that nothing of the user's is touched.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let mut chance = [0; 8];
        getrandom::fill(&mut chance).map_err(std::io::Error::other)?;
        let folder = std::env::temp_dir().join(format!("tieline-doctor-{:016x}", u64::from_ne_bytes(chance)));
        std::fs::create_dir(&folder)?;
        Ok(Self(folder.canonicalize()?))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Check<'a, T> {
    agent: &'a AgentSpec,
    options: &'a Options,
    steps: Vec<Finding>,
    tell: T,
    began: Instant,
}

/// What the agent wrote that is no message.
type Rubbish = Arc<Mutex<(u64, String)>>;

impl<T: FnMut(&Finding)> Check<'_, T> {
    fn say(&mut self, step: Step, status: Status, detail: String, fix: Option<String>) {
        let took = if status == Status::Skipped { Duration::ZERO } else { self.began.elapsed() };
        let finding = Finding { step, status, took, detail, fix };
        (self.tell)(&finding);
        self.steps.push(finding);
        self.began = Instant::now();
    }

    fn good(&mut self, step: Step, detail: impl Into<String>) {
        self.say(step, Status::Good, detail.into(), None);
    }

    fn bad(&mut self, step: Step, detail: impl Into<String>, fix: Option<String>) {
        self.say(step, Status::Bad, detail.into(), fix);
    }

    async fn run(&mut self, folder: &Path) {
        if !self.find().await {
            return;
        }
        let Some((transport, child)) = self.start(folder).await else { return };
        let rubbish = Rubbish::default();
        if let Some(handle) = self.greet(transport, &child, &rubbish).await {
            self.talk(&handle, &child, folder).await;
            self.exit(&handle, &child, &rubbish).await;
        } else {
            child.kill();
            let _ = tokio::time::timeout(Duration::from_secs(5), child.exit()).await;
        }
    }

    async fn find(&mut self) -> bool {
        let name = self.agent.command.first().map(String::as_str).unwrap_or_default();
        let Some(program) = find_program(OsStr::new(name), self.agent.cwd.as_deref()) else {
            let (why, fix) = fix::of_missing(self.agent, name);
            self.bad(Step::Find, why, Some(fix));
            return false;
        };
        let shown = tieline_host::roots::shown(&program);
        match node::check(&program).await {
            node::Node::None => self.good(Step::Find, shown),
            node::Node::Fits(version) => self.good(Step::Find, format!("{shown}, on Node.js {version}")),
            node::Node::Missing => {
                let fix = "install Node.js, and see that `node --version` works".to_owned();
                self.bad(Step::Find, format!("{shown} needs Node.js, and there is no `node` on PATH"), Some(fix));
                return false;
            }
            node::Node::TooOld { version, wants } => {
                let detail = format!("{shown} wants Node.js {wants}, and `node --version` says {version}");
                self.say(Step::Find, Status::Odd, detail, Some(fix::newer_node(&wants)));
            }
        }
        true
    }

    async fn start(&mut self, folder: &Path) -> Option<(Transport, ChildProcess)> {
        let spec = match self.agent.spec(folder).await {
            Ok(spec) => spec.guard(Guard::IfPossible),
            Err(error) => {
                self.bad(Step::Start, error.to_string(), None);
                return None;
            }
        };
        match ChildProcess::spawn(&spec).await {
            Ok((pipes, child)) => {
                self.good(Step::Start, format!("process {}", child.id()));
                Some((Transport::new(pipes.output, pipes.input), child))
            }
            Err(error) => {
                self.bad(Step::Start, sanitize::line(&error.to_string()), Some(fix::by_hand(self.agent)));
                None
            }
        }
    }

    async fn greet(&mut self, transport: Transport, child: &ChildProcess, rubbish: &Rubbish) -> Option<AgentHandle> {
        let heard = Arc::clone(rubbish);
        let protocol = self.options.protocol.unwrap_or_else(|| self.agent.protocol_or_default());
        let client = Client::new("tieline-doctor", env!("CARGO_PKG_VERSION"))
            .protocol(protocol)
            .framing(self.agent.framing)
            .hello_deadline(self.options.patience)
            .set_up_deadline(self.options.patience)
            .deadline(self.options.patience)
            .tap(move |direction, frame| {
                if direction == Direction::In && !matches!(frame.trim_ascii_start().first(), Some(b'{' | b'[') | None) {
                    let mut heard = heard.locked();
                    heard.0 += 1;
                    if heard.1.is_empty() {
                        heard.1 = String::from_utf8_lossy(&frame[..frame.len().min(200)]).into_owned();
                    }
                }
            });
        match client.connect(transport).await {
            Ok(handle) => {
                let who = handle.info().map(|info| format!("{} {}", info.name, info.version)).unwrap_or_default();
                self.good(
                    Step::Initialize,
                    sanitize::line(format!("{who}, protocol {}", handle.dialect()).trim_start_matches(", ")),
                );
                Some(handle)
            }
            Err(error) => {
                let (why, fix) = self.explain(error, child).await;
                let (count, first) = rubbish.locked().clone();
                let (why, fix) = match count {
                    0 => (why, fix),
                    _ => (format!("{why}; it printed {}", words_of(count, &first)), fix::rubbish(self.agent)),
                };
                self.bad(Step::Initialize, why, Some(fix));
                None
            }
        }
    }

    /// An error in words, with the end of the process if that is the reason, and what to type.
    async fn explain(&self, error: Error, child: &ChildProcess) -> (String, String) {
        let mut why = error.to_string();
        let mut ended = false;
        if matches!(error, Error::Closed(_))
            && let Ok(reason) = tokio::time::timeout(Duration::from_secs(1), child.exit()).await
        {
            why = format!("the agent {reason}");
            ended = true;
        }
        let fix = fix::of_error(self.agent, &error, &child.stderr_tail(), ended);
        (sanitize::text(&why), fix)
    }

    async fn talk(&mut self, handle: &AgentHandle, child: &ChildProcess, folder: &Path) {
        let cwd = folder.to_string_lossy().into_owned();
        let session = match handle.open(cwd).await {
            Ok(session) => session,
            Err(error) if login::is_needed(&error) => {
                let (why, fix) = self.login_words(&error, handle.auth_methods());
                self.bad(Step::Login, why, Some(fix));
                return;
            }
            Err(error) => {
                let (why, fix) = self.explain(error, child).await;
                self.good(Step::Login, "not asked for");
                self.bad(Step::Session, why, Some(fix));
                return;
            }
        };
        let ways = handle.auth_methods().len();
        let began = self.began;
        self.good(
            Step::Login,
            if ways == 0 { "not needed".to_owned() } else { format!("not asked for ({ways} ways offered)") },
        );
        // Both come with one answer.
        if let Some(login) = self.steps.last_mut() {
            login.took = Duration::ZERO;
        }
        self.began = began;
        self.good(Step::Session, sanitize::line(&format!("session {}", session.id())));
        if self.options.ask {
            self.turn(&session, handle, child).await;
        }
        tidy(session, handle).await;
    }

    fn login_words(&self, error: &Error, methods: &[AuthMethod]) -> (String, String) {
        let names: Vec<String> = methods.iter().map(|method| format!("{} ({})", method.id(), method.name())).collect();
        let offered = if names.is_empty() { "it offers no way".to_owned() } else { names.join(", ") };
        // It may say what to type.
        let said: String = login::words(error).chars().take(300).collect();
        (sanitize::line(&format!("login is needed: {offered}; it says: {said}")), fix::log_in(self.agent, methods))
    }

    async fn turn(&mut self, session: &Session, handle: &AgentHandle, child: &ChildProcess) {
        let limit = self.options.turn;
        let asked = async {
            let mut turn = session.prompt(QUESTION).await?;
            let mut said = String::new();
            let mut first = None;
            while let Some(update) = turn.next().await {
                first.get_or_insert_with(Instant::now);
                if let Update::Chunk(chunk) = &update {
                    said.push_str(chunk.content.as_text().unwrap_or_default());
                    said.truncate(said.floor_char_boundary(400));
                }
            }
            turn.stop().map(|stop| (first, said, stop))
        };
        let answer = tokio::time::timeout(limit, asked).await;
        match answer {
            Ok(Ok((first, said, stop))) => {
                let began = self.began;
                let (whole, until) = (began.elapsed(), first.map(|first| first.duration_since(began)));
                let said = sanitize::line(said.trim());
                let said = if said.is_empty() {
                    "no text came".to_owned()
                } else {
                    format!("{:?} came", tieline_host::text::cut(&said, 80))
                };
                self.good(Step::Prompt, said);
                if let (Some(finding), Some(until)) = (self.steps.last_mut(), until) {
                    finding.took = until;
                }
                let stop = stop.to_string();
                let status = if stop == "end_turn" { Status::Good } else { Status::Odd };
                self.say(Step::End, status, sanitize::line(&format!("stop reason {stop}")), None);
                if let (Some(finding), Some(until)) = (self.steps.last_mut(), until) {
                    finding.took = whole.saturating_sub(until);
                }
            }
            Ok(Err(error)) if login::is_needed(&error) => {
                let (why, fix) = self.login_words(&error, handle.auth_methods());
                self.steps.retain(|finding| finding.step != Step::Login);
                self.bad(Step::Login, why, Some(fix));
            }
            Ok(Err(error)) => {
                let (why, fix) = self.explain(error, child).await;
                self.bad(Step::Prompt, why, Some(fix));
            }
            Err(_) => {
                let error = Error::TimedOut { what: "session/prompt".into(), after: limit };
                let (why, fix) = self.explain(error, child).await;
                self.bad(Step::End, why, Some(fix));
            }
        }
    }

    async fn exit(&mut self, handle: &AgentHandle, child: &ChildProcess, rubbish: &Rubbish) {
        let (count, first) = rubbish.locked().clone();
        self.began = Instant::now();
        let ((), reason) = tokio::join!(handle.peer().close(), child.shutdown());
        let status = reason.status.to_string();
        let mut odd = Vec::new();
        if !matches!(reason.status, tieline::process::Status::Code(0)) {
            odd.push(format!("the process {status}"));
        }
        if count > 0 {
            odd.push(format!("the agent printed {}", words_of(count, &first)));
        }
        if odd.is_empty() {
            self.good(Step::Exit, sanitize::line(&status));
        } else {
            self.say(Step::Exit, Status::Odd, odd.join("; "), None);
        }
    }
}

/// Leaves nothing behind at the agent, if it lets us. Each call has its deadline.
async fn tidy(session: Session, handle: &AgentHandle) {
    let (id, can) = (session.id().clone(), handle.capabilities());
    if can.close {
        let _ = session.close().await;
    }
    if can.delete {
        let _ = handle.delete(id).await;
    }
}

fn words_of(count: u64, first: &str) -> String {
    let s = if count == 1 { "a line that is" } else { "lines that are" };
    format!("{s} no message, such as {:?}", tieline_host::text::cut(&sanitize::line(first.trim()), 80))
}
