//! Rows of other shapes as rows of messages.

use std::borrow::Cow;

use logue_source::{Diagnostic, DiagnosticCode, Span};
use openchatml::LossSeverity;
use openchatml::convert::ConvertOptions;
use openchatml::project::{self, JsonFormat};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::marks::{MarkError, MarkKeys, train_by};
use super::message_error::{content, is_empty};
use super::row::{Mark, RawMarks};
use crate::Refusal;
use crate::template::Members;

/// The keys of a row that decide its shape.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Outline<'r> {
    #[serde(borrow)]
    messages: Option<&'r RawValue>,
    #[serde(borrow)]
    conversations: Option<&'r RawValue>,
    #[serde(borrow)]
    system: Option<&'r RawValue>,
    #[serde(borrow)]
    label: Option<&'r RawValue>,
    #[serde(borrow)]
    labels: Option<&'r RawValue>,
    weight: Option<Mark>,
    train: Option<Mark>,
    loss: Option<Mark>,
    loss_scale: Option<Mark>,
    loss_weight: Option<Mark>,
}

/// Returns a row as one with `messages`, unchanged if it has them.
///
/// The writers of forms read all shapes of messages, but a chat template receives them as written.
///
/// # Errors
/// Returns a [`Refusal`] if the conversion would lose something, or if the row has two answers.
pub(super) fn as_messages(
    row: &[u8],
    keys: MarkKeys,
    is_template: bool,
) -> Result<Cow<'_, [u8]>, Refusal> {
    // The reader of messages reports what is not JSON, or of no known shape.
    let unchanged = Ok(Cow::Borrowed(row));
    let Ok(outline) = serde_json::from_slice::<Outline<'_>>(row) else {
        return unchanged;
    };
    // Numbers beside messages are classes of other uses; a conversion reads them as answers.
    if outline.label.is_some_and(|label| label.get() == "false") {
        return Err(labelled_as_wrong(Span::new(0, row.len())));
    }
    let list = match (outline.messages, outline.conversations) {
        (Some(list), None) | (None, Some(list)) => list,
        (Some(_), Some(_)) => return unchanged,
        (None, None) => return converted(row, &outline, &[], keys),
    };
    let has_blocks = list.get().contains("tool_use") || list.get().contains("tool_result");
    if !is_template && !has_blocks {
        return unchanged;
    }
    let Ok(messages) = serde_json::from_str::<Vec<Members<'_>>>(list.get()) else {
        return unchanged;
    };
    let is_anthropic = || project::recognize(row).is_ok_and(|form| form == JsonFormat::Anthropic);
    if has_blocks && is_anthropic() {
        return converted(row, &outline, &messages, keys);
    }
    let system = outline.system.filter(|system| !is_empty(system));
    let is_plain = system.is_none() && outline.messages.is_some();
    if !is_template || (is_plain && messages.iter().all(is_chat)) {
        return unchanged;
    }
    let renamed = system.is_none_or(|system| system.get().starts_with('"'));
    match renamed
        .then(|| renamed_row(row, system, &messages))
        .flatten()
    {
        Some(text) => Ok(Cow::Owned(text.into_bytes())),
        None => converted(row, &outline, &messages, keys),
    }
}

fn member<'m>(message: &'m Members<'_>, name: &str) -> Option<&'m RawValue> {
    let found = message.0.iter().find(|(key, _)| key == name);
    found
        .map(|(_, value)| *value)
        .filter(|value| value.get() != "null")
}

/// Returns whether a message is one of Chat Completions with `tool_calls`.
///
/// A template decides what other roles mean.
fn is_chat(message: &Members<'_>) -> bool {
    const OLDER: [&str; 3] = ["\"function\"", "\"function_call\"", "\"tool_call\""];
    let has = |name| member(message, name).is_some();
    let role = member(message, "role").map(RawValue::get);
    role.is_some_and(|role| role.starts_with('"') && !OLDER.contains(&role))
        && !has("from")
        && !has("value")
        && !has("function_call")
}

/// Returns a row with the keys of Chat Completions, and all others unchanged.
///
/// `None` if a message is more than text, or the row has a key of its own for messages.
fn renamed_row(row: &[u8], system: Option<&RawValue>, messages: &[Members<'_>]) -> Option<String> {
    let whole: Members<'_> = serde_json::from_slice(row).ok()?;
    let mut written = Vec::with_capacity(messages.len() + 1);
    if let Some(system) = system {
        written.push(format!(
            "{{\"role\":\"system\",\"content\":{}}}",
            system.get()
        ));
    }
    for message in messages {
        written.push(if is_chat(message) {
            object(&message.0)
        } else {
            renamed(message)?
        });
    }
    let mut row = format!("{{\"messages\":[{}]", written.join(","));
    for (name, value) in &whole.0 {
        if !matches!(name.as_str(), "messages" | "conversations" | "system") {
            row.push(',');
            push_member(name, value, &mut row);
        }
    }
    row.push('}');
    Some(row)
}

/// Returns a message of `ShareGPT` with the keys of Chat Completions.
fn renamed(message: &Members<'_>) -> Option<String> {
    let has = |name| member(message, name).is_some();
    if has("role") || has("content") || has("function_call") || has("tool_calls") {
        return None;
    }
    let role = match member(message, "from")?.get() {
        "\"human\"" | "\"user\"" => "\"user\"",
        "\"gpt\"" | "\"assistant\"" | "\"bot\"" | "\"chatgpt\"" | "\"model\"" => "\"assistant\"",
        "\"system\"" => "\"system\"",
        _ => return None,
    };
    let role: Box<RawValue> = RawValue::from_string(role.to_owned()).ok()?;
    let value = member(message, "value").filter(|value| value.get().starts_with('"'))?;
    let mut members = vec![("role".to_owned(), &*role), ("content".to_owned(), value)];
    let others = message
        .0
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "role" | "content" | "from" | "value"));
    members.extend(others.map(|(name, value)| (name.clone(), *value)));
    Some(object(&members))
}

fn object(members: &[(String, &RawValue)]) -> String {
    let mut text = String::from("{");
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        push_member(name, value, &mut text);
    }
    text.push('}');
    text
}

fn push_member(name: &str, value: &RawValue, text: &mut String) {
    text.push_str(&serde_json::Value::from(name).to_string());
    text.push(':');
    text.push_str(value.get());
}

/// Converts a row of another shape.
fn converted<'r>(
    row: &'r [u8],
    outline: &Outline<'_>,
    messages: &[Members<'_>],
    keys: MarkKeys,
) -> Result<Cow<'r, [u8]>, Refusal> {
    let whole = Span::new(0, row.len());
    let options = ConvertOptions::default()
        .with_thinking(true)
        .with_line(true);
    let Some((_, mut read)) = project::read_recognized(row, &options) else {
        return Ok(Cow::Borrowed(row));
    };
    check_marks(outline, messages, keys).map_err(|error| error.into_refusal(whole))?;
    let (Some(conversation), true) = (read.pop(), read.is_empty()) else {
        return Err(content(
            "a pair of preference has two answers",
            "write the preferred one as a row of `messages`",
            whole,
        ));
    };
    let is_undesired = |label: &RawValue| {
        let values = label.get().trim_matches(['[', ']']).split(',');
        values
            .map(str::trim)
            .any(|value| matches!(value, "false" | "0" | "-1"))
    };
    if [outline.label, outline.labels]
        .into_iter()
        .flatten()
        .any(is_undesired)
    {
        return Err(labelled_as_wrong(whole));
    }
    if let Some(found) = conversation
        .diagnostics
        .into_iter()
        .find(Diagnostic::is_error)
    {
        return Err(found.into());
    }
    let written = project::write(&conversation.transcript, JsonFormat::OpenAi, &options);
    let written = written.map_err(|error| {
        let help = "convert the row with `logue data convert`";
        Refusal::new(DiagnosticCode::WriteRefused, error.to_string(), whole).with_help(help)
    })?;
    let mut losses = conversation.losses.iter().chain(&written.losses);
    if let Some(loss) = losses.find(|loss| loss.severity() == Some(LossSeverity::Content)) {
        let help = "remove what the message names, or the row";
        return Err(content(&loss.to_string(), help, whole));
    }
    Ok(Cow::Owned(written.text.into_bytes()))
}

fn labelled_as_wrong(whole: Span) -> Refusal {
    let help = "remove the row, or its label";
    content("the answer of the row is labelled as wrong", help, whole)
}

/// Refuses marks that a conversion loses, and rows that are marked as not trained.
fn check_marks(
    outline: &Outline<'_>,
    messages: &[Members<'_>],
    keys: MarkKeys,
) -> Result<(), MarkError> {
    const NAMES: [&str; 6] = [
        "weight",
        "train",
        "train_detail",
        "loss",
        "loss_scale",
        "loss_weight",
    ];
    let marks = RawMarks {
        weight: outline.weight,
        train: outline.train,
        loss: outline.loss,
        loss_scale: outline.loss_scale,
        loss_weight: outline.loss_weight,
    };
    if train_by(marks, keys)? == Some(false) {
        return Err(MarkError::new(
            "the row is marked as not trained".to_owned(),
            "remove the row",
        ));
    }
    let mut names = NAMES.iter().filter(|name| {
        let mut messages = messages.iter();
        messages.any(|message| member(message, name).is_some())
    });
    match names.next().filter(|_| !keys.ignore_others) {
        Some(name) => Err(MarkError::new(
            format!("`{name}` of a message is not read in a row of this shape"),
            "write the row as `messages` of Chat Completions, or add `ignore` to --marks",
        )),
        None => Ok(()),
    }
}
