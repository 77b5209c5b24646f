//! Clients, judged by scripted agents: each scenario starts the client once, and the client starts the agent.

mod actor;
mod run;
mod scenes;

pub use actor::play;

use crate::report::{finding_json, items};
use crate::sheet::{Finding, Line, Sheet, Verdict};
use crate::table::{self, parts};
use crate::witness::Witness;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use tieline_schema::Dialect;
use tieline_trace::Side;

/// What a scripted agent found out, as one line for whoever started the client.
pub fn to_line(sheet: &Sheet) -> String {
    let findings: Vec<Value> = sheet.in_order().into_iter().map(finding_json).collect();
    json!({"findings": findings}).to_string()
}

/// The same, read again.
pub fn from_line(line: &str, part: &str, sheet: &mut Sheet) {
    let Ok(value) = serde_json::from_str::<Value>(line) else { return };
    for one in items(&value["findings"]) {
        let Some(check) = one["id"].as_str().and_then(table::find) else { continue };
        let verdicts =
            [Verdict::Holds, Verdict::Broken, Verdict::KitAtFault, Verdict::NotExercised, Verdict::NotApplicable];
        let Some(verdict) = verdicts.into_iter().find(|verdict| one["verdict"] == verdict.name()) else { continue };
        let log = Vec::<Line>::deserialize(&one["frames"]).unwrap_or_default();
        let frame = log.len().saturating_sub(1);
        let said = one["said"].as_str().unwrap_or_default().to_owned();
        sheet.add(Finding { check, verdict, said, part: part.to_owned(), log: Arc::new(log), frame });
    }
}

/// A client to be judged.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program and its arguments; `{agent}` stands for the agent it is to start.
    pub command: Vec<OsString>,
    /// Ourselves: the program, and what comes before the name of a scenario, the dialect and the file of findings. What the scripted agent
    /// tells ([`play`]) it has to write line by line into a file of that name with `.told` behind it.
    pub player: Vec<OsString>,
    /// How long a scenario may take.
    pub patience: Duration,
    /// Which scenarios; none: all.
    pub only: Vec<&'static str>,
    /// The client is in a terminal, where this is typed.
    pub keys: Option<Keys>,
}

/// What is typed to a client that needs a terminal.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// When a session is open.
    pub prompt: Vec<u8>,
    /// When the agent asks something.
    pub answer: Vec<u8>,
    /// When the turn is over.
    pub quit: Vec<u8>,
}

/// Judges a client in one dialect.
pub async fn check_client(plan: &Plan, dialect: Dialect, progress: &dyn Fn(Dialect, &str)) -> std::io::Result<Sheet> {
    let mut sheet = Sheet::new(Side::Client, dialect);
    let mut killed = false;
    // How long a client in a terminal puts up with an agent is for its user to decide.
    let wanted = |part: &&str| plan.keys.is_none() || *part != "hang";
    let parts = parts(Side::Client).into_iter().filter(|part| plan.only.is_empty() || plan.only.contains(part));
    for part in parts.filter(wanted) {
        let folder = tempfile::Builder::new().prefix("tieline-check-").tempdir();
        let no_folder =
            |why: &_| sheet.leave(part, Verdict::KitAtFault, &format!("there is no folder to work in: {why}"));
        let Ok(folder) = folder.inspect_err(no_folder) else { continue };
        let ran = run::run(plan, part, dialect, folder.path()).await?;
        from_line(&ran.found, part, &mut sheet);
        let mut judge = |id: &str, holds: bool, said: &str| {
            let (verdict, said) = Verdict::of(holds, || said.to_owned());
            Witness::default().found(id, verdict, &said, part, &mut sheet);
        };
        let late = "the client had not ended when the time was over";
        match part {
            _ if ran.told.is_empty() => {}
            // In a terminal a client may well stay, and tell its user.
            "crash" if plan.keys.is_none() => judge("client-crash", ran.ended, late),
            "hang" if ran.told.contains("interrupt") => judge("client-hang", ran.ended, late),
            "hostile" if ran.told.contains("over") => {
                judge("client-hostile", !ran.hostile, "the title of a terminal would have been set");
            }
            _ => {}
        }
        killed |= ran.found.is_empty() && ran.told.contains("over") && ran.ended;
        if sheet.findings.is_empty() && ran.told.is_empty() && ran.found.is_empty() {
            sheet.dead = Some("the client did not start the agent, or killed it before it could say anything".into());
            break;
        }
        progress(dialect, part);
    }
    // One that was closed even once is not judged by how quick the kill was.
    if killed && !sheet.findings.contains_key("client-closes") {
        let said = "it was ended without its input being closed";
        Witness::default().found("client-closes", Verdict::Broken, said, "talk", &mut sheet);
    }
    Ok(sheet)
}
