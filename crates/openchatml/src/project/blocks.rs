//! Parts that the writers of Anthropic Messages and Responses share.

use std::collections::BTreeMap;

use logue_message::{ChatMessage, Role};

use crate::loss::{Loss, LossKind, LossTarget};
use crate::syntax::json::is_json;

/// The losses of the message that is being written.
pub(super) struct Notes<'w> {
    pub(super) index: usize,
    pub(super) losses: &'w mut Vec<Loss>,
}

impl Notes<'_> {
    pub(super) fn add(&mut self, kind: LossKind, text: &str) {
        let target = LossTarget::Message(self.index);
        self.losses.push(Loss::new(target, kind, text));
    }

    /// Notes a name that the form has no place for. The name of a reply is that of its call.
    pub(super) fn name(&mut self, message: &ChatMessage, tools: &BTreeMap<&str, &str>) {
        let id = message.tool_call_id.as_deref();
        let called = id.and_then(|id| tools.get(id).copied());
        let is_known = message.role == Role::Tool && called == message.name.as_deref();
        if message.name.is_some() && !is_known {
            self.add(LossKind::NameDropped, "name dropped");
        }
        if message.interrupted {
            self.add(LossKind::AttributeDropped, INTERRUPTION);
        }
    }

    /// Lists the phase of an answer, for a form without phases.
    pub(super) fn phase(&mut self, message: &ChatMessage) {
        if message.phase.is_some() {
            self.add(LossKind::AttributeDropped, PHASE);
        }
    }
}

/// The note about a phase in a form without phases.
pub(super) const PHASE: &str = "the phase of an answer dropped";

/// The note about an interrupted answer in a form without a mark for it.
pub(super) const INTERRUPTION: &str = "an interrupted answer reads as complete";

/// JSON on one line, and whether that changed its spelling.
pub(super) fn on_one_line(json: &str) -> (String, bool) {
    if !json.contains(['\n', '\r']) {
        return (json.to_owned(), false);
    }
    let mut text = String::with_capacity(json.len());
    let (mut is_string, mut is_escaped) = (false, false);
    for character in json.chars() {
        if is_string {
            is_string = character != '"' || is_escaped;
            is_escaped = character == '\\' && !is_escaped;
        } else if character.is_ascii_whitespace() {
            continue;
        } else {
            is_string = character == '"';
        }
        text.push(character);
    }
    (text, true)
}

/// Returns whether arguments are an object in JSON.
pub(super) fn is_object(arguments: &str) -> bool {
    arguments.starts_with('{') && arguments.ends_with('}') && is_json(arguments)
}
