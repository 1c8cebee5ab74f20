//! The agents of a prompt, which are examined before its first request.
//!
//! A prompt with an agent that would be refused is refused, and values of variables are compared
//! with those of its agents.

use std::collections::BTreeSet;

use chatmd::{
    Document, DocumentRequest, ImageRequest, ReferenceKind, ToolDecl, ToolKind, World as _,
    WorldErrorKind, load,
};
use logue_source::{Diagnostic, DiagnosticCode, Span};
use logue_tools::{Builtin, BuiltinPower};

use crate::prompt::grants::{AgentFile, MAX_AGENTS};
use crate::prompt::scope::PromptScope;
use crate::prompt::variables::{FilledVariables, VariableValues};

impl PromptScope {
    /// Compares the values of a command with the agents of a document.
    ///
    /// The scope is that of the agents, of which those in files are read. A variable counts as
    /// declared if an agent declares it. Returns an error for each variable of an agent without a
    /// value, for each agent with an error and for each file that it lacks, at the element that
    /// leads to the agent: the run would fail at its call.
    ///
    /// A file that an agent lacks is not an error if a tool may create it before the call.
    pub(crate) fn check_agents(
        &self,
        document: &Document,
        values: &VariableValues,
        filled: &mut FilledVariables,
    ) -> Vec<Diagnostic> {
        let mut declared = names(document);
        let mut seen = BTreeSet::new();
        let mut missing = self.unreadable_agents(document);
        let mut absent = self.absent_agents(document);
        missing.append(&mut absent);
        let mut may_create = document.tools().any(may_create_files);
        let agents = self.agents_of(document).into_iter();
        let mut waiting: Vec<(Span, AgentFile)> = agents.map(|agent| (agent.span, agent)).collect();
        while let Some((span, agent)) = waiting.pop() {
            if seen.len() >= MAX_AGENTS || !seen.insert(agent.path.clone()) {
                continue;
            }
            let loaded = load(&agent.src, &agent.text, &mut agent.scope.files.clone());
            let map = loaded.source_map();
            let refusal = |error: &Diagnostic| {
                let place = map.place(error.primary.start);
                refused(error, &place, &agent.src, span)
            };
            let mut errors = loaded.diagnostics().iter();
            if let Some(error) = errors.find(|found| found.is_error()) {
                missing.push(refusal(error));
                continue;
            }
            let document = loaded.document();
            let confining = match agent.scope.confining(document.tools()) {
                Ok(confining) => confining,
                Err(error) => {
                    missing.push(refusal(&error));
                    continue;
                }
            };
            declared.extend(names(document));
            filled.of_agents.extend(values.for_document(document));
            let errors = agent.scope.variables.missing(document).into_iter();
            missing.extend(errors.map(|name| without_value(&name, &agent.src, span)));
            let inner = agent.scope.variables.for_agents_of(document);
            let confining = confining.with_variables(inner);
            let unreadable = confining.unreadable_agents(document).into_iter();
            missing.extend(unreadable.map(|error| refusal(&error)));
            may_create |= document.tools().any(may_create_files);
            let absences = confining.absent_agents(document).into_iter();
            let absences = absences.chain(agent.scope.unreadable_documents(document));
            absent.extend(absences.map(|error| refusal(&error)));
            let inner = confining.agents_of(document);
            waiting.extend(inner.into_iter().map(|agent| (span, agent)));
        }
        if !may_create {
            missing.extend(absent);
        }
        filled.undeclared = values.undeclared(&declared).map(str::to_owned);
        missing
    }
}

impl PromptScope {
    /// Returns an error for each agent in an existing file that may not be read.
    fn unreadable_agents(&self, document: &Document) -> Vec<Diagnostic> {
        self.agents_with_error(document, |kind| kind != WorldErrorKind::NotFound)
    }

    /// Returns an error for each agent in a file that does not exist.
    fn absent_agents(&self, document: &Document) -> Vec<Diagnostic> {
        self.agents_with_error(document, |kind| kind == WorldErrorKind::NotFound)
    }

    fn agents_with_error(
        &self,
        document: &Document,
        is_selected: impl Fn(WorldErrorKind) -> bool,
    ) -> Vec<Diagnostic> {
        let is_agent = |kind| matches!(kind, ReferenceKind::Agent | ReferenceKind::AgentTool);
        let named = document.references();
        let named = named.filter(|one| one.local && is_agent(one.kind));
        let errors = named.filter_map(|one| {
            let error = self.files.prompt(one.src).err()?;
            if !is_selected(error.kind) {
                return None;
            }
            let message = match one.kind {
                ReferenceKind::Agent => format!("no answer of the agent {:?}: {error}", one.src),
                _ => format!("the agent {:?} is refused: {error}", one.src),
            };
            let unreadable = Diagnostic::error(DiagnosticCode::MdAgentFailed, message, one.span);
            let help = error.help.into_iter();
            Some(help.fold(unreadable, Diagnostic::with_help))
        });
        errors.collect()
    }

    /// Returns an error for each document and image in a file that cannot be read.
    fn unreadable_documents(&self, document: &Document) -> Vec<Diagnostic> {
        let mut files = self.files.clone();
        let errors = document
            .references()
            .filter(|one| one.local)
            .filter_map(|one| {
                let read = match one.kind {
                    ReferenceKind::Document => {
                        files.document(&DocumentRequest::local(one.src)).map(drop)
                    }
                    ReferenceKind::Image => files.image(&ImageRequest::local(one.src)).map(drop),
                    _ => return None,
                };
                let error = read.err()?;
                let message = error.to_string();
                let unreadable = Diagnostic::error(error.kind.code(), message, one.span);
                let help = error.help.into_iter();
                Some(help.fold(unreadable, Diagnostic::with_help))
            });
        errors.collect()
    }
}

/// Returns whether calls of a tool may create a file that an agent names.
fn may_create_files(tool: &ToolDecl) -> bool {
    match &tool.kind {
        ToolKind::Builtin { name } => {
            let named = Builtin::named(name).unwrap_or_default();
            named
                .iter()
                .any(|builtin| builtin.power() == BuiltinPower::Writes)
        }
        ToolKind::Agent { .. } => false,
        _ => true,
    }
}

/// Returns the error of an agent whose prompt has an error at `place`.
fn refused(error: &Diagnostic, place: &str, src: &str, span: Span) -> Diagnostic {
    let cause = &error.message;
    let message = match error.code {
        DiagnosticCode::MdAgentFailed => format!("the agent {src:?} is refused: {place}: {cause}"),
        code => format!("the agent {src:?} is refused: {place}: {cause} ({code})"),
    };
    let refused = Diagnostic::error(DiagnosticCode::MdAgentFailed, message, span);
    let help = error.help.iter().cloned();
    help.fold(refused, Diagnostic::with_help)
        .with_help(format!("`logue check {src}` shows what is wrong with it"))
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
