//! Asking a person whether tools may run: what the person is told, and what the answer means.
//!
//! A turn that has to ask suspends with a descriptor whose metadata lists the calls. The signal's
//! payload has the field `approval`: `approve` or `deny` for all of them, or an object that says so
//! for each call by its id. A call that it does not mention does not run. The field `note` may hold
//! words for the model.

use logue_harness::SignalDescriptor;
use logue_message::{ChatMessage, Role, ToolCall};
use serde_json::{Map, Value, json};

use crate::permission::Permission;

/// The field of the state, and of a signal's payload, that says what was decided.
pub const APPROVAL: &str = "approval";
/// The field of the state, and of a signal's payload, with words for the model.
pub const NOTE: &str = "note";

/// Whose words the message is that says what waits. It is for people and never sent to a model.
const SPEAKER: &str = "logue-approval";
/// Characters of a call's arguments that are shown.
const ARGUMENTS: usize = 200;

/// A call on its way through the gate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GatedCall {
    pub(crate) call: ToolCall,
    pub(crate) permission: Permission,
}

/// What a person decided about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Approve,
    Deny,
}

impl Decision {
    fn parse(word: &Value) -> Option<Self> {
        match word.as_str() {
            Some("approve") => Some(Self::Approve),
            Some("deny") => Some(Self::Deny),
            _ => None,
        }
    }
}

impl GatedCall {
    /// Whether it may run, or what the model is told instead.
    pub(crate) fn verdict(&self, approval: &Value, note: &str) -> Result<(), String> {
        let name = &self.call.name;
        let noted = |words: String| {
            if note.is_empty() {
                words
            } else {
                format!("{words} They said: {note}")
            }
        };
        match self.permission {
            Permission::Allow => Ok(()),
            Permission::Deny => Err(format!(
                "The tool `{name}` may not be used in this conversation, so the call was not run."
            )),
            Permission::Ask => {
                let word = approval.get(&self.call.id).unwrap_or(approval);
                match Decision::parse(word) {
                    Some(Decision::Approve) => Ok(()),
                    Some(Decision::Deny) => Err(noted(format!(
                        "A person denied this call of `{name}`, so it was not run."
                    ))),
                    None => Err(noted(format!(
                        "No person approved this call of `{name}`, so it was not run."
                    ))),
                }
            }
        }
    }
}

/// The message that tells people what waits, and why.
pub(crate) fn pending_message(waiting: &[&ToolCall]) -> ChatMessage {
    let mut text = String::from("Waiting for approval: ");
    text.push_str(&reason(waiting));
    for call in waiting {
        text.push_str(&format!("\n- {} {}", call.name, shortened(call)));
    }
    ChatMessage::assistant(text).with_name(SPEAKER)
}

/// Whether a message only says what waits for a person. It is for people: no model said it, and none
/// is sent it.
pub fn is_pending(message: &ChatMessage) -> bool {
    message.role == Role::Assistant && message.name.as_deref() == Some(SPEAKER)
}

/// What a turn waits for: the `n`-th approval of an invocation.
pub(crate) fn descriptor(invocation: &str, n: u64, waiting: &[&ToolCall]) -> SignalDescriptor {
    let short: String = invocation.chars().filter(|c| *c != '-').take(12).collect();
    let calls: Vec<Value> = waiting
        .iter()
        .map(|call| {
            let arguments = call.arguments.object().map(Value::Object);
            let arguments = arguments.unwrap_or_else(|_| json!(call.arguments.as_str()));
            json!({"id": call.id, "name": call.name, "arguments": arguments})
        })
        .collect();
    SignalDescriptor {
        signal_id: format!("approve-{short}-{n}"),
        metadata: Some(json!({"calls": calls, "reason": reason(waiting)})),
    }
}

/// Whether a signal's payload is an answer to what a turn waits for.
///
/// # Errors
/// What is wrong with it, for whoever gave it.
pub fn check_approval(
    descriptor: &SignalDescriptor,
    payload: &Map<String, Value>,
) -> Result<(), String> {
    const FORM: &str = "`approval` is \"approve\", \"deny\", or an object that gives one of them \
                        for each call by its id";
    if payload.get(NOTE).is_some_and(|note| !note.is_string()) {
        return Err("`note` is a text".to_owned());
    }
    if let Some(field) = payload.keys().find(|key| *key != APPROVAL && *key != NOTE) {
        return Err(format!(
            "there is no field `{field}` in an approval: {FORM}"
        ));
    }
    let calls = descriptor.metadata.as_ref();
    let calls = calls.and_then(|metadata| metadata.get("calls")?.as_array());
    let ids: Vec<&str> = calls
        .into_iter()
        .flatten()
        .filter_map(|call| call.get("id")?.as_str())
        .collect();
    match payload.get(APPROVAL) {
        None => Err(format!("the payload has no `approval`: {FORM}")),
        Some(Value::Object(decisions)) => {
            for (id, word) in decisions {
                if !ids.contains(&id.as_str()) {
                    return Err(format!(
                        "no call `{id}` waits; these do: {}",
                        ids.join(", ")
                    ));
                }
                if Decision::parse(word).is_none() {
                    return Err(format!("the approval of `{id}` is {word}: {FORM}"));
                }
            }
            match ids.iter().find(|id| !decisions.contains_key(**id)) {
                Some(id) => Err(format!("nothing is said of the call `{id}`")),
                None => Ok(()),
            }
        }
        Some(word) if Decision::parse(word).is_some() => Ok(()),
        Some(word) => Err(format!("`approval` is {word}: {FORM}")),
    }
}

fn reason(waiting: &[&ToolCall]) -> String {
    match waiting {
        [only] => format!("the tool `{}` runs only if a person agrees.", only.name),
        calls => format!("{} calls run only if a person agrees.", calls.len()),
    }
}

fn shortened(call: &ToolCall) -> String {
    let words: Vec<&str> = call.arguments.as_str().split_whitespace().collect();
    let text = words.join(" ");
    match text.char_indices().nth(ARGUMENTS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}
