//! Signs that writing a text ended early.

use crate::syntax::tag::Tag;
use crate::syntax::whitespace::skip_spaces;

/// Returns whether writing apparently ended inside an unterminated RAW block.
///
/// The block then contains neither the closing tag of its element nor another entry. A tool call is
/// excluded: truncated arguments are not arguments.
pub(crate) fn is_cut(block: &str, tag: Tag) -> bool {
    tag.is_entry()
        && tag != Tag::ToolCall
        && !block.contains(&format!("</{tag}"))
        && !holds_entry(block)
}

/// Returns whether a line begins with the opening or closing tag of an entry.
pub(crate) fn holds_entry(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'\n', bytes).any(|end| {
        let at = skip_spaces(bytes, end + 1, bytes.len());
        let name = at + 1 + usize::from(bytes.get(at + 1) == Some(&b'/'));
        bytes.get(at) == Some(&b'<') && Tag::at(bytes, name).is_some_and(|(tag, _)| tag.is_entry())
    })
}
