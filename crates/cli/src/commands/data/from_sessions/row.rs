//! Rows with a whole conversation.

use logue_message::{Arguments, ChatMessage, Role};
use openchatml::convert::ConvertOptions;
use openchatml::project::JsonFormat;
use openchatml::{Transcript, frames_from_messages};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Stored;
use super::decisions::Decision;
use crate::conversion::form::Form;
use crate::conversion::in_memory::reason;
use crate::exit::CliError;

/// Returns the row of a session: the messages as they ran, with weights and decisions.
pub(super) fn conversation(stored: &Stored, keeps_reasoning: bool) -> Result<Value, CliError> {
    let ran = as_run(&stored.messages, &stored.decisions);
    let mut messages = openai(&ran, keeps_reasoning)?;
    weigh(&mut messages, &stored.decisions);
    let decisions: Vec<Value> = stored.decisions.iter().map(Decision::to_json).collect();
    let mut row = json!({
        "messages": messages,
        "session": stored.info.session,
        "sha256": hash(&stored.messages),
    });
    if !decisions.is_empty() {
        row["decisions"] = Value::Array(decisions);
    }
    Ok(row)
}

/// Replaces the arguments of edited calls by those that ran.
pub(super) fn as_run(messages: &[ChatMessage], decisions: &[Decision]) -> Vec<ChatMessage> {
    let mut messages = messages.to_vec();
    for decision in decisions {
        let Some(edited) = &decision.edited else {
            continue;
        };
        let calls = messages
            .iter_mut()
            .flat_map(|message| &mut message.tool_calls);
        for call in calls.filter(|call| call.id == decision.call) {
            call.arguments = Arguments::from_text(edited.clone());
        }
    }
    messages
}

/// Returns messages as those of Chat Completions.
pub(super) fn openai(
    messages: &[ChatMessage],
    keeps_reasoning: bool,
) -> Result<Vec<Value>, CliError> {
    let (frames, _) = frames_from_messages(messages);
    let options = ConvertOptions::default()
        .with_thinking(keeps_reasoning)
        .with_line(true);
    let written = Form::Projection(JsonFormat::OpenAi)
        .write(&Transcript::new(frames), &options)
        .map_err(|error| CliError::user("outside-capabilities", reason(&error)))?;
    let internal = |error: serde_json::Error| CliError::user("E-JSON-SYNTAX", error.to_string());
    let mut row: Value = serde_json::from_str(&written.text).map_err(internal)?;
    match row.get_mut("messages").map(Value::take) {
        Some(Value::Array(messages)) => Ok(messages),
        _ => Ok(Vec::new()),
    }
}

/// Gives weight 0 to the messages whose every call a person denied.
fn weigh(messages: &mut [Value], decisions: &[Decision]) {
    let is_denied = |call: &Value| {
        let mut of_call = decisions
            .iter()
            .filter(|decision| call["id"].as_str() == Some(decision.call.as_str()));
        // The last decision about a call counts.
        of_call
            .next_back()
            .is_some_and(|decision| !decision.is_allowed)
    };
    for message in messages {
        let Some(calls) = message.get("tool_calls").and_then(Value::as_array) else {
            continue;
        };
        if !calls.is_empty() && calls.iter().all(is_denied) {
            message["weight"] = json!(0);
        }
    }
}

/// Returns the hash of messages as they are stored.
pub(super) fn hash(messages: &[ChatMessage]) -> String {
    let mut hash = Sha256::new();
    for message in messages {
        hash.update(message.to_json().to_string().as_bytes());
        hash.update(b"\n");
    }
    format!("{:x}", hash.finalize())
}

/// Returns the end of the continuation that begins at `from`: the next message of a user.
pub(super) fn end_of_turn(messages: &[ChatMessage], from: usize) -> usize {
    let rest = messages.iter().skip(from);
    let until = rest
        .take_while(|message| message.role != Role::User)
        .count();
    from + until
}
