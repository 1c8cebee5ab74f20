//! The canonical layout of a document.
//!
//! Only layout changes: trivia, the spelling of tags, and white space between top-level elements.
//! Text of messages, RAW blocks and comments stay byte for byte. Every change is a [`Replacement`],
//! so an editor can apply them one by one.

use logue_source::{Diagnostic, Span};

use crate::document::element::Document;
use crate::edit::replacement::{Replacement, apply};
use crate::line_end::tree_line_end;
use crate::syntax::attributes::{fits_double_quotes, write_value};
use crate::syntax::builder::parse;

use crate::syntax::lexer::TokenKind;
use crate::syntax::tag::Tag;
use crate::syntax::tree::{ElementNode, Tree};
use crate::syntax::whitespace::is_blank;

/// Formats a text in its canonical layout.
///
/// - Top-level elements are separated by a newline, or by one blank line if the author left at least
///   one. Declarations (`<config>`, `<tool>`, `<import>`) and the conversation are always separated by
///   a blank line. A comment may follow an element on its line. No white space precedes the first
///   element, and one newline follows the last.
/// - Tags have one space between attributes, or the author's line break and indentation, and no space
///   around `=` or before the end. Values have double quotes, unless they contain them or would
///   decode differently. Order, duplicates and values stay. A tag with other content than attributes
///   stays unchanged.
/// - `<doc …></doc>` and similar elements of white space become `<doc …/>`.
/// - Trivia before a RAW block has at most one blank line, and no white space at the ends of lines.
/// - Line ends of all these are those of the file ([`line_end`](crate::line_end)). A byte order mark,
///   which other readers treat as text, is removed.
///
/// The meaning of the document does not change, and formatting is idempotent. A text without elements
/// stays unchanged. Linear in the text.
///
/// # Errors
/// Returns the errors of the text, in its order, if it has any; layout is then uncertain.
///
/// ```
/// let text = "<config model='m' />\n\n\n<tool name = \"read_file\"></tool>\n<user>Hi!</user >";
/// assert_eq!(
///     chatmd::format(text).unwrap(),
///     "<config model=\"m\"/>\n\n<tool name=\"read_file\"/>\n\n<user>Hi!</user>\n",
/// );
/// ```
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let tree = parse(text);
    let changes = format_changes(&tree)?;
    // The changes are created token by token, so they neither overlap nor leave the text.
    Ok(apply(text, changes).unwrap_or_else(|_| text.to_owned()))
}

/// Returns the changes of [`format()`], in the order of the text.
///
/// # Errors
/// Returns the errors of [`format()`].
pub fn format_changes(tree: &Tree<'_>) -> Result<Vec<Replacement>, Vec<Diagnostic>> {
    let (_, of_view) = Document::from_tree(tree);
    let mut errors = [tree.diagnostics(), &of_view].concat();
    errors.retain(Diagnostic::is_error);
    if !errors.is_empty() {
        errors.sort_by_key(|error| error.primary.start);
        return Err(errors);
    }
    let mut layout = Layout {
        tree,
        newline: tree_line_end(tree),
        changes: Vec::new(),
    };
    layout.top_level();
    Ok(layout.changes)
}

/// The kind of a top-level part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Declaration,
    Entry,
    Comment,
    /// A blank RAW block.
    Block,
}

struct Layout<'t, 'a> {
    tree: &'t Tree<'a>,
    newline: &'static str,
    changes: Vec<Replacement>,
}

impl Layout<'_, '_> {
    fn change(&mut self, span: Span, text: String) {
        if span.text(self.tree.source()) != Some(text.as_str()) {
            self.changes.push(Replacement { span, text });
        }
    }

    fn top_level(&mut self) {
        if self.tree.elements().next().is_none() {
            return;
        }
        let mut before: Option<(PartKind, usize)> = None;
        let mut at = 0;
        while let Some(slot) = self.tree.slots().get(at) {
            let (kind, span, next) = match slot.kind {
                TokenKind::Open(tag) | TokenKind::Empty(tag) => {
                    let Some(node) = ElementNode::at(self.tree, at) else {
                        return;
                    };
                    let kind = if tag.is_entry() {
                        PartKind::Entry
                    } else {
                        PartKind::Declaration
                    };
                    (kind, node.span(), slot.end())
                }
                TokenKind::Comment => (PartKind::Comment, self.tree.span(at), at + 1),
                TokenKind::Raw => (PartKind::Block, self.tree.span(at), at + 1),
                _ => {
                    at += 1;
                    continue;
                }
            };
            let gap = Span::new(before.map_or(0, |(_, end)| end), span.start);
            self.gap(gap, before.map(|(kind, _)| kind), kind);
            if matches!(kind, PartKind::Declaration | PartKind::Entry) {
                self.element(at, next);
            }
            before = Some((kind, span.end));
            at = next.max(at + 1);
        }
        if let Some((_, end)) = before {
            let tail = Span::new(end, self.tree.source().len());
            self.change(tail, self.newline.to_owned());
        }
    }

    /// Normalises the white space between two top-level neighbours.
    fn gap(&mut self, span: Span, before: Option<PartKind>, kind: PartKind) {
        let text = span.text(self.tree.source()).unwrap_or_default();
        let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let separator = match before {
            None => String::new(),
            Some(_) if lines == 0 && kind == PartKind::Comment => " ".to_owned(),
            Some(before) => {
                let is_boundary = matches!(
                    (before, kind),
                    (PartKind::Declaration, PartKind::Entry)
                        | (PartKind::Entry, PartKind::Declaration)
                );
                self.newline
                    .repeat(if is_boundary || lines > 1 { 2 } else { 1 })
            }
        };
        self.change(span, separator);
    }

    /// Normalises the tags and the trivia of a top-level element.
    fn element(&mut self, first: usize, end: usize) {
        let mut at = first;
        while at < end {
            let Some(slot) = self.tree.slots().get(at) else {
                return;
            };
            let (kind, slot_end) = (slot.kind, slot.end());
            let span = self.tree.span(at);
            at += 1;
            match kind {
                TokenKind::Open(tag) | TokenKind::Empty(tag) => {
                    let Some(node) = ElementNode::at(self.tree, at - 1) else {
                        return;
                    };
                    let is_text =
                        tag == Tag::Import && at - 1 != first && node.children().next().is_some();
                    if is_text {
                        // Where imports do not expand, its text is verbatim content.
                        at = slot_end;
                    } else if tag.is_stub() && self.is_hollow(at, slot_end) {
                        let text = self.tag(node, "/>");
                        self.change(node.span(), text);
                        at = slot_end;
                    } else {
                        let tail = if node.is_self_closing() { "/>" } else { ">" };
                        let text = self.tag(node, tail);
                        self.change(span, text);
                    }
                }
                TokenKind::Close(tag) => self.change(span, format!("</{tag}>")),
                TokenKind::Trivia => {
                    let text = span.text(self.tree.source()).unwrap_or_default();
                    let text = self.white_space(text);
                    self.change(span, text);
                }
                _ => {}
            }
        }
    }

    /// Returns whether the content up to the closing tag is white space.
    fn is_hollow(&self, first: usize, end: usize) -> bool {
        let Some((last, inside)) = self
            .tree
            .slots()
            .get(first..end)
            .and_then(<[_]>::split_last)
        else {
            return false;
        };
        matches!(last.kind, TokenKind::Close(_))
            && inside.iter().enumerate().all(|(offset, slot)| {
                let text = self.tree.span(first + offset).text(self.tree.source());
                slot.kind == TokenKind::Text && text.is_some_and(is_blank)
            })
    }

    /// Returns the normalised opening tag, which ends in `tail`.
    fn tag(&self, node: ElementNode<'_>, tail: &str) -> String {
        let source = self.tree.source();
        let opener = node.opener();
        let old_tail = if node.is_self_closing() { 2 } else { 1 };
        let inside_end = opener.end - old_tail;
        let mut out = format!("<{}", node.tag());
        let mut end = opener.start + out.len();
        for attribute in node.attributes() {
            let gap = source
                .get(end..attribute.span().start)
                .filter(|gap| is_blank(gap));
            let Some(gap) = gap else {
                return self.as_written(opener, inside_end, tail);
            };
            out.push_str(&self.break_or_space(gap));
            out.push_str(attribute.name());
            if let Some((raw, quote)) = attribute.written() {
                out.push('=');
                match quote {
                    Some(b'\'') if !fits_double_quotes(raw) => {
                        out.push('\'');
                        out.push_str(raw);
                        out.push('\'');
                    }
                    Some(_) => {
                        out.push('"');
                        out.push_str(raw);
                        out.push('"');
                    }
                    None => write_value(&mut out, raw),
                }
            }
            end = attribute.span().end;
        }
        if !source.get(end..inside_end).is_some_and(is_blank) {
            return self.as_written(opener, inside_end, tail);
        }
        out.push_str(tail);
        out
    }

    /// Returns the unchanged tag with a new end.
    fn as_written(&self, opener: Span, inside_end: usize, tail: &str) -> String {
        let inside = self.tree.source().get(opener.start..inside_end);
        [inside.unwrap_or_default(), tail].concat()
    }

    /// Returns one space, or the author's line break and indentation.
    fn break_or_space(&self, gap: &str) -> String {
        match indentation(gap) {
            Some(indentation) => [self.newline, &indentation].concat(),
            None => " ".to_owned(),
        }
    }

    /// Returns normalised trivia; it stays non-empty, because it may separate text.
    fn white_space(&self, text: &str) -> String {
        match indentation(text) {
            Some(indentation) => {
                let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count();
                [&self.newline.repeat(lines.min(2)), indentation.as_str()].concat()
            }
            None => " ".to_owned(),
        }
    }
}

/// Returns the spaces and tabs after the last line break, if any.
fn indentation(text: &str) -> Option<String> {
    let (_, last) = text.rsplit_once('\n')?;
    Some(last.chars().filter(|c| matches!(c, ' ' | '\t')).collect())
}
