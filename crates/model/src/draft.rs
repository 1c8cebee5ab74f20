//! What was heard of an answer, and the one way in which it becomes a [`Response`].
//!
//! Whatever the wire format: the ids of calls are unique in the conversation, a call that was cut
//! never runs, and an answer that says nothing is an error that holds what there is.

use std::collections::BTreeSet;

use logue_message::{Arguments, CallKind, ChatMessage, Content, ContentBlock, ToolCall};
use serde_json::Value;

use crate::refusal::Refusal;
use crate::{Category, FinishReason, ProviderError, Response, Usage};

/// An answer as far as it was heard.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Words and reasoning in their order.
    pub(crate) blocks: Vec<ContentBlock>,
    /// Calls in the order in which they began.
    pub(crate) calls: Vec<DraftCall>,
    /// Why the model stopped, where the server said so.
    pub(crate) finish_reason: Option<FinishReason>,
    /// What it cost, where the server said so.
    pub(crate) usage: Option<Usage>,
}

/// A call as it was heard.
#[derive(Debug)]
pub(crate) struct DraftCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) kind: CallKind,
}

impl Draft {
    /// The complete answer.
    ///
    /// # Errors
    /// The answer says nothing, holds a call without a name, or is cut in the middle of its calls.
    /// What there is of it goes along with the error.
    pub(crate) fn into_response(self) -> Result<Response, ProviderError> {
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return Err(ProviderError::new(
                Category::InvalidResponse,
                "the server sent a tool call without a name",
            )
            .with_help("try again; if it stays so, the server's tool call parser is at fault"));
        }
        let calls: Vec<ToolCall> = self
            .calls
            .into_iter()
            .map(|call| ToolCall {
                id: call.id,
                name: call.name,
                arguments: Arguments::from_text(call.arguments),
                kind: call.kind,
                signature: None,
            })
            .collect();
        let finish_reason = match self.finish_reason {
            // Servers that call tools but say "stop" are common.
            Some(FinishReason::Stop) | None if !calls.is_empty() => FinishReason::ToolCalls,
            Some(reason) => reason,
            None => FinishReason::Stop,
        };
        let content = content_of(self.blocks);
        if finish_reason == FinishReason::Length && !calls.is_empty() {
            // A cut call must not run, so only what was said before it is kept.
            return Err(incomplete(
                "the answer reached its length limit in the middle of its tool calls",
                ChatMessage::assistant(content),
            ));
        }
        let message = ChatMessage::assistant(content).with_tool_calls(calls);
        if message.tool_calls.is_empty() && message.text().trim().is_empty() {
            let what = if finish_reason == FinishReason::ContentFilter {
                "the server withheld the answer: its filter or the model refused"
            } else {
                "the model answered with nothing: no text and no tool call"
            };
            return Err(incomplete(what, message));
        }
        Ok(Response::new(message, finish_reason).with_usage(self.usage))
    }
}

/// Gives the calls of an answer ids that neither the conversation nor the answer has already: some
/// servers leave them out, or count from zero in every answer.
pub(crate) fn make_ids_unique(answer: &mut ChatMessage, conversation: &[ChatMessage]) {
    let calls = conversation.iter().flat_map(|message| &message.tool_calls);
    let mut taken: BTreeSet<String> = calls.map(|call| call.id.clone()).collect();
    for (index, call) in answer.tool_calls.iter_mut().enumerate() {
        let mut attempt = index;
        while call.id.is_empty() || taken.contains(&call.id) {
            // The number of messages tells made-up ids of this answer from those of earlier ones.
            call.id = format!("call_{}_{attempt}", conversation.len());
            attempt += 1;
        }
        taken.insert(call.id.clone());
    }
}

/// An error that the server reports inside its answer, after a successful status.
pub(crate) fn stream_error(event: &Value) -> ProviderError {
    let refusal = Refusal::of_event(event);
    let opening = match refusal.words.as_str() {
        "" => "the server reported an error inside the stream",
        _ => "",
    };
    refusal.into_error(opening)
}

/// The content that blocks are: plain text where there is nothing else to say of it.
fn content_of(mut blocks: Vec<ContentBlock>) -> Content {
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

/// An answer that ended before it was one.
pub(crate) fn incomplete(what: &str, message: ChatMessage) -> ProviderError {
    let mut error = ProviderError::new(Category::InvalidResponse, what).with_help(
        "raise `max_tokens` in <config/>, or check the model's chat template, and try again",
    );
    error.answer = Some(Box::new(message));
    error
}
