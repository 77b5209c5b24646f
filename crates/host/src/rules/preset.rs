//! How freely an agent works where no rule says anything: one list of presets for flags, configuration and modes.

use super::{Action, Confined, Decision};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What happens where no rule says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Everything is asked, reading too.
    Ask,
    /// Reads in the workspace; the rest is asked.
    #[default]
    AllowReads,
    /// Changes no file, whatever the rules allow; asks before each command; calls MCP tools only where a rule allows it.
    Plan,
    /// Also changes files in the workspace; the rest is asked.
    AllowEdits,
    /// Also runs commands that a sandbox keeps in the workspace.
    Auto,
    /// Everything that no rule forbids or asks for.
    AllowAll,
    /// Nothing, whatever the rules allow.
    DenyAll,
}

/// What is said about a preset.
struct Row {
    /// What the built-in agent calls it as a mode of a session.
    mode: &'static str,
    title: &'static str,
    about: &'static str,
}

const fn row(mode: &'static str, title: &'static str, about: &'static str) -> Row {
    Row { mode, title, about }
}

const ROWS: [Row; 7] = [
    row("ask-all", "Ask about everything", "Asks before everything, reading too."),
    row("ask", "Ask", "Reads freely; asks before every change and command."),
    row("plan", "Plan", "Edits no file; asks before every command, which may write; no MCP tools without a rule."),
    row("edit", "Edit", "Changes files in the workspace freely; asks before commands."),
    row("auto", "Auto", "Also runs commands that the sandbox holds in the workspace."),
    row("allow-all", "Allow all", "Does everything that no rule forbids or asks for."),
    row("deny-all", "Deny all", "Does nothing."),
];

impl Preset {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Ask, Self::AllowReads, Self::Plan, Self::AllowEdits, Self::Auto, Self::AllowAll, Self::DenyAll];

    /// Their names.
    pub const NAMES: [&'static str; 7] = ["ask", "allow-reads", "plan", "allow-edits", "auto", "allow-all", "deny-all"];

    /// Those that every session of the built-in agent can switch to.
    pub const MODES: [Self; 4] = [Self::AllowReads, Self::Plan, Self::AllowEdits, Self::Auto];

    fn row(self) -> &'static Row {
        // The rows are in the order of the variants; a test sees to it.
        &ROWS[self as usize]
    }

    /// The name in flags and in the configuration.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The id as a mode of a session.
    pub fn mode(self) -> &'static str {
        self.row().mode
    }

    /// The name of that mode for people.
    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// What it means.
    pub fn about(self) -> &'static str {
        self.row().about
    }

    /// The preset of a mode, by its id or by the preset's own name. As a mode, `ask` reads freely.
    pub fn of_mode(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.mode() == id).or_else(|| id.parse().ok())
    }

    /// What happens where no rule says anything.
    pub fn default_for(self, action: &Action) -> Decision {
        let inside = match action {
            Action::Read(path) | Action::Write(path) | Action::Delete(path) => path.is_inside(),
            Action::Move { from, to } => from.is_inside() && to.is_inside(),
            Action::Execute { confined, .. } => *confined >= Confined::Guarded,
            Action::Fetch(_) | Action::Mcp { .. } => false,
        };
        let free = match (self, action) {
            (Self::AllowAll, _) => return Decision::Allow,
            // In a plan: what a tool of a server does nobody knows, whatever the server says about it.
            (Self::DenyAll, _) | (Self::Plan, Action::Mcp { .. }) => return Decision::Deny,
            (Self::Ask, _) => false,
            (_, Action::Read(_)) => true,
            (_, Action::Execute { .. }) => self == Self::Auto,
            _ => matches!(self, Self::AllowEdits | Self::Auto),
        };
        if inside && free { Decision::Allow } else { Decision::Ask }.max(self.at_least(action))
    }

    /// What no rule can loosen.
    pub(super) fn at_least(self, action: &Action) -> Decision {
        match (self, action) {
            (Self::DenyAll, _) | (Self::Plan, Action::Write(_) | Action::Delete(_) | Action::Move { .. }) => {
                Decision::Deny
            }
            (Self::Plan, Action::Execute { .. }) => Decision::Ask,
            _ => Decision::Allow,
        }
    }

    /// What happens to what can't be told.
    pub(super) fn otherwise(self) -> Decision {
        match self {
            Self::AllowAll => Decision::Allow,
            Self::DenyAll => Decision::Deny,
            _ => Decision::Ask,
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|preset| preset.name() == text);
        found.ok_or_else(|| format!("there is no preset `{text}`; there are {}", Self::NAMES.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_modes() {
        let modes = ["ask-all", "ask", "plan", "edit", "auto", "allow-all", "deny-all"];
        for ((preset, name), mode) in Preset::ALL.into_iter().zip(Preset::NAMES).zip(modes) {
            assert_eq!((preset.name(), name.parse(), preset.mode()), (name, Ok(preset), mode));
            assert_eq!((Preset::of_mode(mode), serde_json::json!(preset)), (Some(preset), serde_json::json!(name)));
        }
        assert_eq!(Preset::of_mode("allow-edits"), Some(Preset::AllowEdits));
        assert!("yolo".parse::<Preset>().unwrap_err().contains("allow-reads"));
    }
}
