//! Kinds of imported texts.

use crate::import::expanded::ImportTarget;
use crate::syntax::builder::parse;
use crate::syntax::tag::Tag;
use crate::syntax::tree::{Child, ElementNode, Tree};

/// The place of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImportPlace {
    /// Outside all elements.
    Document,
    /// Inside a message.
    Message,
}

pub(super) fn classify(text: &str, name: &str, place: ImportPlace, part: usize) -> ImportTarget {
    if is_document(&parse(text), name, place) {
        ImportTarget::Document(part)
    } else {
        ImportTarget::Fragment(part)
    }
}

/// Returns whether an imported text is a ChatMD document.
///
/// It is one by its name, if its first child is an entry or a setting, or if it consists of
/// elements. In a message, an entry without its end is a mention of the tag.
fn is_document(tree: &Tree<'_>, name: &str, place: ImportPlace) -> bool {
    if name.ends_with(".chatmd") {
        return true;
    }
    let mut children = tree.children();
    match children.next() {
        None => true,
        Some(Child::Text(_)) => false,
        // In the text of a message, such markup is that of HTML.
        Some(Child::Node(node)) if place == ImportPlace::Message && is_html_script(node) => false,
        Some(Child::Node(node)) if node.tag().is_entry() || node.tag().is_setting() => {
            place == ImportPlace::Document || node.is_self_closing() || node.closer().is_some()
        }
        Some(Child::Node(_)) => {
            !tree.has_errors() && children.all(|child| matches!(child, Child::Node(_)))
        }
    }
}

/// Returns whether an element is a `<script>` without the attributes of ochat's.
fn is_html_script(node: ElementNode<'_>) -> bool {
    let is_chatml = node.value("language").as_deref() == Some("chatml");
    node.tag() == Tag::Script && !node.has("kind") && !is_chatml
}
