//! Reading `<import>`, as an element and as literal text.

use std::fmt::Write as _;

use logue_source::{Diagnostic, DiagnosticCode};

use crate::document::content::Import;
use crate::document::fields::source;
use crate::findings::Findings;
use crate::syntax::attributes::write_attribute;
use crate::syntax::tree::ElementNode;

pub(super) fn import(node: ElementNode<'_>, findings: &mut Findings) -> Import {
    Import {
        span: node.span(),
        src: source(node, findings),
        namespace: namespace(node, findings),
    }
}

/// Returns the namespace of an import; reports an invalid one.
fn namespace(node: ElementNode<'_>, findings: &mut Findings) -> Option<String> {
    let attribute = node.attribute("namespace")?;
    let name = attribute.value();
    let first = |it: char| it.is_ascii_alphabetic() || it == '_';
    let next = |it: char| it.is_ascii_alphanumeric() || "_.-".contains(it);
    if name.starts_with(first) && name.chars().all(next) {
        return Some(name.into_owned());
    }
    findings.push(
        Diagnostic::error(
            DiagnosticCode::MdInvalidAttribute,
            format!("invalid `namespace` {name:?} of an import"),
            attribute.place(),
        )
        .with_expected("letters, digits, `_`, `.` and `-`, with a letter or `_` first")
        .with_help("rename it, or remove `namespace`"),
    );
    None
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
