//! The system prompt: how to work, where, and what the project's own `AGENTS.md` says.

use crate::permission::mode_id;
use crate::workspace::Workspace;
use std::fmt::Write as _;
use tieline_host::rules::Mode;

const SYSTEM: &str = include_str!("system.md");
/// As much of `AGENTS.md` as is used, in bytes.
const GUIDE: usize = 4 * 1024;

/// What the model is told before the conversation.
pub async fn system(workspace: &Workspace, mode: Mode) -> String {
    let mut text = format!("{SYSTEM}\nWorking directory: {}\n", workspace.cwd().display());
    for root in workspace.roots().list().filter(|root| !root.is_cwd()) {
        let _ = writeln!(text, "Also part of the workspace: {}", root.given_path().display());
    }
    let _ = write!(text, "Mode: {}", mode_id(mode));
    if mode == Mode::Plan {
        text.push_str(". Change nothing; make a plan, then use `switch_mode` to leave this mode");
    }
    text.push('\n');
    if let Ok(place) = workspace.place("AGENTS.md")
        && let Ok(guide) = workspace.bytes(&place).await
    {
        let guide = String::from_utf8_lossy(&guide.bytes);
        let mut end = guide.len().min(GUIDE);
        while !guide.is_char_boundary(end) {
            end -= 1;
        }
        let cut = if end < guide.len() { "\n(cut; read the file for the rest)" } else { "" };
        let _ = write!(text, "\nThe project's AGENTS.md says:\n\n{}{cut}\n", &guide[..end]);
    }
    text
}
