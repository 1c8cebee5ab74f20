//! Rules of a document's header for the channels of tools and frames.

use serde_json::Value;

use crate::document::Document;
use crate::syntax::vocabulary::{Channel, is_builtin};

/// The rules of `profiles.harmony` (OpenChatML 2.2 §2, §12), or the default rules.
///
/// The default applies where the profile is missing, is not enabled, or is not a list of channels.
pub(super) struct Profile {
    /// Whether frames of an assistant or tool must name a channel.
    pub(super) requires_channels: bool,
    /// Channel for calls of functions.
    pub(super) calls_in: Vec<String>,
    /// Channel for calls of built-in tools.
    pub(super) builtins_in: Vec<String>,
    /// The tools that `generation_settings.builtin_tools` names.
    builtins: Vec<String>,
}

impl Profile {
    pub(super) fn of(document: &Document<'_>) -> Self {
        let profiles = document.header().and_then(|header| header.get("profiles"));
        let harmony = profiles
            .and_then(|profiles| profiles.get("harmony"))
            .filter(|harmony| harmony.get("enabled") != Some(&Value::Bool(false)));
        let get = |key: &str| harmony.and_then(|harmony| harmony.get(key));
        let channels = |key: &str, usual: &[&str]| {
            get(key)
                .and_then(words)
                .unwrap_or_else(|| usual.iter().map(ToString::to_string).collect())
        };
        Self {
            requires_channels: match get("require_channels") {
                Some(Value::Bool(wanted)) => *wanted,
                Some(value) => words(value).is_some_and(|channels| !channels.is_empty()),
                None => false,
            },
            calls_in: channels("tool_calls_in", &["commentary"]),
            builtins_in: channels("builtins_in", &["analysis", "commentary"]),
            builtins: document
                .header()
                .and_then(|header| header.generation_settings().get("builtin_tools"))
                .and_then(words)
                .unwrap_or_default(),
        }
    }

    /// Returns whether functions and built-in tools alike are called on `channel`.
    pub(super) fn all_calls_in(&self, channel: Channel) -> bool {
        has(&self.calls_in, channel) && has(&self.builtins_in, channel)
    }

    /// Returns whether `tool` is built in or belongs to one named in the header.
    ///
    /// See OpenChatML 2.0 §8.1.
    pub(super) fn is_builtin(&self, tool: &str) -> bool {
        let belongs_to = |name: &String| {
            let rest = tool.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        is_builtin(tool) || self.builtins.iter().any(belongs_to)
    }
}

/// Returns whether `channel` is among those listed.
pub(super) fn has(channels: &[String], channel: Channel) -> bool {
    let word = channel.as_str().unwrap_or_default();
    channels.iter().any(|listed| listed == word)
}

/// A word, or a list of words.
pub(super) fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(word) => Some(vec![word.clone()]),
        Value::Array(words) => words
            .iter()
            .map(|word| word.as_str().map(str::to_owned))
            .collect(),
        _ => None,
    }
}
