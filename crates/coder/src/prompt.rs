//! The system prompt: how to work, where, and what the project's own `AGENTS.md` says.

use crate::tools::ToolError;
use crate::workspace::Workspace;
use std::fmt::Write as _;
use tieline_host::rules::{Action, Decision, Engine, Preset};

const SYSTEM: &str = include_str!("system.md");
/// As much of `AGENTS.md` as is used, in bytes.
const MAX_GUIDE_BYTES: u64 = 4 * 1024;

/// What the model is told before the conversation.
pub async fn system(workspace: &Workspace, engine: &Engine) -> String {
    let mode = engine.preset();
    let mut text = format!("{SYSTEM}\nWorking directory: {}\n", workspace.cwd().display());
    for root in workspace.roots().list().filter(|root| !root.is_cwd()) {
        let _ = writeln!(text, "Also part of the workspace: {}", root.given_path().display());
    }
    let _ = write!(text, "Mode: {}", mode.mode());
    if mode == Preset::Plan {
        text.push_str(". Change nothing; make a plan, then use `switch_mode` to leave this mode");
    }
    text.push('\n');
    match guide(workspace, engine).await {
        Ok(Some((guide, size))) => {
            let cut = if size > MAX_GUIDE_BYTES {
                format!("\n(cut after {MAX_GUIDE_BYTES} of {size} bytes; read the file for the rest)")
            } else {
                String::new()
            };
            let _ = write!(text, "\nThe project's AGENTS.md says:\n\n{guide}{cut}\n");
        }
        Ok(None) => {}
        // Such as one that leads out of the workspace.
        Err(why) => _ = write!(text, "\nThe project's AGENTS.md can't be used: {why}.\n"),
    }
    text
}

/// Its beginning, and how many bytes it has.
async fn guide(workspace: &Workspace, engine: &Engine) -> Result<Option<(String, u64)>, ToolError> {
    let place = workspace.place("AGENTS.md")?;
    // It may be a link to what must not be read. Nobody is asked here, so only what is allowed is looked at.
    if engine.decide(&Action::Read(place.location())).decision != Decision::Allow {
        return Err("it may not be read without asking".into());
    }
    let start = workspace.disk(&place, |files, place| files.read_start(place, MAX_GUIDE_BYTES)).await?;
    Ok(start.map(|(mut bytes, size)| {
        // A character that the cut went through.
        if let Some(whole) = std::str::from_utf8(&bytes).err().filter(|error| error.error_len().is_none()) {
            bytes.truncate(whole.valid_up_to());
        }
        (String::from_utf8_lossy(&bytes).into_owned(), size)
    }))
}
