//! The real agents: their packages, and how each is pointed at a model server on this machine.

use serde_json::json;
use std::fs;
use std::io;
use std::path::Path;

/// Variables of an agent's environment.
pub type Variables = Vec<(&'static str, String)>;

/// An agent that npm has.
pub struct Agent {
    /// What we call it.
    pub name: &'static str,
    /// Its package.
    pub package: &'static str,
    /// The version that is tested.
    pub version: &'static str,
    /// Its script in `node_modules`, and the arguments.
    pub start: (&'static str, &'static [&'static str]),
    /// The script is a program of its own, not for Node.
    pub native: bool,
    /// Writes its configuration into an empty home folder, and gives the variables it needs.
    pub prepare: fn(&Place<'_>) -> io::Result<Variables>,
    /// The versions of the protocol that it speaks.
    pub protocols: &'static [&'static str],
}

/// Where an agent runs.
pub struct Place<'a> {
    /// Its home folder.
    pub home: &'a Path,
    /// The model server.
    pub url: &'a str,
}

impl Place<'_> {
    fn put(&self, path: &str, text: &str) -> io::Result<()> {
        let path = self.home.join(path);
        fs::create_dir_all(path.parent().unwrap_or(self.home))?;
        fs::write(path, text)
    }
}

/// All of them.
pub const AGENTS: [Agent; 5] = [
    Agent {
        name: "opencode",
        package: "opencode-ai",
        version: "1.18.33",
        start: (".bin/opencode", &["acp"]),
        native: true,
        prepare: opencode,
        protocols: &["1"],
    },
    Agent {
        name: "codex",
        package: "@agentclientprotocol/codex-acp",
        version: "2.6.0",
        start: (".bin/codex-acp", &[]),
        native: false,
        prepare: codex,
        protocols: &["1", "2"],
    },
    Agent {
        name: "claude",
        package: "@agentclientprotocol/claude-agent-acp",
        version: "0.99.1",
        start: (".bin/claude-agent-acp", &[]),
        native: false,
        prepare: claude,
        protocols: &["1", "2"],
    },
    Agent {
        name: "gemini",
        package: "@google/gemini-cli",
        version: "0.61.0",
        start: (".bin/gemini", &["--acp", "--model", "gemini-2.5-flash"]),
        native: false,
        prepare: gemini,
        protocols: &["1"],
    },
    Agent {
        name: "qwen",
        package: "@qwen-code/qwen-code",
        version: "0.24.4",
        start: (".bin/qwen", &["--acp", "--auth-type=openai"]),
        native: false,
        prepare: qwen,
        protocols: &["1"],
    },
];

fn opencode(place: &Place<'_>) -> io::Result<Variables> {
    let config = json!({
        "model": "local/scripted", "small_model": "local/scripted", "autoupdate": false, "share": "disabled",
        "permission": { "edit": "ask", "bash": "ask" },
        "provider": { "local": {
            "npm": "@ai-sdk/openai-compatible", "name": "Local",
            "options": { "baseURL": format!("{}/v1", place.url), "apiKey": "none" },
            "models": { "scripted": { "name": "Scripted", "tool_call": true, "limit": { "context": 200_000, "output": 8000 } } },
        } },
    });
    place.put(".config/opencode/opencode.json", &config.to_string())?;
    Ok(vec![
        ("OPENCODE_DISABLE_AUTOUPDATE", "1".into()),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".into()),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".into()),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1".into()),
    ])
}

fn codex(place: &Place<'_>) -> io::Result<Variables> {
    let config = format!(
        "model = \"scripted\"\nmodel_provider = \"local\"\napproval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n\
         [model_providers.local]\nname = \"Local\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\nenv_key = \"LOCAL_KEY\"\n",
        place.url
    );
    place.put(".codex/config.toml", &config)?;
    let home = place.home.join(".codex").to_string_lossy().into_owned();
    Ok(vec![
        ("CODEX_HOME", home),
        ("LOCAL_KEY", "none".into()),
        ("MODEL_PROVIDER", "local".into()),
        ("NO_BROWSER", "1".into()),
        // The default mode asks the model, not the user.
        ("INITIAL_AGENT_MODE", "read-only".into()),
    ])
}

fn claude(place: &Place<'_>) -> io::Result<Variables> {
    place.put(".claude.json", &json!({ "hasCompletedOnboarding": true }).to_string())?;
    Ok(vec![
        ("ANTHROPIC_BASE_URL", place.url.into()),
        ("ANTHROPIC_API_KEY", "none".into()),
        ("CLAUDE_CONFIG_DIR", place.home.join(".claude").to_string_lossy().into_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
        ("DISABLE_TELEMETRY", "1".into()),
        ("DISABLE_AUTOUPDATER", "1".into()),
        // It refuses some modes to root outside of a sandbox.
        ("IS_SANDBOX", "1".into()),
    ])
}

fn gemini(place: &Place<'_>) -> io::Result<Variables> {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } }, "privacy": { "usageStatisticsEnabled": false },
        "general": { "disableAutoUpdate": true, "disableUpdateNag": true, "checkpointing": { "enabled": false } },
        "telemetry": { "enabled": false },
    });
    place.put(".gemini/settings.json", &settings.to_string())?;
    Ok(vec![("GOOGLE_GEMINI_BASE_URL", place.url.into()), ("GEMINI_API_KEY", "none".into())])
}

fn qwen(place: &Place<'_>) -> io::Result<Variables> {
    let settings = json!({
        "security": { "auth": { "selectedType": "openai" } }, "privacy": { "usageStatisticsEnabled": false },
        "general": { "disableAutoUpdate": true }, "telemetry": { "enabled": false },
    });
    place.put(".qwen/settings.json", &settings.to_string())?;
    Ok(vec![
        ("OPENAI_BASE_URL", format!("{}/v1", place.url)),
        ("OPENAI_API_KEY", "none".into()),
        ("OPENAI_MODEL", "scripted".into()),
    ])
}
