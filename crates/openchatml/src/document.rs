//! A transcript as it was read: the source and what was found in it.

pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod owned;
pub(crate) mod owned_source;
pub(crate) mod shared;

use std::borrow::Cow;
use std::sync::OnceLock;

use logue_source::{Diagnostic, Span};

use crate::document::frame::Frame;
use crate::document::header::Header;
use crate::document::owned::{FrameBuf, HeaderBuf, Transcript};
use crate::document::owned_source::is_text;
use crate::read::attributes::{INTERRUPTED, STATUS};
use crate::syntax::escape;
use crate::syntax::findings::Findings;
use crate::syntax::rules::Rules;

/// The result of [`parse`](crate::parse): the header, the frames and the findings of one source.
///
/// It borrows the source. [`OwnedDocument`](crate::OwnedDocument) is the same with a source of its
/// own, and [`Self::into_owned`] makes one of the other.
#[derive(Debug)]
pub struct Document<'s> {
    source: &'s [u8],
    /// Its own, or lent by a document that owns its source.
    contents: Cow<'s, Contents>,
    /// The cached result of checking that the whole source is UTF-8.
    is_text: OnceLock<bool>,
}

/// The parse result of a source: places and words, no text but the header's values.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    pub(crate) header: Option<Header>,
    pub(crate) header_span: Option<Span>,
    pub(crate) rules: Rules,
    pub(crate) frames: Vec<Frame>,
    pub(crate) findings: Findings,
}

/// One stretch of a source. The pieces of a document tile its source: they are in order, and no
/// byte is in two of them or in none. The list is closed, so that a caller can handle all of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourcePiece {
    /// The document header, read or not. One that could not be read has an error.
    Header(Span),
    /// The frame with this index; stray text counts as a frame.
    Frame(usize, Span),
    /// White space between frames, or a byte order mark at the start; without meaning.
    Space(Span),
}

impl SourcePiece {
    /// The place of the piece.
    pub const fn span(self) -> Span {
        match self {
            Self::Header(span) | Self::Frame(_, span) | Self::Space(span) => span,
        }
    }
}

impl<'s> Document<'s> {
    /// Creates the document of `source`.
    pub(crate) const fn new(source: &'s [u8], contents: Contents) -> Self {
        Self {
            source,
            contents: Cow::Owned(contents),
            is_text: OnceLock::new(),
        }
    }

    /// Creates the document of a source that was parsed before.
    pub(crate) fn lent(source: &'s [u8], is_text: bool, contents: &'s Contents) -> Self {
        Self {
            source,
            contents: Cow::Borrowed(contents),
            is_text: OnceLock::from(is_text),
        }
    }

    /// Returns the parse result by value.
    pub(crate) fn into_contents(self) -> Contents {
        self.contents.into_owned()
    }

    const fn contents(&self) -> &Contents {
        match &self.contents {
            Cow::Owned(contents) => contents,
            Cow::Borrowed(contents) => contents,
        }
    }

    /// The text that was read.
    pub const fn source(&self) -> &'s [u8] {
        self.source
    }

    /// The document header; `None` where there is none or it could not be read.
    pub const fn header(&self) -> Option<&Header> {
        self.contents().header.as_ref()
    }

    /// The place of the document header, readable or not.
    pub(crate) const fn header_span(&self) -> Option<Span> {
        self.contents().header_span
    }

    /// The rules of the frames.
    pub(crate) const fn rules(&self) -> Rules {
        self.contents().rules
    }

    /// The frames in order, stray text included.
    pub fn frames(&self) -> &[Frame] {
        &self.contents().frames
    }

    /// The findings of the reader, in the order of their discovery. [`check`](crate::check)
    /// finds more.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        self.contents().findings.kept()
    }

    /// The number of findings that were not kept, because there were more than
    /// [`MAX_DIAGNOSTICS`](crate::limits::MAX_DIAGNOSTICS).
    pub const fn diagnostics_dropped(&self) -> usize {
        self.contents().findings.dropped()
    }

    /// Returns whether one of the reader's findings is an error, kept or not.
    pub const fn has_errors(&self) -> bool {
        self.contents().findings.has_errors()
    }

    /// The pieces that tile the source.
    pub fn pieces(&self) -> impl Iterator<Item = SourcePiece> {
        let header = self.header_span().map(SourcePiece::Header);
        let frames = self.frames().iter().enumerate();
        let frames = frames.map(|(index, frame)| SourcePiece::Frame(index, frame.span()));
        let end = Span::empty(self.source.len());
        let mut at = 0;
        header
            .into_iter()
            .chain(frames)
            .chain(std::iter::once(SourcePiece::Space(end)))
            .flat_map(move |piece| {
                let gap = Span::new(at, piece.span().start);
                at = piece.span().end;
                [SourcePiece::Space(gap), piece]
            })
            .filter(|piece| !piece.span().is_empty())
    }

    /// The body of a frame of this document: escapes undone, literal markers left out, nothing
    /// trimmed. Borrowed unless something had to be left out. Linear in the body.
    pub fn body(&self, frame: &Frame) -> Cow<'s, [u8]> {
        if frame.is_stray() {
            return Cow::Borrowed(frame.body_span().bytes(self.source));
        }
        escape::decode(self.source, frame.body_span(), self.rules())
    }

    /// [`Self::body`] as text for display, with invalid UTF-8 replaced.
    pub fn body_text(&self, frame: &Frame) -> Cow<'s, str> {
        match self.body(frame) {
            Cow::Borrowed(bytes) => lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
        }
    }

    /// Returns whether all of the source is UTF-8. Looked at once.
    pub(crate) fn is_text(&self) -> bool {
        *self.is_text.get_or_init(|| is_text(self.source))
    }

    /// The source place of byte `offset` of a frame's [body](Self::body).
    pub fn body_place(&self, frame: &Frame, offset: usize) -> usize {
        if frame.is_stray() {
            return (frame.body_span().start + offset).min(frame.body_span().end);
        }
        escape::place(self.source, frame.body_span(), self.rules(), offset)
    }

    /// The parts of the source whose concatenation is a frame's [body](Self::body).
    pub(crate) fn body_pieces(&self, frame: &Frame) -> impl Iterator<Item = Span> {
        escape::pieces(self.source, frame.body_span(), self.rules())
    }

    /// The text at `span`, with invalid UTF-8 replaced.
    pub fn text(&self, span: Span) -> Cow<'s, str> {
        lossy(span.bytes(self.source))
    }

    /// The role's word in the source.
    pub fn role_text(&self, frame: &Frame) -> Cow<'s, str> {
        self.text(frame.role_span())
    }

    /// The recipient of a frame.
    pub fn to(&self, frame: &Frame) -> Option<Cow<'s, str>> {
        frame.to_span().map(|span| self.text(span))
    }

    /// The id of a call or of the call that a frame answers.
    pub fn call_id(&self, frame: &Frame) -> Option<Cow<'s, str>> {
        frame.call_id_span().map(|span| self.text(span))
    }

    /// The name in a frame: of a tool on its reply, else of a participant.
    pub fn name(&self, frame: &Frame) -> Option<Cow<'s, str>> {
        frame.name_span().map(|span| self.text(span))
    }

    /// Returns whether a frame is the beginning of an answer that was interrupted.
    pub fn is_interrupted(&self, frame: &Frame) -> bool {
        frame.attributes().iter().any(|pair| {
            let value = pair.value.map(|value| value.bytes(self.source));
            let key = pair.key.bytes(self.source);
            key == STATUS.as_bytes() && value == Some(INTERRUPTED.as_bytes())
        })
    }

    /// The intent's word.
    pub fn intent(&self, frame: &Frame) -> Option<Cow<'s, str>> {
        frame.intent_span().map(|span| self.text(span))
    }

    /// The content type of a frame.
    pub fn content_type(&self, frame: &Frame) -> Option<Cow<'s, str>> {
        frame.content_type_span().map(|span| self.text(span))
    }

    /// The type that the body of a frame must have.
    pub fn constrain(&self, frame: &Frame) -> Option<Cow<'s, str>> {
        frame.constrain_span().map(|span| self.text(span))
    }
}

impl Document<'_> {
    /// The whole document with its own text.
    pub fn to_transcript(&self) -> Transcript {
        Transcript {
            header: self.header().map(HeaderBuf::from),
            frames: self.to_owned_frames(),
            tools: Vec::new(),
        }
    }

    /// A frame of this document with its own text; invalid UTF-8 is replaced. A frame whose header
    /// is broken, and stray text, have an unknown channel.
    pub fn to_owned_frame(&self, frame: &Frame) -> FrameBuf {
        let mut owned = FrameBuf::head_of(frame, |span| self.text(span).into_owned());
        owned.body = self.body_text(frame).into_owned();
        owned
    }

    /// Every frame with its own text, stray text included, in order. Linear in the source.
    pub fn to_owned_frames(&self) -> Vec<FrameBuf> {
        let frames = self.frames().iter();
        frames.map(|frame| self.to_owned_frame(frame)).collect()
    }
}

/// Text for display. That all of it is valid is found out faster than where something is not.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}
