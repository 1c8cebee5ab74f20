//! Calls of Harmony messages against the tools that the conversation declares.

use logue_source::{Diagnostic, Span};

use super::event::End;
use super::message::{HarmonyDocument, Message};
use crate::check::transcript_calls::check_replies_by_name;
use crate::check::{IN_MESSAGE, mismatched, undeclared};
use crate::declare::{self, CallError, ToolIndex};
use crate::syntax::vocabulary::FrameRole;
use crate::visibility::Recipient;

/// Checks the calls of a conversation (`E-CALL-SCHEMA`): arguments that do not fit
/// the declaration of their tool, undeclared tools, and replies of a tool that was not called. What
/// [`read`](super::read) found is not repeated.
///
/// Tools are those that the `system` and `developer` messages before a call declare; `declared`
/// is for those that the prompt declared, where `document` is only its completion. Linear in the
/// text.
///
/// ```
/// use openchatml::harmony::{HarmonyReadOptions, check, read};
///
/// let text = b"<|start|>developer<|message|># Tools
/// ## functions
/// namespace functions {
/// type add = (_: { a: number, b: number }) => any;
/// } // namespace functions<|end|>\
/// <|start|>assistant to=functions.add<|channel|>commentary <|constrain|>json<|message|>{\"a\":1,\"b\":\"2\"}<|call|>";
/// let found = check(&read(text, &HarmonyReadOptions::default()), &[]);
/// assert_eq!(found[0].code.as_str(), "E-CALL-SCHEMA");
/// assert_eq!(found[0].primary.bytes(text), b"\"2\"");
/// ```
pub fn check(document: &HarmonyDocument, declared: &[declare::Declarations]) -> Vec<Diagnostic> {
    let mut toolbox = ToolIndex::default();
    for declarations in declared {
        toolbox.add(declarations.clone());
    }
    let is_system = |message: &Message| message.head.role == FrameRole::System;
    if !document.messages.iter().any(is_system) {
        toolbox.accept_builtins();
    }
    let mut found = Vec::new();
    for message in &document.messages {
        if message.head.stray {
            continue;
        }
        if matches!(message.head.role, FrameRole::System | FrameRole::Developer) {
            toolbox.add(declare::read(&message.content));
        }
        found.extend(check_call(&toolbox, message));
    }
    found.extend(check_replies_by_name(
        document.messages.iter().filter_map(step),
    ));
    found
}

/// The tool of a call or reply, whether it is a reply, and its header.
fn step(message: &Message) -> Option<(&str, bool, Span)> {
    let head = &message.head;
    let is_call = head.role == FrameRole::Assistant && head.recipient() == Recipient::Tool;
    let tool = match head.role {
        FrameRole::Tool => head.name.as_deref(),
        _ => head
            .recipient
            .as_deref()
            .filter(|_| is_call && message.end == End::Call),
    };
    let has_id = head.call_id.is_some();
    let place = Span::new(message.span.start, message.body.start);
    Some((tool.filter(|_| !has_id && !head.stray)?, !is_call, place))
}

fn check_call(toolbox: &ToolIndex, message: &Message) -> Option<Diagnostic> {
    let head = &message.head;
    let is_call = head.role == FrameRole::Assistant && message.end == End::Call;
    let is_json = head
        .content_type
        .as_deref()
        .is_none_or(|word| word == "json");
    if !is_call || !is_json || head.recipient() != Recipient::Tool {
        return None;
    }
    let name = head.recipient.as_deref()?;
    match toolbox.judge(name, message.content.as_bytes()).err()? {
        CallError::Undeclared { namespace } => {
            let header = Span::new(message.span.start, message.body.start);
            Some(undeclared(name, namespace, IN_MESSAGE, header))
        }
        CallError::Arguments { mismatch, .. } | CallError::Builtin { mismatch } => {
            // Text that was written with escapes, or that is not UTF-8, has no such places.
            let is_verbatim = message.body.len() == message.content.len();
            let place = if is_verbatim {
                mismatch.span.shifted(message.body.start)
            } else {
                message.body
            };
            Some(mismatched(name, &mismatch, place))
        }
    }
}
