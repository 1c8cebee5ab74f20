//! Parsing of model names with a provider prefix.

use crate::ProviderKind;

/// A parsed model name.
///
/// Only the prefix of a provider counts: `llama3:8b` is a model of the configured server, and
/// `replay:session.ocml` is a recording.
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
#[non_exhaustive]
pub struct ModelSelection {
    /// The provider.
    pub kind: ProviderKind,
    /// The model name; the path for a recording.
    pub model: String,
}

impl ModelSelection {
    /// Parses a name; every string is valid.
    pub fn parse(name: &str) -> Self {
        let prefixed = name.split_once(':');
        let prefixed =
            prefixed.and_then(|(prefix, model)| Some((ProviderKind::from_prefix(prefix)?, model)));
        let (kind, model) = prefixed.unwrap_or((ProviderKind::DEFAULT, name));
        Self {
            kind,
            model: model.to_owned(),
        }
    }
}
