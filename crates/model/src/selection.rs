//! Parsing of model names with a provider prefix.

use crate::WireFormat;

/// A provider that a name selects by its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderKind {
    /// A server with `/v1/chat/completions`.
    OpenAi,
    /// A server with `/v1/responses`.
    Responses,
    /// A server with Anthropic Messages.
    Anthropic,
    /// A server with `/v1/completions` and a gpt-oss model.
    Harmony,
    /// A recording.
    Replay,
    /// The last user message.
    Echo,
}

impl ProviderKind {
    /// Returns the JSON wire format of the provider, if it has one.
    pub const fn wire_format(self) -> Option<WireFormat> {
        match self {
            Self::OpenAi => Some(WireFormat::Chat),
            Self::Responses => Some(WireFormat::Responses),
            Self::Anthropic => Some(WireFormat::Anthropic),
            Self::Harmony | Self::Replay | Self::Echo => None,
        }
    }

    /// Returns whether the provider is a server with an address.
    pub const fn is_server(self) -> bool {
        matches!(
            self,
            Self::OpenAi | Self::Responses | Self::Anthropic | Self::Harmony
        )
    }
}

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
        let (prefix, model) = name.split_once(':').unwrap_or(("", name));
        let (kind, model) = match prefix {
            "harmony" => (ProviderKind::Harmony, model),
            "replay" => (ProviderKind::Replay, model),
            "openai" => (ProviderKind::OpenAi, model),
            "responses" => (ProviderKind::Responses, model),
            "anthropic" => (ProviderKind::Anthropic, model),
            "echo" => (ProviderKind::Echo, model),
            _ => (ProviderKind::OpenAi, name),
        };
        Self {
            kind,
            model: model.to_owned(),
        }
    }
}
