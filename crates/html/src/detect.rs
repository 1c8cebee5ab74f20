//! Detection of HTML in bytes.

/// Bytes in which a page must declare its type and encoding.
pub(crate) const PROBE_LEN: usize = 1_024;

/// Returns whether bytes look like an HTML page.
///
/// After white space and comments, a page begins with a tag or declaration specific to HTML. Use it
/// for bytes of unknown media type.
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
    let probe = bytes.get(..PROBE_LEN).unwrap_or(bytes);
    let text = String::from_utf8_lossy(probe);
    let mut remaining = text.trim_start_matches('\u{FEFF}').trim_start();
    while let Some(comment) = remaining.strip_prefix("<!--") {
        let Some((_, after)) = comment.split_once("-->") else {
            return true;
        };
        remaining = after.trim_start();
    }
    let Some(inside) = remaining.strip_prefix('<') else {
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
