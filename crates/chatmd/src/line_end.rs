//! The line ends of a document.

use crate::syntax::builder::parse;
use crate::syntax::lexer::{Lexer, TokenKind};
use crate::syntax::tree::Tree;
use crate::syntax::whitespace::is_blank;

/// Returns the line end of a document: `"\r\n"` or `"\n"`.
///
/// It is the first line end between top-level elements, or else the first one outside RAW blocks.
/// Text of messages may have other line ends. Linear in the text.
///
/// ```
/// assert_eq!(chatmd::line_end("<user>a\nb</user>\r\n"), "\r\n");
/// assert_eq!(chatmd::line_end("<user>a</user>"), "\n");
/// ```
pub fn line_end(text: &str) -> &'static str {
    if memchr::memchr(b'\r', text.as_bytes()).is_none() {
        return "\n";
    }
    tree_line_end(&parse(text))
}

pub(crate) fn tree_line_end(tree: &Tree<'_>) -> &'static str {
    let text_at = |index: usize| tree.span(index).text(tree.source()).unwrap_or_default();
    let mut at = 0;
    while let Some(slot) = tree.slots().get(at) {
        if matches!(slot.kind, TokenKind::Text | TokenKind::Trivia)
            && let Some(end) = first_line_end(text_at(at))
        {
            return end;
        }
        at = slot.end().max(at + 1);
    }
    let is_outside = |index: &usize| {
        let slot = tree.slots().get(*index);
        slot.is_some_and(|slot| slot.kind != TokenKind::Raw)
    };
    let mut outside = (0..tree.slots().len()).filter(is_outside);
    outside
        .find_map(|index| first_line_end(text_at(index)))
        .unwrap_or("\n")
}

fn first_line_end(text: &str) -> Option<&'static str> {
    let end = memchr::memchr(b'\n', text.as_bytes())?;
    let before = end.checked_sub(1).and_then(|at| text.as_bytes().get(at));
    Some(if before == Some(&b'\r') { "\r\n" } else { "\n" })
}

/// Sets the line ends between and inside elements that [`crate::write`] has written.
///
/// RAW blocks and tags do not change. Linear in the text.
///
/// ```
/// let text = chatmd::write::user("a\nb");
/// let text = chatmd::with_line_ends(text, "\r\n");
/// assert_eq!(text, "<user>\r\nRAW|a\nb|RAW</user>\r\n");
/// ```
pub fn with_line_ends(text: String, line_end: &str) -> String {
    if line_end == "\n" {
        return text;
    }
    let mut converted = String::with_capacity(text.len() + 16);
    for token in Lexer::new(&text) {
        let part = text.get(token.start..token.end).unwrap_or_default();
        if matches!(token.kind, TokenKind::Text | TokenKind::Trivia) && is_blank(part) {
            converted.push_str(&part.replace('\n', line_end));
        } else {
            converted.push_str(part);
        }
    }
    converted
}
