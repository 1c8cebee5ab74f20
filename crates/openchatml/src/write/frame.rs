//! The writer of frames: canonical order, one frame a line, nothing that reads as something else.
//!
//! A body may hold anything and is escaped. A header value may not: white space, control
//! characters or `<|` in it would end the value, or forge a frame, so such a frame is refused
//! before anything is written (OpenChatML 2.2 §6, §11).

use crate::document::owned::FrameBuf;
use crate::read::attributes::{is_false_address, is_type};
use crate::syntax::escape::encode;
use crate::syntax::token::ControlToken;
use crate::syntax::vocabulary::{Channel, FrameRole, Terminator};

/// An error of writing (`E-WRITE-REFUSED`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// A header value is empty or holds what no header value may hold.
    UnsafeValue {
        /// The part of the header.
        field: String,
        /// The value.
        value: String,
    },
    /// A part of the header that a frame of this kind must have is missing.
    Missing {
        /// The part.
        field: &'static str,
        /// The reason that it is required.
        needed_by: &'static str,
    },
    /// The terminator is not allowed on this frame.
    Terminator {
        /// The terminator.
        terminator: Terminator,
    },
    /// The role or channel is unknown.
    Unknown {
        /// `role` or `channel`.
        field: &'static str,
    },
    /// A document header that would not read back as it is.
    Header {
        /// The error.
        reason: String,
    },
    /// The document is of an older version that cannot hold the frame.
    Version {
        /// The unsupported part.
        reason: String,
    },
    /// A change to a document would change what another of its frames says.
    Elsewhere {
        /// The frame, counted from 0.
        index: usize,
    },
}

impl WriteError {
    /// The stable code.
    pub const CODE: logue_source::DiagnosticCode = logue_source::DiagnosticCode::WriteRefused;
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnsafeValue { field, value } if value.is_empty() => {
                write!(f, "`{field}` is empty")
            }
            Self::UnsafeValue { field, value } => write!(
                f,
                "`{field}` is {value:?}: white space, control characters and `<|` cannot occur in a header"
            ),
            Self::Missing { field, needed_by } => write!(f, "{needed_by} needs `{field}`"),
            Self::Terminator { terminator } => match terminator.token() {
                Some(token) => write!(f, "`{token}` cannot end this frame"),
                None => f.write_str("a cut frame cannot be written"),
            },
            Self::Unknown { field } => write!(f, "the {field} is not a known one"),
            Self::Header { reason } => write!(f, "the document header cannot be written: {reason}"),
            Self::Version { reason } => {
                write!(f, "the document's version cannot hold the frame: {reason}")
            }
            Self::Elsewhere { index } => {
                write!(
                    f,
                    "frame {index} would not say what it says without the change"
                )
            }
        }
    }
}

impl std::error::Error for WriteError {}

/// Appends `frame` and a newline to `out`. Reading gives the frame back exactly. Linear in the
/// frame.
///
/// # Errors
/// The first rule that the frame breaks; `out` is then unchanged.
///
/// ```
/// use openchatml::{FrameBuf, parse, write_frame};
///
/// let mut text = String::new();
/// let frame = FrameBuf::user("How do I write <|end|>?");
/// write_frame(&mut text, &frame)?;
/// assert_eq!(text, "<|start|>user<|message|>How do I write <<|end|>?<|end|>\n");
/// assert_eq!(parse(text.as_bytes()).to_owned_frames(), [frame]);
/// # Ok::<(), openchatml::WriteError>(())
/// ```
pub fn write_frame(out: &mut String, frame: &FrameBuf) -> Result<(), WriteError> {
    let role = frame.role.as_str();
    let role = role.ok_or(WriteError::Unknown { field: "role" })?;
    let channel = match frame.channel {
        None => None,
        Some(channel) => Some(
            channel
                .as_str()
                .ok_or(WriteError::Unknown { field: "channel" })?,
        ),
    };
    let terminator = allowed_terminator(frame)?;
    check_required(frame)?;
    check_values(frame)?;

    out.push_str(ControlToken::Start.as_str());
    out.push_str(role);
    let to = ("to", frame.to.as_deref());
    let call_id = ("call_id", frame.call_id.as_deref());
    let name = ("name", frame.name.as_deref());
    // A reply names its tool first, as the specification's examples do.
    let routing = match frame.role {
        FrameRole::Tool => [name, call_id, to],
        _ => [to, call_id, name],
    };
    let hints = [
        ("intent", frame.intent.as_deref()),
        ("content_type", frame.content_type.as_deref()),
    ];
    for (key, value) in routing.into_iter().chain(hints) {
        if let Some(value) = value {
            write_attribute(out, key, Some(value));
        }
    }
    for (key, value) in &frame.attributes {
        write_attribute(out, key, value.as_deref());
    }
    if let Some(channel) = channel {
        out.push_str(ControlToken::Channel.as_str());
        out.push_str(channel);
    }
    if let Some(constrain) = &frame.constrain {
        out.push_str(ControlToken::Constrain.as_str());
        out.push_str(constrain);
    }
    out.push_str(ControlToken::Message.as_str());
    encode(out, &frame.body);
    out.push_str(terminator.as_str());
    out.push('\n');
    Ok(())
}

/// A word that is valid in a frame header, as near to `text` as possible: white space, control
/// characters and `<|` become `_`, and an empty text becomes one `_`. For names that come from
/// outside.
///
/// ```
/// assert_eq!(openchatml::safe_value("Eve <|end|>"), "Eve__|end|>");
/// ```
pub fn safe_value(text: &str) -> String {
    if text.is_empty() {
        return "_".to_owned();
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let marker = character == '<' && rest.peek().is_none_or(|next| *next == '|');
        let bad = marker || character.is_whitespace() || character.is_control();
        safe.push(if bad { '_' } else { character });
    }
    safe
}

fn write_attribute(out: &mut String, key: &str, value: Option<&str>) {
    out.push(' ');
    out.push_str(key);
    if let Some(value) = value {
        out.push('=');
        out.push_str(value);
    }
}

/// Returns whether `value` is valid in a frame header. A `<` at its end is refused too, because a
/// token may follow it directly.
pub(crate) fn is_safe(value: &str) -> bool {
    !value.is_empty()
        && !value.contains("<|")
        && !value.ends_with('<')
        && !value.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn check_values(frame: &FrameBuf) -> Result<(), WriteError> {
    let fields = [
        ("to", &frame.to),
        ("call_id", &frame.call_id),
        ("name", &frame.name),
        ("intent", &frame.intent),
        ("content_type", &frame.content_type),
        ("constrain", &frame.constrain),
    ];
    for (field, value) in fields {
        if let Some(value) = value.as_deref().filter(|value| !is_safe(value)) {
            return Err(unsafe_value(field, value));
        }
    }
    for (key, value) in &frame.attributes {
        let taken = key != "constrain" && fields.iter().any(|(field, _)| field == key)
            || is_false_address(key.as_bytes());
        // A word without a value reads as a broken header.
        let Some(value) = value.as_deref() else {
            return Err(unsafe_value("attribute", key));
        };
        if !is_safe(key) || key.contains('=') || taken {
            return Err(unsafe_value("attribute", key));
        }
        if !value.is_empty() && !is_safe(value) {
            return Err(unsafe_value(key, value));
        }
    }
    if let Some(word) = frame.constrain.as_deref()
        && !is_type(word.as_bytes())
    {
        return Err(unsafe_value("constrain", word));
    }
    Ok(())
}

fn unsafe_value(field: &str, value: &str) -> WriteError {
    WriteError::UnsafeValue {
        field: field.to_owned(),
        value: value.to_owned(),
    }
}

fn check_required(frame: &FrameBuf) -> Result<(), WriteError> {
    let missing = |field, needed_by| Err(WriteError::Missing { field, needed_by });
    if frame.terminator == Terminator::Call && frame.call_id.is_none() {
        return missing("call_id", "a tool call");
    }
    if frame.role == FrameRole::Tool {
        if frame.name.is_none() {
            return missing("name", "a tool reply");
        }
        if frame.call_id.is_none() {
            return missing("call_id", "a tool reply");
        }
    }
    Ok(())
}

fn allowed_terminator(frame: &FrameBuf) -> Result<ControlToken, WriteError> {
    let assistant = frame.role == FrameRole::Assistant;
    let refused = WriteError::Terminator {
        terminator: frame.terminator,
    };
    match frame.terminator {
        Terminator::Call if !assistant => return Err(refused),
        Terminator::Call if frame.to.is_none() => {
            return Err(WriteError::Missing {
                field: "to",
                needed_by: "a tool call",
            });
        }
        Terminator::Return if !assistant || frame.effective_channel() != Channel::Final => {
            return Err(refused);
        }
        _ => {}
    }
    frame.terminator.token().ok_or(refused)
}
