//! A partially received response and its conversion into a [`ModelResponse`].
//!
//! The rules apply to every wire format: call ids are unique in the conversation, a truncated call
//! never runs, and an empty response is an error that carries the received content.

use std::collections::BTreeSet;

use logue_message::{CallKind, ChatMessage, Content, ContentBlock, ToolCall};
use serde_json::Value;

use crate::http::ServerError;
use crate::{Category, FinishReason, ModelResponse, ProviderError, Usage};

/// A partially received response.
#[derive(Debug, Default)]
pub(crate) struct PartialResponse {
    /// Text and reasoning in order.
    pub(crate) blocks: Vec<ContentBlock>,
    /// Tool calls in the order in which they began.
    pub(crate) calls: Vec<PartialToolCall>,
    /// The phase of the text, if the server sent one other than `commentary`.
    pub(crate) phase: Option<String>,
    /// The stop reason, if the server sent one.
    pub(crate) finish_reason: Option<FinishReason>,
    /// The token usage, if the server sent it.
    pub(crate) usage: Option<Usage>,
}

/// A tool call as received.
#[derive(Debug)]
pub(crate) struct PartialToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) kind: CallKind,
}

impl PartialResponse {
    /// Builds the complete response.
    ///
    /// # Errors
    /// Returns an error if the response is empty, contains a call without a name, or is truncated
    /// within its calls. The error carries the received content.
    pub(crate) fn into_response(self) -> Result<ModelResponse, ProviderError> {
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return Err(ProviderError::new(
                Category::InvalidResponse,
                "the server sent a tool call without a name",
            )
            .with_help("try again; if the error persists, check the server's tool call parser"));
        }
        let calls: Vec<ToolCall> = self
            .calls
            .into_iter()
            .map(|call| ToolCall::new(call.id, call.name, call.arguments).with_kind(call.kind))
            .collect();
        let finish_reason = match self.finish_reason {
            // Many servers report "stop" for a response with tool calls.
            Some(FinishReason::Stop) | None if !calls.is_empty() => FinishReason::ToolCalls,
            Some(reason) => reason,
            None => FinishReason::Stop,
        };
        let content = content_from(self.blocks);
        if finish_reason == FinishReason::Length && !calls.is_empty() {
            // A truncated call must not run, so only the content before it is kept.
            return Err(incomplete(
                "the response reached its length limit within its tool calls",
                ChatMessage::assistant(content),
            ));
        }
        let mut message = ChatMessage::assistant(content).with_tool_calls(calls);
        message.phase = self.phase;
        if message.tool_calls.is_empty() && message.text().trim().is_empty() {
            let cause = if finish_reason == FinishReason::ContentFilter {
                "the server withheld the response: its filter or the model refused"
            } else {
                "the response is empty: no text and no tool call"
            };
            return Err(incomplete(cause, message));
        }
        Ok(ModelResponse::new(message, finish_reason).with_usage(self.usage))
    }
}

/// Replaces missing and duplicate call ids by unique ones.
///
/// Some servers omit the ids, or count from zero in every response. The new ids occur neither in
/// the conversation nor in the response.
pub(crate) fn make_ids_unique(response: &mut ChatMessage, conversation: &[ChatMessage]) {
    let calls = conversation.iter().flat_map(|message| &message.tool_calls);
    let mut taken: BTreeSet<String> = calls.map(|call| call.id.clone()).collect();
    // The message count separates the ids of this response from those of earlier ones.
    let mut fresh = FreshIds::new(format!("call_{}", conversation.len()));
    for (index, call) in response.tool_calls.iter_mut().enumerate() {
        if call.id.is_empty() || taken.contains(&call.id) {
            call.id = fresh.next_from(index, &taken);
        }
        taken.insert(call.id.clone());
    }
}

/// A source of ids that tries each number once.
struct FreshIds {
    stem: String,
    /// The next number to try.
    next: usize,
    /// The number of ids that were tried.
    #[cfg(test)]
    tried: usize,
}

impl FreshIds {
    const fn new(stem: String) -> Self {
        Self {
            stem,
            next: 0,
            #[cfg(test)]
            tried: 0,
        }
    }

    /// Returns an id that is not taken, with a number from `least` on.
    fn next_from(&mut self, least: usize, taken: &BTreeSet<String>) -> String {
        self.next = self.next.max(least);
        loop {
            let id = format!("{}_{}", self.stem, self.next);
            self.next += 1;
            #[cfg(test)]
            {
                self.tried += 1;
            }
            if !taken.contains(&id) {
                return id;
            }
        }
    }
}

/// Returns the error of a server error inside a response with a success status.
pub(crate) fn stream_error(event: &Value) -> ProviderError {
    let error = ServerError::from_event(event);
    let opening = match error.text.as_str() {
        "" => "the server reported an error inside the stream",
        _ => "",
    };
    error.into_error(opening)
}

/// Returns the error of a response that ends before it is complete.
pub(crate) fn interrupted(cause: &str) -> ProviderError {
    ProviderError::new(
        Category::Unavailable,
        format!("the response was interrupted: {cause}"),
    )
    .with_public("the response was interrupted")
    .with_help("run the same command again")
}

/// Returns the error of an unusable response and keeps the received content.
pub(crate) fn incomplete(cause: &str, message: ChatMessage) -> ProviderError {
    let help = "raise `max_tokens` in <config/>, or check the model's chat template, and try again";
    let mut error = ProviderError::new(Category::InvalidResponse, cause)
        .with_help(help)
        .without_quotes();
    error.answer = Some(Box::new(message));
    error
}

/// Converts blocks to content, and one plain text block to plain text.
fn content_from(mut blocks: Vec<ContentBlock>) -> Content {
    match blocks.as_mut_slice() {
        [] => Content::Text(String::new()),
        [
            ContentBlock::Text {
                text,
                signature: None,
                preamble: false,
            },
        ] => Content::Text(std::mem::take(text)),
        _ => Content::Blocks(blocks),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::FreshIds;

    #[test]
    fn ids_for_many_calls_are_tried_once_each() {
        const CALLS: usize = 20_000;
        // A server may choose the ids of the first half so that they collide with all later ones.
        let mut taken: BTreeSet<String> =
            (CALLS / 2..CALLS).map(|n| format!("call_1_{n}")).collect();
        let mut fresh = FreshIds::new("call_1".to_owned());
        for index in CALLS / 2..CALLS {
            let id = fresh.next_from(index, &taken);
            assert!(taken.insert(id));
        }
        assert!(fresh.tried <= 2 * CALLS, "{}", fresh.tried);
    }
}
