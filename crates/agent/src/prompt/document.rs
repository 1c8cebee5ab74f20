//! Evaluated prompts and their tools.

use std::collections::BTreeMap;

use std::collections::BTreeSet;

use chatmd::{
    Config, Document, Element as DocumentElement, Evaluation, ExpandedDocument, SourcePart,
    ToolDecl, ToolKind, World, evaluate, load, source_map,
};
use logue_message::{ChatMessage, HistoryRepair, Role, ToolCall, repair_history};
use logue_model::SamplingSettings;
use logue_source::{Diagnostic, DiagnosticCode, SourceMap};
use logue_tools::{ToolResult, envelope};

use crate::prompt::openchatml_prompt::Transcribed;
use crate::prompt::variables::{FilledVariables, VariableValues};
use crate::transcript::item::TranscriptItem;

/// An evaluated prompt.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The settings of the prompt.
    pub config: Config,
    /// The tools that it declares.
    pub tools: Vec<ToolDecl>,
    /// The conversation so far.
    pub messages: Vec<ChatMessage>,
    /// Diagnostics of parsing, typing and evaluation, in the order of the text.
    ///
    /// A prompt with an error cannot be run.
    pub diagnostics: Vec<Diagnostic>,
    parts: Vec<SourcePart<'static>>,
    reasoning_count: usize,
    transcribed: Option<Box<Transcribed>>,
    /// Whether only causes that may pass prevented the responses of agents.
    is_transient: bool,
    pub(crate) variables: Box<FilledVariables>,
}

impl Prompt {
    /// Reads a document with its imports and evaluates it, one request after the other.
    ///
    /// [`PromptScope::load`](crate::PromptScope::load) requests everything at once. It never fails: errors are among the
    /// diagnostics, and a document that does not parse is not evaluated.
    pub fn load(name: &str, text: &str, world: &mut dyn World) -> Self {
        let loaded = load(name, text, world);
        if loaded.has_errors() {
            return Self::unevaluated(loaded);
        }
        let mut document = loaded.document().clone();
        let (filled, missing) = VariableValues::default().fill(&mut document);
        let evaluation = evaluate(&document, world);
        let prompt = Self::evaluated(loaded, evaluation).with_findings(missing);
        prompt.with_variables(filled)
    }

    /// Adds findings.
    pub(crate) fn with_findings(mut self, findings: Vec<Diagnostic>) -> Self {
        self.diagnostics.extend(findings);
        self.diagnostics
            .sort_by_key(|diagnostic| diagnostic.primary.start);
        self
    }

    pub(crate) fn with_variables(mut self, variables: Box<FilledVariables>) -> Self {
        self.variables = variables;
        self
    }

    /// A document with errors.
    pub(crate) fn unevaluated(loaded: ExpandedDocument<'_>) -> Self {
        Self::evaluated(loaded, Evaluation::default())
    }

    pub(crate) fn evaluated(loaded: ExpandedDocument<'_>, evaluation: Evaluation) -> Self {
        let mut diagnostics = loaded.diagnostics().to_vec();
        diagnostics.extend(evaluation.diagnostics);
        diagnostics.sort_by_key(|diagnostic| diagnostic.primary.start);
        let reasoning_count = reasoning_count(loaded.document());
        Self {
            config: evaluation.config,
            tools: evaluation.tools,
            messages: evaluation.messages,
            diagnostics,
            parts: loaded
                .into_parts()
                .into_iter()
                .map(SourcePart::into_owned)
                .collect(),
            reasoning_count,
            transcribed: None,
            is_transient: false,
            variables: Box::default(),
        }
    }

    /// Records that the failures of its agents may pass.
    pub(crate) fn with_transience(mut self, is_transient: bool) -> Self {
        self.is_transient = is_transient;
        self
    }

    /// Returns whether a later evaluation may succeed without a change.
    pub(crate) fn is_transient(&self) -> bool {
        let mut errors = self.diagnostics.iter().filter(|found| found.is_error());
        self.is_transient && errors.all(|error| error.code == DiagnosticCode::MdAgentFailed)
    }

    /// A prompt that is a transcript.
    pub(crate) fn transcribed(
        name: &str,
        text: &str,
        config: Config,
        messages: Vec<ChatMessage>,
        diagnostics: Vec<Diagnostic>,
        transcribed: Transcribed,
    ) -> Self {
        let part = SourcePart::new(name, text);
        Self {
            config,
            tools: Vec::new(),
            messages,
            diagnostics,
            parts: vec![part.into_owned()],
            reasoning_count: 0,
            transcribed: Some(Box::new(transcribed)),
            is_transient: false,
            variables: Box::default(),
        }
    }

    /// The parts that only a transcript has; `None` for a ChatMD document.
    pub(crate) fn transcript(&self) -> Option<&Transcribed> {
        self.transcribed.as_deref()
    }

    /// Returns the values that variables were given, and that the text does not record.
    ///
    /// Those of variables that only its agents declare are among them.
    pub fn given_values(&self) -> BTreeMap<String, String> {
        let mut values = self.variables.of_agents.clone();
        values.extend(self.variables.unrecorded.clone());
        values
    }

    /// Resolves the spans of the diagnostics: in the document or in its imports.
    pub fn source_map(&self) -> SourceMap<'_> {
        source_map(&self.parts)
    }

    /// The texts of the document and its imports.
    pub(crate) fn parts(&self) -> &[SourcePart<'static>] {
        &self.parts
    }

    /// Returns the files that the prompt names: its imports and its agents.
    pub(crate) fn prompt_files(&self) -> Vec<&str> {
        let imported = self.parts.iter().filter(|part| part.imported_at.is_some());
        let agents = self.tools.iter().filter_map(|tool| match &tool.kind {
            ToolKind::Agent { agent, local, .. } if *local => Some(agent.as_str()),
            _ => None,
        });
        imported.map(|part| &*part.name).chain(agents).collect()
    }

    /// The sampling settings.
    pub fn settings(&self) -> SamplingSettings {
        if let Some(transcript) = self.transcript() {
            return transcript.settings.clone();
        }
        settings_of(&self.config)
    }

    /// The number of reasoning records in the document.
    pub fn reasoning_count(&self) -> usize {
        self.reasoning_count
    }

    /// Returns the results that the last response lacks.
    ///
    /// A run was interrupted between a call and its result. Each result states that the outcome is
    /// unknown (`E-TOOL-CANCELLED`); appending them makes the history valid.
    pub fn unanswered_calls(&self) -> Vec<TranscriptItem> {
        let last = self
            .messages
            .iter()
            .rposition(|message| message.role == Role::Assistant);
        let calls: &[ToolCall] = match last {
            Some(at) => &self.messages[at].tool_calls,
            None => &[],
        };
        let (history, repairs) = repair_history(self.messages.clone());
        let cancelled: BTreeSet<&str> = repairs
            .iter()
            .filter_map(|repair| match repair {
                HistoryRepair::Cancelled { call_id, .. } => Some(call_id.as_str()),
                _ => None,
            })
            .collect();
        let answer = |call: &ToolCall| {
            let answers = |message: &&ChatMessage| message.tool_call_id.as_ref() == Some(&call.id);
            let mut text = history.iter().rev().find(answers)?.text();
            if self.transcribed.is_some() {
                let code = DiagnosticCode::ToolCancelled.as_str();
                let words = text.trim_start_matches(code).trim_start_matches(": ");
                text = envelope(&ToolResult::error(code, words)).to_string();
            }
            Some(TranscriptItem::ToolResponse {
                call: call.clone(),
                text,
                images: Vec::new(),
            })
        };
        calls
            .iter()
            .filter(|call| cancelled.contains(call.id.as_str()))
            .filter_map(answer)
            .collect()
    }
}

/// Returns the sampling settings of a `<config>`.
pub(crate) fn settings_of(config: &Config) -> SamplingSettings {
    SamplingSettings::default()
        .with_temperature(config.temperature)
        .with_max_tokens(config.max_tokens)
        .with_reasoning_effort(config.reasoning_effort.clone())
        .with_top_p(config.top_p)
        .with_seed(config.seed)
        .with_stop(config.stop.clone())
}

fn reasoning_count(document: &Document) -> usize {
    let is_reasoning =
        |element: &&DocumentElement| matches!(element, DocumentElement::Reasoning(_));
    document.elements.iter().filter(is_reasoning).count()
}
