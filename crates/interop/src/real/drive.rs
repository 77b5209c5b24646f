//! One prompt to a real agent, through `tieline exec`, as a script would do it.

use super::agents::Agent;
use super::install::Installed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tieline_model_server::Profile;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

/// `exec` ends a run after this long, however slow the machine is.
const RUN: &str = "8m";
/// It does so itself; this is for the case that it does not.
const PATIENCE: Duration = Duration::from_mins(9);

/// What happened in a turn, as `tieline exec` told it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The exit code.
    pub code: Option<i32>,
    /// The closing object.
    pub end: Value,
    /// How many closing objects there were.
    pub ends: usize,
    /// Its tool calls by id: kind, status, title.
    pub calls: BTreeMap<String, (String, String, String)>,
    /// What it asked for, and the answer.
    pub asked: Vec<String>,
    /// What it had the client do: files and commands.
    pub services: BTreeMap<String, usize>,
    /// The end of the standard error.
    pub errors: String,
}

impl Outcome {
    /// What the agent said.
    pub fn text(&self) -> &str {
        self.end["text"].as_str().unwrap_or_default()
    }

    fn take(&mut self, event: Value) {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            // `json` has one object and no type.
            Some("end") | None => {
                self.end = event;
                self.ends += 1;
            }
            Some("tool") => {
                self.calls.insert(text("id"), (text("kind"), text("status"), text("title")));
            }
            Some("permission") if text("method") == "session/request_permission" => {
                self.asked.push(format!("{}: {}", text("answer"), event["about"]));
            }
            Some(kind @ ("read" | "wrote" | "command")) => *self.services.entry(kind.into()).or_default() += 1,
            _ => {}
        }
    }
}

/// How the user decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// Allows everything.
    Allows,
    /// Is not there: what is not harmless is refused.
    IsAway,
    /// Presses Ctrl-C as soon as the agent says something.
    Interrupts,
}

/// A turn to be done.
pub struct Turn<'a> {
    /// The agent.
    pub agent: &'a Agent,
    /// Where it is installed.
    pub installed: &'a Installed,
    /// Its home folder.
    pub home: &'a Path,
    /// The model server.
    pub url: &'a str,
    /// The project.
    pub folder: &'a Path,
    /// The version of the protocol.
    pub protocol: &'a str,
    /// The agent stands behind a bridge, which asks it for this version.
    pub bridge: Option<&'a str>,
    /// What is said.
    pub prompt: &'a str,
    /// Who decides.
    pub user: User,
}

impl Turn<'_> {
    /// Runs `tieline exec` and tells what came of it.
    pub async fn run(&self) -> Result<Outcome, String> {
        follow(self.command()?, self.user == User::Interrupts).await
    }

    /// The agent's command, behind a bridge if one is wanted.
    pub(super) fn words(&self) -> Result<Vec<OsString>, String> {
        let mut words: Vec<OsString> = self.agent.start.1.iter().map(OsString::from).collect();
        words.insert(0, self.installed.folder.join("node_modules").join(self.agent.start.0).into());
        if !self.agent.native {
            words.insert(0, self.installed.node.join("node").into());
        }
        if let Some(protocol) = self.bridge {
            let bridge = ["bridge", "--agent-protocol", protocol, "--"].map(OsString::from);
            words.splice(0..0, [beside_us("tieline")?.into()].into_iter().chain(bridge));
        }
        Ok(words)
    }

    /// A clean environment in which the agent finds its model.
    pub(super) fn at_home(&self, command: &mut Command) -> Result<(), String> {
        let profile = Profile::named(self.agent.name).ok_or("there is no such profile")?;
        let variables = profile.prepare(self.home, self.url).map_err(|e| format!("{}: {e}", self.home.display()))?;
        let path = std::env::var("PATH").unwrap_or_default();
        command.env_clear().env("PATH", format!("{}:{path}", self.installed.node.display()));
        command.env("LANG", "C.UTF-8").envs(variables);
        Ok(())
    }

    fn command(&self) -> Result<Command, String> {
        let mut command = Command::new(beside_us("tieline")?);
        command.args(["exec", "--timeout", RUN, "--start-timeout", "4m", "--protocol", self.protocol, "--cwd"]);
        command.arg(self.folder).arg("--format");
        match self.user {
            User::Allows | User::Interrupts => command.args(["stream-json", "--allow-all"]),
            User::IsAway => command.arg("json"),
        };
        command.arg(self.prompt).arg("--").args(self.words()?);
        self.at_home(&mut command)?;
        Ok(command)
    }
}

/// Runs `tieline exec` with a JSON format and tells what came of it.
pub async fn follow(mut command: Command, interrupt: bool) -> Result<Outcome, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|e| format!("tieline cannot be started: {e}"))?;
    match tokio::time::timeout(PATIENCE, listen(&mut child, interrupt)).await {
        Ok(outcome) => outcome.map_err(|e| format!("tieline exec: {e}")),
        Err(_) => Err("tieline exec did not end".into()),
    }
}

async fn listen(child: &mut Child, mut interrupt: bool) -> std::io::Result<Outcome> {
    let mut outcome = Outcome::default();
    let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(std::io::Error::other("no pipes"));
    };
    let errors = tokio::spawn(async move {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text).await;
        String::from_utf8_lossy(&text).lines().rev().take(30).map(|line| format!("{line}\n")).collect::<Vec<_>>()
    });
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        let event: Value = serde_json::from_str(&line).map_err(|e| std::io::Error::other(format!("{e}: {line}")))?;
        if interrupt && event["type"] == "text" {
            interrupt = false;
            press_ctrl_c(child)?;
        }
        outcome.take(event);
    }
    outcome.code = child.wait().await?.code();
    outcome.errors = errors.await.unwrap_or_default().into_iter().rev().collect();
    Ok(outcome)
}

/// Does what Ctrl-C does.
fn press_ctrl_c(child: &Child) -> std::io::Result<()> {
    let id = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
    let id = id.ok_or_else(|| std::io::Error::other("it has ended"))?;
    Ok(rustix::process::kill_process(id, rustix::process::Signal::INT)?)
}

/// A program that was built with this one.
pub fn beside_us(name: &str) -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let path = here.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if path.is_file() { Ok(path) } else { Err(format!("{} is not built: cargo build -p tieline-cli", path.display())) }
}
