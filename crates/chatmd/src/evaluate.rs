//! The typed view to what a model is sent: settings, tools, messages.
//!
//! One response of the model is written as several elements, in the order reasoning, text, calls.
//! They become one assistant message; an element out of that order, or of another speaker, begins
//! the next message.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use logue_message::{Arguments, Block, ChatMessage, Content, ToolCall};
use logue_source::{Code, Diagnostic, Span};

use crate::blank::is_blank;
use crate::declaration::{Builtin, ToolDecl, ToolKind};
use crate::document::{
    Config, Doc, Document, Element, Item, Message, Reasoning, Speaker, Text, ToolCallElement,
    ToolResponseElement,
};
use crate::findings::Findings;
use crate::world::{DocRequest, World};

/// What a document means.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Evaluation {
    /// The settings; all empty without a `<config>`.
    pub config: Config,
    /// The tools that the model may call, without those that have an error. A built-in that only
    /// exists elsewhere is among them, to be refused by name.
    pub tools: Vec<ToolDecl>,
    /// The conversation.
    pub messages: Vec<ChatMessage>,
    /// What could not be evaluated (errors) and what was left out (warnings).
    pub diagnostics: Vec<Diagnostic>,
}

impl Evaluation {
    /// Whether a diagnostic is an error: the messages then lack something.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Evaluates a document: fetches its documents and makes messages of its elements (ChatMD §6–§8).
///
/// Text is kept as it stands in the file, with one exception: where content is a RAW block and
/// white space around it, it is what the block says. In tool calls and responses white space around
/// a block or a `<doc>` is left out too, so that a payload comes back byte by byte. A message of
/// nothing but white space is left out with a warning.
///
/// Findings of [`Document::from_tree`] are not repeated. Linear in the size of the document and of
/// what the world gives.
///
/// ```
/// use chatmd::{Document, MemoryWorld, evaluate};
///
/// let tree = chatmd::parse("<user>Sum up: <doc src=\"a.md\" local/></user>");
/// let (document, _) = Document::from_tree(&tree);
/// let mut world = MemoryWorld::new().with("a.md", "Snow fell.");
/// let evaluation = evaluate(&document, &mut world);
/// assert_eq!(evaluation.messages[0].text(), "Sum up: Snow fell.");
/// ```
pub fn evaluate(document: &Document, world: &mut dyn World) -> Evaluation {
    let mut evaluator = Evaluator {
        world,
        findings: Findings::default(),
        messages: Vec::new(),
        response: Response::default(),
        functions: BTreeMap::new(),
    };
    for element in &document.elements {
        evaluator.element(element);
    }
    evaluator.end_response();
    let tools = evaluator.tools(document);
    Evaluation {
        config: document.config().cloned().unwrap_or_default(),
        tools,
        messages: evaluator.messages,
        diagnostics: evaluator.findings.finish(),
    }
}

struct Evaluator<'d, 'w> {
    world: &'w mut dyn World,
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

impl<'d> Evaluator<'d, '_> {
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
        let text = self.said(&message.content);
        if is_blank(&text) {
            self.left_out(message);
            return;
        }
        let evaluated = match message.speaker {
            Speaker::Assistant => {
                self.response.text = Some(text);
                self.response.name.clone_from(&message.name);
                return;
            }
            Speaker::User => ChatMessage::user(text),
            Speaker::System => ChatMessage::system(text),
            Speaker::Developer => ChatMessage::developer(text),
        };
        self.messages.push(ChatMessage {
            name: message.name.clone(),
            ..evaluated
        });
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
        let arguments = self.payload(&call.content);
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

    /// What a message says.
    fn said(&mut self, items: &[Item]) -> String {
        if let [
            Item::Text(Text {
                payload: Some(payload),
                ..
            }),
        ] = items
        {
            return payload.clone();
        }
        let mut said = String::new();
        for item in items {
            self.item(item, false, &mut said);
        }
        said
    }

    /// What a payload holds: white space around blocks and documents is layout.
    fn payload(&mut self, items: &[Item]) -> String {
        let laid_out = items.iter().any(|item| match item {
            Item::Text(text) => text.payload.is_some(),
            _ => true,
        });
        let mut payload = String::new();
        for item in items {
            self.item(item, laid_out, &mut payload);
        }
        payload
    }

    fn item(&mut self, item: &Item, laid_out: bool, out: &mut String) {
        match item {
            Item::Text(text) if laid_out => match &text.payload {
                Some(payload) => out.push_str(payload),
                None if is_blank(&text.text) => {}
                None => out.push_str(&text.text),
            },
            Item::Text(text) => out.push_str(&text.text),
            Item::Doc(doc) => self.doc(doc, out),
            Item::Img(img) => self.unsupported("pictures", img.span),
            Item::Agent(agent) => self.unsupported("agents", agent.span),
            Item::Import(import) => self.unsupported("imports", import.span),
        }
    }

    fn doc(&mut self, doc: &Doc, out: &mut String) {
        // The view has reported it.
        if doc.src.is_empty() {
            return;
        }
        if !doc.local {
            self.unsupported("remote documents", doc.span);
            return;
        }
        if doc.strip || doc.markdown {
            self.unsupported("documents with `strip` or `markdown`", doc.span);
            return;
        }
        match self.world.document(&DocRequest::local(&doc.src)) {
            Ok(text) => out.push_str(&text),
            Err(error) => self.findings.push(
                Diagnostic::error(
                    error.kind.code(),
                    format!("the document {:?} cannot be read: {error}", doc.src),
                    doc.span,
                )
                .with_help("paths are relative to the folder of the prompt"),
            ),
        }
    }

    fn tools(&mut self, document: &Document) -> Vec<ToolDecl> {
        let mut names = BTreeSet::new();
        let mut tools = Vec::new();
        for tool in document.tools() {
            match &tool.kind {
                ToolKind::Builtin { name } if Builtin::find(name).is_none() => continue,
                ToolKind::Agent { .. } => {
                    self.unsupported("tools that are agents", tool.span);
                    continue;
                }
                ToolKind::McpServer { .. } => {
                    self.unsupported("tools of MCP servers", tool.span);
                    continue;
                }
                ToolKind::Builtin { .. } | ToolKind::Command { .. } => {}
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
