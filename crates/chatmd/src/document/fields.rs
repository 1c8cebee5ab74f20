//! Values of attributes, with the errors for missing and malformed ones.

use logue_source::{Diagnostic, DiagnosticCode};

use crate::findings::Findings;
use crate::syntax::tree::ElementNode;

pub(super) fn required(
    node: ElementNode<'_>,
    name: &str,
    findings: &mut Findings,
) -> Option<String> {
    let value = text(node, name);
    if value.is_none() {
        findings.push(missing(node, name, &format!("`{name}=\"…\"`")));
    }
    value
}

pub(super) fn missing(node: ElementNode<'_>, name: &str, expected: &str) -> Diagnostic {
    let tag = node.tag();
    Diagnostic::error(
        DiagnosticCode::MdMissingAttribute,
        format!("missing attribute `{name}` of `<{tag}>`"),
        node.opener(),
    )
    .with_expected(expected)
    .with_help(format!("write `<{tag} {name}=\"…\" …>`"))
}

pub(super) fn text(node: ElementNode<'_>, name: &str) -> Option<String> {
    node.value(name).map(std::borrow::Cow::into_owned)
}

/// Returns the `src` of an element; reports an empty or missing one.
pub(super) fn source(node: ElementNode<'_>, findings: &mut Findings) -> String {
    let src = node.attribute("src");
    let value = src.map(|src| src.value()).unwrap_or_default();
    if value.is_empty() {
        let mut error = missing(node, "src", "`src=\"…\"`");
        if let Some(src) = src {
            error.message = format!("empty `src` of `<{}>`", node.tag());
            error.primary = src.name_span();
        }
        findings.push(error);
    }
    value.into_owned()
}

pub(super) fn number<T>(
    node: ElementNode<'_>,
    name: &str,
    expected: &str,
    parse: impl Fn(&str) -> Option<T>,
    findings: &mut Findings,
) -> Option<T> {
    let attribute = node.attribute(name)?;
    let value = attribute.value();
    let number = parse(&value);
    if number.is_none() {
        findings.push(
            Diagnostic::error(
                DiagnosticCode::MdInvalidAttribute,
                format!("invalid `{name}` {value:?}: not {expected}"),
                attribute.place(),
            )
            .with_expected(expected)
            .with_help(format!("write {expected}, or remove `{name}`")),
        );
    }
    number
}

/// Parses a whole number, with an optional base prefix and `_` after digits.
pub(super) fn integer(text: &str) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text).to_ascii_lowercase();
    let bases = [("0x", 16), ("0o", 8), ("0b", 2), ("0u", 10)];
    let (digits, radix) = bases
        .into_iter()
        .find_map(|(prefix, radix)| Some((text.strip_prefix(prefix)?, radix)))
        .unwrap_or((&text, 10));
    // The first character must be a digit, so a second sign is rejected.
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(&digits.replace('_', ""), radix).ok()
}

pub(super) fn float(text: &str) -> Option<f64> {
    let number: f64 = text.replace('_', "").parse().ok()?;
    number.is_finite().then_some(number)
}

/// Parses one text, or a JSON list of texts.
pub(super) fn texts(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return None;
    }
    if !text.trim_start().starts_with('[') {
        return Some(vec![text.to_owned()]);
    }
    json_texts(text.trim())
}

/// Parses a JSON list of strings.
fn json_texts(text: &str) -> Option<Vec<String>> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let items = value.as_array()?.iter();
    items.map(|item| item.as_str().map(str::to_owned)).collect()
}
