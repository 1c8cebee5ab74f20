//! Messages with the marks of their row.

use std::ops::Range;

use openchatml::harmony::{FunctionTool, RenderMessage};
use openchatml::{FrameRole, harmony};

use super::span::SpanClass;

/// A conversation that was read from a row.
#[derive(Debug, Default)]
pub(super) struct Chat {
    pub(super) messages: Vec<Marked>,
    pub(super) tools: Vec<FunctionTool>,
    /// Whether the row is that of openai-harmony, which is rendered as written.
    pub(super) native: bool,
}

/// A message of the rendering.
#[derive(Debug)]
pub(super) struct Marked {
    pub(super) message: RenderMessage,
    /// The index of its message in the row.
    pub(super) source: usize,
    /// The id of the call or of the answered call.
    pub(super) id: Option<String>,
    /// The mark of the row.
    pub(super) train: Option<bool>,
    /// Parts of the body with marks of their own, in order, in bytes.
    pub(super) details: Vec<(Range<usize>, bool)>,
}

impl Marked {
    pub(super) const fn new(message: RenderMessage, source: usize) -> Self {
        Self {
            message,
            source,
            id: None,
            train: None,
            details: Vec::new(),
        }
    }

    /// Returns the text of the body, without typed content.
    pub(super) fn text(&self) -> String {
        let parts = self.message.content.iter();
        parts.fold(String::new(), |mut text, part| {
            if let harmony::Content::Text(part) = part {
                text.push_str(part);
            }
            text
        })
    }
}

/// Returns the class of a message.
pub(super) fn class_of(message: &RenderMessage) -> SpanClass {
    if message.role != FrameRole::Assistant {
        return SpanClass::Context;
    }
    if is_call(message) {
        return SpanClass::Call;
    }
    match message.channel.as_deref() {
        Some("analysis") => SpanClass::Reasoning,
        _ => SpanClass::Answer,
    }
}

/// Returns whether a message of the assistant is addressed to a tool.
pub(super) fn is_call(message: &RenderMessage) -> bool {
    let to = message.recipient.as_deref();
    message.role == FrameRole::Assistant && to.is_some_and(|to| to != "all")
}

/// Returns whether a message ends the turn of the assistant.
pub(super) fn ends_turn(message: &RenderMessage) -> bool {
    message.role == FrameRole::Assistant
        && (is_call(message) || matches!(message.channel.as_deref(), Some("final") | None))
}
