//! Short forms of images in shown text.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

const ADDRESS: &str = "data:image/";
const BASE64: &str = ";base64,";

/// The maximum length of the rest of a media type.
const MAX_TYPE: usize = 40;

/// Replaces the data of images by type, size and the first characters of the hash.
///
/// Linear in the text.
pub(super) fn with_short_images(text: &str) -> Cow<'_, str> {
    let mut short = String::new();
    let mut from = 0;
    for (start, _) in text.match_indices(ADDRESS) {
        let Some(rest) = text.get(start..).filter(|_| start >= from) else {
            continue;
        };
        if let Some((length, form)) = short_form(rest) {
            short.push_str(text.get(from..start).unwrap_or_default());
            short.push_str(&form);
            from = start + length;
        }
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    short.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(short)
}

/// Returns the length and the short form of the address at the start.
fn short_form(text: &str) -> Option<(usize, String)> {
    let (kind, after) = text.strip_prefix("data:")?.split_once(BASE64)?;
    if kind.len() > MAX_TYPE || kind.contains(char::is_whitespace) {
        return None;
    }
    let is_data = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let length = after.bytes().position(|byte| !is_data(byte));
    let data = after.get(..length.unwrap_or(after.len()))?;
    let bytes = STANDARD
        .decode(data)
        .ok()
        .filter(|bytes| !bytes.is_empty())?;
    let hash = format!("{:x}", Sha256::digest(&bytes));
    let hash = hash.get(..12).unwrap_or_default();
    let form = format!("[{kind}, {} bytes, sha256 {hash}…]", bytes.len());
    Some((text.len() - after.len() + data.len(), form))
}

#[cfg(test)]
mod tests {
    use super::with_short_images;

    #[test]
    fn only_data_of_images_is_replaced() {
        let text = "a data:image/png;base64,aGVsbG8= b data:image/gif;base64,aGVsbG8=";
        let form = |kind: &str| format!("[{kind}, 5 bytes, sha256 2cf24dba5fb0…]");
        let expected = format!("a {} b {}", form("image/png"), form("image/gif"));
        assert_eq!(with_short_images(text), expected);
        for kept in [
            "data:image/png;base64,",
            "data:image/ x;base64,aGVsbG8=",
            "data:image/",
        ] {
            assert_eq!(with_short_images(kept), kept);
        }
    }
}
