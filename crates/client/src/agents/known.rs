//! Well-known agents: the command that starts each once it is installed, and the line that installs it.

use super::AgentSpec;
use crate::config::Origin;

/// An agent that many people have.
#[derive(Debug)]
pub struct Known {
    /// What it is called here.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// The program and its arguments.
    pub command: &'static [&'static str],
    /// How it is installed. Only ever shown: nothing is downloaded by us.
    pub install: &'static str,
}

const fn known(
    name: &'static str,
    title: &'static str,
    command: &'static [&'static str],
    install: &'static str,
) -> Known {
    Known { name, title, command, install }
}

/// All of them.
pub const KNOWN: &[Known] = &[
    known("claude", "Claude Code", &["claude-agent-acp"], "npm install -g @agentclientprotocol/claude-agent-acp"),
    known("codex", "Codex", &["codex-acp"], "npm install -g @agentclientprotocol/codex-acp"),
    known("copilot", "GitHub Copilot", &["copilot", "--acp"], "npm install -g @github/copilot"),
    known("gemini", "Gemini CLI", &["gemini", "--acp"], "npm install -g @google/gemini-cli"),
    known("goose", "goose", &["goose", "acp"], "see https://block.github.io/goose"),
    known("kimi", "Kimi Code", &["kimi", "acp"], "npm install -g @moonshot-ai/kimi-code"),
    known("opencode", "opencode", &["opencode", "acp"], "npm install -g opencode-ai"),
    known("pi", "Pi", &["pi-acp"], "npm install -g pi-acp"),
    known("qwen", "Qwen Code", &["qwen", "--acp"], "npm install -g @qwen-code/qwen-code"),
    known("vibe", "Mistral Vibe", &["vibe-acp"], "uv tool install mistral-vibe"),
];

impl Known {
    /// What is needed to start it.
    pub fn spec(&self) -> AgentSpec {
        let command = self.command.iter().map(|&word| word.to_owned()).collect();
        AgentSpec { name: self.name.to_owned(), ..AgentSpec::plain(command, Origin::BuiltIn) }
    }
}
