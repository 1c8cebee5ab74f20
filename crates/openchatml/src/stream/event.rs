//! Options and events of a stream.

use logue_source::{Diagnostic, Span};

use crate::document::header::Header;
use crate::document::owned::FrameBuf;
use crate::syntax::vocabulary::Terminator;
use crate::visibility::Visibility;

/// Options of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamOptions {
    /// Stop at the first error, a missing document header among them. Earlier events
    /// remain valid.
    pub strict: bool,
}

impl StreamOptions {
    /// Sets whether the stream stops at the first error.
    #[must_use]
    pub const fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }
}

/// The events of a stream, in order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// The text before the first frame is read: the document header, if there is one that could
    /// be read. Always the first event, but for findings about it.
    Opened(Option<&'e Header>),
    /// A frame or stray text begins; only its body and end are open.
    Start(&'e FrameHeader),
    /// More of its body, never empty: escapes undone, literal markers left out. Concatenated, these
    /// are the body's text exactly.
    Delta(&'e str),
    /// It ends.
    End(FrameEnd),
    /// The last frame, a call, continues to this place with its own `<|end|>`
    /// (OpenChatML 2.0).
    Extended(usize),
    /// Something is wrong.
    Diagnostic(Diagnostic),
}

/// The header of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameHeader {
    /// The header, as a frame whose body is still to come.
    pub frame: FrameBuf,
    /// The visibility of the frame.
    pub visibility: Visibility,
    /// Whether this is text outside every frame.
    pub stray: bool,
}

impl FrameHeader {
    /// Returns whether a person may see the frame.
    pub const fn is_visible(&self) -> bool {
        self.visibility.is_visible()
    }
}

/// The end of a frame. Offsets count the bytes that were pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameEnd {
    /// The terminator.
    pub terminator: Terminator,
    /// Whether it has both its `<|message|>` and its terminator.
    pub complete: bool,
    /// The whole frame, with its header and terminator.
    pub span: Span,
    /// The body as it is written.
    pub body: Span,
}
