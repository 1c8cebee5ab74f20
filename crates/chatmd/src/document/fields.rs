//! Values of attributes, with the errors for missing and malformed ones.

use std::borrow::Cow;

use logue_source::{Diagnostic, DiagnosticCode};

use crate::findings::Findings;
use crate::syntax::attributes::Attribute;
use crate::syntax::tree::ElementNode;
use crate::syntax::whitespace::is_blank;

/// An element with its effective attributes, which are parsed once.
pub(super) struct Fields<'t> {
    pub(super) node: ElementNode<'t>,
    /// The last attribute of each valid name; few, however many the element has.
    attributes: Vec<Attribute<'t>>,
}

impl<'t> Fields<'t> {
    pub(super) fn new(node: ElementNode<'t>) -> Self {
        Self {
            node,
            attributes: Vec::new(),
        }
    }

    /// Sets the effective attribute of a valid name, and returns the earlier one.
    pub(super) fn set(&mut self, attribute: Attribute<'t>) -> Option<Attribute<'t>> {
        let name = attribute.name();
        let mut attributes = self.attributes.iter_mut();
        if let Some(earlier) = attributes.find(|earlier| earlier.name() == name) {
            return Some(std::mem::replace(earlier, attribute));
        }
        self.attributes.push(attribute);
        None
    }

    /// Returns the last attribute of that name, which is the effective one.
    pub(super) fn attribute(&self, name: &str) -> Option<Attribute<'t>> {
        let mut attributes = self.attributes.iter();
        attributes
            .find(|attribute| attribute.name() == name)
            .copied()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    pub(super) fn value(&self, name: &str) -> Option<Cow<'t, str>> {
        self.attribute(name).map(|attribute| attribute.value())
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.value(name).map(Cow::into_owned)
    }

    /// Returns a value; reports a missing one.
    pub(super) fn required(&self, name: &str, findings: &mut Findings) -> Option<String> {
        let value = self.text(name);
        if value.is_none() {
            findings.push(missing(self.node, name, &format!("`{name}=\"…\"`")));
        }
        value
    }
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
    node.value(name).map(Cow::into_owned)
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

/// Returns a value that may be absent, and reports an empty one.
pub(super) fn non_empty(
    node: ElementNode<'_>,
    name: &str,
    expected: &str,
    findings: &mut Findings,
) -> Option<String> {
    let parse = |text: &str| (!is_blank(text)).then(|| text.to_owned());
    number(node, name, expected, parse, findings)
}

/// Returns a parsed value that may be absent, and reports one that cannot be parsed.
pub(super) fn number<T>(
    node: ElementNode<'_>,
    name: &str,
    expected: &str,
    parse: impl Fn(&str) -> Option<T>,
    findings: &mut Findings,
) -> Option<T> {
    let attribute = node.attribute(name)?;
    let number = parse(&attribute.value());
    if number.is_none() {
        let help = format!("write {expected}, or remove `{name}`");
        findings.push(invalid(attribute, expected, help));
    }
    number
}

/// Returns the error about an attribute with a value of the wrong type or range.
pub(super) fn invalid(attribute: Attribute<'_>, expected: &str, help: String) -> Diagnostic {
    let (name, value) = (attribute.name(), attribute.value());
    Diagnostic::error(
        DiagnosticCode::MdInvalidAttribute,
        format!("invalid `{name}` {value:?}: not {expected}"),
        attribute.place(),
    )
    .with_expected(expected)
    .with_help(help)
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
///
/// A text such as `[END]` is not JSON, and therefore one text. After `["` a list was intended.
pub(super) fn texts(text: &str) -> Option<Vec<String>> {
    let list = text.trim();
    match list.strip_prefix('[').map(str::trim_start) {
        _ if text.is_empty() => None,
        Some(items) if items.starts_with(['"', '\'']) || is_json(list) => json_texts(list),
        _ => Some(vec![text.to_owned()]),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok()
}

/// Parses a JSON list of strings.
fn json_texts(text: &str) -> Option<Vec<String>> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let items = value.as_array()?.iter();
    items.map(|item| item.as_str().map(str::to_owned)).collect()
}
