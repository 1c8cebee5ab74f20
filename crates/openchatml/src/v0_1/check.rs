//! Calls of 0.1 against its function list.

use logue_source::{Diagnostic, DiagnosticCode, Span};
use serde_json::from_slice;

use super::document::{Item, LegacyDocument};
use super::event::Function;
use super::json::{Brackets, Call, Output};
use super::marker::Marker;
use super::read::to_transcript;
use crate::check::transcript_calls::{self, CallPlace, Places, Spelling, check_replies_by_name};
use crate::declare::CallSchemas;
use crate::messages::recipient_of;
use crate::syntax::json::find_error;
use crate::syntax::vocabulary::FrameRole;

/// Checks the calls of a conversation (`E-CALL-SCHEMA`).
///
/// Reports arguments that do not fit the function list of the system message, functions that it does
/// not have, and outputs of a function that was not called. Linear in the text.
///
/// ```
/// use openchatml::v0_1::{LegacyReadOptions, check, parse};
///
/// let text = b"<|im_start|>system
/// <|function_list|>
/// {\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\"}}}
/// <|im_end|>
/// <|im_start|>assistant
/// <|function_call|>
/// {\"name\": \"g\", \"arguments\": {}}
/// <|im_end|>";
/// let found = check(&parse(text, &LegacyReadOptions::default()));
/// assert_eq!(found[0].code.as_str(), "E-CALL-SCHEMA");
/// ```
pub fn check(document: &LegacyDocument<'_>) -> Vec<Diagnostic> {
    let source = document.source();
    let mut places = Places {
        fallback: Span::new(0, 1.min(source.len())),
        remedy: "declare the tool in the `<|function_list|>` of a system message",
        ..Places::default()
    };
    let (mut steps, mut found) = (Vec::new(), Vec::new());
    let messages = document
        .messages()
        .iter()
        .filter(|message| message.head.sound);
    for message in messages {
        for item in &message.items {
            let Item::Function(function, span) = *item else {
                if message.head.role == FrameRole::Assistant {
                    found.extend(malformed_calls(source, *item, message.complete));
                }
                continue;
            };
            let json = span.bytes(source);
            match (function, message.head.role) {
                (Function::Call, FrameRole::Assistant) => {
                    let Ok(call) = from_slice::<Call<'_>>(json) else {
                        continue;
                    };
                    let arguments = call.arguments.get();
                    let at = memchr::memmem::rfind(json, arguments.as_bytes()).unwrap_or_default();
                    let start = span.start + at;
                    places.calls.push(CallPlace {
                        name: span,
                        arguments: Span::new(start, start + arguments.len()),
                        spelling: Spelling::Verbatim,
                    });
                    steps.push((recipient_of(&call.name), false, span));
                }
                (Function::Output, FrameRole::Tool) => {
                    if let Ok(output) = from_slice::<Output<'_>>(json) {
                        steps.push((recipient_of(&output.name), true, span));
                    }
                }
                _ => {}
            }
        }
    }
    let (mut transcript, _) = to_transcript(document);
    // Outputs have no ids; they are compared by name.
    transcript
        .frames
        .retain(|frame| frame.role != FrameRole::Tool);
    found.extend(transcript_calls::check(
        &transcript,
        source,
        &places,
        &CallSchemas::new(),
    ));
    let steps = steps
        .iter()
        .map(|(tool, is_reply, place)| (tool.as_str(), *is_reply, *place));
    found.extend(check_replies_by_name(steps));
    found.sort_by_key(|found| found.primary.start);
    found
}

/// Reports calls of an assistant that were read as text, because they are malformed.
///
/// A token without an object is prose about the token.
fn malformed_calls(source: &[u8], item: Item, is_complete: bool) -> Vec<Diagnostic> {
    let token = Marker::FunctionCall.as_str().as_bytes();
    let text = match item {
        Item::Text(text) => text,
        // The end of an incomplete message is reported by the reader.
        Item::Unfinished(Function::Call, value) if is_complete => {
            return vec![malformed_call(source, value)];
        }
        _ => return Vec::new(),
    };
    let bytes = text.bytes(source);
    let mut found = Vec::new();
    for at in memchr::memmem::find_iter(bytes, token) {
        let value = bytes.get(at + token.len()..).unwrap_or_default();
        let blank = value.len() - value.trim_ascii_start().len();
        let start = text.start + at + token.len() + blank;
        if source.get(start) == Some(&b'{') {
            found.push(malformed_call(source, Span::new(start, text.end)));
        }
    }
    found
}

/// The finding about the object that begins a text.
fn malformed_call(source: &[u8], text: Span) -> Diagnostic {
    let bytes = text.bytes(source);
    let mut brackets = Brackets::new(0);
    let end = brackets.feed(bytes).filter(|_| brackets.is_closed());
    let json = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    let json = json.trim_ascii_end();
    let (message, place) = match find_error(json) {
        Some(error) => {
            let at = text.start + error.offset.min(json.len());
            let end = (at + 1).min(text.start + json.len()).max(at);
            let message = format!(
                "the call is not JSON, so it is read as text: {}",
                error.what
            );
            (message, Span::new(at, end))
        }
        None => (
            "the object is not a call, so it is read as text".to_owned(),
            Span::new(text.start, text.start + json.len()),
        ),
    };
    Diagnostic::error(DiagnosticCode::CallSchema, message, place)
        .with_expected("`{\"name\": \"…\", \"arguments\": {…}}`")
        .with_help("correct the object, or remove the token if it is text")
}
