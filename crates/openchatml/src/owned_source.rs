//! The bytes that an [`OwnedDocument`](crate::OwnedDocument) keeps, looked at once for UTF-8.

/// A source that belongs to nobody else, and whether it is text.
///
/// It is looked at for UTF-8 at most once, when it is made. What that costs is up to what it is
/// made of:
///
/// | from | copied | looked at |
/// |---|---|---|
/// | `String` | no | no |
/// | `&str` | once | no |
/// | `Vec<u8>` | no | once |
/// | `&[u8]` | once | once, in the same go |
///
/// Linear in the source. Bytes that are no text are kept as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedSource(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Text(String),
    /// Never valid UTF-8.
    Bytes(Vec<u8>),
}

impl OwnedSource {
    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Kind::Text(text) => text.as_bytes(),
            Kind::Bytes(bytes) => bytes.as_slice(),
        }
    }

    /// The bytes as text; `None` where they are not valid UTF-8. Costs nothing.
    pub const fn as_text(&self) -> Option<&str> {
        match &self.0 {
            Kind::Text(text) => Some(text.as_str()),
            Kind::Bytes(_) => None,
        }
    }

    /// The bytes, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.0 {
            Kind::Text(text) => text.into_bytes(),
            Kind::Bytes(bytes) => bytes,
        }
    }
}

impl From<String> for OwnedSource {
    fn from(text: String) -> Self {
        Self(Kind::Text(text))
    }
}

impl From<&str> for OwnedSource {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<Vec<u8>> for OwnedSource {
    fn from(bytes: Vec<u8>) -> Self {
        Self(match String::from_utf8(bytes) {
            Ok(text) => Kind::Text(text),
            Err(error) => Kind::Bytes(error.into_bytes()),
        })
    }
}

impl From<&[u8]> for OwnedSource {
    fn from(bytes: &[u8]) -> Self {
        Self(match copy_text(bytes) {
            Some(text) => Kind::Text(text),
            None => Kind::Bytes(bytes.to_vec()),
        })
    }
}

impl<const LENGTH: usize> From<&[u8; LENGTH]> for OwnedSource {
    fn from(bytes: &[u8; LENGTH]) -> Self {
        Self::from(bytes.as_slice())
    }
}

/// Bytes that are looked at and then copied while they are still near.
const STRETCH: usize = 16 * 1024;

/// A copy of `bytes`, if they are text.
fn copy_text(bytes: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let (stretch, behind) = rest.split_at(whole_characters(rest, STRETCH));
        text.push_str(simdutf8::basic::from_utf8(stretch).ok()?);
        rest = behind;
    }
    Some(text)
}

/// The most bytes of `bytes`, up to about `limit`, that cut no character in two if they are text.
fn whole_characters(bytes: &[u8], limit: usize) -> usize {
    // A character has at most three bytes behind its first.
    let inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let past = (limit..limit + 3).take_while(inside).count();
    (limit + past).min(bytes.len())
}
