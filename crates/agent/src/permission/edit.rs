//! Edited approvals: a person replaces the arguments of a call and approves the result.
//!
//! The call of the model stays in the conversation as it is. Its result begins with the arguments
//! that ran, so that the model and every reader of the conversation see both.

use logue_graph::{SignalDescriptor, State, Update};
use logue_message::{Arguments, CallKind, ToolCall};
use logue_tools::{Preview, Router};
use serde_json::{Map, Value, json};

use crate::permission::approval::{APPROVAL, DECIDED_BY, NOTE};
use crate::permission::permissions::Permissions;
use crate::permission::rules::Permission;

/// The field of a state, and of a signal's payload, with edited arguments by call.
pub const EDITS: &str = "edits";

const ARGUMENTS: &str = "arguments";
const FINGERPRINT: &str = "fingerprint";
const SHOWN: &str = "shown";
const REDACTED: &str = "redacted";

/// The arguments with which a person replaced those of a call, checked against its tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditedCall {
    /// The arguments, as JSON without blanks between its parts.
    pub arguments: Arguments,
    /// The effect of the edited call, if its arguments do not describe it completely.
    pub preview: Option<Preview>,
    /// The fingerprint of the edited call.
    pub(crate) fingerprint: Option<String>,
    /// Whether the arguments lack a text that must not be stored.
    pub(crate) is_redacted: bool,
}

/// The reason why edited arguments are not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentsEditError(String);

impl EditedCall {
    /// Checks arguments that replace those of `call`.
    pub(crate) async fn check(
        router: &Router,
        permissions: &Permissions,
        call: &ToolCall,
        arguments: &str,
    ) -> Result<Self, ArgumentsEditError> {
        if permissions.decide(&call.name).permission == Permission::Deny {
            let message = format!("a rule denies calls of `{}`, edited or not", call.name);
            return Err(ArgumentsEditError(message));
        }
        let arguments = match call.kind {
            CallKind::Custom => arguments.to_owned(),
            CallKind::Function => {
                serde_json::from_str::<Map<String, Value>>(arguments).map_err(|error| {
                    ArgumentsEditError(format!("the arguments are not a JSON object: {error}"))
                })?;
                without_blanks(arguments)
            }
        };
        let edited = with_arguments(call, &Arguments::from_text(arguments));
        let router = router.current().await;
        router.check(&edited).map_err(ArgumentsEditError)?;
        let preview = router.preview(&edited).await;
        let fingerprint = router.fingerprint(&edited, preview.as_ref()).await;
        Ok(Self {
            arguments: edited.arguments,
            preview,
            fingerprint,
            is_redacted: false,
        })
    }

    /// Returns the text that a person reads about the edited call.
    pub(crate) fn shown(&self) -> &str {
        let preview = self.preview.as_ref();
        preview.map_or_else(|| self.arguments.as_str(), |preview| &preview.text)
    }

    /// Returns whether the arguments are others than those of the model.
    pub(crate) fn differs_from(&self, call: &ToolCall) -> bool {
        value_of(&self.applied(call)) != value_of(call)
    }

    /// Returns the call of the model with the edited arguments.
    pub(crate) fn applied(&self, call: &ToolCall) -> ToolCall {
        with_arguments(call, &self.arguments)
    }

    /// Returns the sentence for the model with which the result of the call begins.
    pub(crate) fn notice(&self, kind: CallKind) -> String {
        let arguments = match kind {
            CallKind::Function => self.arguments.as_str().to_owned(),
            CallKind::Custom => json!(self.arguments.as_str()).to_string(),
        };
        format!("A person replaced the arguments of this call with: {arguments}")
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut edit = json!({
            ARGUMENTS: self.arguments.as_str(),
            FINGERPRINT: self.fingerprint,
            SHOWN: self.preview.as_ref().map(|preview| &preview.text),
        });
        if self.is_redacted {
            edit[REDACTED] = json!(true);
        }
        edit
    }

    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        Some(Self {
            arguments: Arguments::from_text(text(ARGUMENTS)?),
            preview: text(SHOWN).map(Preview::new),
            fingerprint: text(FINGERPRINT).map(str::to_owned),
            is_redacted: value.get(REDACTED).and_then(Value::as_bool) == Some(true),
        })
    }
}

/// Returns the payload of a signal that approves every pending call, some with edited arguments.
///
/// `edits` has the arguments by call id: an object, or the text of one.
///
/// ```
/// use logue_agent::edited_approval_payload;
/// use serde_json::json;
///
/// let payload = edited_approval_payload([("call_1".to_owned(), json!({"service": "web"}))]);
/// assert_eq!(payload["approval"], "approve");
/// assert_eq!(payload["edits"]["call_1"]["service"], "web");
/// ```
pub fn edited_approval_payload(
    edits: impl IntoIterator<Item = (String, Value)>,
) -> Map<String, Value> {
    let mut payload = crate::permission::approval::approval_payload(true);
    let edits: Map<String, Value> = edits.into_iter().collect();
    payload.insert(EDITS.to_owned(), Value::Object(edits));
    payload
}

/// Returns the update with no decision about calls.
pub(crate) fn without_decision(update: Update) -> Update {
    update
        .with(APPROVAL, Value::Null)
        .with(NOTE, json!(""))
        .with(DECIDED_BY, json!(""))
        .with(EDITS, Value::Null)
}

/// Returns the edit of a call that the state contains.
pub(crate) fn edit_in(state: &State, call_id: &str) -> Option<EditedCall> {
    EditedCall::from_json(state.json(EDITS)?.get(call_id)?)
}

/// Checks the edits of a signal's payload, and adds their fingerprints and previews.
///
/// Arguments that are equal to those of the model are left out.
pub(crate) async fn checked_edits(
    router: &Router,
    permissions: &Permissions,
    descriptor: &SignalDescriptor,
    mut payload: Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let Some(Value::Object(edits)) = payload.remove(EDITS) else {
        return Ok(payload);
    };
    let mut checked = Map::new();
    for (id, arguments) in edits {
        let Some(call) = waiting_call(descriptor.metadata.as_ref(), &id) else {
            return Err(format!("no call `{id}` waits"));
        };
        if requested(&arguments, call.kind) == value_of(&call) {
            continue;
        }
        let text = match &arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let edited = EditedCall::check(router, permissions, &call, &text).await;
        let edited = edited.map_err(|error| format!("the edited call `{id}`: {error}"))?;
        checked.insert(id, edited.to_json());
    }
    if !checked.is_empty() {
        payload.insert(EDITS.to_owned(), Value::Object(checked));
    }
    Ok(payload)
}

/// Returns the arguments with which a stored payload runs a call.
pub(crate) fn stored_arguments(
    metadata: Option<&Value>,
    payload: &Map<String, Value>,
    id: &str,
) -> Option<Value> {
    let call = waiting_call(metadata, id)?;
    let edit = payload.get(EDITS).and_then(|edits| edits.get(id));
    Some(match edit.and_then(EditedCall::from_json) {
        Some(edited) => value_of(&edited.applied(&call)),
        None => value_of(&call),
    })
}

/// Returns the arguments with which a payload would run a call, before it is checked.
pub(crate) fn requested_arguments(
    metadata: Option<&Value>,
    payload: &Map<String, Value>,
    id: &str,
) -> Option<Value> {
    let call = waiting_call(metadata, id)?;
    let edit = payload.get(EDITS).and_then(|edits| edits.get(id));
    Some(match edit {
        Some(edit) => requested(edit, call.kind),
        None => value_of(&call),
    })
}

/// Returns a call that a suspended turn lists.
fn waiting_call(metadata: Option<&Value>, id: &str) -> Option<ToolCall> {
    let calls = metadata?.get("calls")?.as_array()?;
    let is_meant = |call: &&Value| call.get("id").and_then(Value::as_str) == Some(id);
    let call = calls.iter().find(is_meant)?;
    let arguments = match call.get(ARGUMENTS)? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let kind = match call.get("kind").and_then(Value::as_str) {
        Some("custom") => CallKind::Custom,
        _ => CallKind::Function,
    };
    let name = call.get("name")?.as_str()?;
    Some(ToolCall::new(id, name, arguments).with_kind(kind))
}

/// Returns the arguments of a call for comparison: independent of blanks in their text.
fn value_of(call: &ToolCall) -> Value {
    let text = call.arguments.as_str();
    let object = || call.arguments.object().ok().map(Value::Object);
    let object = object().filter(|_| call.kind == CallKind::Function);
    object.unwrap_or_else(|| json!(text))
}

/// Returns the arguments of an edit for comparison.
fn requested(edit: &Value, kind: CallKind) -> Value {
    match edit {
        Value::String(text) => value_of(&ToolCall::new("", "", text.as_str()).with_kind(kind)),
        other => other.clone(),
    }
}

/// Returns a call with other arguments; a signature is over those of the model.
fn with_arguments(call: &ToolCall, arguments: &Arguments) -> ToolCall {
    ToolCall::new(&call.id, &call.name, arguments.as_str()).with_kind(call.kind)
}

/// Removes the blanks between the parts of a JSON text; every other character stays.
fn without_blanks(json: &str) -> String {
    let (mut in_string, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        let was_in_string = in_string;
        match c {
            '"' if !is_escaped => in_string = !in_string,
            _ => {}
        }
        is_escaped = was_in_string && *c == '\\' && !is_escaped;
        was_in_string || !c.is_ascii_whitespace()
    };
    json.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::without_blanks;

    #[test]
    fn only_blanks_between_parts_are_removed() {
        for (json, expected) in [
            ("{ \"a\" : [ 1,\n\t2 ] }\n", "{\"a\":[1,2]}"),
            (
                r#"{"a b": "c \" d \\" , "e": 1.50e400 }"#,
                r#"{"a b":"c \" d \\","e":1.50e400}"#,
            ),
            ("\"\u{2003} x\"", "\"\u{2003} x\""),
        ] {
            assert_eq!(without_blanks(json), expected);
        }
    }
}
