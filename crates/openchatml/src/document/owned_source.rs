//! The bytes that an [`OwnedDocument`](crate::OwnedDocument) keeps, looked at once for UTF-8.

/// An exclusively owned source, and whether it is text.
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
/// Linear in the source. Bytes that are not text are kept unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedSource {
    bytes: Vec<u8>,
    is_text: bool,
}

impl OwnedSource {
    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Returns whether the bytes are valid UTF-8.
    pub const fn is_text(&self) -> bool {
        self.is_text
    }

    /// The bytes, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl From<String> for OwnedSource {
    fn from(text: String) -> Self {
        Self {
            bytes: text.into_bytes(),
            is_text: true,
        }
    }
}

impl From<&str> for OwnedSource {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<Vec<u8>> for OwnedSource {
    fn from(bytes: Vec<u8>) -> Self {
        let is_text = is_text(&bytes);
        Self { bytes, is_text }
    }
}

impl From<&[u8]> for OwnedSource {
    fn from(source: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(source.len());
        let mut is_text = true;
        let mut rest = source;
        while !rest.is_empty() {
            let (stretch, behind) = rest.split_at(whole_characters(rest));
            is_text = is_text && self::is_text(stretch);
            bytes.extend_from_slice(stretch);
            rest = behind;
        }
        Self { bytes, is_text }
    }
}

impl<const LENGTH: usize> From<&[u8; LENGTH]> for OwnedSource {
    fn from(bytes: &[u8; LENGTH]) -> Self {
        Self::from(bytes.as_slice())
    }
}

/// Returns whether `bytes` are valid UTF-8.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    simdutf8::basic::from_utf8(bytes).is_ok()
}

/// Bytes that are looked at and then copied while they are still near.
const STRETCH: usize = 16 * 1024;

/// The length of the longest prefix that splits no character.
fn whole_characters(bytes: &[u8]) -> usize {
    // A character has at most three bytes after its first.
    let inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let past = (STRETCH..STRETCH + 3).take_while(inside).count();
    (STRETCH + past).min(bytes.len())
}
