//! The encoding of a page.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use crate::detect::PROBE_LEN;

/// Decodes the bytes of a page.
///
/// The encoding is that of the first source that names one: a byte order mark; the transport
/// (`charset`, a label as in `text/html; charset=LABEL`); a `<meta>` element near the start. The
/// default is UTF-8 for valid UTF-8, else windows-1252. Invalid bytes become U+FFFD. Linear in the
/// number of bytes.
///
/// ```
/// assert_eq!(logue_html::decode(b"caf\xE9", Some("latin1")), "café");
/// ```
pub fn decode<'a>(bytes: &'a [u8], charset: Option<&str>) -> Cow<'a, str> {
    let named = charset.and_then(|label| Encoding::for_label(label.trim().as_bytes()));
    let encoding = named.or_else(|| declared(bytes)).unwrap_or_else(|| {
        if std::str::from_utf8(bytes).is_ok() {
            UTF_8
        } else {
            WINDOWS_1252
        }
    });
    encoding.decode(bytes).0
}

/// Returns the encoding named by `<meta charset=…>` or its older form.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let probe = bytes.get(..PROBE_LEN).unwrap_or(bytes);
    let lower = String::from_utf8_lossy(probe).to_ascii_lowercase();
    let mut remaining = lower.as_str();
    while let Some((_, after)) = remaining.split_once("<meta") {
        let tag = after.split_once('>').map_or(after, |(tag, _)| tag);
        if let Some((_, value)) = tag.split_once("charset") {
            let value = value.trim_start().strip_prefix('=').unwrap_or_default();
            let value = value.trim_start().trim_start_matches(['"', '\'']);
            let ends = |character: char| {
                character.is_ascii_whitespace() || matches!(character, '"' | '\'' | ';' | '/')
            };
            let label = value.split(ends).next().unwrap_or_default();
            let encoding = Encoding::for_label(label.as_bytes())?;
            // A page whose tags are readable as ASCII is not in UTF-16.
            let wide = encoding.output_encoding() != encoding;
            return Some(if wide { UTF_8 } else { encoding });
        }
        remaining = after;
    }
    None
}
