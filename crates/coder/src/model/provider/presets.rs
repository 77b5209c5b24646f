//! The providers we know by name: format, address, and where their key is.

/// How a provider's requests and answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// `OpenAI` chat completions, which many others speak, too.
    OpenaiChat,
    /// `OpenAI` responses.
    OpenaiResponses,
    /// Anthropic messages.
    Anthropic,
    /// Gemini.
    Gemini,
}

impl Format {
    /// The one that a configuration calls so.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "openai-chat" => Some(Self::OpenaiChat),
            "openai-responses" => Some(Self::OpenaiResponses),
            "anthropic" => Some(Self::Anthropic),
            "gemini" => Some(Self::Gemini),
            _ => None,
        }
    }
}

/// A provider that we know.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// What users type before the slash.
    pub name: &'static str,
    /// What it is called.
    pub title: &'static str,
    /// What it speaks.
    pub format: Format,
    /// Where it is.
    pub base_url: &'static str,
    /// The variable that holds its key; empty if it wants none.
    pub key_env: &'static str,
    /// A model to start with.
    pub example: &'static str,
}

const fn preset(
    name: &'static str,
    title: &'static str,
    format: Format,
    base_url: &'static str,
    key_env: &'static str,
    example: &'static str,
) -> Preset {
    Preset { name, title, format, base_url, key_env, example }
}

/// The providers; those on this machine last.
pub const PRESETS: &[Preset] = &[
    preset(
        "anthropic",
        "Anthropic",
        Format::Anthropic,
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
        "claude-sonnet-5-5",
    ),
    preset("openai", "OpenAI", Format::OpenaiResponses, "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-5.4"),
    preset(
        "openai-chat",
        "OpenAI (chat completions)",
        Format::OpenaiChat,
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        "gpt-4.1",
    ),
    preset(
        "gemini",
        "Google Gemini",
        Format::Gemini,
        "https://generativelanguage.googleapis.com",
        "GEMINI_API_KEY",
        "gemini-2.5-pro",
    ),
    preset(
        "openrouter",
        "OpenRouter",
        Format::OpenaiChat,
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "qwen/qwen3-coder",
    ),
    preset("groq", "Groq", Format::OpenaiChat, "https://api.groq.com/openai/v1", "GROQ_API_KEY", "openai/gpt-oss-120b"),
    preset(
        "deepseek",
        "DeepSeek",
        Format::OpenaiChat,
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        "deepseek-chat",
    ),
    preset(
        "mistral",
        "Mistral",
        Format::OpenaiChat,
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        "devstral-medium-latest",
    ),
    preset("xai", "xAI", Format::OpenaiChat, "https://api.x.ai/v1", "XAI_API_KEY", "grok-4"),
    preset(
        "together",
        "Together AI",
        Format::OpenaiChat,
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
    ),
    preset(
        "fireworks",
        "Fireworks AI",
        Format::OpenaiChat,
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        "accounts/fireworks/models/qwen3-coder-480b-a35b-instruct",
    ),
    preset(
        "cerebras",
        "Cerebras",
        Format::OpenaiChat,
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        "gpt-oss-120b",
    ),
    preset(
        "moonshot",
        "Moonshot AI",
        Format::OpenaiChat,
        "https://api.moonshot.ai/v1",
        "MOONSHOT_API_KEY",
        "kimi-k2-0905-preview",
    ),
    preset("zai", "Z.ai", Format::OpenaiChat, "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", "glm-4.6"),
    preset("ollama", "Ollama", Format::OpenaiChat, "http://127.0.0.1:11434/v1", "", "qwen3-coder"),
    preset("llamacpp", "llama.cpp server", Format::OpenaiChat, "http://127.0.0.1:8080/v1", "", "default"),
    preset("lmstudio", "LM Studio", Format::OpenaiChat, "http://127.0.0.1:1234/v1", "", "qwen/qwen3-coder-30b"),
    preset("vllm", "vLLM", Format::OpenaiChat, "http://127.0.0.1:8000/v1", "", "Qwen/Qwen3-Coder-30B-A3B-Instruct"),
];

/// The provider of this name.
pub fn named(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// It runs on this machine and wants no key.
    pub fn is_local(&self) -> bool {
        self.key_env.is_empty()
    }
}
