//! Reasons why a message refuses its row.

use logue_source::{DiagnosticCode, Span};
use serde_json::value::RawValue;

use super::marks::MarkError;
use super::read::message_span;
use super::row::{RawMessage, RawPart};
use crate::Refusal;

/// A refusal of a message, whose place is found only when it is needed.
pub(super) enum MessageError {
    Mark(MarkError),
    Content(String, &'static str),
    Shape(String),
    /// The message is to be trained, and has neither text nor a call.
    EmptyAnswer,
}

impl From<MarkError> for MessageError {
    fn from(error: MarkError) -> Self {
        Self::Mark(error)
    }
}

impl MessageError {
    pub(super) fn place(self, row: &[u8], index: usize) -> Refusal {
        let span = message_span(row, index);
        match self {
            Self::Mark(error) => error.into_refusal(span),
            Self::Content(text, help) => content(&text, help, span),
            Self::Shape(text) => shape(&text, span),
            Self::EmptyAnswer => {
                let message = "the message of the assistant has neither text nor a call";
                Refusal::new(DiagnosticCode::DataMaskEmpty, message, span).with_help(
                    "add the answer, mark the message with `\"weight\": 0`, or remove the row",
                )
            }
        }
    }
}

pub(super) fn content(text: &str, help: &'static str, span: Span) -> Refusal {
    Refusal::new(DiagnosticCode::DataMaskContent, text, span).with_help(help)
}

pub(super) fn shape(text: &str, span: Span) -> Refusal {
    Refusal::new(DiagnosticCode::JsonShape, text, span)
        .with_help("convert the data set to messages with `logue data convert`")
}

impl RawMessage<'_> {
    /// Refuses content that no form of a mask has a place for.
    pub(super) fn check_lost(&self) -> Result<(), MessageError> {
        let lost = [
            ("refusal", self.refusal),
            ("audio", self.audio),
            ("images", self.images),
            ("reasoning_details", self.reasoning_details),
        ];
        let is_lost = |value: Option<&RawValue>| value.is_some_and(|value| !is_empty(value));
        match lost.into_iter().find(|(_, value)| is_lost(*value)) {
            Some((name, _)) => Err(MessageError::Content(
                format!("`{name}` has no place in the form"),
                "remove the key, or the row",
            )),
            None => Ok(()),
        }
    }

    /// Returns the reasoning beside the content, which several keys may repeat.
    pub(super) fn reasoning(&self) -> Result<Option<&str>, MessageError> {
        let texts = [&self.reasoning_content, &self.reasoning, &self.thinking];
        let texts = texts.into_iter().flatten().map(|text| &*text.0);
        let mut texts = texts.filter(|text| !text.is_empty());
        let first = texts.next();
        if texts.all(|text| Some(text) == first) {
            return Ok(first);
        }
        Err(MessageError::Content(
            "the message has several texts of reasoning".to_owned(),
            "keep one of `reasoning_content`, `reasoning` and `thinking`",
        ))
    }
}

impl RawPart<'_> {
    /// Returns whether the part is reasoning.
    pub(super) fn is_thought(&self) -> bool {
        matches!(self.kind(), Some("thinking" | "reasoning"))
    }

    /// Refuses a part that is not text.
    pub(super) fn check_text(&self) -> Result<(), MessageError> {
        match self.kind() {
            None | Some("text" | "input_text" | "output_text") => Ok(()),
            Some(kind) => Err(MessageError::Content(
                format!("a part of the type {kind:?} has no place in the form"),
                "remove the part, or the row",
            )),
        }
    }

    fn kind(&self) -> Option<&str> {
        self.kind.as_ref().map(|kind| &*kind.0)
    }
}

/// Returns whether a value says nothing.
pub(super) fn is_empty(value: &RawValue) -> bool {
    matches!(value.get().trim(), "null" | "[]" | "{}" | "\"\"")
}
