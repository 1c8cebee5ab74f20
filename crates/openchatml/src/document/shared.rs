//! Documents and frames that own their source: for other threads, and for later.
//!
//! Frames are places in a source, so a document needs its text once and not once a frame. An
//! [`OwnedDocument`] has that one copy, shared by all its clones and by every [`OwnedFrame`];
//! what it says is read with the same [`Document`] and [`Frame`] as a borrowed one.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use logue_source::{Diagnostic, Span};

use crate::document::frame::Frame;
use crate::document::header::Header;
use crate::document::owned::FrameBuf;
use crate::document::owned_source::OwnedSource;
use crate::document::{Contents, Document};
use crate::read::batch;
use crate::syntax::rules::Rules;

/// [`parse`](crate::parse) for a document that owns its source: a `String` or `Vec<u8>` is taken
/// as it is, anything borrowed is copied once ([`OwnedSource`] says what is looked at). Never
/// fails. Linear in the length of `source`.
///
/// Implements OpenChatML 2.2 §2, §3 and §6.
///
/// ```
/// use openchatml::{Channel, check_structure, parse_owned};
///
/// let text = String::from("version: 2.2\n\
///     <|start|>user<|message|>What is 2 + 2?<|end|>\n\
///     <|start|>assistant<|channel|>final<|message|>4.<|return|>\n");
/// let document = parse_owned(text);
/// assert!(check_structure(&document.document()).is_empty());
///
/// let answer = document.frame(1).unwrap();
/// drop(document);
/// let elsewhere = std::thread::spawn(move || {
///     assert_eq!(answer.channel(), Channel::Final);
///     answer.body_text().into_owned()
/// });
/// assert_eq!(elsewhere.join().unwrap(), "4.");
/// ```
pub fn parse_owned(source: impl Into<OwnedSource>) -> OwnedDocument {
    let source = source.into();
    let contents = batch::read(source.as_bytes(), Rules::V2_2);
    OwnedDocument(Arc::new(Shared { source, contents }))
}

/// A [`Document`] that owns its source.
///
/// It has one copy of the text, and frames that are places in it; clones share both, so a clone
/// costs the same for any size. [`Self::document`] is the whole of what a borrowed document can
/// be asked.
#[derive(Clone, Debug)]
pub struct OwnedDocument(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    source: OwnedSource,
    contents: Contents,
}

impl OwnedDocument {
    /// The document as one that borrows: for [`check`](crate::check), [`View`](crate::View) and
    /// whatever else reads documents. Nothing is read again, nothing is copied.
    pub fn document(&self) -> Document<'_> {
        let Shared { source, contents } = &*self.0;
        Document::lent(source.as_bytes(), source.is_text(), contents)
    }

    /// The text that was read.
    pub fn source(&self) -> &[u8] {
        self.0.source.as_bytes()
    }

    /// Returns whether [`Self::source`] is valid UTF-8, which is known since it was read.
    pub fn is_text(&self) -> bool {
        self.0.source.is_text()
    }

    /// The document header; `None` where there is none or it could not be read.
    pub fn header(&self) -> Option<&Header> {
        self.0.contents.header.as_ref()
    }

    /// The frames in order, stray text included.
    pub fn frames(&self) -> &[Frame] {
        &self.0.contents.frames
    }

    /// The findings of the reader; see [`Document::diagnostics`].
    pub fn diagnostics(&self) -> &[Diagnostic] {
        self.0.contents.findings.kept()
    }

    /// Returns whether one of the reader's findings is an error, kept or not.
    pub fn has_errors(&self) -> bool {
        self.0.contents.findings.has_errors()
    }

    /// The frame `index` as an independent value; `None` past the last frame.
    pub fn frame(&self, index: usize) -> Option<OwnedFrame> {
        self.frames().get(index).map(|frame| self.handle(frame))
    }

    /// Every frame as something that may be kept and sent by itself, in order.
    pub fn owned_frames(&self) -> impl ExactSizeIterator<Item = OwnedFrame> {
        self.frames().iter().map(|frame| self.handle(frame))
    }

    /// The source, without a copy if this is the last that has it.
    pub fn into_source(self) -> OwnedSource {
        match Arc::try_unwrap(self.0) {
            Ok(shared) => shared.source,
            Err(shared) => shared.source.clone(),
        }
    }

    fn handle(&self, frame: &Frame) -> OwnedFrame {
        OwnedFrame {
            document: self.clone(),
            frame: frame.clone(),
        }
    }
}

impl Document<'_> {
    /// The document with a source of its own: one copy of the text, looked at in the same go
    /// whether it is text. Nothing is read again.
    pub fn into_owned(self) -> OwnedDocument {
        let source = OwnedSource::from(self.source());
        let contents = self.into_contents();
        OwnedDocument(Arc::new(Shared { source, contents }))
    }
}

/// One [`Frame`] together with the document that it is of.
///
/// It derefs to the frame, and answers what is else asked of a document: `frame.body_text()` is
/// `document.body_text(&frame)`. It keeps the whole document alive, all of its text included;
/// [`Self::to_frame_buf`] keeps the frame only.
#[derive(Clone, Debug)]
pub struct OwnedFrame {
    document: OwnedDocument,
    frame: Frame,
}

impl OwnedFrame {
    /// The document that the frame is of.
    pub const fn document(&self) -> &OwnedDocument {
        &self.document
    }

    /// The body: escapes undone, literal markers left out; see [`Document::body`].
    pub fn body(&self) -> Cow<'_, [u8]> {
        self.document.document().body(&self.frame)
    }

    /// [`Self::body`] as text for display, with invalid UTF-8 replaced.
    pub fn body_text(&self) -> Cow<'_, str> {
        self.document.document().body_text(&self.frame)
    }

    /// The text at `span` of the source, with invalid UTF-8 replaced.
    pub fn text(&self, span: Span) -> Cow<'_, str> {
        self.document.document().text(span)
    }

    /// The role's word in the source.
    pub fn role_text(&self) -> Cow<'_, str> {
        self.document.document().role_text(&self.frame)
    }

    /// The recipient.
    pub fn to(&self) -> Option<Cow<'_, str>> {
        self.document.document().to(&self.frame)
    }

    /// The id of a call or of the call that the frame answers.
    pub fn call_id(&self) -> Option<Cow<'_, str>> {
        self.document.document().call_id(&self.frame)
    }

    /// The name: of a tool on its reply, else of a participant.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        self.document.document().name(&self.frame)
    }

    /// The intent's word; [`Frame::intent`] is what it means.
    pub fn intent_text(&self) -> Option<Cow<'_, str>> {
        self.document.document().intent(&self.frame)
    }

    /// The content type.
    pub fn content_type(&self) -> Option<Cow<'_, str>> {
        self.document.document().content_type(&self.frame)
    }

    /// The type that the body must have.
    pub fn constrain(&self) -> Option<Cow<'_, str>> {
        self.document.document().constrain(&self.frame)
    }

    /// The frame with text of its own, apart from the document.
    pub fn to_frame_buf(&self) -> FrameBuf {
        self.document.document().to_owned_frame(&self.frame)
    }
}

impl Deref for OwnedFrame {
    type Target = Frame;

    fn deref(&self) -> &Frame {
        &self.frame
    }
}
