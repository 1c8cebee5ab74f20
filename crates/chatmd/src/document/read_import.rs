//! Reading `<import>`, as an element and as literal text.

use std::fmt::Write as _;

use crate::document::content::Import;
use crate::document::fields::source;
use crate::findings::Findings;
use crate::syntax::attributes::write_attribute;
use crate::syntax::tree::ElementNode;

pub(super) fn import(node: ElementNode<'_>, findings: &mut Findings) -> Import {
    Import {
        span: node.span(),
        src: source(node, findings),
    }
}

/// Returns an import as literal text, for content without imports (ChatMD §9).
pub(super) fn literal(node: ElementNode<'_>) -> String {
    if node.children().next().is_some() {
        return node.source().to_owned();
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(text, "<{}", node.tag());
    for attribute in node.attributes() {
        write_attribute(&mut text, attribute.name(), &attribute.value());
    }
    text.push_str("/>");
    text
}
