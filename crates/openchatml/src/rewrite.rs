//! Changing a document without touching what was not changed.
//!
//! [`Rewrite`] writes a document back byte by byte, valid or not, but for the frames and the header
//! that are replaced: `write(read(bytes)) == bytes` for any bytes.

use std::collections::BTreeMap;

use crate::document::{Document, Piece};
use crate::owned::{FrameBuf, HeaderBuf};
use crate::write::{WriteError, write_frame};
use crate::write_header::write_header;

/// Changes to a document, made at once by [`Rewrite::finish`].
///
/// ```
/// use openchatml::{FrameBuf, Rewrite, parse};
///
/// let text = b"version: 2.2\n\n<|start|>user<|message|>Hi<|end|>\n???\n<|start|>user<|message|>Bye<|end|>";
/// let document = parse(text);
/// assert_eq!(Rewrite::new(&document).finish(), text); // nothing is lost, nothing is tidied
///
/// let mut rewrite = Rewrite::new(&document);
/// rewrite.replace(0, &FrameBuf::user("Hello"))?;
/// rewrite.remove(1); // the stray text
/// assert_eq!(
///     rewrite.finish(),
///     b"version: 2.2\n\n<|start|>user<|message|>Hello<|end|>\n\n<|start|>user<|message|>Bye<|end|>"
/// );
/// # Ok::<(), openchatml::WriteError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rewrite<'d, 's> {
    document: &'d Document<'s>,
    header: Option<String>,
    frames: BTreeMap<usize, String>,
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
        self.header = Some(write_header(header)?);
        Ok(())
    }

    /// Writes `frame` in the place of the frame `index` of the document. An index behind the last
    /// frame changes nothing.
    ///
    /// # Errors
    /// A frame that cannot be written; the document keeps its own.
    pub fn replace(&mut self, index: usize, frame: &FrameBuf) -> Result<(), WriteError> {
        let mut text = String::new();
        write_frame(&mut text, frame)?;
        // What separates frames stays as it is.
        text.truncate(text.trim_end_matches('\n').len());
        self.frames.insert(index, text);
        Ok(())
    }

    /// Leaves the frame `index` of the document out. What stands around it stays.
    pub fn remove(&mut self, index: usize) {
        self.frames.insert(index, String::new());
    }

    /// The bytes of the document with the changes. Linear in the document.
    pub fn finish(&self) -> Vec<u8> {
        let source = self.document.source();
        let mut out = Vec::with_capacity(source.len());
        let mut header = self.header.as_deref();
        let has_header = self
            .document
            .pieces()
            .any(|piece| matches!(piece, Piece::Header(_)));
        if !has_header && let Some(text) = header.take() {
            out.extend_from_slice(text.as_bytes());
        }
        for piece in self.document.pieces() {
            let changed = match piece {
                Piece::Header(_) => header.take(),
                Piece::Frame(index, _) => self.frames.get(&index).map(String::as_str),
                Piece::Space(_) => None,
            };
            match changed {
                Some(text) => out.extend_from_slice(text.as_bytes()),
                None => out.extend_from_slice(piece.span().bytes(source)),
            }
        }
        out
    }
}
