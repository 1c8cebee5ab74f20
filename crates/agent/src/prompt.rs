//! A ChatMD document as something that can be run.

use std::collections::BTreeSet;
use std::sync::Arc;

use chatmd::{Config, Document, Element as DocumentElement, ToolDecl, ToolKind, World, evaluate};
use logue_message::{ChatMessage, Repair, Role, ToolCall, repair_history};
use logue_model::Settings;
use logue_source::{Code, Diagnostic};
use logue_tools::{Builtin, Roots, ShellOptions, ShellTool, Tool, Toolbox};

use crate::element::Element;

/// What a run needs of a document.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The settings that the document names.
    pub config: Config,
    /// The tools that it declares.
    pub tools: Vec<ToolDecl>,
    /// The conversation so far.
    pub messages: Vec<ChatMessage>,
    /// Everything that was found wrong or worth knowing, of parsing, typing and evaluating, in the
    /// order of the text. A prompt with an error cannot be run.
    pub diagnostics: Vec<Diagnostic>,
    reasoning_count: usize,
}

impl Prompt {
    /// Reads a document and evaluates it against the world. Never fails: what is wrong is among the
    /// diagnostics, and a document that does not parse is not evaluated.
    pub fn load(text: &str, world: &mut dyn World) -> Self {
        let tree = chatmd::parse(text);
        let (document, typed) = Document::from_tree(&tree);
        let mut diagnostics = tree.diagnostics().to_vec();
        diagnostics.extend(typed);
        let mut prompt = Self {
            config: Config::default(),
            tools: Vec::new(),
            messages: Vec::new(),
            diagnostics,
            reasoning_count: 0,
        };
        if !prompt.diagnostics.iter().any(Diagnostic::is_error) {
            let evaluation = evaluate(&document, world);
            prompt.config = evaluation.config;
            prompt.tools = evaluation.tools;
            prompt.messages = evaluation.messages;
            prompt.diagnostics.extend(evaluation.diagnostics);
        }
        prompt.reasoning_count = document
            .elements
            .iter()
            .filter(|element| matches!(element, DocumentElement::Reasoning(_)))
            .count();
        prompt
            .diagnostics
            .sort_by_key(|diagnostic| diagnostic.primary.start);
        prompt
    }

    /// The sampling settings.
    pub fn settings(&self) -> Settings {
        Settings {
            temperature: self.config.temperature,
            max_tokens: self.config.max_tokens,
            reasoning_effort: self.config.reasoning_effort.clone(),
        }
    }

    /// How many reasoning records the document holds.
    pub fn reasoning_count(&self) -> usize {
        self.reasoning_count
    }

    /// The responses that the last answer lacks: a run was interrupted between a call and its
    /// result. Each says that the outcome is unknown (`E-TOOL-CANCELLED`); appending them makes the
    /// history valid again.
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
                Repair::Cancelled { call_id, .. } => Some(call_id.as_str()),
                _ => None,
            })
            .collect();
        let answer = |call: &ToolCall| {
            let answers = |message: &&ChatMessage| message.tool_call_id.as_ref() == Some(&call.id);
            let text = history.iter().rev().find(answers)?.text();
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

/// The tools that a prompt declares, ready to run.
///
/// # Errors
/// A declaration that cannot be run, with its position.
pub fn toolbox(
    prompt: &Prompt,
    roots: &Arc<Roots>,
    shell: &ShellOptions,
) -> Result<Toolbox, Box<Diagnostic>> {
    let mut toolbox = Toolbox::new();
    for declaration in &prompt.tools {
        let refused = |code: Code, message: String| {
            Box::new(Diagnostic::error(code, message, declaration.span))
        };
        let tool: Arc<dyn Tool> = match &declaration.kind {
            ToolKind::Builtin { name } => match Builtin::declared(name) {
                Some(builtin) => builtin.tool(Arc::clone(roots)),
                // A built-in that only another program has was warned of. It is not offered, and a
                // call of it is refused like that of any undeclared tool.
                None => continue,
            },
            ToolKind::Command {
                name,
                command,
                description,
            } => Arc::new(ShellTool::new(
                name,
                command,
                description.as_deref(),
                roots.base().to_owned(),
                shell.clone(),
            )),
            _ => {
                let message = "tools of this kind cannot be run yet".to_owned();
                return Err(refused(Code::MdUnsupported, message));
            }
        };
        toolbox
            .add(tool)
            .map_err(|error| refused(Code::MdDuplicateTool, error.to_string()))?;
    }
    Ok(toolbox)
}
