//! How well-known agents are pointed at a model server on this machine: what is written into their home folder, and their variables.

use serde_json::json;
use std::fs;
use std::io;
use std::path::Path;

/// Variables of an agent's environment.
pub type Variables = Vec<(&'static str, String)>;

/// A well-known agent, or a way that many agents share.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// What it is called.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    prepare: fn(&Place<'_>) -> io::Result<Variables>,
}

/// All of them.
pub const PROFILES: [Profile; 6] = [
    Profile { name: "claude", about: "claude-agent-acp (Anthropic messages)", prepare: claude },
    Profile { name: "codex", about: "codex-acp (OpenAI responses)", prepare: codex },
    Profile { name: "gemini", about: "gemini --acp --model gemini-2.5-flash (Gemini)", prepare: gemini },
    Profile { name: "opencode", about: "opencode acp (OpenAI chat completions)", prepare: opencode },
    Profile { name: "qwen", about: "qwen --acp --auth-type=openai (OpenAI chat completions)", prepare: qwen },
    Profile {
        name: "env",
        about: "any agent that takes the addresses and keys of OpenAI, Anthropic or Gemini from the usual variables",
        prepare: usual,
    },
];

impl Profile {
    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }

    /// Writes the agent's configuration into an empty home folder, and gives the variables that it needs: all of them but `PATH` and the like.
    pub fn prepare(&self, home: &Path, url: &str) -> io::Result<Variables> {
        let place = Place { home, url };
        let mut variables = (self.prepare)(&place)?;
        variables.push(("HOME", home.to_string_lossy().into_owned()));
        // A proxy has no business between two programs of this machine.
        variables.extend(["NO_PROXY", "no_proxy"].map(|name| (name, "127.0.0.1,localhost".to_owned())));
        Ok(variables)
    }
}

/// Where an agent runs.
struct Place<'a> {
    home: &'a Path,
    url: &'a str,
}

impl Place<'_> {
    fn put(&self, path: &str, text: &str) -> io::Result<()> {
        let path = self.home.join(path);
        fs::create_dir_all(path.parent().unwrap_or(self.home))?;
        fs::write(path, text)
    }

    fn inside(&self, name: &str) -> String {
        self.home.join(name).to_string_lossy().into_owned()
    }
}

fn usual(place: &Place<'_>) -> io::Result<Variables> {
    let mut variables = vec![
        ("OPENAI_BASE_URL", format!("{}/v1", place.url)),
        ("OPENAI_API_BASE", format!("{}/v1", place.url)),
        ("ANTHROPIC_BASE_URL", place.url.to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", place.url.to_owned()),
    ];
    let keys = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];
    variables.extend(keys.map(|name| (name, "none".to_owned())));
    Ok(variables)
}

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
    Ok(vec![
        ("CODEX_HOME", place.inside(".codex")),
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
        ("CLAUDE_CONFIG_DIR", place.inside(".claude")),
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
