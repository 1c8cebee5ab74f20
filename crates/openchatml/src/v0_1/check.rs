//! Calls of 0.1 against its function list.

use logue_source::{Diagnostic, Span};
use serde_json::from_slice;

use super::document::{Item, LegacyDocument};
use super::event::Function;
use super::json::{Call, Output};
use super::read::to_transcript;
use crate::check::transcript_calls::{self, CallPlace, Places, Spelling, check_replies_by_name};
use crate::messages::recipient_of;
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
    let mut steps = Vec::new();
    let messages = document
        .messages()
        .iter()
        .filter(|message| message.head.sound);
    for message in messages {
        for item in &message.items {
            let Item::Function(function, span) = *item else {
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
    let mut found = transcript_calls::check(&transcript, source, &places);
    let steps = steps
        .iter()
        .map(|(tool, is_reply, place)| (tool.as_str(), *is_reply, *place));
    found.extend(check_replies_by_name(steps));
    found.sort_by_key(|found| found.primary.start);
    found
}
