//! Evaluated prompts and their tools.

use std::collections::BTreeSet;
use std::sync::Arc;

use chatmd::{
    Config, Document, Element as DocumentElement, Evaluation, ExpandedDocument, SourcePart,
    ToolDecl, ToolKind, World, evaluate, load, source_map,
};
use futures_util::future::join_all;
use logue_message::{ChatMessage, HistoryRepair, Role, ToolCall, repair_history};
use logue_model::SamplingSettings;
use logue_source::{Diagnostic, DiagnosticCode, SourceMap};
use logue_tools::{
    Builtin, CommandError, ServerToolRequest, ShellOptions, ShellTool, Tool, ToolResult,
    ToolServerError, ToolServerErrorKind, ToolSource, Toolbox, envelope,
};

use crate::agents::agent_tool::AgentTool;
use crate::permission::permissions::Permissions;
use crate::prompt::environment::Surroundings;
use crate::prompt::external_tool::Declared;
use crate::prompt::openchatml_prompt::Transcribed;
use crate::transcript::item::Element;

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
}

impl Prompt {
    /// Reads a document with its imports and evaluates it, one request after the other.
    ///
    /// [`Surroundings::load`] requests everything at once. It never fails: errors are among the
    /// diagnostics, and a document that does not parse is not evaluated.
    pub fn load(name: &str, text: &str, world: &mut dyn World) -> Self {
        let loaded = load(name, text, world);
        if loaded.has_errors() {
            return Self::unevaluated(loaded);
        }
        let evaluation = evaluate(loaded.document(), world);
        Self::evaluated(loaded, evaluation)
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
        }
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
        }
    }

    /// The parts that only a transcript has; `None` for a ChatMD document.
    pub(crate) fn transcript(&self) -> Option<&Transcribed> {
        self.transcribed.as_deref()
    }

    /// Resolves the spans of the diagnostics: in the document or in its imports.
    pub fn source_map(&self) -> SourceMap<'_> {
        source_map(&self.parts)
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
        SamplingSettings {
            temperature: self.config.temperature,
            max_tokens: self.config.max_tokens,
            reasoning_effort: self.config.reasoning_effort.clone(),
            ..SamplingSettings::default()
        }
    }

    /// The number of reasoning records in the document.
    pub fn reasoning_count(&self) -> usize {
        self.reasoning_count
    }

    /// Returns the results that the last response lacks.
    ///
    /// A run was interrupted between a call and its result. Each result states that the outcome is
    /// unknown (`E-TOOL-CANCELLED`); appending them makes the history valid.
    pub fn unanswered_calls(&self) -> Vec<Element> {
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
            Some(Element::ToolResponse {
                call: call.clone(),
                text,
            })
        };
        calls
            .iter()
            .filter(|call| cancelled.contains(call.id.as_str()))
            .filter_map(answer)
            .collect()
    }
}

/// Sets up the tools that a prompt declares.
///
/// Servers list their tools, all at once, and only if the prompt is trusted: a server is started
/// for that.
///
/// # Errors
/// Returns the first declaration that cannot be used, with its position.
pub async fn toolbox(
    prompt: &Prompt,
    surroundings: &Surroundings,
    permissions: &Permissions,
) -> Result<Toolbox, Box<Diagnostic>> {
    let roots = surroundings.world.roots();
    let reach = surroundings.reach(prompt);
    let mut toolbox = Toolbox::new();
    let is_server = |tool: &&ToolDecl| matches!(tool.kind, ToolKind::McpServer { .. });
    // Listing its tools starts a server, before any call could be approved.
    if let Some(server) = prompt.tools.iter().find(is_server)
        && !permissions.trusts_prompt()
    {
        let message = "the prompt is not trusted, so the server that it declares is not used";
        let refused = Diagnostic::error(DiagnosticCode::McpServerNotTrusted, message, server.span);
        return Err(Box::new(refused.with_help(
            "look at what it declares, then `logue trust FILE`, or --trust for this run",
        )));
    }
    let mut sources = sources(prompt, surroundings).await.into_iter();
    for declaration in &prompt.tools {
        let refused = |code: DiagnosticCode, message: String| {
            Box::new(Diagnostic::error(code, message, declaration.span))
        };
        let tool: Arc<dyn Tool> = match &declaration.kind {
            ToolKind::Builtin { name } => {
                // A built-in of another program was reported as a warning. It is not offered, and a
                // call of it is refused like that of an undeclared tool.
                for builtin in Builtin::named(name).unwrap_or_default() {
                    if builtin == Builtin::Python {
                        let options = surroundings.shell.of("python");
                        confined(options)
                            .map_err(|error| refused(DiagnosticCode::SandboxUnavailable, error))?;
                    }
                    toolbox.add(builtin.tool(&reach)).map_err(|error| {
                        refused(DiagnosticCode::MdDuplicateTool, error.to_string())
                    })?;
                }
                continue;
            }
            ToolKind::Command {
                name,
                command,
                description,
            } => {
                let options = surroundings.shell.of(name).clone();
                confined(&options)
                    .map_err(|error| refused(DiagnosticCode::SandboxUnavailable, error))?;
                let tool = ShellTool::new(name, command, description.as_deref(), roots, options);
                let invalid = |error: CommandError| {
                    refused(DiagnosticCode::MdToolDeclaration, error.to_string())
                };
                Arc::new(tool.map_err(invalid)?)
            }
            ToolKind::Agent {
                name,
                agent,
                local,
                description,
            } => Arc::new(AgentTool::new(
                name,
                description.as_deref(),
                agent,
                *local,
                surroundings.clone(),
            )),
            ToolKind::McpServer { .. } => {
                match sources.next() {
                    Some(Ok(source)) => toolbox.add_source(source),
                    Some(Err(error)) => {
                        let code = match error.kind {
                            ToolServerErrorKind::Denied => DiagnosticCode::NetworkDenied,
                            ToolServerErrorKind::Address => DiagnosticCode::McpDeclarationInvalid,
                            _ => DiagnosticCode::McpToolNotFound,
                        };
                        let refused = refused(code, error.message);
                        let help = error.help.into_iter();
                        return Err(Box::new(help.fold(*refused, Diagnostic::with_help)));
                    }
                    None => {
                        let message = "servers of tools are not connected to here".to_owned();
                        return Err(refused(DiagnosticCode::MdUnsupported, message));
                    }
                }
                continue;
            }
            _ => {
                let message = "tools of this kind cannot be run yet".to_owned();
                return Err(refused(DiagnosticCode::MdUnsupported, message));
            }
        };
        toolbox
            .add(tool)
            .map_err(|error| refused(DiagnosticCode::MdDuplicateTool, error.to_string()))?;
    }
    if let Some(transcript) = prompt.transcript() {
        let builtins = transcript.builtins.iter();
        let builtins = builtins.map(|builtin| builtin.tool(&reach));
        let functions = transcript.functions.iter().cloned();
        let functions = functions.map(|function| Arc::new(Declared(function)) as Arc<dyn Tool>);
        for tool in builtins.chain(functions) {
            // A function that is declared and built in is run by the built-in.
            drop(toolbox.add(tool));
        }
    }
    Ok(toolbox)
}

/// Checks that programs with these options can be run.
fn confined(options: &ShellOptions) -> Result<(), String> {
    let checked = options.sandbox.check();
    checked.map_err(|error| error.to_string())
}

/// Connects to the servers of a prompt, in the order of their declarations.
///
/// Returns nothing if servers are off.
async fn sources(
    prompt: &Prompt,
    surroundings: &Surroundings,
) -> Vec<Result<Arc<dyn ToolSource>, ToolServerError>> {
    let Some(servers) = &surroundings.servers else {
        return Vec::new();
    };
    let roots = surroundings.world.roots();
    let wanted: Vec<ServerToolRequest> = prompt
        .tools
        .iter()
        .filter_map(|declaration| match &declaration.kind {
            ToolKind::McpServer {
                server,
                names,
                strict,
            } => Some(ServerToolRequest {
                server: server.clone(),
                names: names.clone(),
                strict: *strict,
                folder: roots.base().to_owned(),
                roots: roots.folders().to_vec(),
            }),
            _ => None,
        })
        .collect();
    join_all(wanted.iter().map(|wanted| servers.source(wanted))).await
}

fn reasoning_count(document: &Document) -> usize {
    let is_reasoning =
        |element: &&DocumentElement| matches!(element, DocumentElement::Reasoning(_));
    document.elements.iter().filter(is_reasoning).count()
}
