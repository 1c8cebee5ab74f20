//! A frame as the reader leaves it: words and spans, no text.
//!
//! A frame owns nothing of the source. What it says is asked of its [`Document`](crate::Document),
//! which has the bytes.

use logue_source::Span;

use crate::view::{Addressee, Visibility, visibility};
use crate::words::{Channel, Intent, Role, RoleForm, Terminator};

/// One frame of a document (OpenChatML 2.2 §6), or a stretch of stray text between frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub(crate) span: Span,
    pub(crate) role: Role,
    pub(crate) role_form: RoleForm,
    pub(crate) role_span: Span,
    pub(crate) channel: Channel,
    pub(crate) intent_word: Option<Intent>,
    pub(crate) addressee: Addressee,
    pub(crate) parts: Parts,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) header: Span,
    pub(crate) body: Span,
    pub(crate) terminator: Terminator,
    pub(crate) terminator_span: Span,
    pub(crate) has_message: bool,
    pub(crate) stray: bool,
}

/// Where the values of the known header parts stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) to: Option<Span>,
    pub(crate) call_id: Option<Span>,
    pub(crate) name: Option<Span>,
    pub(crate) intent: Option<Span>,
    pub(crate) content_type: Option<Span>,
    pub(crate) channel: Option<Span>,
    pub(crate) constrain: Option<Span>,
}

/// Something in a frame header that no rule knows: `key=value`, or a bare word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The key, or the word.
    pub key: Span,
    /// The value, where there is an `=`.
    pub value: Option<Span>,
}

impl Frame {
    /// An empty frame that begins at `span`.
    pub(crate) fn opened(span: Span) -> Self {
        Self {
            span,
            role: Role::Other,
            role_form: RoleForm::Word,
            role_span: Span::empty(span.end),
            channel: Channel::Unknown,
            intent_word: None,
            addressee: Addressee::Nobody,
            parts: Parts::default(),
            attributes: Vec::new(),
            header: Span::empty(span.end),
            body: Span::empty(span.end),
            terminator: Terminator::None,
            terminator_span: Span::empty(span.end),
            has_message: false,
            stray: false,
        }
    }

    /// The stray text at `span`.
    pub(crate) fn stray_text(span: Span) -> Self {
        Self {
            span,
            body: span,
            stray: true,
            header: Span::empty(span.start),
            role_span: Span::empty(span.start),
            terminator_span: Span::empty(span.end),
            ..Self::opened(span)
        }
    }

    /// The whole frame, from its `<|start|>` to behind its terminator.
    pub const fn span(&self) -> Span {
        self.span
    }

    /// Who speaks.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// How the role was spelled.
    pub const fn role_form(&self) -> RoleForm {
        self.role_form
    }

    /// The channel in force: the one that is named, `final` where none is named in a well-formed
    /// frame (OpenChatML 2.2 §5 rule 2), else unknown.
    pub const fn channel(&self) -> Channel {
        self.channel
    }

    /// Whether the frame names a channel, understood or not.
    pub const fn has_channel(&self) -> bool {
        self.parts.channel.is_some()
    }

    /// The intent, as far as it is one of the known ones.
    pub const fn intent(&self) -> Option<Intent> {
        self.intent_word
    }

    /// What no rule knows of the header, in order.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// How the frame ends.
    pub const fn terminator(&self) -> Terminator {
        self.terminator
    }

    /// Whether the frame has both its `<|message|>` and its terminator.
    pub const fn is_complete(&self) -> bool {
        self.has_message && !matches!(self.terminator, Terminator::None)
    }

    /// Whether this is text that stands outside every frame.
    pub const fn is_stray(&self) -> bool {
        self.stray
    }

    /// Whether the frame is a finished tool call: an assistant's, with a recipient, ended by
    /// `<|call|>`.
    pub const fn is_call(&self) -> bool {
        matches!(self.role, Role::Assistant)
            && self.parts.to.is_some()
            && self.is_complete()
            && matches!(self.terminator, Terminator::Call)
    }

    /// Whether a person may see the frame (OpenChatML 2.2 §4, §5).
    pub const fn visibility(&self) -> Visibility {
        if self.stray {
            return Visibility::HIDDEN_STRAY;
        }
        visibility(self.role, self.channel, self.intent_word, self.addressee)
    }

    /// The role's word.
    pub const fn role_span(&self) -> Span {
        self.role_span
    }

    /// The header, between `<|start|>` and `<|message|>`.
    pub const fn header_span(&self) -> Span {
        self.header
    }

    /// The channel's word.
    pub const fn channel_span(&self) -> Option<Span> {
        self.parts.channel
    }

    /// The recipient.
    pub const fn to_span(&self) -> Option<Span> {
        self.parts.to
    }

    /// The id of a call or reply.
    pub const fn call_id_span(&self) -> Option<Span> {
        self.parts.call_id
    }

    /// The name; the role's word where the role is `functions.<tool>`.
    pub const fn name_span(&self) -> Option<Span> {
        self.parts.name
    }

    /// The intent's word.
    pub const fn intent_span(&self) -> Option<Span> {
        self.parts.intent
    }

    /// The content type.
    pub const fn content_type_span(&self) -> Option<Span> {
        self.parts.content_type
    }

    /// The type that the body must have.
    pub const fn constrain_span(&self) -> Option<Span> {
        self.parts.constrain
    }

    /// The body as it is written, escapes and literal markers included.
    pub const fn body_span(&self) -> Span {
        self.body
    }

    /// The terminator; empty where there is none.
    pub const fn terminator_span(&self) -> Span {
        self.terminator_span
    }
}
