//! A frame as the reader leaves it: words and spans, no text.
//!
//! A frame owns nothing of the source. What it says is asked of its [`Document`](crate::Document),
//! which has the bytes.

use logue_source::Span;

use crate::syntax::token::ControlToken;
use crate::syntax::vocabulary::{Channel, FrameRole, Intent, RoleForm, Terminator};
use crate::visibility::{Recipient, Visibility, visibility};

/// One frame of a document (OpenChatML 2.2 §6), or stray text between frames.
///
/// Only what cannot be worked out is kept, in offsets from the frame's start where a header's limit
/// bounds them: a document has as many of these as frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub(crate) span: Span,
    pub(crate) body: Span,
    parts: [Place; Part::COUNT],
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) role: FrameRole,
    pub(crate) role_form: RoleForm,
    pub(crate) channel: Channel,
    pub(crate) intent_word: Option<Intent>,
    pub(crate) recipient: Recipient,
    pub(crate) terminator: Terminator,
    pub(crate) kind: Kind,
    /// Whether something in it may be a marker of reasoning; set by the batch reader.
    pub(crate) may_be_marked: bool,
}

/// The extent of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text outside every frame.
    Stray,
    /// A header only, so far.
    Header,
    /// A header, and a body after its `<|message|>`.
    Message,
}

/// The header parts that have a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Role,
    To,
    CallId,
    Name,
    Intent,
    ContentType,
    Channel,
    Constrain,
}

impl Part {
    const COUNT: usize = 8;
}

/// The place of a value, from the frame's start. A header is read up to a limit far below what
/// the numbers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    start: u32,
    length: u32,
}

impl Place {
    const NONE: Self = Self {
        start: u32::MAX,
        length: 0,
    };
}

/// An unknown part of a frame header: `key=value`, or a bare word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attribute {
    /// The key, or the word.
    pub key: Span,
    /// The value, where there is an `=`.
    pub value: Option<Span>,
}

impl Frame {
    /// An empty frame that begins at `span`.
    pub(crate) const fn opened(span: Span) -> Self {
        Self {
            span,
            body: Span::empty(span.end),
            parts: [Place::NONE; Part::COUNT],
            attributes: Vec::new(),
            role: FrameRole::Other,
            role_form: RoleForm::Word,
            channel: Channel::Unknown,
            intent_word: None,
            recipient: Recipient::Nobody,
            terminator: Terminator::None,
            kind: Kind::Header,
            may_be_marked: false,
        }
    }

    /// The stray text at `span`.
    pub(crate) const fn stray_text(span: Span) -> Self {
        let mut frame = Self::opened(span);
        frame.body = span;
        frame.kind = Kind::Stray;
        frame
    }

    /// The frame itself; what is left counts for nothing.
    pub(crate) fn take(&mut self) -> Self {
        let attributes = std::mem::take(&mut self.attributes);
        Self {
            attributes,
            ..*self
        }
    }

    /// The place of the value of `part`.
    pub(crate) fn part(&self, part: Part) -> Option<Span> {
        let place = self.parts.get(part as usize)?;
        if *place == Place::NONE {
            return None;
        }
        let start = self.span.start + place.start as usize;
        Some(Span::new(start, start + place.length as usize))
    }

    /// Sets the place of the value of `part`.
    pub(crate) fn set_part(&mut self, part: Part, span: Span) {
        let start = u32::try_from(span.start.saturating_sub(self.span.start));
        let length = u32::try_from(span.len());
        if let (Ok(start), Ok(length), Some(place)) =
            (start, length, self.parts.get_mut(part as usize))
        {
            *place = Place { start, length };
        }
    }

    pub(crate) fn has_part(&self, part: Part) -> bool {
        self.parts
            .get(part as usize)
            .is_some_and(|place| *place != Place::NONE)
    }

    /// The whole frame, from its `<|start|>` to the end of its terminator.
    pub const fn span(&self) -> Span {
        self.span
    }

    /// The speaker.
    pub const fn role(&self) -> FrameRole {
        self.role
    }

    /// The spelling of the role.
    pub const fn role_form(&self) -> RoleForm {
        self.role_form
    }

    /// The effective channel: the named one, `final` if none is named in a well-formed
    /// frame (OpenChatML 2.2 §5 rule 2), else unknown.
    pub const fn channel(&self) -> Channel {
        self.channel
    }

    /// Returns whether the frame names a channel, understood or not.
    pub fn has_channel(&self) -> bool {
        self.has_part(Part::Channel)
    }

    /// The intent, as far as it is one of the known ones.
    pub const fn intent(&self) -> Option<Intent> {
        self.intent_word
    }

    /// The unknown parts of the header, in order.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// The terminator of the frame.
    pub const fn terminator(&self) -> Terminator {
        self.terminator
    }

    /// Returns whether the frame has both its `<|message|>` and its terminator.
    pub const fn is_complete(&self) -> bool {
        matches!(self.kind, Kind::Message) && !matches!(self.terminator, Terminator::None)
    }

    /// Returns whether this is text outside every frame.
    pub const fn is_stray(&self) -> bool {
        matches!(self.kind, Kind::Stray)
    }

    /// Returns whether the frame is a finished tool call: an assistant's, with a recipient, ended
    /// by `<|call|>`.
    pub fn is_call(&self) -> bool {
        matches!(self.role, FrameRole::Assistant)
            && self.has_part(Part::To)
            && self.is_complete()
            && matches!(self.terminator, Terminator::Call)
    }

    /// Returns whether a person may see the frame (OpenChatML 2.2 §4, §5).
    pub const fn visibility(&self) -> Visibility {
        if self.is_stray() {
            return Visibility::HIDDEN_STRAY;
        }
        visibility(self.role, self.channel, self.intent_word, self.recipient)
    }

    /// The role's word.
    pub fn role_span(&self) -> Span {
        let from = if self.is_stray() {
            self.span.start
        } else {
            self.header_start()
        };
        self.part(Part::Role).unwrap_or(Span::empty(from))
    }

    /// The header, between `<|start|>` and `<|message|>`.
    pub fn header_span(&self) -> Span {
        if self.is_stray() {
            return Span::empty(self.span.start);
        }
        let end = if matches!(self.kind, Kind::Message) {
            self.body
                .start
                .saturating_sub(ControlToken::Message.as_str().len())
        } else {
            self.body.start
        };
        Span::new(self.header_start(), end)
    }

    fn header_start(&self) -> usize {
        self.span.start + ControlToken::Start.as_str().len()
    }

    /// The channel's word.
    pub fn channel_span(&self) -> Option<Span> {
        self.part(Part::Channel)
    }

    /// The recipient.
    pub fn to_span(&self) -> Option<Span> {
        self.part(Part::To)
    }

    /// The id of a call or reply.
    pub fn call_id_span(&self) -> Option<Span> {
        self.part(Part::CallId)
    }

    /// The name; the role's word where the role is `functions.<tool>`.
    pub fn name_span(&self) -> Option<Span> {
        self.part(Part::Name)
    }

    /// The intent's word.
    pub fn intent_span(&self) -> Option<Span> {
        self.part(Part::Intent)
    }

    /// The content type.
    pub fn content_type_span(&self) -> Option<Span> {
        self.part(Part::ContentType)
    }

    /// The type that the body must have.
    pub fn constrain_span(&self) -> Option<Span> {
        self.part(Part::Constrain)
    }

    /// The body as it is written, escapes and literal markers included.
    pub const fn body_span(&self) -> Span {
        self.body
    }

    /// The terminator; empty where there is none.
    pub fn terminator_span(&self) -> Span {
        let length = self
            .terminator
            .token()
            .map_or(0, |token| token.as_str().len());
        Span::new(self.body.end, self.body.end + length)
    }
}
