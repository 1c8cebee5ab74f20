//! The variables of agents, which the values of their callers fill.

use std::collections::BTreeSet;

use chatmd::{Document, load};
use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::prompt::grants::{AgentFile, MAX_AGENTS};
use crate::prompt::scope::PromptScope;
use crate::prompt::variables::{FilledVariables, VariableValues};

impl PromptScope {
    /// Compares the values of a command with the agents of a document.
    ///
    /// The scope is that of the agents, of which those in files are read. A variable counts as declared if an agent declares it. Returns an error for each variable of an
    /// agent without a value, at the element that leads to the agent: the run would fail at its call.
    pub(crate) fn check_agents(
        &self,
        document: &Document,
        values: &VariableValues,
        filled: &mut FilledVariables,
    ) -> Vec<Diagnostic> {
        let mut declared = names(document);
        let mut seen = BTreeSet::new();
        let mut missing = Vec::new();
        let agents = self.agents_of(document).into_iter();
        let mut waiting: Vec<(Span, AgentFile)> = agents.map(|agent| (agent.span, agent)).collect();
        while let Some((span, agent)) = waiting.pop() {
            if seen.len() >= MAX_AGENTS || !seen.insert(agent.path.clone()) {
                continue;
            }
            let name = agent.path.display().to_string();
            let loaded = load(&name, &agent.text, &mut agent.scope.files.clone());
            if loaded.has_errors() {
                continue;
            }
            let document = loaded.document();
            declared.extend(names(document));
            filled.of_agents.extend(values.for_document(document));
            let errors = agent.scope.variables.missing(document).into_iter();
            missing.extend(errors.map(|name| without_value(&name, &agent.src, span)));
            let inner = agent.scope.variables.for_agents_of(document);
            let inner = agent
                .scope
                .clone()
                .with_variables(inner)
                .agents_of(document);
            waiting.extend(inner.into_iter().map(|agent| (span, agent)));
        }
        filled.undeclared = values.undeclared(&declared).map(str::to_owned);
        missing
    }
}

fn names(document: &Document) -> BTreeSet<String> {
    let variables = document.variables();
    variables.map(|variable| variable.name.clone()).collect()
}

fn without_value(name: &str, src: &str, span: Span) -> Diagnostic {
    let message = format!("the variable `{name}` of the agent {src:?} has no value");
    Diagnostic::error(DiagnosticCode::MdVariable, message, span).with_help(format!(
        "pass --var {name}=VALUE, or add a `default` to its `<var>` in {src}"
    ))
}
