//! Changes of single nodes that leave every other byte as it is.
//!
//! [`Edits`] collects what is to become of the nodes of one [`Tree`] and makes all of it at once. An
//! attribute value is escaped, text becomes RAW blocks, and an element must be one: so nothing that
//! is put in can change what stands around it.
//!
//! ```
//! use chatmd::edit::Edits;
//!
//! let tree = chatmd::parse("<config model='old'   temperature=1 />\n<user>Hi</user>\n");
//! let config = tree.elements().next().unwrap();
//! let mut edits = Edits::new(&tree)?;
//! edits.set_attribute(config, "model", "a \"new\" one")?;
//! assert_eq!(
//!     edits.apply()?,
//!     "<config model=\"a &quot;new&quot; one\"   temperature=1 />\n<user>Hi</user>\n",
//! );
//! # Ok::<(), chatmd::edit::EditError>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};

use logue_source::{Diagnostic, Span};

use crate::Tag;
use crate::attributes::{is_attribute_name, write_value};
use crate::lexer::{COMMENT_CLOSE, COMMENT_OPEN, RAW_OPEN};
use crate::tree::{ElementNode, Tree};
use crate::whitespace::{is_blank, trim};
use crate::write::raw;

/// One change: what stands at `span` becomes `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// What is replaced; empty to insert.
    pub span: Span,
    /// What stands there afterwards.
    pub text: String,
}

/// Why changes cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// The tree has an error, so where its nodes end is a guess.
    Broken(Box<Diagnostic>),
    /// The node is none of this tree.
    OtherTree,
    /// An attribute cannot have this name.
    Name(String),
    /// What is to be put in is no sequence of elements.
    NotElements(String),
    /// The element says everything in its attributes and has no content.
    NoContent(Tag),
    /// Two changes concern the same bytes.
    Overlap(Span, Span),
    /// A span that leaves the text or cuts a character.
    OutOfText(Span),
}

impl std::fmt::Display for EditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Broken(error) => write!(f, "the text has errors: {}", error.message),
            Self::OtherTree => f.write_str("the element belongs to another text"),
            Self::Name(name) => write!(f, "an attribute cannot be called {name:?}"),
            Self::NotElements(reason) => {
                write!(f, "only elements can be put there: {reason}")
            }
            Self::NoContent(tag) => write!(f, "a `<{tag}>` has no content"),
            Self::Overlap(first, second) => {
                write!(
                    f,
                    "two changes, at {first:?} and {second:?}, concern the same text"
                )
            }
            Self::OutOfText(span) => write!(f, "the text has no {span:?}"),
        }
    }
}

impl std::error::Error for EditError {}

/// Makes all changes at once. Their order counts only where several insert at one place.
///
/// Linear in the text and the changes, up to the sorting of the changes.
///
/// # Errors
/// Two changes overlap, or one does not fit the text.
///
/// ```
/// use chatmd::edit::{Replacement, apply};
///
/// let change = Replacement { span: (6..7).into(), text: "b".into() };
/// assert_eq!(apply("<user>a</user>", vec![change])?, "<user>b</user>");
/// # Ok::<(), chatmd::edit::EditError>(())
/// ```
pub fn apply(text: &str, changes: Vec<Replacement>) -> Result<String, EditError> {
    let mut out = String::with_capacity(text.len());
    join(text, changes, |part| out.push_str(part))?;
    Ok(out)
}

/// Gives the parts of the changed text in order.
fn join(
    text: &str,
    mut changes: Vec<Replacement>,
    mut give: impl FnMut(&str),
) -> Result<(), EditError> {
    changes.sort_by_key(|change| (change.span.start, change.span.end));
    let mut last = Span::empty(0);
    for change in &changes {
        let span = change.span;
        if span.start < last.end {
            return Err(EditError::Overlap(last, span));
        }
        let kept = text.get(last.end..span.start);
        let (Some(kept), Some(_)) = (kept, span.text(text)) else {
            return Err(EditError::OutOfText(span));
        };
        give(kept);
        give(&change.text);
        last = span;
    }
    give(text.get(last.end..).unwrap_or_default());
    Ok(())
}

/// Changes of the nodes of one tree, which are made together by [`Edits::apply`].
///
/// Each method costs what the node's own tags cost, and each change of a node is independent of
/// the others: two that concern the same bytes, such as new content for an element that is removed,
/// are an error when they are applied.
#[derive(Clone, Debug)]
pub struct Edits<'t, 'a> {
    tree: &'t Tree<'a>,
    top_level: BTreeSet<usize>,
    openers: BTreeMap<usize, Opener>,
    changes: Vec<Replacement>,
}

/// What becomes of an opening tag.
#[derive(Clone, Debug, Default)]
struct Opener {
    attributes: Vec<(String, Attribute)>,
    /// What follows the tag from now on, if it closed itself.
    content: Option<String>,
}

#[derive(Clone, Debug)]
enum Attribute {
    Value(String),
    Flag,
    Removed,
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
        self.attribute(node, name, Attribute::Value(value.to_owned()))
    }

    /// Gives an element an attribute without a value.
    ///
    /// # Errors
    /// Those of [`Self::set_attribute`].
    pub fn set_flag(&mut self, node: ElementNode<'t>, name: &str) -> Result<(), EditError> {
        self.attribute(node, name, Attribute::Flag)
    }

    /// Removes every attribute of that name; there may be none.
    ///
    /// # Errors
    /// Those of [`Self::set_attribute`].
    pub fn remove_attribute(&mut self, node: ElementNode<'t>, name: &str) -> Result<(), EditError> {
        self.attribute(node, name, Attribute::Removed)
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
        change: Attribute,
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

impl Opener {
    /// The tag as it is to be.
    fn text(&self, node: ElementNode<'_>) -> String {
        let source = node.document();
        let opener = node.opener();
        let tail = if node.is_self_closing() { 2 } else { 1 };
        let mut out = format!("<{}", node.tag());
        let mut end = opener.start + out.len();
        let gap_to = |end: usize, start: usize| {
            let gap = source.get(end..start).unwrap_or_default();
            // What is no white space could become a part of what is new.
            if is_blank(gap) && !gap.is_empty() {
                gap
            } else {
                " "
            }
        };
        // Of several of one name the last one counts.
        let places: Vec<Option<Span>> = self
            .attributes
            .iter()
            .map(|(name, _)| node.attribute(name).map(|attribute| attribute.span()))
            .collect();
        for attribute in node.attributes() {
            let span = attribute.span();
            let gap = gap_to(end, span.start);
            end = span.end;
            let position = self
                .attributes
                .iter()
                .position(|(name, _)| name == attribute.name());
            let change = position.and_then(|at| self.attributes.get(at).zip(places.get(at)));
            match change {
                Some(((_, Attribute::Removed), _)) => {}
                Some(((name, change), place)) if *place == Some(span) => {
                    out.push_str(gap);
                    change.write(&mut out, name);
                }
                _ => {
                    out.push_str(gap);
                    // Of a flag only its name: a `=` would take what follows for its value.
                    let written = if attribute.is_flag() {
                        attribute.name_span()
                    } else {
                        span
                    };
                    out.push_str(written.text(source).unwrap_or_default());
                }
            }
        }
        for ((name, change), place) in self.attributes.iter().zip(&places) {
            if place.is_none() && !matches!(change, Attribute::Removed) {
                out.push(' ');
                change.write(&mut out, name);
            }
        }
        let inside_end = opener.end - tail;
        let rest = source.get(end..inside_end).unwrap_or_default();
        if is_blank(rest) {
            out.push_str(rest);
        }
        match &self.content {
            Some(content) => out.push_str(&format!(">{content}</{}>", node.tag())),
            None if node.is_self_closing() => out.push_str("/>"),
            None => out.push('>'),
        }
        out
    }
}

impl Attribute {
    fn write(&self, out: &mut String, name: &str) {
        out.push_str(name);
        if let Self::Value(value) = self {
            out.push('=');
            write_value(out, value);
        }
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
    let tree = crate::parse(elements);
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
