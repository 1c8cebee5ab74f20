//! The writer of document headers: YAML of our own, one key a line.
//!
//! A text that could be read as something else is written as a JSON string, lists and maps as JSON
//! on one line. Both are YAML. What was written is read back before it is given out, so a header
//! that this crate writes is one that it reads (OpenChatML 2.2 §2).

use std::fmt::Write as _;

use serde_json::Value;

use crate::document::owned::HeaderBuf;
use crate::read::batch::parse;
use crate::write::frame::WriteError;

/// The header as YAML text that ends in a newline.
///
/// # Errors
/// The version is not two numbers with a dot between, or is 2.0, whose frames have no escapes and
/// are not what [`write_frame`](crate::write_frame) writes; a key among the others is one of the
/// three that have a field; or the header breaks a limit of the reader.
///
/// ```
/// use openchatml::{HeaderBuf, write_header};
///
/// let header = HeaderBuf::new("2.2")
///     .with_model("gpt-oss-120b")
///     .with_setting("temperature", 0.5)
///     .with_extra("title", "a: b");
/// assert_eq!(
///     write_header(&header)?,
///     "version: 2.2\nmodel: gpt-oss-120b\ngeneration_settings: {\"temperature\": 0.5}\ntitle: \"a: b\"\n",
/// );
/// # Ok::<(), openchatml::WriteError>(())
/// ```
pub fn write_header(header: &HeaderBuf) -> Result<String, WriteError> {
    if header.version == "2.0" {
        return Err(refused(
            "frames are written as 2.2, and version 2.0 would read their escapes as tokens",
        ));
    }
    header_of_any_version(header)
}

/// [`write_header`] for every version that is read; the frames must be written by its rules.
pub(crate) fn header_of_any_version(header: &HeaderBuf) -> Result<String, WriteError> {
    if !is_version(&header.version) {
        return Err(refused("`version` is not two numbers with a dot between"));
    }
    let own = ["version", "model", "generation_settings"];
    if let Some(key) = own.iter().find(|key| header.extra.contains_key(**key)) {
        return Err(refused(&format!("`{key}` is among the other keys")));
    }
    let mut out = format!("version: {}\n", header.version);
    if let Some(model) = &header.model {
        out.push_str("model: ");
        scalar(&mut out, model);
        out.push('\n');
    }
    if !header.generation_settings.is_empty() {
        out.push_str("generation_settings: ");
        flow(&mut out, &Value::Object(header.generation_settings.clone()));
        out.push('\n');
    }
    for (key, value) in &header.extra {
        scalar(&mut out, key);
        out.push_str(": ");
        match value {
            Value::String(text) => scalar(&mut out, text),
            other => flow(&mut out, other),
        }
        out.push('\n');
    }
    let document = parse(out.as_bytes());
    let read = document.header().map(HeaderBuf::from);
    if read.as_ref() != Some(header) {
        let why = document.diagnostics().iter().find(|found| found.is_error());
        let why = why.map_or("it would read back as another one", |found| &found.message);
        return Err(refused(why));
    }
    Ok(out)
}

fn refused(reason: &str) -> WriteError {
    WriteError::Header {
        reason: reason.to_owned(),
    }
}

fn is_version(version: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    version
        .split_once('.')
        .is_some_and(|(major, minor)| digits(major) && digits(minor))
}

/// A string, plain where nothing else could be meant.
fn scalar(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
    } else {
        quoted(out, text);
    }
}

fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 10] = [
        "null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan",
    ];
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
        && !text.eq_ignore_ascii_case("inf")
}

/// A JSON string that is also a YAML one: what YAML does not call printable is escaped.
fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                escape(out, character);
            }
            _ if character.is_control() => escape(out, character),
            _ => out.push(character),
        }
    }
    out.push('"');
}

fn escape(out: &mut String, character: char) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\u{:04x}", u32::from(character));
}

/// A value as JSON with a space after each comma and colon.
///
/// YAML readers expect these spaces. The depth is
/// bounded by the reader's limit, which refuses deeper values later; this walk needs no recursion.
fn flow(out: &mut String, value: &Value) {
    enum Todo<'v> {
        Value(&'v Value),
        Key(&'v str),
        Text(&'static str),
    }
    let mut todo = vec![Todo::Value(value)];
    while let Some(next) = todo.pop() {
        match next {
            Todo::Text(text) => out.push_str(text),
            Todo::Key(key) => {
                quoted(out, key);
                out.push_str(": ");
            }
            Todo::Value(Value::String(text)) => quoted(out, text),
            Todo::Value(Value::Array(items)) => {
                out.push('[');
                todo.push(Todo::Text("]"));
                for (index, item) in items.iter().enumerate().rev() {
                    todo.push(Todo::Value(item));
                    if index > 0 {
                        todo.push(Todo::Text(", "));
                    }
                }
            }
            Todo::Value(Value::Object(map)) => {
                out.push('{');
                todo.push(Todo::Text("}"));
                for (index, (key, item)) in map.iter().enumerate().rev() {
                    todo.push(Todo::Value(item));
                    todo.push(Todo::Key(key));
                    if index > 0 {
                        todo.push(Todo::Text(", "));
                    }
                }
            }
            Todo::Value(other) => out.push_str(&other.to_string()),
        }
    }
}
