//! Conversion of elements to messages.
//!
//! One response of the model is written as several elements, in the order reasoning, text, calls.
//! They become one assistant message. An element out of that order, or of another role, begins the
//! next message, unless it has the attribute `continued`.

use std::collections::{BTreeMap, BTreeSet};

use logue_message::{ChatMessage, Content, ContentBlock, ToolCall};
use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::document::content::ContentItem;
use crate::document::element::{
    Document, Element, MessageElement, MessageRole, ReasoningElement, ToolCallElement,
    ToolResponseElement,
};
use crate::document::tool::{BuiltinDeclaration, ToolDecl, ToolKind};
use crate::evaluate::content_builder::{ContentBuilder, text_of};
use crate::evaluate::evaluation::Evaluation;
use crate::evaluate::request::Responses;
use crate::findings::Findings;
use crate::syntax::whitespace::is_blank;
use crate::write::{COMMENTARY, INTERRUPTED, is_reasoning_id};

/// Assembles messages from the elements of a document and the responses of the world.
pub(super) struct Assembler<'d, 'a> {
    responses: &'a Responses,
    findings: Findings,
    messages: Vec<ChatMessage>,
    /// The response of the model that is being assembled.
    response: Response<'d>,
    /// Function names of the preceding calls, by call id.
    functions: BTreeMap<&'d str, &'d str>,
}

#[derive(Default)]
struct Response<'d> {
    /// Reasoning and text.
    blocks: Vec<ContentBlock>,
    has_text: bool,
    name: Option<String>,
    calls: Vec<ToolCall>,
    /// Elements of white space, which count only next to other content.
    blank: Vec<&'d MessageElement>,
    /// Whether it is only the beginning of an answer.
    is_interrupted: bool,
    /// The phase of its text, other than that of a preamble.
    phase: Option<String>,
}

impl Response<'_> {
    /// Returns whether further reasoning or text belongs to this response.
    ///
    /// `continued` is the attribute of the further element.
    fn accepts(&self, continued: bool) -> bool {
        self.calls.is_empty() && (continued || !self.has_text)
    }

    /// Returns whether it contains a call or text other than white space.
    fn has_content(&self) -> bool {
        !self.calls.is_empty()
            || self
                .blocks
                .iter()
                .any(|block| matches!(block, ContentBlock::Text { text, .. } if !is_blank(text)))
    }

    fn into_message(mut self) -> ChatMessage {
        let content = match self.blocks.as_mut_slice() {
            [] => Content::Absent,
            [
                ContentBlock::Text {
                    text,
                    signature: None,
                    preamble: false,
                },
            ] => Content::Text(std::mem::take(text)),
            _ => Content::Blocks(self.blocks),
        };
        let mut message = ChatMessage::assistant(content).with_tool_calls(self.calls);
        message.name = self.name;
        message.interrupted = self.is_interrupted;
        message.phase = self.phase;
        message
    }
}

impl<'d, 'a> Assembler<'d, 'a> {
    pub(super) fn new(responses: &'a Responses) -> Self {
        Self {
            responses,
            findings: Findings::default(),
            messages: Vec::new(),
            response: Response::default(),
            functions: BTreeMap::new(),
        }
    }

    pub(super) fn assemble(mut self, document: &'d Document) -> Evaluation {
        for element in &document.elements {
            self.element(element);
        }
        self.end_response();
        let tools = tools(document);
        Evaluation {
            config: document.config().cloned().unwrap_or_default(),
            tools,
            messages: self.messages,
            diagnostics: self.findings.finish(),
        }
    }

    fn element(&mut self, element: &'d Element) {
        match element {
            Element::Config(_)
            | Element::Tool(_)
            | Element::Variable(_)
            | Element::ShellAccess(_) => {}
            Element::Message(message) => self.message(message),
            Element::ToolCall(call) => self.tool_call(call),
            Element::ToolResponse(response) => self.tool_response(response),
            Element::Reasoning(reasoning) => self.reasoning(reasoning),
            Element::Import(import) => self.unsupported("imports", import.span),
        }
    }

    fn end_response(&mut self) {
        let mut response = std::mem::take(&mut self.response);
        if !response.has_content() {
            response.blocks.retain(ContentBlock::is_reasoning);
            for message in std::mem::take(&mut response.blank) {
                self.left_out(message);
            }
        }
        if !response.blocks.is_empty() || !response.calls.is_empty() {
            self.messages.push(response.into_message());
        }
    }

    fn message(&mut self, message: &'d MessageElement) {
        if message.role != MessageRole::Assistant || !self.response.accepts(message.continued) {
            self.end_response();
        }
        let mut builder = ContentBuilder::new(self.responses, Some(&mut self.findings));
        builder.content(&message.content);
        if builder.is_blank() {
            if message.role != MessageRole::Assistant || !is_deliberate(message) {
                self.left_out(message);
                return;
            }
            self.response.blank.push(message);
        }
        let content = builder.into_content();
        let mut evaluated = match message.role {
            MessageRole::User => ChatMessage::user(content),
            MessageRole::Assistant => {
                let text = self.only_text(content, message.opener);
                self.response.has_text = true;
                self.response.blocks.push(ContentBlock::Text {
                    text,
                    signature: message.signature.clone(),
                    preamble: message.phase.as_deref() == Some(COMMENTARY),
                });
                let phase = message.phase.as_ref();
                if let Some(phase) = phase.filter(|phase| *phase != COMMENTARY) {
                    self.response.phase = Some(phase.clone());
                }
                if message.name.is_some() {
                    self.response.name.clone_from(&message.name);
                }
                if message.status.as_deref() == Some(INTERRUPTED) {
                    self.response.is_interrupted = true;
                    // What follows is another answer.
                    self.end_response();
                }
                return;
            }
            MessageRole::System => ChatMessage::system(self.only_text(content, message.opener)),
            MessageRole::Developer => {
                ChatMessage::developer(self.only_text(content, message.opener))
            }
        };
        evaluated.name.clone_from(&message.name);
        self.messages.push(evaluated);
    }

    /// Returns the text of content that must not contain images.
    fn only_text(&mut self, content: Content, place: Span) -> String {
        match content {
            Content::Absent => String::new(),
            Content::Text(text) => text,
            Content::Blocks(blocks) => {
                self.findings.push(
                    Diagnostic::warning(
                        DiagnosticCode::ContentDropped,
                        "images in this element are not sent to the model",
                        place,
                    )
                    .with_help("move them to a `<user>` message"),
                );
                text_of(&blocks)
            }
        }
    }

    /// Warns about an empty message, unless missing data is already reported.
    fn left_out(&mut self, message: &MessageElement) {
        if message
            .content
            .iter()
            .all(|item| matches!(item, ContentItem::Text(_)))
        {
            self.findings.push(
                Diagnostic::warning(
                    DiagnosticCode::ContentDropped,
                    format!(
                        "empty {} message is not sent to the model",
                        message.role.as_str()
                    ),
                    message.opener,
                )
                .with_help("add content, or remove it"),
            );
        }
    }

    fn reasoning(&mut self, reasoning: &ReasoningElement) {
        if !self.response.accepts(reasoning.continued) {
            self.end_response();
        }
        let summaries: Vec<&str> = reasoning
            .summaries
            .iter()
            .map(|summary| summary.text.as_str())
            .collect();
        let text = summaries.join("\n\n");
        let signature = reasoning.signature.clone();
        // A block must have content, which a record without summaries lacks.
        if !text.is_empty() || signature.is_some() {
            let id = reasoning.id.clone();
            self.response.blocks.push(ContentBlock::Thinking {
                text,
                signature,
                id: id.filter(|id| reasoning.provider_id || !is_reasoning_id(id)),
            });
        }
        if let Some(data) = reasoning.encrypted.clone() {
            self.response
                .blocks
                .push(ContentBlock::RedactedThinking { data });
        }
    }

    fn tool_call(&mut self, call: &'d ToolCallElement) {
        self.functions
            .insert(&call.tool_call_id, &call.function_name);
        let arguments = self.payload(&call.content);
        let arguments = self.only_text(arguments, call.opener);
        self.response.calls.push(
            ToolCall::new(
                call.tool_call_id.clone(),
                call.function_name.clone(),
                arguments,
            )
            .with_kind(call.kind)
            .with_signature(call.signature.clone()),
        );
    }

    fn tool_response(&mut self, response: &ToolResponseElement) {
        self.end_response();
        let content = self.payload(&response.content);
        let Some(id) = &response.tool_call_id else {
            return;
        };
        let mut message = ChatMessage::tool(id.clone(), content);
        message.name = self
            .functions
            .get(id.as_str())
            .map(|name| (*name).to_owned());
        self.messages.push(message);
    }

    /// Returns the content of a payload.
    fn payload(&mut self, items: &[ContentItem]) -> Content {
        let mut builder = ContentBuilder::new(self.responses, Some(&mut self.findings));
        builder.payload(items);
        builder.into_content()
    }

    fn unsupported(&mut self, what: &str, span: Span) {
        self.findings.push(
            Diagnostic::error(
                DiagnosticCode::MdUnsupported,
                format!("{what} are not supported by this version"),
                span,
            )
            .with_help("remove it to run the prompt"),
        );
    }
}

/// Returns whether white space is the content of an assistant element instead of its layout.
///
/// It is content inside a RAW block, or if the provider signed it.
fn is_deliberate(message: &MessageElement) -> bool {
    let [ContentItem::Text(text)] = message.content.as_slice() else {
        return false;
    };
    text.payload
        .as_ref()
        .is_some_and(|payload| !payload.is_empty() || message.signature.is_some())
}

/// Returns the tools to offer, each name once; a server names its own tools.
fn tools(document: &Document) -> Vec<ToolDecl> {
    let mut names = BTreeSet::new();
    let mut tools = Vec::new();
    for tool in document.tools() {
        if matches!(&tool.kind, ToolKind::Builtin { name } if BuiltinDeclaration::find(name).is_none())
        {
            continue;
        }
        let exposed = tool.exposed_names();
        if !exposed.iter().any(|name| names.contains(name)) {
            names.extend(exposed);
            tools.push(tool.clone());
        }
    }
    tools
}
