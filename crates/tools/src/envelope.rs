//! The result of a call as JSON, for transcripts and programs that want more than its text
//! (OpenChatML 2.2 §8.2).

use serde_json::{Number, Value, json};

use crate::ToolResult;

/// A result as `{ok, content, error, provenance}`.
///
/// What a call gave is `content`: the JSON that its text is, or else the text. What went wrong is
/// `error`, with a `code` where there is a stable one and the text as `message`; one of the two is
/// always null. `provenance` is null where nobody knows where the content is from. JSON that would
/// change by being read, because its numbers are longer than those of a program, stays a text.
///
/// ```
/// use logue_tools::{ToolResult, envelope};
///
/// let done = envelope(&ToolResult::success(r#"{"temperature": 21}"#));
/// assert_eq!(done["content"]["temperature"], 21);
/// let failed = envelope(&ToolResult::error("E-TOOL-TIMEOUT", "it took longer than 5 s"));
/// assert_eq!(failed["error"]["code"], "E-TOOL-TIMEOUT");
/// ```
pub fn envelope(outcome: &ToolResult) -> Value {
    let provenance = outcome.provenance.as_ref().map(|provenance| {
        json!({
            "source": provenance.source,
            "timestamp": provenance.timestamp,
            "checksum": provenance.checksum,
        })
    });
    let (content, error) = if outcome.ok {
        (content_of(&outcome.text), Value::Null)
    } else {
        let error = json!({"code": outcome.code, "message": message_of(outcome)});
        (Value::Null, error)
    };
    json!({"ok": outcome.ok, "content": content, "error": error, "provenance": provenance})
}

fn content_of(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value) if keeps_numbers(text) => value,
        _ => Value::from(text),
    }
}

/// Whether the numbers of a JSON text are the same after they are read: each has the digits that it
/// had.
fn keeps_numbers(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = rest.get(at..).unwrap_or_default();
        if let Some(string) = rest.strip_prefix('"') {
            rest = behind_string(string);
            continue;
        }
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (number, behind) = rest.split_at(end);
        let read = serde_json::from_str::<Number>(number);
        if !read.is_ok_and(|read| digits(&read.to_string()) == digits(number)) {
            return false;
        }
        rest = behind;
    }
    true
}

/// What stands behind a string whose first quote was taken off.
fn behind_string(text: &str) -> &str {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.and_then(|end| text.get(end + 1..)).unwrap_or_default()
}

/// The digits of a number that make a difference, without where its point is.
fn digits(number: &str) -> String {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

/// What went wrong, without the code that stands for itself.
fn message_of(outcome: &ToolResult) -> &str {
    let text = outcome.text.as_str();
    let rest = outcome.code.and_then(|code| text.strip_prefix(code));
    rest.and_then(|rest| rest.strip_prefix(": "))
        .unwrap_or(text)
}
