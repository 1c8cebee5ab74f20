//! Elements whose attributes and content must all be known, because they restrict a tool.

use logue_source::{Diagnostic, DiagnosticCode};

use crate::findings::Findings;
use crate::syntax::attributes::Attribute;
use crate::syntax::tag::Tag;
use crate::syntax::tree::{Child, ElementNode};
use crate::syntax::whitespace::{is_blank, trim};

/// Reports unknown and repeated attributes, and attributes without a value, as errors.
///
/// Returns whether there are none.
pub(super) fn attributes(node: ElementNode<'_>, known: &[&str], findings: &mut Findings) -> bool {
    let mut seen = Vec::new();
    let mut is_valid = true;
    for attribute in node.attributes() {
        let (name, tag) = (attribute.name(), node.tag());
        let (message, help) = if !known.contains(&name) {
            (
                format!("unknown attribute `{name}` of `<{tag}>`"),
                format!(
                    "remove it; attributes of `<{tag}>` are {}",
                    known.join(", ")
                ),
            )
        } else if seen.contains(&name) {
            is_valid = false;
            findings.push(repeated(attribute, tag));
            continue;
        } else if attribute.is_flag() {
            (
                format!("the attribute `{name}` of `<{tag}>` has no value"),
                format!("write `{name}=\"…\"`, or remove it"),
            )
        } else {
            seen.push(name);
            continue;
        };
        is_valid = false;
        findings.push(
            Diagnostic::error(
                DiagnosticCode::MdInvalidAttribute,
                message,
                attribute.name_span(),
            )
            .with_help(help),
        );
    }
    is_valid
}

/// Reports repeated attributes as errors; returns whether there are none.
///
/// Two programs may use different ones, so a restriction could be lost.
pub(super) fn unrepeated(node: ElementNode<'_>, findings: &mut Findings) -> bool {
    let mut seen = Vec::new();
    let mut is_valid = true;
    for attribute in node.attributes() {
        if seen.contains(&attribute.name()) {
            is_valid = false;
            findings.push(repeated(attribute, node.tag()));
        }
        seen.push(attribute.name());
    }
    is_valid
}

fn repeated(attribute: Attribute<'_>, tag: Tag) -> Diagnostic {
    let name = attribute.name();
    Diagnostic::error(
        DiagnosticCode::MdInvalidAttribute,
        format!("repeated attribute `{name}` of `<{tag}>`"),
        attribute.name_span(),
    )
    .with_help("remove one of them")
}

/// Returns the parts of an element; reports text and other elements as errors.
pub(super) fn parts<'t>(
    node: ElementNode<'t>,
    known: &[Tag],
    findings: &mut Findings,
) -> Vec<ElementNode<'t>> {
    let mut parts = Vec::new();
    for child in node.children() {
        let (message, place) = match child {
            Child::Node(inner) if known.contains(&inner.tag()) => {
                parts.push(inner);
                continue;
            }
            Child::Text(run) if run.is_blank() => continue,
            Child::Node(inner) => (
                format!(
                    "`<{}>` has no meaning inside `<{}>`",
                    inner.tag(),
                    node.tag()
                ),
                inner.opener(),
            ),
            Child::Text(run) => (
                format!("text has no meaning inside `<{}>`", node.tag()),
                run.span(),
            ),
        };
        let known: Vec<String> = known.iter().map(|tag| format!("`<{tag} …>`")).collect();
        let help = match known.as_slice() {
            [] => format!("end the tag in `/>`: `<{} …/>`", node.tag()),
            known => format!("remove it; the parts are {}", known.join(", ")),
        };
        let error = Diagnostic::error(DiagnosticCode::MdToolDeclaration, message, place);
        findings.push(error.with_help(help));
    }
    parts
}

/// Returns a required value, trimmed; reports a missing or empty one.
pub(super) fn required(
    node: ElementNode<'_>,
    name: &str,
    findings: &mut Findings,
) -> Option<String> {
    let attribute = node.attribute(name);
    let value = attribute.map(|attribute| trim(&attribute.value()).to_owned());
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        return Some(value);
    }
    let tag = node.tag();
    let (message, place) = match attribute {
        Some(attribute) => (
            format!("empty `{name}` of `<{tag}>`"),
            attribute.name_span(),
        ),
        None => (
            format!("missing attribute `{name}` of `<{tag}>`"),
            node.opener(),
        ),
    };
    findings.push(
        Diagnostic::error(DiagnosticCode::MdMissingAttribute, message, place)
            .with_expected(format!("`{name}=\"…\"`"))
            .with_help(format!("add `{name}`")),
    );
    None
}

/// Returns an optional value, trimmed; an empty one is absent.
pub(super) fn optional(node: ElementNode<'_>, name: &str) -> Option<String> {
    let value = node.value(name)?;
    (!is_blank(&value)).then(|| trim(&value).to_owned())
}
