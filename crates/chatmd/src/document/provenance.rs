//! Attributes in which later versions of ochat record the origin of an element.
//!
//! They stay in the text. Nothing trusts them.

use std::collections::BTreeMap;

use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::findings::Findings;
use crate::syntax::tree::Tree;

/// The id of a history item: `LENGTH:NAMESPACE:NUMBER`.
pub(super) const HISTORY_ID: &str = "ochat-history-id";

/// The name of a file; it may be forged.
pub(super) const SOURCE_CONTEXT: &str = "ochat-source-context";

/// Reports malformed and repeated history ids, which count as absent.
pub(super) fn check(tree: &Tree<'_>, findings: &mut Findings) {
    let mut seen: BTreeMap<String, Span> = BTreeMap::new();
    for node in tree.elements().filter(|node| node.tag().is_entry()) {
        let Some(attribute) = node.attribute(HISTORY_ID) else {
            continue;
        };
        let id = attribute.value();
        if !is_history_id(&id) {
            findings.push(
                Diagnostic::warning(
                    DiagnosticCode::UnknownAttribute,
                    format!("invalid `{HISTORY_ID}` {id:?}, which counts as absent"),
                    attribute.place(),
                )
                .with_expected("LENGTH:NAMESPACE:NUMBER, such as `3:run:7`")
                .with_help("remove it; it has no effect here"),
            );
        } else if let Some(first) = seen.insert(id.clone().into_owned(), attribute.place()) {
            findings.push(
                Diagnostic::warning(
                    DiagnosticCode::DuplicateId,
                    format!("duplicate `{HISTORY_ID}` {id:?}, which counts as absent"),
                    attribute.place(),
                )
                .with_label(first, "the first one")
                .with_help("remove one of them; they have no effect here"),
            );
        }
    }
}

/// Returns whether a text is the length of a namespace, the namespace and a number.
fn is_history_id(id: &str) -> bool {
    let Some((length, rest)) = id.split_once(':') else {
        return false;
    };
    let Some(length) = canonical(length).and_then(|length| usize::try_from(length).ok()) else {
        return false;
    };
    let number = rest.get(length..).and_then(|rest| rest.strip_prefix(':'));
    length > 0 && number.is_some_and(|number| canonical(number).is_some())
}

/// Parses a decimal number without sign or leading zeros.
fn canonical(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}
