//! Repair of the end of a transcript: unfinished elements and empty messages.

use logue_source::Span;

use crate::repair::change::RepairKind;
use crate::repair::proposal::{Proposal, insert, remove};
use crate::syntax::lexer::{COMMENT_CLOSE, RAW_CLOSE, TokenKind};
use crate::syntax::tag::Tag;
use crate::syntax::tree::{Child, ElementNode, Tree};
use crate::syntax::truncation::is_cut;
use crate::syntax::whitespace::is_blank;

pub(super) fn proposals(tree: &Tree<'_>) -> Vec<Proposal> {
    match unclosed(tree) {
        Some(proposal) => vec![proposal],
        // In a malformed text an empty message may be part of another element.
        None if tree.has_errors() => Vec::new(),
        None => templates(tree),
    }
}

/// Closes the last element.
fn unclosed(tree: &Tree<'_>) -> Option<Proposal> {
    let text = tree.source();
    let node = tree.elements().last()?;
    let first = tree.slots().len().checked_sub(1)?;
    let last = tree.slots().get(first)?;
    let tag = node.tag();
    if !tag.is_entry() || node.is_self_closing() || node.closer().is_some() {
        return None;
    }
    if node.span().end != text.len() || holds_unclosed(node) {
        return None;
    }
    let tail = tree.span(first).text(text)?;
    let mut closing = String::new();
    match last.kind {
        TokenKind::Raw if !is_closed_block(tail) => {
            if !is_cut(tail, tag) {
                return None;
            }
            closing.push_str(RAW_CLOSE);
            closing.push('\n');
        }
        TokenKind::Comment if !tail.ends_with(COMMENT_CLOSE) => return None,
        TokenKind::Open(_) | TokenKind::Empty(_) if !tail.ends_with('>') => return None,
        _ => {}
    }
    let has_content = node.children().any(|child| match child {
        Child::Node(_) => true,
        Child::Text(run) => !run.is_blank(),
    });
    if tag == Tag::ToolCall && !has_content {
        return None;
    }
    closing.push_str(&format!("</{tag}>\n"));
    Some(Proposal {
        span: node.opener(),
        kind: RepairKind::Unclosed,
        what: format!("close `<{tag}>` at the end of the text"),
        edits: vec![insert(text.len(), closing)],
    })
}

fn is_closed_block(block: &str) -> bool {
    block.len() >= 2 * RAW_CLOSE.len() && block.ends_with(RAW_CLOSE)
}

/// Returns whether an element inside this one is unclosed, too.
fn holds_unclosed(node: ElementNode<'_>) -> bool {
    let mut waiting = vec![node];
    while let Some(node) = waiting.pop() {
        for child in node.children() {
            if let Child::Node(inner) = child {
                if !inner.is_self_closing() && inner.closer().is_none() {
                    return true;
                }
                waiting.push(inner);
            }
        }
    }
    false
}

/// Removes empty user messages at the end of a transcript or before another one.
fn templates(tree: &Tree<'_>) -> Vec<Proposal> {
    let text = tree.source();
    let mut proposals = Vec::new();
    let mut answered = false;
    let mut nodes = tree.elements().peekable();
    while let Some(node) = nodes.next() {
        let next = nodes.peek();
        let superseded = next.is_none_or(|next| next.tag() == Tag::User);
        if answered && superseded && is_template(tree, node) {
            let span = node.span();
            let end = next.map_or(text.len(), |next| next.span().start);
            let gap = Span::new(span.end, end);
            let blank = gap.text(text).is_some_and(is_blank);
            let end = if blank { end } else { span.end };
            proposals.push(Proposal {
                span,
                kind: RepairKind::Template,
                what: "remove an empty `<user>`".to_owned(),
                edits: vec![remove(Span::new(span.start, end))],
            });
        }
        answered |= matches!(
            node.tag(),
            Tag::Assistant | Tag::ToolCall | Tag::ToolResponse | Tag::Reasoning
        );
    }
    proposals
}

/// Returns whether an element is a `<user>` of white space, without comments.
fn is_template(tree: &Tree<'_>, node: ElementNode<'_>) -> bool {
    let inside = node
        .closer()
        .and_then(|closer| tree.source().get(node.opener().end..closer.start));
    node.tag() == Tag::User && node.opener().len() == "<user>".len() && inside.is_some_and(is_blank)
}
