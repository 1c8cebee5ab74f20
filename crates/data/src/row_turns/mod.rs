//! The text of a row, turn by turn.
//!
//! The text is the same for every shape of a conversation: each turn has a speaker and a text.
//! Calls, results and reasoning are turns of their own. Ids, names, declared tools, images and
//! members beside the conversation are not part of it.

mod fields;
mod plain;

use std::borrow::Cow;

use logue_source::{Diagnostic, DiagnosticCode, Span};
use openchatml::convert::ConvertOptions;
use openchatml::project::{self, Projected};
use openchatml::{Channel, FrameBuf};

use crate::Refusal;

pub use fields::FieldPath;
pub(crate) use fields::value_of;

/// A turn of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowTurn<'b> {
    /// The role, with the recipient of a call; of a chosen field, its path.
    pub speaker: Cow<'b, str>,
    /// The text, without escapes.
    pub text: Cow<'b, str>,
}

/// Returns the turns of a row: those of its conversation, or the fields at `fields` if there are any.
///
/// A row with a pair of answers has the turns of both conversations. Linear in the row.
///
/// # Errors
/// Returns a refusal if the row is not JSON, has an unknown shape, or a message of it cannot be
/// read: rows that differ in that message alone would have the same text.
pub fn turns<'b>(row: &'b [u8], fields: &[FieldPath]) -> Result<Vec<RowTurn<'b>>, Refusal> {
    if !fields.is_empty() {
        return fields::turns(row, fields);
    }
    match plain::turns(row) {
        Some(turns) => Ok(turns),
        None => projected(row),
    }
}

fn projected(row: &[u8]) -> Result<Vec<RowTurn<'static>>, Refusal> {
    let Some((_, conversations)) = project::read_recognized(row, &ConvertOptions::default()) else {
        return Err(unknown(row));
    };
    let mut turns = Vec::new();
    for (index, conversation) in conversations.into_iter().enumerate() {
        let Projected {
            transcript,
            diagnostics,
            ..
        } = conversation;
        if let Some(found) = diagnostics.into_iter().find(Diagnostic::is_error) {
            return Err(found.into());
        }
        turns.extend(transcript.frames.into_iter().map(|frame| RowTurn {
            speaker: speaker(&frame, index),
            text: Cow::Owned(frame.body),
        }));
    }
    Ok(turns)
}

/// Returns the speaker of a frame in the conversation with this number.
fn speaker(frame: &FrameBuf, conversation: usize) -> Cow<'static, str> {
    let role = frame.role.as_str().unwrap_or("other");
    let suffix = match (&frame.to, frame.channel) {
        (Some(to), _) if frame.is_call() => format!(" to {to}"),
        (_, Some(Channel::Analysis)) => " analysis".to_owned(),
        _ => String::new(),
    };
    match (conversation, suffix.as_str()) {
        (0, "") => Cow::Borrowed(role),
        (0, suffix) => Cow::Owned(format!("{role}{suffix}")),
        (number, suffix) => Cow::Owned(format!("{number} {role}{suffix}")),
    }
}

/// Refuses a row that is not JSON.
pub(crate) fn require_json(row: &[u8]) -> Result<(), Refusal> {
    match serde_json::from_slice::<serde::de::IgnoredAny>(row) {
        Ok(_) => Ok(()),
        Err(_) => Err(unknown(row)),
    }
}

/// Returns the reason why a row has no known conversation.
fn unknown(row: &[u8]) -> Refusal {
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(row) {
        let at = offset(row, error.line(), error.column());
        let end = (at + 1).min(row.len()).max(at);
        let message = format!("this is not JSON: {}", reason(&error));
        return Refusal::new(DiagnosticCode::JsonSyntax, message, Span::new(at, end))
            .with_help("correct the text here");
    }
    let message = "the row is not a conversation of a known shape";
    Refusal::new(
        DiagnosticCode::JsonShape,
        message,
        Span::new(0, 1.min(row.len())),
    )
    .with_help("name the members that have the text with `--field`")
}

/// Returns the message of an error without its place.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text.get(..at).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// Returns the offset of a line and a column, both from 1.
fn offset(text: &[u8], line: usize, column: usize) -> usize {
    let start = match line.checked_sub(2) {
        Some(before) => memchr::memchr_iter(b'\n', text)
            .nth(before)
            .map_or(0, |at| at + 1),
        None => 0,
    };
    (start + column.saturating_sub(1)).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::{RowTurn, plain, projected, turns};
    use proptest::prelude::*;

    fn all(row: &str) -> Vec<(String, String)> {
        let turns = turns(row.as_bytes(), &[]).unwrap();
        let pair = |turn: RowTurn<'_>| (turn.speaker.into_owned(), turn.text.into_owned());
        turns.into_iter().map(pair).collect()
    }

    #[test]
    fn shapes_of_one_conversation_have_one_text() {
        let expected = all(
            r#"{"messages":[{"role":"user","content":"Tide?"},{"role":"assistant","content":"06:12."}]}"#,
        );
        assert_eq!(expected.len(), 2);
        for row in [
            r#"{"conversations":[{"from":"human","value":"Tide?"},{"from":"gpt","value":"06:12."}]}"#,
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"Tide?"}]},{"role":"assistant","content":"06:12."}]}"#,
            r#"{"id":7,"messages":[{"role":"user","content":"Ti\u0064e?"},{"role":"assistant","content":"06:12.","tool_calls":null}]}"#,
            r#"{"prompt":"Tide?","completion":"06:12."}"#,
        ] {
            assert_eq!(all(row), expected, "{row}");
        }
    }

    #[test]
    fn calls_and_results_are_part_of_the_text() {
        let row = r#"{"messages":[{"role":"user","content":"Tide?"},{"role":"assistant","tool_calls":[{"type":"function","id":"c1","function":{"name":"tide","arguments":"{\"port\":\"Brest\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"06:12"}]}"#;
        let turns = all(row);
        assert_eq!(turns[1].0, "assistant to functions.tide");
        assert_eq!(turns[1].1, "{\"port\":\"Brest\"}");
        assert_eq!(turns[2], ("tool".to_owned(), "06:12".to_owned()));
    }

    #[test]
    fn unreadable_rows_are_refused_at_their_place() {
        let refusal = turns(b"{\"messages\":[}", &[]).unwrap_err();
        assert_eq!(refusal.finding.code.as_str(), "E-JSON-SYNTAX");
        assert_eq!(refusal.finding.primary.start, 13);
        let refusal = turns(b"{\"words\":1}", &[]).unwrap_err();
        assert_eq!(refusal.finding.code.as_str(), "E-JSON-SHAPE");
        let row =
            br#"{"messages":[{"role":"user","content":"a"},{"role":"operator","content":"b"}]}"#;
        assert!(turns(row, &[]).is_err());
    }

    fn message() -> impl Strategy<Value = (String, String)> {
        let role = proptest::sample::select(vec![
            "system",
            "developer",
            "user",
            "assistant",
            "human",
            "gpt",
            "tool",
            "operator",
        ]);
        let text = prop_oneof![
            "\\PC{0,20}",
            Just("<think>a</think> b".to_owned()),
            Just("![](data:image/png;base64,AA==)".to_owned()),
            Just("<|end|>".to_owned()),
            Just("\n\t ".to_owned()),
        ];
        (role.prop_map(str::to_owned), text)
    }

    proptest! {
        /// The reader of plain rows has the results of the general one.
        #[test]
        fn plain_rows_read_as_any_row(
            messages in proptest::collection::vec(message(), 0..4),
            words in any::<bool>(),
            list in proptest::sample::select(vec!["messages", "conversations"]),
            extra in proptest::sample::select(vec!["id", "system", "tools", "prompt", "input", "source"]),
            value in proptest::sample::select(vec!["1", "null", "\"a\"", "[{\"type\":\"x\"}]"]),
        ) {
            let (role, content) = if words { ("role", "content") } else { ("from", "value") };
            let messages: Vec<serde_json::Value> = messages
                .into_iter()
                .map(|(who, text)| serde_json::json!({role: who, content: text, "name": null}))
                .collect();
            let list_text = serde_json::Value::from(messages);
            let row = format!("{{\"{extra}\":{value},\"{list}\":{list_text}}}");
            if let Some(plain) = plain::turns(row.as_bytes()) {
                prop_assert_eq!(plain, projected(row.as_bytes()).unwrap());
            }
        }
    }
}
