//! Errors of rendering.

/// An error of rendering (`E-WRITE-REFUSED`). Messages count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RenderError {
    /// A header value is empty, ends early or would read as something else.
    Header {
        /// The message.
        message: usize,
        /// The part of its header.
        field: &'static str,
        /// The value.
        value: String,
    },
    /// A tool's message without the tool's name.
    ToolWithoutName {
        /// The message.
        message: usize,
    },
    /// An unknown role, of a message or of the one to be completed.
    UnknownRole {
        /// The message; one past the last for the one to be completed.
        message: usize,
    },
    /// A system's or developer's content in a message of another role.
    MisplacedContent {
        /// The message.
        message: usize,
        /// The role that it belongs to.
        belongs_to: &'static str,
    },
    /// The body, as text, holds a control token that a model would take for real.
    ControlToken {
        /// The message.
        message: usize,
        /// The token.
        token: String,
    },
    /// The body ends in `<`, which would escape the next token.
    BracketAtEnd {
        /// The message.
        message: usize,
    },
}

impl RenderError {
    /// The stable code.
    pub const CODE: logue_source::DiagnosticCode = logue_source::DiagnosticCode::WriteRefused;

    /// Returns the index of the message.
    pub const fn message(&self) -> usize {
        match self {
            Self::Header { message, .. }
            | Self::ToolWithoutName { message }
            | Self::UnknownRole { message }
            | Self::MisplacedContent { message, .. }
            | Self::ControlToken { message, .. }
            | Self::BracketAtEnd { message } => *message,
        }
    }
}

impl std::fmt::Display for RenderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Header {
                message,
                field,
                value,
            } if value.is_empty() => {
                write!(f, "message {}: `{field}` is empty", message + 1)
            }
            Self::Header {
                message,
                field,
                value,
            } => write!(
                f,
                "message {}: {value:?} cannot occur in a header as `{field}`: it would not be read \
                 back as it is",
                message + 1
            ),
            Self::ToolWithoutName { message } => {
                write!(f, "message {}: a tool needs a name", message + 1)
            }
            Self::UnknownRole { message } => {
                write!(f, "message {}: the role is not a known one", message + 1)
            }
            Self::MisplacedContent {
                message,
                belongs_to,
            } => write!(
                f,
                "message {}: its content belongs into a {belongs_to} message",
                message + 1
            ),
            Self::ControlToken { message, token } => write!(
                f,
                "message {}: its text holds `{token}`, which a model would take for a real token \
                 however it is escaped; remove it from the text, or render to ids (`logue tokens \
                 render`), where no text is a token",
                message + 1
            ),
            Self::BracketAtEnd { message } => write!(
                f,
                "message {}: its text ends in `<`, which would escape the token that ends it; \
                 add a space after it, or render to ids (`logue tokens render`)",
                message + 1
            ),
        }
    }
}

impl std::error::Error for RenderError {}
