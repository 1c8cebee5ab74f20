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

/// Changes of the nodes of one tree, which are made together by [`Edits::apply`].
///
/// Each method costs what the node's own tags cost, and each change of a node is independent of
/// the others: two that concern the same bytes, such as new content for an element that is removed,
/// are an error when they are applied.
#[derive(Clone, Debug)]
pub struct Edits<'t, 'a> {
    tree: &'t Tree<'a>,
    top_level: BTreeSet<usize>,
    openers: BTreeMap<usize, OpeningTagEdit>,
    changes: Vec<Replacement>,
}

impl<'t, 'a> Edits<'t, 'a> {
    /// No changes yet. Linear in the tree.
    ///
    /// # Errors
    /// The tree has errors.
    pub fn new(tree: &'t Tree<'a>) -> Result<Self, EditError> {
        if let Some(error) = tree.diagnostics().iter().find(|found| found.is_error()) {
            return Err(EditError::Broken(Box::new(error.clone())));
        }
        Ok(Self {
            tree,
            top_level: tree.elements().map(|node| node.index()).collect(),
            openers: BTreeMap::new(),
            changes: Vec::new(),
        })
    }

    /// Gives an element an attribute with this value, in the place of the one of that name that
    /// counts, else behind the others.
    ///
    /// # Errors
    /// No attribute can have this name, or the node is of another tree.
    pub fn set_attribute(
        &mut self,
        node: ElementNode<'t>,
        name: &str,
        value: &str,
    ) -> Result<(), EditError> {
        self.attribute(node, name, AttributeEdit::Value(value.to_owned()))
    }

    /// Gives an element an attribute without a value.
    ///
    /// # Errors
    /// Those of [`Self::set_attribute`].
    pub fn set_flag(&mut self, node: ElementNode<'t>, name: &str) -> Result<(), EditError> {
        self.attribute(node, name, AttributeEdit::Flag)
    }

    /// Removes every attribute of that name; there may be none.
    ///
    /// # Errors
    /// Those of [`Self::set_attribute`].
    pub fn remove_attribute(&mut self, node: ElementNode<'t>, name: &str) -> Result<(), EditError> {
        self.attribute(node, name, AttributeEdit::Removed)
    }

    /// Makes an element say this text, whatever it holds, instead of what it says.
    ///
    /// # Errors
    /// The element is all attributes, or of another tree.
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
        self.own(node)?;
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

    /// Puts elements in the place of one.
    ///
    /// # Errors
    /// `elements` is anything but elements, or the node is of another tree.
    pub fn replace(&mut self, node: ElementNode<'t>, elements: &str) -> Result<(), EditError> {
        self.own(node)?;
        let text = checked(elements)?.to_owned();
        self.changes.push(Replacement {
            span: node.span(),
            text,
        });
        Ok(())
    }

    /// Puts elements before one: on lines of their own at the top level, directly before it inside
    /// an element, where white space is content.
    ///
    /// # Errors
    /// Those of [`Self::replace`].
    pub fn insert_before(
        &mut self,
        node: ElementNode<'t>,
        elements: &str,
    ) -> Result<(), EditError> {
        self.own(node)?;
        let mut text = checked(elements)?.to_owned();
        if self.top_level.contains(&node.index()) {
            text.push('\n');
        }
        self.insert(node.span().start, text);
        Ok(())
    }

    /// Puts elements behind one, as [`Self::insert_before`] puts them before it.
    ///
    /// # Errors
    /// Those of [`Self::replace`].
    pub fn insert_after(&mut self, node: ElementNode<'t>, elements: &str) -> Result<(), EditError> {
        self.own(node)?;
        let mut text = String::new();
        if self.top_level.contains(&node.index()) {
            text.push('\n');
        }
        text.push_str(checked(elements)?);
        self.insert(node.span().end, text);
        Ok(())
    }

    /// Removes an element; at the top level with its line, if nothing follows it there.
    ///
    /// White space that then stands before a RAW block counts no longer, as everywhere.
    ///
    /// # Errors
    /// The node is of another tree.
    pub fn remove(&mut self, node: ElementNode<'t>) -> Result<(), EditError> {
        self.own(node)?;
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

    /// The changes as replacements of text, in its order.
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

    /// The text with every change.
    ///
    /// Where text comes together that would mean something as one, such as `RAW` and `|`, an empty
    /// comment stands between.
    ///
    /// # Errors
    /// Two changes overlap.
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

    fn own(&self, node: ElementNode<'t>) -> Result<(), EditError> {
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
        self.own(node)?;
        if !is_attribute_name(name) {
            return Err(EditError::Name(name.to_owned()));
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

/// Elements without the white space around them.
fn checked(elements: &str) -> Result<&str, EditError> {
    let elements = trim(elements);
    if elements.starts_with('\u{FEFF}') {
        return Err(EditError::NotElements(
            "it begins with a byte order mark".to_owned(),
        ));
    }
    let tree = parse(elements);
    if let Some(error) = tree.diagnostics().iter().find(|found| found.is_error()) {
        return Err(EditError::NotElements(error.message.clone()));
    }
    if tree.elements().next().is_none() {
        return Err(EditError::NotElements("there is none".to_owned()));
    }
    Ok(elements)
}

/// Whether the end of one text and the begin of another are, together, the begin of a RAW block, a
/// comment or a closing tag.
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
