//! Decoding of token ids to bytes and text.

use std::fmt;
use std::string::FromUtf8Error;

use crate::table;

/// An id that is not in the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownTokenId(
    /// The id.
    pub u32,
);

impl fmt::Display for UnknownTokenId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is not a token id of o200k_harmony", self.0)
    }
}

impl std::error::Error for UnknownTokenId {}

/// An error of [`decode_text`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// An id is not in the vocabulary.
    UnknownId(UnknownTokenId),
    /// The bytes are invalid UTF-8; the error contains them.
    Utf8(FromUtf8Error),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownId(error) => error.fmt(formatter),
            Self::Utf8(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<UnknownTokenId> for DecodeError {
    fn from(error: UnknownTokenId) -> Self {
        Self::UnknownId(error)
    }
}

impl From<FromUtf8Error> for DecodeError {
    fn from(error: FromUtf8Error) -> Self {
        Self::Utf8(error)
    }
}

/// Returns the bytes of a token; for a special, its name.
///
/// Returns `None` if the id is unknown.
///
/// ```
/// assert_eq!(logue_o200k::token_bytes(13225), Some(&b"Hello"[..]));
/// assert_eq!(logue_o200k::token_bytes(200_006), Some(&b"<|start|>"[..]));
/// assert_eq!(logue_o200k::token_bytes(201_089), None);
/// ```
pub fn token_bytes(id: u32) -> Option<&'static [u8]> {
    table::token(id)
}

/// Returns the ordinary token of exactly these bytes.
///
/// Specials are never found.
///
/// ```
/// assert_eq!(logue_o200k::token_id(b"Hello"), Some(13225));
/// assert_eq!(logue_o200k::token_id(b"<|start|>"), None);
/// ```
pub fn token_id(bytes: &[u8]) -> Option<u32> {
    if bytes.is_empty() {
        return None;
    }
    crate::index::find(bytes, 0, bytes.len())
}

/// Decodes `ids` to bytes.
///
/// The bytes may be invalid UTF-8, because a token can end within a character. In the result, the
/// name of a special and equal ordinary text are indistinguishable.
///
/// # Errors
///
/// Returns [`UnknownTokenId`] with the first id that is not in the vocabulary.
///
/// ```
/// use logue_o200k::{UnknownTokenId, decode};
///
/// assert_eq!(decode(&[13225, 11, 2375, 0]), Ok(b"Hello, world!".to_vec()));
/// assert_eq!(decode(&[13225, 999_999]), Err(UnknownTokenId(999_999)));
/// ```
pub fn decode(ids: &[u32]) -> Result<Vec<u8>, UnknownTokenId> {
    /// Bytes per copy; a constant is faster than the exact length.
    const STRIDE: usize = 16;
    let mut length = 0;
    for &id in ids {
        let (begin, end) = table::bounds(id).ok_or(UnknownTokenId(id))?;
        length += end - begin;
    }
    let mut bytes = vec![0; length + STRIDE];
    let all = table::bytes();
    let mut at = 0;
    for &id in ids {
        let (begin, end) = table::bounds(id).ok_or(UnknownTokenId(id))?;
        let next = at + (end - begin);
        let source = all
            .get(begin..)
            .and_then(|remaining| remaining.first_chunk::<STRIDE>());
        let target = bytes
            .get_mut(at..)
            .and_then(|remaining| remaining.first_chunk_mut());
        match (source, target) {
            (Some(source), Some(target)) if next - at <= STRIDE => *target = *source,
            // A long token, or one of the last in the table.
            _ => bytes[at..next].copy_from_slice(&all[begin..end]),
        }
        at = next;
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Decodes `ids` to text.
///
/// # Errors
///
/// Returns [`DecodeError`] if an id is not in the vocabulary or the bytes are invalid UTF-8.
///
/// ```
/// use logue_o200k::{DecodeError, decode_text, encode};
///
/// assert_eq!(decode_text(&[13225, 11, 2375, 0])?, "Hello, world!");
/// // An emoji of several tokens, cut.
/// let ids = encode("\u{1F98A}");
/// assert!(matches!(decode_text(&ids[..1]), Err(DecodeError::Utf8(_))));
/// # Ok::<(), DecodeError>(())
/// ```
pub fn decode_text(ids: &[u32]) -> Result<String, DecodeError> {
    Ok(String::from_utf8(decode(ids)?)?)
}

/// Decodes `ids` to text without errors.
///
/// An unknown id and each invalid sequence of bytes become one U+FFFD.
///
/// ```
/// use logue_o200k::decode_lossy;
///
/// assert_eq!(decode_lossy(&[13225, 999_999, 0]), "Hello\u{FFFD}!");
/// ```
pub fn decode_lossy(ids: &[u32]) -> String {
    let mut text = String::new();
    let mut stream = TextStream::new();
    for &id in ids {
        text.push_str(stream.push_lossy(id));
    }
    text.push_str(stream.finish());
    text
}

/// A decoder for ids that arrive one by one.
///
/// Each push returns the text completed by the id. The bytes of an incomplete character, at most
/// three, are held back. All parts together equal the result of [`decode_lossy`]. A push allocates
/// only if its text is longer than any before.
///
/// ```
/// use logue_o200k::{TextStream, encode};
///
/// let mut stream = TextStream::new();
/// let mut text = String::new();
/// for id in encode("na\u{EF}ve \u{1F98A}") {
///     text.push_str(stream.push(id)?);
/// }
/// text.push_str(stream.finish());
/// assert_eq!(text, "na\u{EF}ve \u{1F98A}");
/// # Ok::<(), logue_o200k::UnknownTokenId>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct TextStream {
    /// The bytes of an incomplete character; during a push, also those of the token.
    held: Vec<u8>,
    /// The text of the last push.
    part: String,
}

impl TextStream {
    /// Creates an empty stream.
    pub const fn new() -> Self {
        Self {
            held: Vec::new(),
            part: String::new(),
        }
    }

    /// Returns the text completed by this id, possibly empty.
    ///
    /// Invalid bytes become U+FFFD.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownTokenId`] if the id is not in the vocabulary. The stream stays unchanged.
    pub fn push(&mut self, id: u32) -> Result<&str, UnknownTokenId> {
        let token = table::token(id).ok_or(UnknownTokenId(id))?;
        self.part.clear();
        self.take(token);
        Ok(&self.part)
    }

    /// Returns the text completed by this id; an unknown id becomes U+FFFD.
    ///
    /// An unknown id ends an incomplete character.
    pub fn push_lossy(&mut self, id: u32) -> &str {
        self.part.clear();
        if let Some(token) = table::token(id) {
            self.take(token);
        } else {
            self.drop_held();
            self.part.push(char::REPLACEMENT_CHARACTER);
        }
        &self.part
    }

    /// Ends the text; returns U+FFFD if a character is incomplete, else nothing.
    ///
    /// The stream can be reused afterwards.
    pub fn finish(&mut self) -> &str {
        self.part.clear();
        self.drop_held();
        &self.part
    }

    /// Returns whether a character is incomplete.
    pub fn is_incomplete(&self) -> bool {
        !self.held.is_empty()
    }

    fn take(&mut self, token: &[u8]) {
        if self.held.is_empty()
            && let Ok(text) = std::str::from_utf8(token)
        {
            self.part.push_str(text);
            return;
        }
        self.held.extend_from_slice(token);
        let mut done = 0;
        loop {
            let remaining = self.held.get(done..).unwrap_or_default();
            let error = match std::str::from_utf8(remaining) {
                Ok(text) => {
                    self.part.push_str(text);
                    done += text.len();
                    break;
                }
                Err(error) => error,
            };
            let valid = remaining.get(..error.valid_up_to()).unwrap_or_default();
            self.part
                .push_str(std::str::from_utf8(valid).unwrap_or_default());
            done += valid.len();
            let Some(bad) = error.error_len() else {
                break;
            };
            self.part.push(char::REPLACEMENT_CHARACTER);
            done += bad;
        }
        self.held.drain(..done);
    }

    fn drop_held(&mut self) {
        if !self.held.is_empty() {
            self.held.clear();
            self.part.push(char::REPLACEMENT_CHARACTER);
        }
    }
}
