//! The scenarios that ship inside.

/// The scenario that takes its directives from the prompt.
pub(super) const PUPPET: &str = "puppet";

/// A scenario that ships inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// The name it is chosen by.
    pub name: &'static str,
    /// What it shows, in one line.
    pub description: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../../scenarios/", $name, ".toml")))),*];
    };
}

shipped![
    "hello",
    "thinking",
    "markdown",
    "non-ascii",
    "long-output",
    "many-chunks-one-message",
    "two-messages",
    "slow-stream",
    "flood",
    "empty-answer",
    "image-output",
    "whole-messages",
    "conversation",
    "plan-and-edit",
    "repair",
    "parallel-reads",
    "search",
    "patch-move-delete",
    "fetch-page",
    "run-command",
    "failing-command",
    "background-command",
    "terminal",
    "tool-progress",
    "permission-allow",
    "permission-reject",
    "ask-user",
    "switch-mode",
    "unknown-tool",
    "malformed-arguments",
    "endless-tools",
    "title",
    "notice",
    "commands",
    "config-options",
    "usage",
    "state",
    "compaction",
    "overflow-then-compact",
    "unknown-update",
    "max-tokens",
    "refusal",
    "stop-reasons",
    "stall",
    "cut-stream",
    "fail-then-retry",
    "model-error",
    "agent-error",
    "login-needed",
];

/// All scenarios that ship inside.
pub fn scenarios() -> Vec<Shipped> {
    let description = |text: &'static str| text.lines().next().unwrap_or_default().trim_start_matches('#').trim();
    let files = FILES.iter().map(|&(name, text)| Shipped { name, description: description(text) });
    let puppet = Shipped { name: PUPPET, description: "Does what the prompt says, one directive per line." };
    files.chain([puppet]).collect()
}

/// The text of a scenario.
pub(super) fn text(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
