//! Repair of tags without their slash, and of tags that were meant as text.

use std::ops::Range;

use logue_source::Span;

use crate::repair::change::RepairKind;
use crate::repair::proposal::{Proposal, insert, wrap};
use crate::syntax::attributes::tag_end;
use crate::syntax::lexer::TokenKind;
use crate::syntax::tag::Tag;
use crate::syntax::tree::{ElementNode, Tree};
use crate::syntax::whitespace::{is_blank, trim_end};

pub(super) fn proposals(tree: &Tree<'_>) -> Vec<Proposal> {
    let mut walk = Walk {
        tree,
        proposals: Vec::new(),
        mentions: Vec::new(),
    };
    let mut at = 0;
    while let Some(slot) = tree.slots().get(at) {
        if let Some(node) = ElementNode::at(tree, at) {
            match node.tag() {
                // Its summaries are repaired as text.
                Tag::Reasoning => {}
                tag if tag.is_entry() => walk.content(at + 1, slot.end()),
                _ => walk.stub(node),
            }
        }
        at = match slot.kind {
            TokenKind::Open(_) => slot.end().max(at + 1),
            _ => at + 1,
        };
    }
    walk.finish()
}

struct Walk<'t, 'a> {
    tree: &'t Tree<'a>,
    proposals: Vec<Proposal>,
    /// Tokens that become text, in order.
    mentions: Vec<Range<usize>>,
}

impl Walk<'_, '_> {
    /// Checks the content of a message, call or result.
    fn content(&mut self, first: usize, end: usize) {
        let mut at = first;
        while at < end {
            let Some(slot) = self.tree.slots().get(at) else {
                return;
            };
            let next = match slot.kind {
                TokenKind::Open(_) => slot.end().max(at + 1),
                _ => at + 1,
            };
            if matches!(slot.kind, TokenKind::Stray(_)) {
                self.mentions.push(at..at + 1);
            }
            let Some(node) = ElementNode::at(self.tree, at) else {
                at += 1;
                continue;
            };
            let inline = matches!(node.tag(), Tag::Doc | Tag::Img | Tag::Import | Tag::Agent);
            let named = node.attributes().next().is_some();
            let closed = node.is_self_closing() || node.closer().is_some();
            at = if !inline || !named {
                // An unclosed element is a single tag in a sentence.
                let end = if closed { next } else { at + 1 };
                self.mentions.push(at..end);
                end
            } else if node.tag() == Tag::Agent {
                at + 1
            } else {
                self.stub(node);
                next
            };
        }
    }

    /// Adds the missing slash of a tag that consists of attributes.
    fn stub(&mut self, node: ElementNode<'_>) {
        let opener = node.opener();
        let text = opener.text(self.tree.source()).unwrap_or_default();
        let lacks = node.tag().is_stub() && !node.is_self_closing() && node.closer().is_none();
        let named = node.attributes().next().is_some();
        let sound = text.ends_with('>')
            && tag_end(text.as_bytes(), 1 + node.tag().as_str().len())
                .problem
                .is_none();
        if lacks && named && sound {
            self.proposals.push(Proposal {
                span: opener,
                kind: RepairKind::Stub,
                what: format!("end `<{}>` in `/>`", node.tag()),
                edits: vec![insert(opener.end - 1, "/")],
            });
        }
    }

    fn finish(mut self) -> Vec<Proposal> {
        let mut merged: Vec<Range<usize>> = Vec::new();
        for mention in std::mem::take(&mut self.mentions) {
            match merged.last_mut() {
                // White space between two RAW blocks would be lost.
                Some(last) if (last.end..mention.start).all(|at| self.is_white(at)) => {
                    last.end = mention.end;
                }
                _ => merged.push(mention),
            }
        }
        for mention in merged {
            let proposal = self.mention(mention);
            self.proposals.push(proposal);
        }
        self.proposals
    }

    /// Returns the start of the block for a mention.
    ///
    /// White space before a RAW block is content only after text that cannot be part of markup. After
    /// a `<`, the block would be markup. So both become part of the block.
    fn start(&self, mention: usize) -> usize {
        let start = self.tree.span(mention).start;
        let Some(before) = mention.checked_sub(1) else {
            return start;
        };
        let kind = |at: usize| self.tree.slots().get(at).map(|slot| slot.kind);
        if kind(before) != Some(TokenKind::Text) {
            return start;
        }
        let text = self.tree.span(before).text(self.tree.source());
        let text = text.unwrap_or_default();
        let opener = before.checked_sub(1).and_then(kind);
        let begins = matches!(opener, Some(TokenKind::Open(tag)) if tag.is_entry());
        let mut outside = text;
        loop {
            let trimmed = trim_end(outside);
            let lost = if trimmed.is_empty() {
                !begins
            } else {
                trimmed.ends_with(['|', '<', '>'])
            };
            let shorter = if lost { trimmed } else { outside };
            let shorter = shorter.strip_suffix("</").unwrap_or(shorter);
            let shorter = shorter.trim_end_matches('<');
            if shorter.len() == outside.len() {
                return start - (text.len() - outside.len());
            }
            outside = shorter;
        }
    }

    fn is_white(&self, at: usize) -> bool {
        let kind = self.tree.slots().get(at).map(|slot| slot.kind);
        let text = self.tree.span(at).text(self.tree.source());
        kind == Some(TokenKind::Text) && text.is_some_and(is_blank)
    }

    /// Wraps tokens in RAW blocks; blocks and comments among them stay unchanged.
    fn mention(&self, mention: Range<usize>) -> Proposal {
        let text = self.tree.source();
        let mut edits = Vec::new();
        let mut part = Some(Span::empty(self.start(mention.start)));
        let mut tag = None;
        for at in mention.clone() {
            let span = self.tree.span(at);
            match self.tree.slots().get(at).map(|slot| slot.kind) {
                Some(TokenKind::Raw | TokenKind::Comment) => {
                    if let Some(part) = part.take() {
                        wrap(text, part, &mut edits);
                    }
                }
                kind => {
                    if let Some(
                        TokenKind::Open(found) | TokenKind::Empty(found) | TokenKind::Stray(found),
                    ) = kind
                    {
                        tag.get_or_insert((found, span));
                    }
                    part = Some(part.map_or(span, |part: Span| part.join(span)));
                }
            }
        }
        if let Some(part) = part {
            wrap(text, part, &mut edits);
        }
        let complete = self
            .tree
            .span(mention.start)
            .join(self.tree.span(mention.end.saturating_sub(1)));
        let (tag, span) = tag.unwrap_or((Tag::Tool, complete));
        Proposal {
            span,
            kind: RepairKind::Mention,
            what: format!("put the mentioned tag `<{tag}>` into a RAW block"),
            edits,
        }
    }
}
