//! Repair of RAW blocks whose lines an earlier program indented.
//!
//! It wrote a tab before the block, a line break and two tabs before each line of the text, and a
//! line break and a tab after it. Only a block with exactly this layout, alone in its element, is
//! restored to the original text.

use logue_source::Span;
use memchr::memmem;

use crate::repair::change::RepairKind;
use crate::repair::proposal::{Proposal, remove};
use crate::syntax::lexer::{RAW_CLOSE, RAW_OPEN};
use crate::syntax::tag::Tag;
use crate::syntax::tree::{ElementNode, Tree};

const BEFORE: &str = "\n\t";
const LINE: &str = "\n\t\t";
const AFTER: &str = "\n";

pub(super) fn proposals(tree: &Tree<'_>) -> Vec<Proposal> {
    tree.elements()
        .filter_map(|node| proposal(tree, node))
        .collect()
}

fn proposal(tree: &Tree<'_>, node: ElementNode<'_>) -> Option<Proposal> {
    if !matches!(
        node.tag(),
        Tag::Assistant | Tag::ToolCall | Tag::ToolResponse
    ) {
        return None;
    }
    let inside = Span::new(node.opener().end, node.closer()?.start);
    let text = inside.text(tree.source())?;
    let head = [BEFORE, RAW_OPEN].concat();
    let tail = [BEFORE, RAW_CLOSE, AFTER].concat();
    let body = text.strip_prefix(&head)?.strip_suffix(&tail)?;
    if !body.starts_with(LINE) || body.contains(RAW_CLOSE) {
        return None;
    }
    let breaks = || memchr::memchr_iter(b'\n', body.as_bytes());
    let indented = |at: usize| body.get(at..).is_some_and(|rest| rest.starts_with(LINE));
    if !breaks().all(indented) {
        return None;
    }
    let start = inside.start + head.len();
    let end = start + body.len();
    // Removes the tab before the block, the line break and tabs before the first line, the tabs
    // before the others, and the line break and tab after the last.
    let mut edits = vec![
        remove(Span::new(inside.start + 1, inside.start + BEFORE.len())),
        remove(Span::new(start, start + LINE.len())),
    ];
    let later = memmem::find_iter(body.as_bytes(), LINE).skip(1);
    edits.extend(later.map(|at| remove(Span::new(start + at + 1, start + at + LINE.len()))));
    edits.push(remove(Span::new(end, end + BEFORE.len())));
    Some(Proposal {
        span: Span::new(start - RAW_OPEN.len(), end + BEFORE.len() + RAW_CLOSE.len()),
        kind: RepairKind::Indentation,
        what: format!("remove the indentation of the text of `<{}>`", node.tag()),
        edits,
    })
}
