//! Changes of single elements.

use std::collections::{BTreeMap, BTreeSet};

use logue_source::Span;

use crate::edit::opening_tag::{AttributeEdit, OpeningTagEdit};
use crate::edit::replacement::{EditError, Replacement, join};
use crate::syntax::attributes::is_attribute_name;
use crate::syntax::builder::parse;
use crate::syntax::lexer::{COMMENT_CLOSE, COMMENT_OPEN, RAW_OPEN};
use crate::syntax::tree::{ElementNode, Tree};
use crate::syntax::whitespace::{is_blank, trim};
use crate::write::raw;

/// A set of changes of one tree, which [`Edits::apply`] applies together.
///
/// The cost of each method is linear in the tags of its element. Changes are independent: two
/// changes of the same bytes, such as new content for a removed element, are an error of `apply`.
#[derive(Clone, Debug)]
pub struct Edits<'t, 'a> {
    tree: &'t Tree<'a>,
    top_level: BTreeSet<usize>,
    openers: BTreeMap<usize, OpeningTagEdit>,
    changes: Vec<Replacement>,
}

impl<'t, 'a> Edits<'t, 'a> {
    /// Creates an empty set of changes.
    ///
    /// Linear in the tree.
    ///
    /// # Errors
    /// Returns [`EditError::Malformed`] if the tree has errors.
    pub fn new(tree: &'t Tree<'a>) -> Result<Self, EditError> {
        if let Some(error) = tree.diagnostics().iter().find(|found| found.is_error()) {
            return Err(EditError::Malformed(Box::new(error.clone())));
        }
        Ok(Self {
            tree,
            top_level: tree.elements().map(|node| node.index()).collect(),
            openers: BTreeMap::new(),
            changes: Vec::new(),
        })
    }

    /// Sets an attribute to a value.
    ///
    /// Replaces the effective attribute of that name, or appends a new one.
    ///
    /// # Errors
    /// Returns [`EditError::InvalidName`] if the name is invalid, and [`EditError::OtherTree`] if the
    /// element belongs to another tree.
    pub fn set_attribute(
        &mut self,
        node: ElementNode<'t>,
        name: &str,
        value: &str,
    ) -> Result<(), EditError> {
        self.attribute(node, name, AttributeEdit::Value(value.to_owned()))
    }

    /// Sets an attribute without a value.
    ///
    /// # Errors
    /// Returns the errors of [`Self::set_attribute`].
    pub fn set_flag(&mut self, node: ElementNode<'t>, name: &str) -> Result<(), EditError> {
        self.attribute(node, name, AttributeEdit::Flag)
    }

    /// Removes all attributes of that name, if any.
    ///
    /// # Errors
    /// Returns the errors of [`Self::set_attribute`].
    pub fn remove_attribute(&mut self, node: ElementNode<'t>, name: &str) -> Result<(), EditError> {
        self.attribute(node, name, AttributeEdit::Removed)
    }

    /// Replaces the content of an element by a text.
    ///
    /// # Errors
    /// Returns [`EditError::NoContent`] if the element consists of attributes, and
    /// [`EditError::OtherTree`] if it belongs to another tree.
    ///
    /// ```
    /// use chatmd::edit::Edits;
    ///
    /// let tree = chatmd::parse("<user/>");
    /// let mut edits = Edits::new(&tree)?;
    /// edits.set_content(tree.elements().next().unwrap(), "What is <doc>?")?;
    /// assert_eq!(edits.apply()?, "<user>\nRAW|What is <doc>?|RAW</user>");
    /// # Ok::<(), chatmd::edit::EditError>(())
    /// ```
    pub fn set_content(&mut self, node: ElementNode<'t>, text: &str) -> Result<(), EditError> {
        self.check_owner(node)?;
        if node.tag().is_stub() {
            return Err(EditError::NoContent(node.tag()));
        }
        let content = ["\n", &raw(text)].concat();
        match node.closer() {
            Some(closer) => self.changes.push(Replacement {
                span: Span::new(node.opener().end, closer.start),
                text: content,
            }),
            None => self.openers.entry(node.index()).or_default().content = Some(content),
        }
        Ok(())
    }

    /// Replaces an element by others.
    ///
    /// # Errors
    /// Returns [`EditError::NotElements`] if `elements` is not a sequence of elements, and
    /// [`EditError::OtherTree`] if the element belongs to another tree.
    pub fn replace(&mut self, node: ElementNode<'t>, elements: &str) -> Result<(), EditError> {
        self.check_owner(node)?;
        let text = checked(elements)?.to_owned();
        self.changes.push(Replacement {
            span: node.span(),
            text,
        });
        Ok(())
    }

    /// Inserts elements before another one.
    ///
    /// At the top level they get lines of their own. Inside an element, where white space is content,
    /// they are inserted directly before it.
    ///
    /// # Errors
    /// Returns the errors of [`Self::replace`].
    pub fn insert_before(
        &mut self,
        node: ElementNode<'t>,
        elements: &str,
    ) -> Result<(), EditError> {
        self.check_owner(node)?;
        let mut text = checked(elements)?.to_owned();
        if self.top_level.contains(&node.index()) {
            text.push('\n');
        }
        self.insert(node.span().start, text);
        Ok(())
    }

    /// Inserts elements after another one, like [`Self::insert_before`].
    ///
    /// # Errors
    /// Returns the errors of [`Self::replace`].
    pub fn insert_after(&mut self, node: ElementNode<'t>, elements: &str) -> Result<(), EditError> {
        self.check_owner(node)?;
        let mut text = String::new();
        if self.top_level.contains(&node.index()) {
            text.push('\n');
        }
        text.push_str(checked(elements)?);
        self.insert(node.span().end, text);
        Ok(())
    }

    /// Removes an element.
    ///
    /// At the top level its line is removed too, if nothing follows the element there. White space
    /// that then precedes a RAW block becomes trivia, as everywhere.
    ///
    /// # Errors
    /// Returns [`EditError::OtherTree`] if the element belongs to another tree.
    pub fn remove(&mut self, node: ElementNode<'t>) -> Result<(), EditError> {
        self.check_owner(node)?;
        let mut span = node.span();
        if self.top_level.contains(&node.index()) {
            let rest = self.tree.source().get(span.end..).unwrap_or_default();
            let line = rest.find('\n').map_or(rest.len(), |end| end + 1);
            if rest.get(..line).is_some_and(is_blank) {
                span.end += line;
            }
        }
        self.changes.push(Replacement {
            span,
            text: String::new(),
        });
        Ok(())
    }

    /// Returns the changes as replacements, in the order of the text.
    pub fn replacements(&self) -> Vec<Replacement> {
        let mut changes = self.changes.clone();
        for (&index, opener) in &self.openers {
            if let Some(node) = ElementNode::at(self.tree, index) {
                changes.push(Replacement {
                    span: node.opener(),
                    text: opener.text(node),
                });
            }
        }
        changes.sort_by_key(|change| (change.span.start, change.span.end));
        changes
    }

    /// Returns the text with all changes.
    ///
    /// Inserts an empty comment between texts that would form markup together, such as `RAW` and `|`.
    ///
    /// # Errors
    /// Returns [`EditError::Overlap`] if two changes overlap.
    pub fn apply(&self) -> Result<String, EditError> {
        let mut out = String::with_capacity(self.tree.source().len());
        join(self.tree.source(), self.replacements(), |part| {
            if forms_markup(&out, part) {
                out.push_str(COMMENT_OPEN);
                out.push_str(COMMENT_CLOSE);
            }
            out.push_str(part);
        })?;
        Ok(out)
    }

    fn check_owner(&self, node: ElementNode<'t>) -> Result<(), EditError> {
        if node.is_in(self.tree) {
            Ok(())
        } else {
            Err(EditError::OtherTree)
        }
    }

    fn attribute(
        &mut self,
        node: ElementNode<'t>,
        name: &str,
        change: AttributeEdit,
    ) -> Result<(), EditError> {
        self.check_owner(node)?;
        if !is_attribute_name(name) {
            return Err(EditError::InvalidName(name.to_owned()));
        }
        let attributes = &mut self.openers.entry(node.index()).or_default().attributes;
        match attributes.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = change,
            None => attributes.push((name.to_owned(), change)),
        }
        Ok(())
    }

    fn insert(&mut self, at: usize, text: String) {
        self.changes.push(Replacement {
            span: Span::empty(at),
            text,
        });
    }
}

/// Validates elements and trims white space around them.
fn checked(elements: &str) -> Result<&str, EditError> {
    let elements = trim(elements);
    if elements.starts_with('\u{FEFF}') {
        return Err(EditError::NotElements(
            "the text begins with a byte order mark".to_owned(),
        ));
    }
    let tree = parse(elements);
    if let Some(error) = tree.diagnostics().iter().find(|found| found.is_error()) {
        return Err(EditError::NotElements(error.message.clone()));
    }
    if tree.elements().next().is_none() {
        return Err(EditError::NotElements("the text has no element".to_owned()));
    }
    Ok(elements)
}

/// Returns whether two joined texts form the start of markup.
///
/// That is a RAW block, a comment or a closing tag.
fn forms_markup(before: &str, after: &str) -> bool {
    let closes =
        before.ends_with("</") && after.starts_with(|next: char| next.is_ascii_alphabetic());
    closes
        || [RAW_OPEN, COMMENT_OPEN].iter().any(|marker| {
            (1..marker.len()).any(|cut| {
                let (head, tail) = marker.split_at(cut);
                before.ends_with(head) && after.starts_with(tail)
            })
        })
}
