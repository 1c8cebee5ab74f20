//! Which provider a model name means.

/// A provider that a name can ask for by prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderKind {
    /// A server with `/v1/chat/completions`.
    OpenAi,
    /// A server with `/v1/completions` and a model of the gpt-oss family.
    Harmony,
    /// A recording.
    Replay,
    /// The last user message, repeated.
    Echo,
    /// A provider whose prefix is reserved and which cannot be spoken to yet.
    Reserved(&'static str),
}

/// Prefixes that mean a provider of their own, so that no conversation goes to the wrong server.
const RESERVED: &[&str] = &["responses", "anthropic"];

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
/// assert_eq!(selection.kind, ProviderKind::Reserved("anthropic"));
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
        let reserved = RESERVED.iter().find(|reserved| **reserved == prefix);
        let (kind, model) = match (prefix, reserved) {
            (_, Some(reserved)) => (ProviderKind::Reserved(reserved), rest),
            ("harmony", _) => (ProviderKind::Harmony, rest),
            ("replay", _) => (ProviderKind::Replay, rest),
            ("openai", _) => (ProviderKind::OpenAi, rest),
            ("echo", _) => (ProviderKind::Echo, rest),
            _ => (ProviderKind::OpenAi, name),
        };
        Self {
            kind,
            model: model.to_owned(),
        }
    }
}
