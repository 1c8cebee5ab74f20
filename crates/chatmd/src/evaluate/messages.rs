//! Elements to messages.
//!
//! One response of the model is written as several elements, in the order reasoning, text, calls.
//! They become one assistant message; an element out of that order, or of another speaker, begins
//! the next message.

use std::collections::{BTreeMap, BTreeSet};

use logue_message::{Arguments, Block, ChatMessage, Content, ToolCall};
use logue_source::{Code, Diagnostic, Span};

use super::saying::Saying;
use super::{Answers, Evaluation, text_of};
use crate::declaration::{Builtin, ToolDecl, ToolKind};
use crate::document::{
    Document, Element, Item, Message, Reasoning, Speaker, ToolCallElement, ToolResponseElement,
};
use crate::findings::Findings;

/// Puts the messages of a document together from its elements and what the world gave for them.
pub(super) struct Assembler<'d, 'a> {
    answers: &'a Answers,
    findings: Findings,
    messages: Vec<ChatMessage>,
    /// The model's response that is being put together.
    response: Response,
    /// The function of each call so far.
    functions: BTreeMap<&'d str, &'d str>,
}

#[derive(Default)]
struct Response {
    thinking: Vec<Block>,
    text: Option<String>,
    name: Option<String>,
    calls: Vec<ToolCall>,
}

impl Response {
    /// Whether the reasoning of this response is over.
    fn has_spoken(&self) -> bool {
        self.text.is_some() || !self.calls.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.thinking.is_empty() && !self.has_spoken()
    }

    fn into_message(self) -> ChatMessage {
        let content = match self.text {
            Some(text) if self.thinking.is_empty() => Content::Text(text),
            None if self.thinking.is_empty() => Content::Absent,
            text => {
                let mut blocks = self.thinking;
                blocks.extend(text.map(Block::text));
                Content::Blocks(blocks)
            }
        };
        let mut message = ChatMessage::assistant(content).with_tool_calls(self.calls);
        message.name = self.name;
        message
    }
}

impl<'d, 'a> Assembler<'d, 'a> {
    pub(super) fn new(answers: &'a Answers) -> Self {
        Self {
            answers,
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
        let tools = self.tools(document);
        Evaluation {
            config: document.config().cloned().unwrap_or_default(),
            tools,
            messages: self.messages,
            diagnostics: self.findings.finish(),
        }
    }

    fn element(&mut self, element: &'d Element) {
        match element {
            Element::Config(_) | Element::Tool(_) => {}
            Element::Message(message) => self.message(message),
            Element::ToolCall(call) => self.tool_call(call),
            Element::ToolResponse(response) => self.tool_response(response),
            Element::Reasoning(reasoning) => self.reasoning(reasoning),
            Element::Import(import) => self.unsupported("imports", import.span),
        }
    }

    fn end_response(&mut self) {
        let response = std::mem::take(&mut self.response);
        if !response.is_empty() {
            self.messages.push(response.into_message());
        }
    }

    fn message(&mut self, message: &'d Message) {
        if message.speaker != Speaker::Assistant || self.response.has_spoken() {
            self.end_response();
        }
        let mut said = Saying::new(self.answers, Some(&mut self.findings));
        said.content(&message.content);
        if said.is_blank() {
            self.left_out(message);
            return;
        }
        let content = said.into_content();
        let mut evaluated = match message.speaker {
            Speaker::User => ChatMessage::user(content),
            Speaker::Assistant => {
                self.response.text = Some(self.only_text(content, message.opener));
                self.response.name.clone_from(&message.name);
                return;
            }
            Speaker::System => ChatMessage::system(self.only_text(content, message.opener)),
            Speaker::Developer => ChatMessage::developer(self.only_text(content, message.opener)),
        };
        evaluated.name.clone_from(&message.name);
        self.messages.push(evaluated);
    }

    /// The words of what only a user may show pictures with.
    fn only_text(&mut self, content: Content, place: Span) -> String {
        match content {
            Content::Absent => String::new(),
            Content::Text(text) => text,
            Content::Blocks(blocks) => {
                self.findings.push(
                    Diagnostic::warning(
                        Code::ContentDropped,
                        "the model does not see the pictures in this element",
                        place,
                    )
                    .with_help("only a `<user>` message can show pictures; move them there"),
                );
                text_of(&blocks)
            }
        }
    }

    /// Warns of a message without words, unless what it lacks is already reported.
    fn left_out(&mut self, message: &Message) {
        if message
            .content
            .iter()
            .all(|item| matches!(item, Item::Text(_)))
        {
            self.findings.push(
                Diagnostic::warning(
                    Code::ContentDropped,
                    format!(
                        "the model does not see this message of the {}, because it is empty",
                        message.speaker.as_str()
                    ),
                    message.opener,
                )
                .with_help("write something into it, or remove it"),
            );
        }
    }

    fn reasoning(&mut self, reasoning: &Reasoning) {
        if self.response.has_spoken() {
            self.end_response();
        }
        let summaries: Vec<&str> = reasoning
            .summaries
            .iter()
            .map(|summary| summary.text.as_str())
            .collect();
        let text = summaries.join("\n\n");
        // A block must say something, and a record without summaries does not.
        if !text.is_empty() {
            self.response.thinking.push(Block::Thinking {
                text,
                signature: None,
                id: reasoning.id.clone(),
            });
        }
    }

    fn tool_call(&mut self, call: &'d ToolCallElement) {
        self.functions
            .insert(&call.tool_call_id, &call.function_name);
        let arguments = self.payload(&call.content, call.opener);
        self.response.calls.push(ToolCall {
            id: call.tool_call_id.clone(),
            name: call.function_name.clone(),
            arguments: Arguments::from_text(arguments),
            kind: call.kind,
            signature: None,
        });
    }

    fn tool_response(&mut self, response: &ToolResponseElement) {
        self.end_response();
        let content = self.payload(&response.content, response.opener);
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

    /// What a payload holds.
    fn payload(&mut self, items: &[Item], place: Span) -> String {
        let mut said = Saying::new(self.answers, Some(&mut self.findings));
        said.payload(items);
        let content = said.into_content();
        self.only_text(content, place)
    }

    fn tools(&mut self, document: &Document) -> Vec<ToolDecl> {
        let mut names = BTreeSet::new();
        let mut tools = Vec::new();
        for tool in document.tools() {
            match &tool.kind {
                ToolKind::Builtin { name } if Builtin::find(name).is_none() => continue,
                ToolKind::McpServer { .. } => {
                    self.unsupported("tools of MCP servers", tool.span);
                    continue;
                }
                ToolKind::Builtin { .. } | ToolKind::Command { .. } | ToolKind::Agent { .. } => {}
            }
            if tool.exposed_name().is_some_and(|name| names.insert(name)) {
                tools.push(tool.clone());
            }
        }
        tools
    }

    fn unsupported(&mut self, what: &str, span: Span) {
        self.findings.push(
            Diagnostic::error(
                Code::MdUnsupported,
                format!("{what} are not evaluated by this version"),
                span,
            )
            .with_help("remove it to run the prompt"),
        );
    }
}
