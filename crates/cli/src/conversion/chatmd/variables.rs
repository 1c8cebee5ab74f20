//! Variables of a document in conversions: filled, kept as text, or kept as variables.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};

use chatmd::{Document, Variable, write as element};
use logue_agent::VariableValues;

/// The values for variables, and the policy for the others.
#[derive(Clone, Copy)]
pub(crate) struct Filling<'v> {
    pub(crate) values: &'v VariableValues,
    /// Whether the conversation is written as ChatMD, where placeholders stay variables.
    pub(crate) is_for_chatmd: bool,
}

/// The variables of a document that was read.
#[derive(Debug, Default)]
pub(crate) struct DocumentVariables {
    /// The names of all variables.
    pub(crate) declared: BTreeSet<String>,
    /// The elements that declare and record the variables without a value here.
    elements: String,
    /// The marks in the text of messages, by the variable that each represents.
    marks: BTreeMap<String, String>,
}

impl DocumentVariables {
    /// Fills the variables of a document; returns the given values as well.
    ///
    /// For ChatMD, a mark replaces each other placeholder, so that literal `{{name}}` differs from it.
    /// No text can contain the mark: it is random.
    pub(crate) fn fill(
        document: &mut Document,
        filling: Filling<'_>,
    ) -> (Self, BTreeMap<String, String>) {
        let given = filling.values.for_document(document);
        let names = document.variables().map(|variable| variable.name.clone());
        let mut variables = Self {
            declared: names.collect(),
            ..Self::default()
        };
        if filling.is_for_chatmd {
            let nonce = RandomState::new().hash_one("mark");
            let kept = document.variables();
            for variable in kept.filter(|variable| !given.contains_key(&variable.name)) {
                let name = &variable.name;
                variables.elements.push_str(&element_of(variable));
                let mark = format!("\u{fdd0}{nonce:016x}.{name}\u{fdd0}");
                variables.marks.insert(name.clone(), mark);
            }
        }
        let mut values = given.clone();
        values.extend(variables.marks.clone());
        document.fill_variables(&values);
        (variables, given)
    }

    /// Returns whether the variables without a value are written.
    pub(crate) fn are_kept(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Replaces the marks in a written ChatMD text, and adds the declarations.
    ///
    /// Marks are in RAW blocks, where a placeholder is literal.
    pub(crate) fn restore(&self, written: String) -> String {
        let mut text = written;
        for (name, mark) in &self.marks {
            text = text.replace(mark, &format!("|RAW{{{{{name}}}}}RAW|"));
        }
        text.insert_str(0, &self.elements);
        text
    }
}

fn element_of(variable: &Variable) -> String {
    match &variable.value {
        Some(value) => element::variable(&variable.name, value),
        None => element::declaration(
            &variable.name,
            variable.default.as_deref(),
            variable.description.as_deref(),
        ),
    }
}
