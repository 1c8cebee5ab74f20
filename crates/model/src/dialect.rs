//! The kinds of server that speak Chat Completions.

use crate::Rules;

/// A kind of server; its [`Rules`] say how it differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// The original.
    OpenAi,
    /// vLLM.
    Vllm,
    /// The server of llama.cpp.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// `DeepSeek`.
    DeepSeek,
    /// `OpenRouter`.
    OpenRouter,
    /// Any other.
    Compatible,
}

impl Dialect {
    /// Every dialect with the word that users name it by.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("openai", Self::OpenAi),
        ("vllm", Self::Vllm),
        ("llama.cpp", Self::LlamaCpp),
        ("ollama", Self::Ollama),
        ("deepseek", Self::DeepSeek),
        ("openrouter", Self::OpenRouter),
        ("compatible", Self::Compatible),
    ];

    /// The dialect that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(name, _)| *name == word);
        found.map(|(_, dialect)| *dialect)
    }

    /// The dialect to expect at a base URL: its host tells the services, and the port Ollama.
    pub fn of(base_url: &str) -> Self {
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

    /// What the server wants of Chat Completions.
    pub const fn rules(self) -> &'static Rules {
        match self {
            Self::OpenAi => &Rules::OPENAI,
            Self::Vllm => &Rules::VLLM,
            Self::LlamaCpp => &Rules::LLAMA_CPP,
            Self::Ollama => &Rules::OLLAMA,
            Self::DeepSeek => &Rules::DEEPSEEK,
            Self::OpenRouter => &Rules::OPENROUTER,
            Self::Compatible => &Rules::COMPATIBLE,
        }
    }

    /// What the server wants of Responses.
    pub const fn responses_rules(self) -> &'static Rules {
        match self {
            Self::OpenAi => &Rules::RESPONSES,
            _ => &Rules::RESPONSES_COMPATIBLE,
        }
    }
}
