//! The values that a caller gives to the variables of a prompt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chatmd::Document;
use logue_source::{Diagnostic, DiagnosticCode};

/// The values of variables, by their source.
///
/// Values of the command take precedence over those of files, of the environment, of the session, of
/// the transcript, and over defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariableValues {
    set: BTreeMap<String, String>,
    defaults: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    recorded: BTreeMap<String, String>,
    withheld: BTreeSet<String>,
    /// The defaults of the callers of an agent.
    fallbacks: BTreeMap<String, String>,
    /// Whether these are the values of a caller, of which an agent may declare any.
    is_of_agent: bool,
}

impl VariableValues {
    /// Sets the value of a variable, which the prompt must declare.
    pub fn set(&mut self, name: &str, value: &str) {
        self.set.insert(name.to_owned(), value.to_owned());
    }

    /// Sets the value of a variable, if the prompt declares it.
    pub fn set_default(&mut self, name: String, value: String) {
        self.defaults.insert(name, value);
    }

    /// Sets a variable by its name in upper case, with `_` for `-`.
    pub fn set_environment(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    /// Sets a value that an earlier turn of the session was given.
    pub fn set_recorded(&mut self, name: &str, value: &str) {
        self.recorded.insert(name.to_owned(), value.to_owned());
    }

    /// Requires a variable whose earlier value was not stored, because it was redacted.
    pub fn require(&mut self, name: &str) {
        self.withheld.insert(name.to_owned());
    }

    /// Returns the values for the agents of a document.
    ///
    /// Its records take precedence over those of an agent, and its defaults are used last.
    pub(crate) fn for_agents_of(&self, document: &Document) -> Self {
        let mut values = self.clone();
        values.is_of_agent = true;
        values.withheld.clear();
        let mut defaults = BTreeMap::new();
        let mut recorded = BTreeMap::new();
        for variable in document.variables() {
            if let Some(value) = &variable.value {
                recorded.insert(variable.name.clone(), value.clone());
            }
            if let Some(default) = &variable.default {
                let default = || default.clone();
                defaults
                    .entry(variable.name.clone())
                    .or_insert_with(default);
            }
        }
        for (name, value) in recorded {
            values.recorded.entry(name).or_insert(value);
        }
        values.fallbacks.extend(defaults);
        values
    }

    /// Returns the values for the declared variables of a document.
    pub fn for_document(&self, document: &Document) -> BTreeMap<String, String> {
        let mut values = BTreeMap::new();
        for variable in document.variables() {
            let name = &variable.name;
            let value = self
                .set
                .get(name)
                .or_else(|| self.defaults.get(name))
                .or_else(|| self.environment.get(&environment_name(name)))
                .or_else(|| self.recorded.get(name));
            if let Some(value) = value {
                values.insert(name.clone(), value.clone());
            }
        }
        values
    }

    fn is_from_environment(&self, name: &str) -> bool {
        let is_named = self.set.contains_key(name) || self.defaults.contains_key(name);
        !is_named && self.environment.contains_key(&environment_name(name))
    }

    /// Returns a variable of the command that `declared` does not contain.
    pub fn undeclared(&self, declared: &BTreeSet<String>) -> Option<&str> {
        let mut names = self.set.keys();
        let name = names.find(|name| !self.is_of_agent && !declared.contains(*name))?;
        Some(name)
    }

    /// Returns the values for the declared variables of a document, with records and defaults.
    fn effective(&self, document: &Document) -> BTreeMap<String, String> {
        let mut values = document.variable_values();
        values.extend(self.for_document(document));
        for variable in document.variables() {
            if let Some(value) = self.fallbacks.get(&variable.name) {
                let entry = values.entry(variable.name.clone());
                entry.or_insert_with(|| value.clone());
            }
        }
        values
    }

    /// Returns the variables that a document uses without a value.
    pub(crate) fn missing(&self, document: &Document) -> Vec<String> {
        let values = self.effective(document);
        let missing = document.variables_without(&values);
        missing.map(|variable| variable.name.clone()).collect()
    }

    /// Inserts the values into a document; returns errors for the missing ones.
    pub(crate) fn fill(&self, document: &mut Document) -> (Box<FilledVariables>, Vec<Diagnostic>) {
        let declared = document.variables().map(|it| it.name.clone()).collect();
        let undeclared = self.undeclared(&declared).map(str::to_owned);
        let given = self.for_document(document);
        let mut unrecorded = given.clone();
        let values = self.effective(document);
        let recorded = document.variables().filter_map(|variable| {
            let value = variable.value.as_deref()?;
            Some((variable.name.as_str(), value))
        });
        // The last record counts.
        let recorded: BTreeMap<&str, &str> = recorded.collect();
        unrecorded.retain(|name, value| recorded.get(name.as_str()) != Some(&value.as_str()));
        let replaced = given.iter().filter(|(name, value)| {
            let earlier = recorded.get(name.as_str()).copied();
            let earlier = self.recorded.get(*name).map(String::as_str).or(earlier);
            self.is_from_environment(name) && earlier.is_some_and(|earlier| earlier != *value)
        });
        let replaced = replaced.map(|(name, _)| name.clone()).collect();
        let mut missing = document.missing_values(&values);
        let withheld = document.variables().filter(|variable| {
            let name = &variable.name;
            self.withheld.contains(name) && !given.contains_key(name)
        });
        missing.extend(withheld.map(|variable| {
            let name = &variable.name;
            let message = format!("the value of `{name}` was redacted, so the session has none");
            Diagnostic::error(DiagnosticCode::MdVariable, message, variable.span)
                .with_help(format!("pass --var {name}=VALUE again"))
        }));
        document.fill_variables(&values);
        let filled = FilledVariables {
            unrecorded,
            undeclared,
            replaced,
            of_agents: BTreeMap::new(),
            for_agents: Arc::new(self.for_agents_of(document)),
        };
        (Box::new(filled), missing)
    }
}

/// Returns the name of a variable in the environment, without its prefix.
pub fn environment_name(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

/// The variables of an evaluated prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilledVariables {
    /// Values of the caller that the document does not record.
    pub(crate) unrecorded: BTreeMap<String, String>,
    /// A variable of the command that the document does not declare.
    pub(crate) undeclared: Option<String>,
    /// Variables with a value of the environment in place of the recorded one.
    pub(crate) replaced: Vec<String>,
    /// Values of the caller for variables that agents declare.
    pub(crate) of_agents: BTreeMap<String, String>,
    /// The values for the agents of the prompt.
    pub(crate) for_agents: Arc<VariableValues>,
}
