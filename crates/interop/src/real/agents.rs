//! The real agents: their packages. How each is pointed at a model server on this machine is the profile of its name in `tieline_model_server`.

/// An agent that npm has.
pub struct Agent {
    /// What we call it, and its profile.
    pub name: &'static str,
    /// Its package.
    pub package: &'static str,
    /// The version that is tested.
    pub version: &'static str,
    /// Its script in `node_modules`, and the arguments.
    pub start: (&'static str, &'static [&'static str]),
    /// The script is a program of its own, not for Node.
    pub native: bool,
    /// The versions of the protocol that it speaks.
    pub protocols: &'static [&'static str],
}

/// All of them.
pub const AGENTS: [Agent; 5] = [
    Agent {
        name: "opencode",
        package: "opencode-ai",
        version: "1.18.33",
        start: (".bin/opencode", &["acp"]),
        native: true,
        protocols: &["1"],
    },
    Agent {
        name: "codex",
        package: "@agentclientprotocol/codex-acp",
        version: "2.6.0",
        start: (".bin/codex-acp", &[]),
        native: false,
        protocols: &["1", "2"],
    },
    Agent {
        name: "claude",
        package: "@agentclientprotocol/claude-agent-acp",
        version: "0.99.1",
        start: (".bin/claude-agent-acp", &[]),
        native: false,
        protocols: &["1", "2"],
    },
    Agent {
        name: "gemini",
        package: "@google/gemini-cli",
        version: "0.61.0",
        start: (".bin/gemini", &["--acp", "--model", "gemini-2.5-flash"]),
        native: false,
        protocols: &["1"],
    },
    Agent {
        name: "qwen",
        package: "@qwen-code/qwen-code",
        version: "0.24.4",
        start: (".bin/qwen", &["--acp", "--auth-type=openai"]),
        native: false,
        protocols: &["1"],
    },
];
