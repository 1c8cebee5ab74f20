//! What bytes from elsewhere are: whether they are HTML, and in which encoding.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Bytes in which a page must say its encoding.
const PROBE: usize = 1_024;

/// Whether bytes look like an HTML page: behind white space and comments they begin with a tag or a
/// declaration that only HTML has. For bytes whose media type is not known.
///
/// ```
/// assert!(logue_html::is_html(b"<!-- page --> <!DOCTYPE html>"));
/// assert!(!logue_html::is_html(b"# <b>Markdown</b>"));
/// ```
pub fn is_html(bytes: &[u8]) -> bool {
    const TAGS: [&str; 16] = [
        "!doctype html",
        "html",
        "head",
        "body",
        "script",
        "style",
        "title",
        "table",
        "div",
        "meta",
        "link",
        "iframe",
        "h1",
        "p",
        "br",
        "a",
    ];
    let probe = bytes.get(..PROBE).unwrap_or(bytes);
    let text = String::from_utf8_lossy(probe);
    let mut rest = text.trim_start_matches('\u{FEFF}').trim_start();
    while let Some(comment) = rest.strip_prefix("<!--") {
        let Some((_, after)) = comment.split_once("-->") else {
            return true;
        };
        rest = after.trim_start();
    }
    let Some(inside) = rest.strip_prefix('<') else {
        return false;
    };
    TAGS.iter().any(|tag| {
        let same = inside
            .get(..tag.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(tag));
        let after = inside.as_bytes().get(tag.len());
        same && after.is_none_or(|byte| byte.is_ascii_whitespace() || b"/>".contains(byte))
    })
}

/// The characters of a page. The encoding is what a byte order mark says, else what the transport
/// said (`charset`, a label as in `text/html; charset=LABEL`), else what a `<meta>` near the
/// beginning says, else UTF-8 if the bytes are that, else windows-1252. What the encoding does not
/// allow becomes U+FFFD. Linear.
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

/// The encoding that a `<meta charset=…>` or its older form names.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let probe = bytes.get(..PROBE).unwrap_or(bytes);
    let lower = String::from_utf8_lossy(probe).to_ascii_lowercase();
    let mut rest = lower.as_str();
    while let Some((_, after)) = rest.split_once("<meta") {
        let tag = after.split_once('>').map_or(after, |(tag, _)| tag);
        if let Some((_, value)) = tag.split_once("charset") {
            let value = value.trim_start().strip_prefix('=').unwrap_or_default();
            let value = value.trim_start().trim_start_matches(['"', '\'']);
            let ends = |character: char| {
                character.is_ascii_whitespace() || matches!(character, '"' | '\'' | ';' | '/')
            };
            let label = value.split(ends).next().unwrap_or_default();
            let encoding = Encoding::for_label(label.as_bytes())?;
            // A page whose tags could be read as ASCII is not in UTF-16.
            let wide = encoding.output_encoding() != encoding;
            return Some(if wide { UTF_8 } else { encoding });
        }
        rest = after;
    }
    None
}
