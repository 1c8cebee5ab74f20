//! Sanitization of tool names for JSON wire formats.
//!
//! A tool may have a name such as `browser.search`, which is also its name in Harmony. JSON formats
//! accept at most 64 ASCII letters, digits, `_` and `-`. The adapter converts between the two, so
//! transcripts, recordings and tools use the original names and wire formats only valid ones.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logue_message::{ChatMessage, ToolDefinition};

use crate::{
    BoxFuture, EventHandler, ModelEvent, ModelRequest, ModelResponse, Provider, ProviderError,
    ToolChoice,
};

/// The maximum number of characters of a name.
const MAX_NAME_LEN: usize = 64;

/// A provider adapter that sends sanitized tool names and returns the original ones.
///
/// A valid name does not change. In other names each invalid character becomes `_`, and a number makes
/// the result unique: `browser.open` becomes `browser_open`, or `browser_open_2` if a tool has the name
/// `browser_open`. The names of calls are restored by the tools of the request; an unknown name stays
/// as received.
pub struct SanitizedNames {
    inner: Arc<dyn Provider>,
}

impl SanitizedNames {
    /// Wraps a provider.
    pub fn new(inner: Arc<dyn Provider>) -> Self {
        Self { inner }
    }

    async fn ask(
        &self,
        request: &ModelRequest<'_>,
        events: EventHandler<'_>,
    ) -> Result<ModelResponse, ProviderError> {
        let names = NameMap::new(request);
        if names.is_trivial() {
            return self.inner.complete(request, events).await;
        }
        let tools: Vec<ToolDefinition> =
            request.tools.iter().map(|tool| names.tool(tool)).collect();
        let messages: Vec<ChatMessage> = request
            .messages
            .iter()
            .map(|it| names.message(it))
            .collect();
        let choice = match request.tool_choice {
            ToolChoice::Tool(name) => ToolChoice::Tool(names.sanitized(name).into_owned()),
            other => other.clone(),
        };
        let sanitized = ModelRequest {
            messages: &messages,
            tools: &tools,
            tool_choice: &choice,
            ..request.clone()
        };
        let mut handler = |event: ModelEvent| {
            events(match event {
                ModelEvent::ToolCall { index, name } => ModelEvent::ToolCall {
                    index,
                    name: names.original(name),
                },
                other => other,
            });
        };
        let mut response = self.inner.complete(&sanitized, &mut handler).await?;
        for call in &mut response.message.tool_calls {
            call.name = names.original(std::mem::take(&mut call.name));
        }
        Ok(response)
    }
}

impl std::fmt::Debug for SanitizedNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SanitizedNames").finish_non_exhaustive()
    }
}

impl Provider for SanitizedNames {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn takes_images(&self) -> bool {
        self.inner.takes_images()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        events: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(self.ask(request, events))
    }
}

/// The invalid names of one request and their replacements.
struct NameMap {
    sanitized: BTreeMap<String, String>,
    /// The replacements of offered tools only; other tools cannot be called.
    originals: BTreeMap<String, String>,
}

impl NameMap {
    /// Creates the map.
    ///
    /// Tools come first, so their replacements do not change while a conversation grows.
    fn new(request: &ModelRequest<'_>) -> Self {
        let offered = request.tools.iter().map(|tool| tool.name.as_str());
        let calls = request.messages.iter().flat_map(|it| &it.tool_calls);
        let called = calls.map(|call| call.name.as_str());
        let all: Vec<&str> = offered.clone().chain(called).collect();
        let mut taken: BTreeSet<String> = all
            .iter()
            .filter(|name| is_valid(name))
            .map(|name| (*name).to_owned())
            .collect();
        let mut sanitized = BTreeMap::new();
        for name in all.into_iter().filter(|name| !is_valid(name)) {
            if !sanitized.contains_key(name) {
                let replacement = sanitize(name, &taken);
                taken.insert(replacement.clone());
                sanitized.insert(name.to_owned(), replacement);
            }
        }
        let originals =
            offered.filter_map(|name| Some((sanitized.get(name)?.clone(), name.to_owned())));
        Self {
            originals: originals.collect(),
            sanitized,
        }
    }

    fn is_trivial(&self) -> bool {
        self.sanitized.is_empty()
    }

    fn sanitized<'n>(&'n self, name: &'n str) -> Cow<'n, str> {
        Cow::Borrowed(self.sanitized.get(name).map_or(name, String::as_str))
    }

    fn original(&self, name: String) -> String {
        self.originals.get(&name).cloned().unwrap_or(name)
    }

    fn tool(&self, tool: &ToolDefinition) -> ToolDefinition {
        let mut sanitized = tool.clone();
        sanitized.name = self.sanitized(&tool.name).into_owned();
        sanitized
    }

    fn message(&self, message: &ChatMessage) -> ChatMessage {
        let mut message = message.clone();
        for call in &mut message.tool_calls {
            call.name = self.sanitized(&call.name).into_owned();
        }
        message
    }
}

fn is_valid(name: &str) -> bool {
    let is_allowed =
        |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    !name.is_empty() && name.len() <= MAX_NAME_LEN && name.chars().all(is_allowed)
}

/// Returns a valid name that differs from the taken ones.
fn sanitize(name: &str, taken: &BTreeSet<String>) -> String {
    let replace = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    };
    let base: String = name.chars().map(replace).take(MAX_NAME_LEN).collect();
    let base = if base.is_empty() {
        "_".to_owned()
    } else {
        base
    };
    let mut candidate = base.clone();
    let mut number = 2_usize;
    while taken.contains(&candidate) {
        let suffix = format!("_{number}");
        let kept: String = base.chars().take(MAX_NAME_LEN - suffix.len()).collect();
        candidate = kept + &suffix;
        number += 1;
    }
    candidate
}
