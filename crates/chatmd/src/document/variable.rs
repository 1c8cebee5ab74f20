//! Variables: `<var>` declares one, and `{{name}}` in the text of a message stands for its value.
//!
//! Values are inserted after parsing and are not scanned, so a value never becomes markup, a RAW
//! delimiter or another placeholder.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use logue_source::{Diagnostic, DiagnosticCode, Span};
use memchr::memmem;

use crate::document::content::{ContentItem, Text};
use crate::document::element::{Document, Element};
use crate::document::fields::Fields;
use crate::findings::Findings;
use crate::suggest::suggest;

/// A `<var>`: the declaration of a variable, or the record of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// Span of the element.
    pub span: Span,
    /// Name of the variable.
    pub name: String,
    /// The value that is used if no other is given.
    pub default: Option<String>,
    /// The value that an earlier run used.
    pub value: Option<String>,
    /// Description for people.
    pub description: Option<String>,
}

/// Reads a `<var>`; `None` if its name is invalid.
pub(super) fn read_variable(fields: &Fields<'_>, findings: &mut Findings) -> Option<Variable> {
    let node = fields.node;
    let name = fields.required("name", findings)?;
    if !is_name(&name) {
        let place = fields
            .attribute("name")
            .map_or(node.opener(), |it| it.place());
        findings.push(
            Diagnostic::error(
                DiagnosticCode::MdVariable,
                format!("invalid name {name:?} of a variable"),
                place,
            )
            .with_expected("letters, digits, `_` and `-`, with a letter first")
            .with_help("rename it, and its placeholders"),
        );
        return None;
    }
    Some(Variable {
        span: node.span(),
        name,
        default: fields.text("default"),
        value: fields.text("value"),
        description: fields.text("description"),
    })
}

impl Document {
    /// Returns the declarations and the recorded values of variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.elements.iter().filter_map(|element| match element {
            Element::Variable(variable) => Some(variable),
            _ => None,
        })
    }

    /// Returns the values of the variables without those of a caller.
    ///
    /// The last recorded value takes precedence over the default.
    pub fn variable_values(&self) -> BTreeMap<String, String> {
        let mut values = BTreeMap::new();
        for variable in self.variables() {
            if let Some(default) = &variable.default {
                let entry = values.entry(variable.name.clone());
                entry.or_insert_with(|| default.clone());
            }
        }
        for variable in self.variables() {
            if let Some(value) = &variable.value {
                values.insert(variable.name.clone(), value.clone());
            }
        }
        values
    }

    /// Inserts values into the text of messages, for the placeholders of declared variables.
    ///
    /// RAW blocks, attributes, documents and records of tools stay unchanged. A placeholder without
    /// a value stays as it is.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// let text = "<var name=\"topic\"/><user>About {{topic}} and {{other}} RAW|{{topic}}|RAW</user>";
    /// let (mut document, _) = chatmd::Document::from_tree(&chatmd::parse(text));
    /// document.fill_variables(&BTreeMap::from([("topic".into(), "<user>{{other}}".into())]));
    /// let evaluation = chatmd::evaluate(&document, &mut chatmd::MemoryWorld::new());
    /// assert_eq!(
    ///     evaluation.messages[0].text(),
    ///     "About <user>{{other}} and {{other}} {{topic}}"
    /// );
    /// ```
    pub fn fill_variables(&mut self, values: &BTreeMap<String, String>) {
        let declared: BTreeSet<String> = self.variables().map(|it| it.name.clone()).collect();
        let values: BTreeMap<&str, &str> = values
            .iter()
            .filter(|(name, _)| declared.contains(*name))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        if values.is_empty() {
            return;
        }
        for element in &mut self.elements {
            if let Element::Message(message) = element {
                fill(&mut message.content, &values);
            }
        }
    }

    /// Returns the variables that a message uses and that have no value, each once.
    pub fn variables_without<'d>(
        &'d self,
        values: &'d BTreeMap<String, String>,
    ) -> impl Iterator<Item = &'d Variable> {
        let mut used = BTreeSet::new();
        self.each_placeholder(|name, _| {
            used.insert(name.to_owned());
        });
        let mut reported = BTreeSet::new();
        self.variables().filter(move |variable| {
            used.contains(&variable.name)
                && !values.contains_key(&variable.name)
                && reported.insert(&variable.name)
        })
    }

    /// Returns an error for each variable that a message uses and that has no value.
    pub fn missing_values(&self, values: &BTreeMap<String, String>) -> Vec<Diagnostic> {
        let error = |variable: &Variable| {
            let name = &variable.name;
            let message = format!("the variable `{name}` has no value");
            Diagnostic::error(DiagnosticCode::MdVariable, message, variable.span)
                .with_help(format!("pass --var {name}=VALUE, or add a `default`"))
        };
        self.variables_without(values).map(error).collect()
    }

    /// Calls `found` with the name and the text of each placeholder in a message.
    fn each_placeholder(&self, mut found: impl FnMut(&str, &Text)) {
        for element in &self.elements {
            if let Element::Message(message) = element {
                each_placeholder(&message.content, &mut found);
            }
        }
    }
}

/// Visits placeholders; recursion ends at [`crate::MAX_AGENT_DEPTH`].
fn each_placeholder(items: &[ContentItem], found: &mut impl FnMut(&str, &Text)) {
    for item in items {
        match item {
            ContentItem::Text(text) => {
                for range in &text.placeholders {
                    found(name_in(&text.text, range), text);
                }
            }
            ContentItem::Agent(agent) => each_placeholder(&agent.content, found),
            _ => {}
        }
    }
}

/// Fills placeholders; recursion ends at [`crate::MAX_AGENT_DEPTH`].
fn fill(items: &mut [ContentItem], values: &BTreeMap<&str, &str>) {
    for item in items {
        match item {
            ContentItem::Text(text) => fill_text(text, values),
            ContentItem::Agent(agent) => fill(&mut agent.content, values),
            _ => {}
        }
    }
}

fn fill_text(text: &mut Text, values: &BTreeMap<&str, &str>) {
    let mut filled = String::new();
    let mut at = 0;
    let mut kept = Vec::new();
    for range in std::mem::take(&mut text.placeholders) {
        filled.push_str(text.text.get(at..range.start).unwrap_or_default());
        if let Some(value) = values.get(name_in(&text.text, &range)) {
            filled.push_str(value);
        } else {
            let start = filled.len();
            filled.push_str(text.text.get(range.clone()).unwrap_or_default());
            kept.push(start..filled.len());
        }
        at = range.end;
    }
    if at > 0 {
        filled.push_str(text.text.get(at..).unwrap_or_default());
        text.text = filled;
        text.placeholders = kept;
    }
}

/// Reports variables that are declared twice, and placeholders of none.
///
/// Without a declaration, `{{name}}` is ordinary text.
pub(super) fn check(document: &Document, findings: &mut Findings) {
    let mut declared: BTreeMap<&str, Span> = BTreeMap::new();
    for variable in document.variables() {
        let first = declared.get(variable.name.as_str()).copied();
        if let Some(first) = first.filter(|_| variable.value.is_none()) {
            let message = format!("duplicate variable `{}`", variable.name);
            findings.push(
                Diagnostic::error(DiagnosticCode::MdVariable, message, variable.span)
                    .with_label(first, "the first one")
                    .with_help("remove or rename one of them"),
            );
        } else {
            declared.insert(&variable.name, variable.span);
        }
    }
    if declared.is_empty() {
        return;
    }
    let mut reported = BTreeSet::new();
    document.each_placeholder(|name, text| {
        if declared.contains_key(name) || !reported.insert(name.to_owned()) {
            return;
        }
        let help = match suggest(name, declared.keys().copied()) {
            Some(meant) => format!("did you mean `{{{{{meant}}}}}`?"),
            None => format!("declare it: `<var name=\"{name}\"/>`; it is sent as text"),
        };
        findings.push(
            Diagnostic::warning(
                DiagnosticCode::UndeclaredVariable,
                format!("`{{{{{name}}}}}` is the placeholder of no variable"),
                text.span,
            )
            .with_help(help),
        );
    });
}

/// Returns the ranges of `{{name}}` in a text. Linear.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + memmem::find(text.as_bytes().get(at..)?, b"{{")?;
            let inside = text.get(start + 2..)?;
            let length = inside
                .bytes()
                .take_while(|byte| is_name_byte(*byte))
                .count();
            let name = inside.get(..length).unwrap_or_default();
            if is_name(name)
                && inside
                    .get(length..)
                    .is_some_and(|rest| rest.starts_with("}}"))
            {
                at = start + length + 4;
                return Some(start..at);
            }
            at = start + 1;
        }
    })
}

fn name_in<'t>(text: &'t str, range: &Range<usize>) -> &'t str {
    text.get(range.start + 2..range.end.saturating_sub(2))
        .unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(is_name_byte)
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}
