//! Options and events of the readers of Harmony.

use logue_source::{Diagnostic, Span};

use crate::syntax::vocabulary::{Channel, FrameRole, Intent};
use crate::visibility::{HiddenReason, Recipient, Visibility, visibility};

/// Options of the readers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HarmonyReadOptions {
    /// The text begins inside the header of a message of this role: a completion, whose prompt
    /// ended in `<|start|>` and the role.
    pub start_role: Option<FrameRole>,
    /// Stop at the first error. Earlier events remain valid.
    pub strict: bool,
    /// The declared tools, as `to=` names them. With them a recipient to which a content type got
    /// glued (`functions.fjson`) is repaired; without, it is kept.
    pub tools: Vec<String>,
}

impl HarmonyReadOptions {
    /// Sets the role whose header the text begins in.
    #[must_use]
    pub fn with_start_role(mut self, start_role: impl Into<Option<FrameRole>>) -> Self {
        self.start_role = start_role.into();
        self
    }

    /// Sets whether reading stops at the first error.
    #[must_use]
    pub const fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Sets the declared tools, as `to=` names them.
    #[must_use]
    pub fn with_tools(mut self, tools: Vec<String>) -> Self {
        self.tools = tools;
        self
    }
}

/// The events of a reader, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'e> {
    /// A message begins; everything about it but its text and its end is certain.
    Start(&'e MessageHeader),
    /// More of its text, never empty. Concatenated, these are the text exactly.
    Delta(&'e str),
    /// It ends.
    End(MessageEnd),
    /// A stop token after the last message replaces the end in [`Event::End`].
    Amended(End),
    /// Something was wrong; what follows is the repair.
    Diagnostic(Diagnostic),
}

/// The header of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageHeader {
    /// The speaker; [`FrameRole::Other`] if unknown.
    pub role: FrameRole,
    /// The name after the role (`user:ann`), of `name=`, or of the tool that replies.
    pub name: Option<String>,
    /// The recipient of the message (`to=`).
    pub recipient: Option<String>,
    /// The channel's name, known or not. `None`: no channel, which is not
    /// `final`.
    pub channel: Option<String>,
    /// The content type, without `<|constrain|>`.
    pub content_type: Option<String>,
    /// The id of a call or a reply.
    pub call_id: Option<String>,
    /// The intent of the message.
    pub intent: Option<String>,
    /// Whether this is text outside every message.
    pub stray: bool,
    /// Whether the header came to its `<|message|>` and contained nothing that makes its channel
    /// doubtful.
    pub sound: bool,
}

impl MessageHeader {
    pub(super) const fn new(role: FrameRole) -> Self {
        Self {
            role,
            name: None,
            recipient: None,
            channel: None,
            content_type: None,
            call_id: None,
            intent: None,
            stray: false,
            sound: true,
        }
    }

    /// The channel as far as it is one of the three.
    pub fn known_channel(&self) -> Channel {
        let name = self.channel.as_deref().unwrap_or_default();
        Channel::parse(name.as_bytes())
    }

    /// Returns whether a person may see the message, by the rules of
    /// [`is_visible`](crate::is_visible).
    ///
    /// A message without a channel is hidden. The exception is a user's with a sound header:
    /// Harmony gives users no channel (OpenChatML 2.2 §5 rule 2).
    pub fn visibility(&self) -> Visibility {
        if self.stray {
            return Visibility::Hidden(HiddenReason::Stray);
        }
        let channel = match self.channel {
            None if self.role == FrameRole::User && self.sound => Channel::Final,
            _ => self.known_channel(),
        };
        let intent = self.intent.as_deref();
        let intent = intent.map(|intent| Intent::parse(intent.as_bytes()));
        visibility(self.role, channel, intent, self.recipient())
    }

    /// Returns whether [`MessageHeader::visibility`] is visible.
    pub fn is_visible(&self) -> bool {
        self.visibility().is_visible()
    }

    /// Returns whether the message is the assistant's `commentary` without recipient and type.
    ///
    /// It is meant for the user once it is complete; before that it is hidden.
    pub fn is_preamble(&self) -> bool {
        !self.stray
            && self.sound
            && self.role == FrameRole::Assistant
            && self.known_channel() == Channel::Commentary
            && self.recipient.is_none()
            && self.content_type.is_none()
            && self.intent.is_none()
    }

    pub(super) fn recipient(&self) -> Recipient {
        let to = self.recipient.as_deref();
        to.map_or(Recipient::Nobody, |to| Recipient::of(to.as_bytes()))
    }
}

/// The end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageEnd {
    /// The end that was read.
    pub end: End,
    /// Whether that was a stop token.
    pub complete: bool,
    /// The whole message with its header and stop token. Offsets of a [`Stream`](super::Stream)
    /// count the bytes that were pushed, those of an [`IdStream`](super::IdStream) the bytes of the
    /// text that the ids spell.
    pub span: Span,
    /// The body as it is written.
    pub body: Span,
}

/// The end of a message. The list is closed by the stop tokens of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// `<|end|>`.
    End,
    /// `<|call|>`.
    Call,
    /// `<|return|>`.
    Return,
    /// The end of the text.
    Eos,
    /// The beginning of the next message; the stop token is missing.
    Implicit,
}

impl End {
    /// The word for it: `end`, `call`, `return`, `eos` or `implicit`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Call => "call",
            Self::Return => "return",
            Self::Eos => "eos",
            Self::Implicit => "implicit",
        }
    }

    /// Returns whether it is a stop token.
    pub const fn is_stop(self) -> bool {
        matches!(self, Self::End | Self::Call | Self::Return)
    }
}
