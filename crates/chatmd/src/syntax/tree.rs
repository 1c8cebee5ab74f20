//! The lossless tree of a text, and its navigation.
//!
//! Tokens tile the text, so [`Tree::print`] returns every text unchanged, valid or not. The tree is
//! one list in preorder; [`ElementNode`] and [`TextRun`] are views of it without own storage.

use std::borrow::Cow;

use logue_source::{Diagnostic, Span};

use crate::syntax::attributes::{Attribute, Attributes};
use crate::syntax::lexer::{RAW_CLOSE, RAW_OPEN, TokenKind};
use crate::syntax::tag::Tag;
use crate::syntax::whitespace::is_blank;

/// The start of one token and the index after its last descendant.
///
/// A closing tag has the index of its opening tag instead. The token ends at the start of the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    start: u32,
    end: u32,
    pub(crate) kind: TokenKind,
}

impl Slot {
    /// Creates a slot; offsets and indices are below 4 GiB, which [`crate::parse`] checks.
    pub(crate) fn new(kind: TokenKind, start: usize, end: usize) -> Self {
        Self {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            end: u32::try_from(end).unwrap_or(u32::MAX),
            kind,
        }
    }

    pub(crate) const fn start(&self) -> usize {
        self.start as usize
    }

    pub(crate) const fn end(&self) -> usize {
        self.end as usize
    }

    pub(crate) fn set_end(&mut self, end: usize) {
        self.end = u32::try_from(end).unwrap_or(u32::MAX);
    }
}

/// A parsed text.
///
/// It borrows the text and adds 12 bytes for each token.
#[derive(Clone, Debug)]
pub struct Tree<'a> {
    text: &'a str,
    slots: Vec<Slot>,
    diagnostics: Vec<Diagnostic>,
}

/// One token: a part of the text that is not divided further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyntaxToken {
    /// Kind of the token.
    pub kind: TokenKind,
    /// Span of the token.
    pub span: Span,
}

/// One child of an element, or of the document.
#[derive(Clone, Copy, Debug)]
pub enum Child<'t> {
    /// An element.
    Node(ElementNode<'t>),
    /// Text up to the next element.
    Text(TextRun<'t>),
}

impl<'a> Tree<'a> {
    pub(crate) fn new(text: &'a str, slots: Vec<Slot>, diagnostics: Vec<Diagnostic>) -> Self {
        Self {
            text,
            slots,
            diagnostics,
        }
    }

    /// Removes the findings.
    pub(crate) fn without_findings(mut self) -> Self {
        self.diagnostics.clear();
        self
    }

    /// Returns the parsed text.
    pub fn source(&self) -> &'a str {
        self.text
    }

    /// Returns the errors and warnings in the order of the text.
    ///
    /// Of many findings of one kind only the first are kept.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns whether a diagnostic is an error.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Returns the tokens, which tile the text.
    pub fn tokens(&self) -> impl Iterator<Item = SyntaxToken> + '_ {
        self.slots
            .iter()
            .enumerate()
            .map(|(index, slot)| SyntaxToken {
                kind: slot.kind,
                span: self.span(index),
            })
    }

    /// Returns the joined text of all tokens, always equal to [`Tree::source`].
    pub fn print(&self) -> String {
        let mut printed = String::with_capacity(self.text.len());
        for token in self.tokens() {
            printed.push_str(token.span.text(self.text).unwrap_or_default());
        }
        printed
    }

    /// Returns the top-level elements and misplaced text between them.
    ///
    /// White space between elements is omitted.
    pub fn children(&self) -> impl Iterator<Item = Child<'_>> {
        self.content()
            .filter(|child| !matches!(child, Child::Text(run) if run.is_blank()))
    }

    /// Returns the children including white space, for a text inside a message.
    pub(crate) fn content(&self) -> Children<'_> {
        Children {
            tree: self,
            at: 0,
            end: self.slots.len(),
        }
    }

    /// Returns the top-level elements.
    pub fn elements(&self) -> impl Iterator<Item = ElementNode<'_>> {
        self.children().filter_map(|child| match child {
            Child::Node(node) => Some(node),
            Child::Text(_) => None,
        })
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(crate) fn span(&self, index: usize) -> Span {
        let start = self.slots.get(index).map_or(self.text.len(), Slot::start);
        let end = self
            .slots
            .get(index + 1)
            .map_or(self.text.len(), Slot::start);
        Span::new(start, end)
    }

    fn slice(&self, span: Span) -> &str {
        span.text(self.text).unwrap_or_default()
    }
}

/// An element.
#[derive(Clone, Copy, Debug)]
pub struct ElementNode<'t> {
    tree: &'t Tree<'t>,
    index: usize,
    tag: Tag,
}

impl<'t> ElementNode<'t> {
    pub(crate) fn at(tree: &'t Tree<'t>, index: usize) -> Option<Self> {
        match tree.slots.get(index)?.kind {
            TokenKind::Open(tag) | TokenKind::Empty(tag) => Some(Self { tree, index, tag }),
            _ => None,
        }
    }

    /// Returns its index in the list of tokens.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns whether it belongs to that tree (by identity).
    pub(crate) fn is_in(&self, tree: &Tree<'_>) -> bool {
        std::ptr::eq(
            std::ptr::from_ref(self.tree).cast::<()>(),
            std::ptr::from_ref(tree).cast::<()>(),
        )
    }

    /// Returns the text of the whole document.
    pub(crate) fn document(&self) -> &'t str {
        self.tree.text
    }

    /// Returns its tag.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// Returns the span from `<` to the end of its closing tag.
    pub fn span(&self) -> Span {
        let start = self.opener().start;
        let end = self
            .tree
            .slots
            .get(self.end())
            .map_or(self.tree.text.len(), Slot::start);
        Span::new(start, end)
    }

    /// Returns the text of the whole element.
    pub fn source(&self) -> &'t str {
        self.tree.slice(self.span())
    }

    /// Returns the span of its opening tag.
    pub fn opener(&self) -> Span {
        self.tree.span(self.index)
    }

    /// Returns the span of its closing tag; `None` if self-closing or never closed.
    pub fn closer(&self) -> Option<Span> {
        let last = self.end() - 1;
        let slot = self.tree.slots.get(last)?;
        let closes = matches!(slot.kind, TokenKind::Close(_)) && slot.end() == self.index;
        closes.then(|| self.tree.span(last))
    }

    /// Returns whether it is written `<name …/>`.
    pub fn is_self_closing(&self) -> bool {
        let slot = self.tree.slots.get(self.index);
        slot.is_some_and(|slot| matches!(slot.kind, TokenKind::Empty(_)))
    }

    /// Returns whether its opening tag has an error, so that its attributes are unreliable.
    ///
    /// Logarithmic in the number of findings, which are in the order of the text.
    pub(crate) fn has_tag_error(&self) -> bool {
        let opener = self.opener();
        let found = self.tree.diagnostics();
        let next = found.partition_point(|finding| finding.primary.start < opener.start);
        found
            .get(next)
            .is_some_and(|finding| finding.primary.start < opener.end)
    }

    /// Returns its attributes in order, duplicates included.
    pub fn attributes(&self) -> Attributes<'t> {
        let opener = self.opener();
        let text = self.tree.slice(opener);
        let tail = if self.is_self_closing() {
            2
        } else {
            usize::from(text.ends_with('>'))
        };
        let start = opener.start + 1 + self.tag.as_str().len();
        Attributes::new(
            self.tree.text,
            Span::new(start, opener.end.saturating_sub(tail).max(start)),
        )
    }

    /// Returns the last attribute of that name, which is the effective one.
    pub fn attribute(&self, name: &str) -> Option<Attribute<'t>> {
        self.attributes()
            .filter(|attribute| attribute.name() == name)
            .last()
    }

    /// Returns the decoded value of the last attribute of that name; empty for a flag.
    pub fn value(&self, name: &str) -> Option<Cow<'t, str>> {
        self.attribute(name).map(|attribute| attribute.value())
    }

    /// Returns whether an attribute of that name exists, with any value.
    pub fn has(&self, name: &str) -> bool {
        self.attributes().any(|attribute| attribute.name() == name)
    }

    /// Returns its elements and texts in order.
    ///
    /// Adjacent text, RAW blocks included, is one child.
    pub fn children(&self) -> Children<'t> {
        Children {
            tree: self.tree,
            at: self.index + 1,
            end: self.end(),
        }
    }

    fn end(&self) -> usize {
        self.tree
            .slots
            .get(self.index)
            .map_or(self.index + 1, Slot::end)
    }
}

/// The children of an element.
#[derive(Clone, Debug)]
pub struct Children<'t> {
    tree: &'t Tree<'t>,
    at: usize,
    end: usize,
}

impl<'t> Iterator for Children<'t> {
    type Item = Child<'t>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.end {
            if let Some(node) = ElementNode::at(self.tree, self.at) {
                self.at = node.end();
                return Some(Child::Node(node));
            }
            if let Some(run) = TextRun::at(self.tree, self.at, self.end) {
                self.at = run.end;
                if run.pieces().next().is_some() {
                    return Some(Child::Text(run));
                }
            } else {
                self.at += 1;
            }
        }
        None
    }
}

/// Text between two tags: plain text and RAW blocks, without the comments between them.
#[derive(Clone, Copy, Debug)]
pub struct TextRun<'t> {
    tree: &'t Tree<'t>,
    start: usize,
    end: usize,
}

/// One piece of a [`TextRun`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TextPiece<'t> {
    /// Its text, without RAW delimiters.
    pub text: &'t str,
    /// Whether it is a RAW block.
    pub raw: bool,
    /// Its span, delimiters included.
    pub span: Span,
}

impl<'t> TextRun<'t> {
    /// Returns the run of text tokens that begins at slot `start`.
    pub(crate) fn at(tree: &'t Tree<'t>, start: usize, limit: usize) -> Option<Self> {
        let slots = tree.slots.get(start..limit)?;
        let length = slots
            .iter()
            .take_while(|slot| {
                matches!(
                    slot.kind,
                    TokenKind::Text | TokenKind::Raw | TokenKind::Comment | TokenKind::Trivia
                )
            })
            .count();
        (length > 0).then_some(Self {
            tree,
            start,
            end: start + length,
        })
    }

    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Returns the pieces of the run.
    pub fn pieces(&self) -> impl Iterator<Item = TextPiece<'t>> + use<'t> {
        let tree = self.tree;
        (self.start..self.end).filter_map(move |index| {
            let span = tree.span(index);
            let text = tree.slice(span);
            match tree.slots.get(index)?.kind {
                TokenKind::Text => Some(TextPiece {
                    text,
                    raw: false,
                    span,
                }),
                TokenKind::Raw => {
                    let inside = text.strip_prefix(RAW_OPEN).unwrap_or(text);
                    Some(TextPiece {
                        text: inside.strip_suffix(RAW_CLOSE).unwrap_or(inside),
                        raw: true,
                        span,
                    })
                }
                _ => None,
            }
        })
    }

    /// Returns the joined text of its pieces, untrimmed.
    pub fn content(&self) -> Cow<'t, str> {
        let mut pieces = self.pieces();
        let Some(first) = pieces.next() else {
            return Cow::Borrowed("");
        };
        let Some(second) = pieces.next() else {
            return Cow::Borrowed(first.text);
        };
        let rest: String = pieces.map(|piece| piece.text).collect();
        Cow::Owned([first.text, second.text, &rest].concat())
    }

    /// Returns the content of its RAW blocks, if the remaining text is white space.
    pub fn payload(&self) -> Option<Cow<'t, str>> {
        let mut blocks = self.pieces().filter(|piece| piece.raw);
        let first = blocks.next()?;
        if !self.pieces().all(|piece| piece.raw || is_blank(piece.text)) {
            return None;
        }
        let Some(second) = blocks.next() else {
            return Some(Cow::Borrowed(first.text));
        };
        let rest: String = blocks.map(|piece| piece.text).collect();
        Some(Cow::Owned([first.text, second.text, &rest].concat()))
    }

    /// Returns whether it consists of white space.
    pub fn is_blank(&self) -> bool {
        self.pieces().all(|piece| is_blank(piece.text))
    }

    /// Returns the span from its first piece to its last.
    pub fn span(&self) -> Span {
        let mut pieces = self.pieces().map(|piece| piece.span);
        let first = pieces
            .next()
            .unwrap_or_else(|| Span::empty(self.tree.span(self.start).start));
        pieces.last().map_or(first, |last| first.join(last))
    }
}
