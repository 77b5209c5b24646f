//! What each real agent has to do: make a file, edit one, run a command, take a refusal, be interrupted.

use super::acpx;
use super::agents::Agent;
use super::drive::{Outcome, Turn, User};
use super::install::Installed;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tieline_model_server::{Answer, Format, ModelServer, Recorded, Script};

/// Does all tasks; the lines tell what was seen.
pub async fn all(agent: &Agent, installed: &Installed) -> Result<Vec<String>, String> {
    let stage = Stage::set(agent, installed).await?;
    let lines = stage.all().await;
    // What the model was asked, for whoever has to find out why a task failed.
    let line_of =
        |request: &Recorded| [request.path.clone(), " ".into(), request.body.to_string(), "\n".into()].concat();
    let log: String = stage.server.requests().iter().map(line_of).collect();
    let path = installed.folder.join("model-requests.log");
    fs::write(&path, log).map_err(|e| e.to_string())?;
    lines.map_err(|e| format!("{e}\n  what the model was asked: {}", path.display()))
}

/// An agent with a model server and a home folder of its own.
struct Stage<'a> {
    agent: &'a Agent,
    installed: &'a Installed,
    server: ModelServer,
    home: TempDir,
}

/// The version that the client speaks, and the one that a bridge asks the agent for, if one stands between.
type Way<'a> = (&'a str, Option<&'a str>);

fn told((protocol, bridge): Way<'_>) -> String {
    bridge.map_or_else(|| format!("protocol {protocol}"), |agent| format!("protocol {protocol} before {agent}"))
}

/// A small project.
fn project() -> Result<TempDir, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    fs::write(folder.path().join("old.txt"), "one\nbefore\nthree\n").map_err(|e| e.to_string())?;
    Ok(folder)
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|e| format!("({e})"))
}

fn check(what: &str, good: bool, seen: &impl std::fmt::Debug) -> Result<(), String> {
    if good { Ok(()) } else { Err(format!("{what}: {seen:#?}")) }
}

impl<'a> Stage<'a> {
    async fn set(agent: &'a Agent, installed: &'a Installed) -> Result<Self, String> {
        let script = Script::new(vec![Answer::text("I follow directives only.")]).compatible();
        let server = ModelServer::start(script).await.map_err(|e| e.to_string())?;
        // Codex does not put its helpers under the system's temporary folder.
        let home = tempfile::tempdir_in(&installed.folder).map_err(|e| e.to_string())?;
        Ok(Self { agent, installed, server, home })
    }

    /// Says the prompt, with `DIR` as the folder's path.
    async fn play(&self, folder: &Path, way: Way<'_>, prompt: &str, user: User) -> Result<Outcome, String> {
        let folder = folder.canonicalize().map_err(|e| e.to_string())?;
        let prompt = prompt.replace("DIR", &folder.to_string_lossy());
        let url = self.server.url();
        let (agent, installed, home, (protocol, bridge)) = (self.agent, self.installed, self.home.path(), way);
        let turn = Turn { agent, installed, home, url: &url, folder: &folder, protocol, bridge, prompt: &prompt, user };
        let outcome = turn.run().await?;
        check("there is not exactly one closing object", outcome.ends == 1, &outcome)?;
        let told = outcome.end["exit_code"].as_i64();
        check("the exit code is not the one told", outcome.code.map(i64::from) == told, &outcome)?;
        Ok(outcome)
    }

    async fn all(&self) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        let mut ways: Vec<Way<'_>> = self.agent.protocols.iter().map(|protocol| (*protocol, None)).collect();
        let mut ends: Vec<Way<'_>> = vec![("1", None)];
        // Older clients before an agent of current v2.
        if self.agent.protocols.contains(&"2") {
            ways.extend([("1", Some("2")), ("2-seed", Some("2"))]);
            ends.extend([("1", Some("2")), ("2-seed", Some("2"))]);
        }
        for way in ways {
            lines.push(self.work(way).await.map_err(|e| format!("work, {}: {e}", told(way)))?);
        }
        if self.agent.protocols.contains(&"2") {
            lines.push(self.acpx().await.map_err(|e| format!("acpx: {e}"))?);
        }
        for way in ends {
            lines.push(self.refused(way).await.map_err(|e| format!("refused, {}: {e}", told(way)))?);
            lines.push(self.interrupted(way).await.map_err(|e| format!("interrupted, {}: {e}", told(way)))?);
        }
        Ok(lines)
    }

    /// How often the model was asked.
    fn asked(&self) -> usize {
        self.server.requests().iter().filter(|request| request.format != Format::Other).count()
    }

    async fn work(&self, way: Way<'_>) -> Result<String, String> {
        let folder = project()?;
        let before = self.asked();
        let prompt = "Please do what the model says.\n\
                      model: think I begin with a file.\n\
                      model: write DIR/made.txt made by a real agent\\n\n\
                      model: read DIR/old.txt\n\
                      model: edit DIR/old.txt before => after\n\
                      model: run echo ran > DIR/ran.txt && expr 6000 + 42\n\
                      model: say Finished: {result}";
        let outcome = self.play(folder.path(), way, prompt, User::Allows).await?;
        let folder = folder.path();
        check("the turn does not end well", outcome.code == Some(0), &outcome)?;
        check("the turn does not end with end_turn", outcome.end["stop_reason"] == "end_turn", &outcome)?;
        check("another protocol was spoken", outcome.end["agent"]["protocol"] == way.0, &outcome)?;
        check(
            "made.txt is not as it should be",
            read(folder, "made.txt").trim_end() == "made by a real agent",
            &outcome,
        )?;
        check("old.txt is not as it should be", read(folder, "old.txt") == "one\nafter\nthree\n", &outcome)?;
        check("ran.txt is not as it should be", read(folder, "ran.txt") == "ran\n", &outcome)?;
        check("the model's last words are missing", outcome.text().contains("Finished:"), &outcome)?;
        check("the command's output did not reach the model", outcome.text().contains("6042"), &outcome)?;
        check("nobody was asked for permission", !outcome.asked.is_empty(), &outcome)?;
        let completed = outcome.calls.values().filter(|(_, status, _)| status == "completed").count();
        check("fewer than four tool calls were completed", completed >= 4, &outcome)?;
        let changed = outcome.end["changed_files"].as_array().map_or(0, Vec::len);
        check("the changed files are not told", changed >= 2, &outcome)?;
        Ok(format!(
            "{}: file made, file edited, command run; {} permissions, {} tool calls, {} model requests, {:?}",
            told(way),
            outcome.asked.len(),
            outcome.calls.len(),
            self.asked() - before,
            outcome.services
        ))
    }

    /// Another client of version 1 before the same bridge.
    async fn acpx(&self) -> Result<String, String> {
        let folder = project()?;
        let folder = folder.path().canonicalize().map_err(|e| e.to_string())?;
        let (agent, installed, home, url) = (self.agent, self.installed, self.home.path(), &*self.server.url());
        let (folder, protocol, bridge, prompt, user) = (&*folder, "1", Some("2"), "", User::Allows);
        acpx::all(&Turn { agent, installed, home, url, folder, protocol, bridge, prompt, user }).await
    }

    async fn refused(&self, way: Way<'_>) -> Result<String, String> {
        let folder = project()?;
        let prompt = "Please do what the model says.\nmodel: run touch DIR/refused.txt\nmodel: say That was refused.";
        let outcome = self.play(folder.path(), way, prompt, User::IsAway).await?;
        check("the command ran though it was refused", !folder.path().join("refused.txt").exists(), &outcome)?;
        check("it is not told that all was refused", outcome.code == Some(5), &outcome)?;
        Ok(format!("{}: a refused command did not run; stop reason {}", told(way), outcome.end["stop_reason"]))
    }

    async fn interrupted(&self, way: Way<'_>) -> Result<String, String> {
        let folder = project()?;
        let prompt =
            "Please do what the model says.\nmodel: say I begin, and then there is a long silence.\nmodel: stall 2";
        let outcome = self.play(folder.path(), way, prompt, User::Interrupts).await?;
        check("the exit code is not 130", outcome.code == Some(130), &outcome)?;
        check("the turn does not end with cancelled", outcome.end["stop_reason"] == "cancelled", &outcome)?;
        Ok(format!("{}: interrupted in the middle of a stream", told(way)))
    }
}
