//! The header of a message: its allowed values and their order.

use super::conversation::RenderMessage;
use super::error::RenderError;
use super::plan::Sink;
use crate::ControlToken;
use crate::harmony::words;
use crate::limits::MAX_FRAME_HEADER;
use crate::syntax::vocabulary::{Channel, FrameRole};
use crate::write::frame::is_safe;

/// All participants: a recipient that is not written.
pub(super) const ALL: &str = "all";

/// Bytes of one header value, so that a header of them is read whole.
const MAX_VALUE: usize = MAX_FRAME_HEADER / 8;

/// Writes the header of message number `index`, from `<|start|>` to `<|message|>`. `words` is room
/// to put together what is encoded as one text.
pub(super) fn write(
    message: &RenderMessage,
    index: usize,
    check_values: bool,
    sink: &mut impl Sink,
    words: &mut String,
) -> Result<(), RenderError> {
    let role = message.role.as_str();
    let role = role.ok_or(RenderError::UnknownRole { message: index })?;
    if check_values {
        check(message, index)?;
    }
    sink.token(ControlToken::Start);
    words.clear();
    match (&message.name, message.role) {
        (Some(name), FrameRole::Tool) => words.push_str(name),
        (None, FrameRole::Tool) => return Err(RenderError::ToolWithoutName { message: index }),
        (Some(name), _) => {
            words.push_str(role);
            words.push(':');
            words.push_str(name);
        }
        (None, _) => words.push_str(role),
    }
    if let Some(recipient) = message.recipient.as_deref().filter(|to| *to != ALL) {
        words.push_str(" to=");
        words.push_str(recipient);
    }
    sink.text(words);
    if let Some(channel) = &message.channel {
        sink.token(ControlToken::Channel);
        sink.text(channel);
    }
    if let Some(content_type) = &message.content_type {
        if let Some(constrained) = content_type.strip_prefix(ControlToken::Constrain.as_str()) {
            sink.text(" ");
            sink.token(ControlToken::Constrain);
            sink.text(constrained);
        } else {
            words.clear();
            words.push(' ');
            words.push_str(content_type);
            sink.text(words);
        }
    }
    sink.token(ControlToken::Message);
    Ok(())
}

/// Refuses what the reader would not read back as it is.
fn check(message: &RenderMessage, index: usize) -> Result<(), RenderError> {
    let constrained = |value: &str| value.starts_with(ControlToken::Constrain.as_str());
    let fields = [
        ("name", message.name.as_deref()),
        ("recipient", message.recipient.as_deref()),
        ("channel", message.channel.as_deref()),
        ("content_type", message.content_type.as_deref()),
    ];
    for (field, value) in fields {
        let Some(value) = value else {
            continue;
        };
        let reads_back = match field {
            "name" if message.role == FrameRole::Tool => is_tool(value),
            "name" => is_value(value) && !value.contains('='),
            "channel" => is_channel(value),
            "content_type" if constrained(value) => value
                .strip_prefix(ControlToken::Constrain.as_str())
                .is_some_and(is_type),
            "content_type" => {
                is_type(value)
                    && Channel::parse(value.as_bytes()) == Channel::Unknown
                    && !words::is_address(value.as_bytes(), &[])
            }
            _ => is_value(value),
        };
        if !reads_back {
            return Err(RenderError::Header {
                message: index,
                field,
                value: value.to_owned(),
            });
        }
    }
    Ok(())
}

fn is_value(value: &str) -> bool {
    value.len() <= MAX_VALUE && is_safe(value)
}

/// Returns whether the word in the role's place is this tool, rather than a role.
fn is_tool(name: &str) -> bool {
    if !is_value(name) || name.contains('=') {
        return false;
    }
    let read = words::role(name.as_bytes());
    read.role == FrameRole::Tool && read.name.as_deref() == Some(name)
}

fn is_channel(name: &str) -> bool {
    is_value(name) && words::channel(name.as_bytes()).name.as_deref() == Some(name)
}

fn is_type(value: &str) -> bool {
    let length = words::content_type_length(value.as_bytes());
    is_value(value) && length == value.len()
}
