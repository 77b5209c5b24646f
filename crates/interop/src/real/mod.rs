//! Real agents from npm, run offline: each is installed at a fixed version, pointed at a scripted model server, and driven.

mod acpx;
pub mod agents;
pub mod drive;
pub mod install;
pub mod llama;
pub mod tasks;

use agents::Agent;
use std::path::Path;
use std::time::Instant;

/// How an agent did.
#[derive(Debug)]
pub enum Verdict {
    /// It did all its tasks; the lines tell what was seen.
    Passed(Vec<String>),
    /// It could not be had, and why.
    Skipped(String),
    /// Something is not as it has to be.
    Failed(String),
}

/// Installs an agent under `target` and lets it do its tasks.
pub async fn try_agent(agent: &Agent, target: &Path) -> (Verdict, f64) {
    let start = Instant::now();
    let verdict = match install::install(agent, target) {
        Err(why) => Verdict::Skipped(why),
        Ok(place) => match tasks::all(agent, &place).await {
            Ok(lines) => Verdict::Passed(lines),
            Err(why) => Verdict::Failed(why),
        },
    };
    (verdict, start.elapsed().as_secs_f64())
}
