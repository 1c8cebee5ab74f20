//! Traversal of a tree in document order, without recursion.
//!
//! All serialisers use it, so their stack does not grow with the depth of a text.

use crate::syntax::lexer::TokenKind;
use crate::syntax::tag::Tag;
use crate::syntax::tree::{ElementNode, TextRun, Tree};

/// One step of a traversal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'t> {
    /// An element begins.
    Enter(ElementNode<'t>),
    /// The innermost element ends.
    Leave,
    /// Text, possibly of comments and trivia only.
    Text(TextRun<'t>),
    /// A closing tag without an opening tag.
    Stray(Tag),
}

/// An iterator over the steps of a traversal; every `Enter` has a `Leave`.
#[derive(Debug)]
pub(crate) struct Walk<'t> {
    tree: &'t Tree<'t>,
    at: usize,
    /// Ends of the open elements, outermost first.
    ends: Vec<usize>,
}

impl<'t> Walk<'t> {
    pub(crate) fn new(tree: &'t Tree<'t>) -> Self {
        Self {
            tree,
            at: 0,
            ends: Vec::new(),
        }
    }

    /// Returns the number of open elements.
    pub(crate) fn depth(&self) -> usize {
        self.ends.len()
    }
}

impl<'t> Iterator for Walk<'t> {
    type Item = Step<'t>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.ends.last().is_some_and(|end| *end <= self.at) {
                self.ends.pop();
                return Some(Step::Leave);
            }
            let slots = self.tree.slots();
            let slot = slots.get(self.at)?;
            let at = self.at;
            self.at += 1;
            if let Some(node) = ElementNode::at(self.tree, at) {
                self.ends.push(slot.end());
                return Some(Step::Enter(node));
            }
            let limit = self.ends.last().copied().unwrap_or(slots.len());
            if let Some(run) = TextRun::at(self.tree, at, limit) {
                self.at = run.end();
                return Some(Step::Text(run));
            }
            if let TokenKind::Stray(tag) = slot.kind {
                return Some(Step::Stray(tag));
            }
        }
    }
}
