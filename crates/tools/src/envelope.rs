//! Tool results as JSON, for transcripts and programs (OpenChatML 2.2 §8.2).

use serde_json::{Number, Value, json};

use crate::ToolResult;

/// Returns a result as `{ok, content, error, provenance}`.
///
/// On success `content` is the JSON value of the text, or the text if it is not JSON, and `error`
/// is null. On failure `content` is null and `error` contains the stable `code`, if any, and the
/// text as `message`. `provenance` is null if the origin is unknown. JSON with numbers that would
/// lose digits stays text.
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

/// Returns whether parsing keeps every digit of the numbers in a JSON text.
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

/// Returns the text after a string whose opening quote was removed.
fn behind_string(text: &str) -> &str {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.and_then(|end| text.get(end + 1..)).unwrap_or_default()
}

/// Returns the significant digits of a number, without its point and exponent.
fn digits(number: &str) -> String {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

/// Returns the error message without its leading code.
fn message_of(outcome: &ToolResult) -> &str {
    let text = outcome.text.as_str();
    let rest = outcome.code.and_then(|code| text.strip_prefix(code));
    rest.and_then(|rest| rest.strip_prefix(": "))
        .unwrap_or(text)
}
