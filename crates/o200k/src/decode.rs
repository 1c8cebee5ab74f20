//! Ids to bytes and text.

use std::fmt;
use std::string::FromUtf8Error;

use crate::table;

/// An id that is not in the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownId(
    /// The id.
    pub u32,
);

impl fmt::Display for UnknownId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is no id of o200k_harmony", self.0)
    }
}

impl std::error::Error for UnknownId {}

/// Why ids are no text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// An id is not in the vocabulary.
    UnknownId(UnknownId),
    /// The bytes are not UTF-8; they can be had from the error.
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

impl From<UnknownId> for DecodeError {
    fn from(error: UnknownId) -> Self {
        Self::UnknownId(error)
    }
}

impl From<FromUtf8Error> for DecodeError {
    fn from(error: FromUtf8Error) -> Self {
        Self::Utf8(error)
    }
}

/// The bytes of a token; of a special, its name. Nothing if there is no such id.
///
/// ```
/// assert_eq!(logue_o200k::token_bytes(13225), Some(&b"Hello"[..]));
/// assert_eq!(logue_o200k::token_bytes(200_006), Some(&b"<|start|>"[..]));
/// assert_eq!(logue_o200k::token_bytes(201_089), None);
/// ```
pub fn token_bytes(id: u32) -> Option<&'static [u8]> {
    table::token(id)
}

/// The ordinary token of exactly these bytes, if there is one. Specials are never found.
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

/// The bytes of all `ids`, one after the other. They need not be UTF-8, for a token can end within
/// a character.
///
/// In the result, a special's name and text that looks like it are the same.
///
/// # Errors
/// [`UnknownId`] names the first id that is not in the vocabulary.
///
/// ```
/// use logue_o200k::{UnknownId, decode};
///
/// assert_eq!(decode(&[13225, 11, 2375, 0]), Ok(b"Hello, world!".to_vec()));
/// assert_eq!(decode(&[13225, 999_999]), Err(UnknownId(999_999)));
/// ```
pub fn decode(ids: &[u32]) -> Result<Vec<u8>, UnknownId> {
    /// Bytes that are copied at once: a fixed number is faster than the right one.
    const STRIDE: usize = 16;
    let mut length = 0;
    for &id in ids {
        let (begin, end) = table::bounds(id).ok_or(UnknownId(id))?;
        length += end - begin;
    }
    let mut bytes = vec![0; length + STRIDE];
    let all = table::bytes();
    let mut at = 0;
    for &id in ids {
        let (begin, end) = table::bounds(id).ok_or(UnknownId(id))?;
        let next = at + (end - begin);
        let source = all
            .get(begin..)
            .and_then(|rest| rest.first_chunk::<STRIDE>());
        let target = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
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

/// The text of `ids`.
///
/// # Errors
/// [`DecodeError`] if an id is not in the vocabulary or the bytes are not UTF-8.
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

/// The text of `ids`, whatever they are: an id that is not in the vocabulary, and each sequence of
/// bytes that is no character, becomes one U+FFFD.
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

/// Text from ids that arrive one by one.
///
/// Each id gives the text that is complete with it; the bytes of a character whose rest has yet to
/// come are held back, at most three. All parts together are what [`decode_lossy`] gives. A push
/// allocates nothing once the longest part has been seen.
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
/// # Ok::<(), logue_o200k::UnknownId>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct TextStream {
    /// The beginning of a character, and while a token is read, its bytes.
    held: Vec<u8>,
    /// The text of the last push.
    part: String,
}

impl TextStream {
    /// A stream before its first id.
    pub const fn new() -> Self {
        Self {
            held: Vec::new(),
            part: String::new(),
        }
    }

    /// The text that is complete with this id; it can be empty. Bytes that are no character become
    /// U+FFFD.
    ///
    /// # Errors
    /// [`UnknownId`] if the id is not in the vocabulary; the stream is as it was before.
    pub fn push(&mut self, id: u32) -> Result<&str, UnknownId> {
        let token = table::token(id).ok_or(UnknownId(id))?;
        self.part.clear();
        self.take(token);
        Ok(&self.part)
    }

    /// [`push`](Self::push), where an id that is not in the vocabulary becomes U+FFFD. It ends a
    /// character that was held back.
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

    /// The end: U+FFFD if a character has been left incomplete, else nothing. The stream can be
    /// used again for other ids.
    pub fn finish(&mut self) -> &str {
        self.part.clear();
        self.drop_held();
        &self.part
    }

    /// Whether the beginning of a character is held back.
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
            let rest = self.held.get(done..).unwrap_or_default();
            let error = match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.part.push_str(text);
                    done += text.len();
                    break;
                }
                Err(error) => error,
            };
            let valid = rest.get(..error.valid_up_to()).unwrap_or_default();
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
