//! Kinds of model servers.

/// A kind of model server.
///
/// A [`ServerProfile`](crate::ServerProfile) lists the differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerKind {
    /// `api.openai.com`.
    OpenAi,
    /// vLLM.
    Vllm,
    /// llama.cpp.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// `DeepSeek`.
    DeepSeek,
    /// `OpenRouter`.
    OpenRouter,
    /// Any other server.
    Compatible,
}

impl ServerKind {
    /// Every kind with its name in the configuration.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("openai", Self::OpenAi),
        ("vllm", Self::Vllm),
        ("llama.cpp", Self::LlamaCpp),
        ("ollama", Self::Ollama),
        ("deepseek", Self::DeepSeek),
        ("openrouter", Self::OpenRouter),
        ("compatible", Self::Compatible),
    ];

    /// Returns the kind with a name.
    pub fn parse(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind)
    }

    /// Returns the probable kind of the server at a base URL.
    ///
    /// The host identifies the services, and port 11434 identifies Ollama.
    pub fn from_base_url(base_url: &str) -> Self {
        let host = base_url.split("://").nth(1).unwrap_or(base_url);
        let host = host.split('/').next().unwrap_or(host);
        let host = host.rsplit('@').next().unwrap_or(host);
        let (host, port) = host.rsplit_once(':').unwrap_or((host, ""));
        match (host, port) {
            ("api.openai.com", _) => Self::OpenAi,
            ("api.deepseek.com", _) => Self::DeepSeek,
            ("openrouter.ai", _) => Self::OpenRouter,
            (_, "11434") => Self::Ollama,
            _ => Self::Compatible,
        }
    }
}
