//! Which provider a model name means.

/// A provider that a name can ask for by prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderKind {
    /// A server with `/v1/chat/completions`.
    OpenAi,
    /// A recording.
    Replay,
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
        let (kind, model) = match name.split_once(':') {
            Some(("replay", rest)) => (ProviderKind::Replay, rest),
            Some(("openai", rest)) => (ProviderKind::OpenAi, rest),
            _ => (ProviderKind::OpenAi, name),
        };
        Self {
            kind,
            model: model.to_owned(),
        }
    }
}
