//! Kinds of imported texts.

use logue_source::DiagnosticCode;

use crate::import::expanded::ImportTarget;
use crate::syntax::builder::parse;
use crate::syntax::tree::{Child, Tree};

pub(super) fn classify(text: &str, name: &str, part: usize) -> ImportTarget {
    let tree = parse(text);
    if is_document(&tree, name) {
        return ImportTarget::Document(part);
    }
    let is_inline = |child: Child<'_>| match child {
        Child::Node(node) => !node.tag().is_entry() && !node.tag().is_setting(),
        Child::Text(_) => true,
    };
    let is_sound = tree
        .diagnostics()
        .iter()
        .all(|found| found.code == DiagnosticCode::MdTopLevelText);
    if is_sound && tree.children().all(is_inline) {
        ImportTarget::Fragment(part)
    } else {
        ImportTarget::Verbatim(part)
    }
}

/// Returns whether an imported text is a ChatMD document.
///
/// It is one by its name, if its first child is an entry or a setting, or if it consists of
/// elements.
pub(super) fn is_document(tree: &Tree<'_>, name: &str) -> bool {
    if name.ends_with(".chatmd") {
        return true;
    }
    let mut children = tree.children();
    match children.next() {
        None => true,
        Some(Child::Text(_)) => false,
        Some(Child::Node(node)) if node.tag().is_entry() || node.tag().is_setting() => true,
        Some(Child::Node(_)) => {
            !tree.has_errors() && children.all(|child| matches!(child, Child::Node(_)))
        }
    }
}
