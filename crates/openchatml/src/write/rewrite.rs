//! Changing a document without touching what was not changed.
//!
//! [`Rewrite`] writes a document back byte by byte, valid or not, but for the frames and the header
//! that are replaced: `write(read(bytes)) == bytes` for any bytes.
//!
//! The meaning of a byte depends on the text before it: an escape on the header's version, text
//! after an unclosed literal block on the frame of the block. So the result is
//! read again before it is returned, and refused if an untouched frame would say
//! something else.

use std::collections::BTreeMap;

use crate::convert;
use crate::document::frame::Frame;
use crate::document::owned::{FrameBuf, HeaderBuf};
use crate::document::{Document, SourcePiece};
use crate::read::batch::parse_fragment_as;
use crate::read::preamble::BYTE_ORDER_MARK;
use crate::syntax::rules::Rules;
use crate::write::frame::{WriteError, write_frame};
use crate::write::header::header_of_any_version;

/// Changes to a document, made at once by [`Rewrite::finish`].
///
/// ```
/// use openchatml::{FrameBuf, Rewrite, parse};
///
/// let text = b"version: 2.2\n\n<|start|>user<|message|>Hi<|end|>\n???\n<|start|>user<|message|>Bye<|end|>";
/// let document = parse(text);
/// assert_eq!(Rewrite::new(&document).finish()?, text); // nothing is lost, nothing is tidied
///
/// let mut rewrite = Rewrite::new(&document);
/// rewrite.replace(0, &FrameBuf::user("Hello"))?;
/// rewrite.remove(1); // the stray text
/// assert_eq!(
///     rewrite.finish()?,
///     b"version: 2.2\n\n<|start|>user<|message|>Hello<|end|>\n\n<|start|>user<|message|>Bye<|end|>"
/// );
/// # Ok::<(), openchatml::WriteError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rewrite<'d, 's> {
    document: &'d Document<'s>,
    header: Option<String>,
    frames: BTreeMap<usize, Option<Replacement>>,
}

/// The replacement of a frame.
#[derive(Clone, Debug)]
struct Replacement {
    frame: FrameBuf,
    text: String,
}

impl<'d, 's> Rewrite<'d, 's> {
    /// No changes so far.
    pub const fn new(document: &'d Document<'s>) -> Self {
        Self {
            document,
            header: None,
            frames: BTreeMap::new(),
        }
    }

    /// Writes `header` in the place of the document's, or before everything where it has none.
    ///
    /// # Errors
    /// A header that would not read back as it is; the document keeps its own.
    pub fn replace_header(&mut self, header: &HeaderBuf) -> Result<(), WriteError> {
        self.header = Some(header_of_any_version(header)?);
        Ok(())
    }

    /// Writes `frame` in place of frame `index`, in the document's version.
    /// An index past the last frame changes nothing.
    ///
    /// # Errors
    /// A frame that cannot be written, or that 2.0 has no place for in a document of 2.0; the
    /// document keeps its own.
    pub fn replace(&mut self, index: usize, frame: &FrameBuf) -> Result<(), WriteError> {
        let mut text = String::new();
        match self.document.rules() {
            Rules::V2_2 => write_frame(&mut text, frame)?,
            Rules::V2_0 => text = convert::frame_of_2_0(frame)?,
        }
        // What separates frames stays as it is.
        text.truncate(text.trim_end_matches('\n').len());
        let frame = frame.clone();
        self.frames.insert(index, Some(Replacement { frame, text }));
        Ok(())
    }

    /// Leaves the frame `index` of the document out. The text around it is kept.
    pub fn remove(&mut self, index: usize) {
        self.frames.insert(index, None);
    }

    /// The bytes of the document with the changes; without any, exactly its source. Linear in the
    /// document.
    ///
    /// # Errors
    /// [`WriteError::Elsewhere`] if a change would change what another frame says, or that it is
    /// hidden: what follows a frame with a literal block that is never closed, or escapes under
    /// another version.
    pub fn finish(&self) -> Result<Vec<u8>, WriteError> {
        let out = self.write();
        if self.header.is_some() || !self.frames.is_empty() {
            self.compare(&out)?;
        }
        Ok(out)
    }

    fn write(&self) -> Vec<u8> {
        let source = self.document.source();
        let mut out = Vec::with_capacity(source.len());
        let mut header = self.header.as_deref();
        let mut from = 0;
        if self.document.header_span().is_none()
            && let Some(text) = header.take()
        {
            if source.starts_with(BYTE_ORDER_MARK) {
                out.extend_from_slice(BYTE_ORDER_MARK);
                from = BYTE_ORDER_MARK.len();
            }
            out.extend_from_slice(text.as_bytes());
        }
        for piece in self.document.pieces() {
            let changed = match piece {
                SourcePiece::Header(_) => header.take(),
                SourcePiece::Frame(index, _) => self.frames.get(&index).map(|change| {
                    let text = change.as_ref().map(|change| change.text.as_str());
                    text.unwrap_or_default()
                }),
                SourcePiece::Space(_) => None,
            };
            let mut span = piece.span();
            span.start = span.start.max(from);
            match changed {
                Some(text) => out.extend_from_slice(text.as_bytes()),
                None => out.extend_from_slice(span.bytes(source)),
            }
        }
        out
    }

    /// Returns whether `written` reads as the document does but for the changes.
    fn compare(&self, written: &[u8]) -> Result<(), WriteError> {
        let again = parse_fragment_as(written, self.document.rules());
        let mut read = again.frames().iter();
        let read = std::iter::from_fn(|| Some(frame_content(&again, read.next()?)));
        let before = self.document.frames().iter().enumerate();
        let expected = before.filter_map(|(index, frame)| match self.frames.get(&index) {
            None => Some((index, frame_content(self.document, frame))),
            Some(None) => None,
            Some(Some(change)) => Some((index, changed_content(&change.frame))),
        });
        let (mut read, mut expected) = (read.peekable(), expected.peekable());
        loop {
            let (one, other) = (read.next(), expected.next());
            let index = other
                .as_ref()
                .map_or(self.document.frames().len(), |(index, _)| *index);
            let (mut one, mut other) = match (one, other) {
                (None, None) => return Ok(()),
                (Some(one), Some((_, other))) => (one, other),
                _ => return Err(WriteError::Elsewhere { index }),
            };
            // Stray texts that came together are one.
            while let Some(more) = read.next_if(|next| one.stray && next.stray) {
                one.frame.body += &more.frame.body;
            }
            while let Some((_, more)) = expected.next_if(|(_, next)| other.stray && next.stray) {
                other.frame.body += &more.frame.body;
            }
            for content in [&mut one, &mut other]
                .into_iter()
                .filter(|content| content.stray)
            {
                content
                    .frame
                    .body
                    .retain(|letter| !letter.is_ascii_whitespace());
            }
            if one != other {
                return Err(WriteError::Elsewhere { index });
            }
        }
    }
}

/// The content of a frame, at any place.
#[derive(Debug, PartialEq)]
struct FrameContent {
    frame: FrameBuf,
    stray: bool,
    complete: bool,
    visible: bool,
}

fn frame_content(document: &Document<'_>, frame: &Frame) -> FrameContent {
    FrameContent {
        frame: document.to_owned_frame(frame),
        stray: frame.is_stray(),
        complete: frame.is_complete(),
        visible: frame.visibility().is_visible(),
    }
}

fn changed_content(frame: &FrameBuf) -> FrameContent {
    FrameContent {
        stray: false,
        complete: true,
        visible: frame.visibility().is_visible(),
        frame: frame.clone(),
    }
}
