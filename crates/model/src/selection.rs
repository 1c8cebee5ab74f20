//! Which provider a model name means.

/// A provider that a name can ask for by prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderKind {
    /// A server with `/v1/chat/completions`.
    OpenAi,
    /// A server with `/v1/responses`.
    Responses,
    /// A server with Anthropic Messages.
    Anthropic,
    /// A server with `/v1/completions` and a model of the gpt-oss family.
    Harmony,
    /// A recording.
    Replay,
    /// The last user message, repeated.
    Echo,
}

impl ProviderKind {
    /// Whether it is a server, with an address and perhaps a key.
    pub const fn is_server(self) -> bool {
        matches!(
            self,
            Self::OpenAi | Self::Responses | Self::Anthropic | Self::Harmony
        )
    }
}

/// A model name taken apart.
///
/// A prefix counts only if it names a provider, so `llama3:8b` is a model of the server in force,
/// and `replay:session.ocml` is a recording.
///
/// ```
/// use logue_model::{ModelSelection, ProviderKind};
///
/// let selection = ModelSelection::parse("llama3:8b");
/// assert_eq!((selection.kind, selection.model.as_str()), (ProviderKind::OpenAi, "llama3:8b"));
/// let selection = ModelSelection::parse("replay:a/b.ocml");
/// assert_eq!((selection.kind, selection.model.as_str()), (ProviderKind::Replay, "a/b.ocml"));
/// let selection = ModelSelection::parse("anthropic:some-model");
/// assert_eq!((selection.kind, selection.model.as_str()), (ProviderKind::Anthropic, "some-model"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSelection {
    /// The provider.
    pub kind: ProviderKind,
    /// The model's name there; a path for a recording.
    pub model: String,
}

impl ModelSelection {
    /// Takes a name apart. Every string is a valid name.
    pub fn parse(name: &str) -> Self {
        let (prefix, rest) = name.split_once(':').unwrap_or(("", name));
        let (kind, model) = match prefix {
            "harmony" => (ProviderKind::Harmony, rest),
            "replay" => (ProviderKind::Replay, rest),
            "openai" => (ProviderKind::OpenAi, rest),
            "responses" => (ProviderKind::Responses, rest),
            "anthropic" => (ProviderKind::Anthropic, rest),
            "echo" => (ProviderKind::Echo, rest),
            _ => (ProviderKind::OpenAi, name),
        };
        Self {
            kind,
            model: model.to_owned(),
        }
    }
}
