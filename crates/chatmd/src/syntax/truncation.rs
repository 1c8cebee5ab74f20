//! Signs that writing a text ended early.

use crate::syntax::tag::Tag;
use crate::syntax::whitespace::skip_spaces;

/// Whether a RAW block without an end looks as if writing had ended in it: it has taken in neither
/// the closing tag of its element nor another entry. Arguments that were cut are none.
pub(crate) fn is_cut(block: &str, tag: Tag) -> bool {
    tag.is_entry()
        && tag != Tag::ToolCall
        && !block.contains(&format!("</{tag}"))
        && !holds_entry(block)
}

/// Whether a line of a text begins with the tag of an entry, opening or closing.
pub(crate) fn holds_entry(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'\n', bytes).any(|end| {
        let at = skip_spaces(bytes, end + 1, bytes.len());
        let name = at + 1 + usize::from(bytes.get(at + 1) == Some(&b'/'));
        bytes.get(at) == Some(&b'<') && Tag::at(bytes, name).is_some_and(|(tag, _)| tag.is_entry())
    })
}
