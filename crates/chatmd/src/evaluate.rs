//! The typed view to what a model is sent: settings, tools, messages.
//!
//! Evaluation needs things that only the world has: the text of documents, pictures, the answers of
//! agents. It asks for them as data. An [`Evaluator`] says what it needs, is told, and says what it
//! needs next, so whoever drives it decides how to get things and how many at once;
//! [`evaluate()`] is the driver that asks a [`World`] one by one.

mod content_builder;
mod messages;

use std::collections::{BTreeMap, BTreeSet};

use logue_message::{ChatMessage, ContentBlock};
use logue_source::{Diagnostic, Span};

use crate::declaration::ToolDecl;
use crate::document::{Agent, Config, ContentItem, Document, Element};
use crate::world::{
    AgentRequest, DocumentRequest, DocumentText, ImageData, ImageRequest, World, WorldError,
};
use content_builder::ContentBuilder;
use messages::Assembler;

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
/// Findings of [`Document::from_tree`] are not repeated. An import that is still in the document is
/// an error: [`crate::load()`] expands them. Linear in the size of the document and of what the
/// world gives.
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
    let mut evaluator = Evaluator::new(document);
    loop {
        let requests = evaluator.requests();
        if requests.is_empty() {
            return evaluator.finish();
        }
        for request in requests {
            let response = match &request.kind {
                RequestKind::Document(asked) => {
                    world.document(asked).map(EvaluationResponse::Document)
                }
                RequestKind::Image(asked) => world.image(asked).map(EvaluationResponse::Image),
                RequestKind::Agent(asked) => world.agent(asked).map(EvaluationResponse::Agent),
            };
            evaluator.resolve(request.id, response);
        }
    }
}

/// Something that evaluation needs.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationRequest<'d> {
    /// To be handed back with the answer.
    pub id: RequestId,
    /// The element that needs it.
    pub span: Span,
    /// What is needed.
    pub kind: RequestKind<'d>,
}

/// Names one request of one evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(usize);

/// What is needed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RequestKind<'d> {
    /// The text of a document (ChatMD §8.1).
    Document(DocumentRequest<'d>),
    /// A picture from a file (ChatMD §8.2).
    Image(ImageRequest<'d>),
    /// The final answer of an agent (ChatMD §8.3).
    Agent(AgentRequest<'d>),
}

/// What the world gave.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EvaluationResponse {
    /// To [`RequestKind::Document`].
    Document(DocumentText),
    /// To [`RequestKind::Image`].
    Image(ImageData),
    /// To [`RequestKind::Agent`]: what it said last.
    Agent(String),
}

/// An evaluation that waits for what it needs.
///
/// ```
/// use chatmd::{EvaluationResponse, Document, DocumentText, Evaluator};
///
/// let tree = chatmd::parse("<user><doc src=\"a.md\" local/> and <doc src=\"b.md\" local/></user>");
/// let (document, _) = Document::from_tree(&tree);
/// let mut evaluator = Evaluator::new(&document);
/// // Both can be fetched at once, in any order.
/// for request in evaluator.requests().into_iter().rev() {
///     evaluator.resolve(request.id, Ok(EvaluationResponse::Document(DocumentText::from("text".to_owned()))));
/// }
/// assert!(evaluator.requests().is_empty());
/// assert_eq!(evaluator.finish().messages[0].text(), "text and text");
/// ```
#[derive(Clone, Debug)]
pub struct Evaluator<'d> {
    document: &'d Document,
    asked: BTreeSet<RequestId>,
    responses: Responses,
}

/// What the world gave for the elements of a document.
type Responses = BTreeMap<RequestId, Result<EvaluationResponse, WorldError>>;

impl<'d> Evaluator<'d> {
    /// An evaluation that has been told nothing yet.
    pub fn new(document: &'d Document) -> Self {
        Self {
            document,
            asked: BTreeSet::new(),
            responses: BTreeMap::new(),
        }
    }

    /// What is needed and was not asked for before. The requests do not depend on one another. An
    /// agent is asked for once everything in its input is known, so when all requests are answered
    /// there may be new ones; when there are none, evaluation can be finished.
    ///
    /// Linear in the size of the document.
    pub fn requests(&mut self) -> Vec<EvaluationRequest<'d>> {
        let mut requests = Vec::new();
        for element in &self.document.elements {
            match element {
                Element::Message(message) => self.needs(&message.content, &mut requests),
                Element::ToolCall(call) => self.needs(&call.content, &mut requests),
                Element::ToolResponse(response) => self.needs(&response.content, &mut requests),
                _ => true,
            };
        }
        self.asked.extend(requests.iter().map(|request| request.id));
        requests
    }

    /// Tells what a request gave.
    pub fn resolve(&mut self, id: RequestId, response: Result<EvaluationResponse, WorldError>) {
        self.responses.insert(id, response);
    }

    /// The evaluation from what it was told. What it was not told is an error at its place.
    pub fn finish(self) -> Evaluation {
        Assembler::new(&self.responses).assemble(self.document)
    }

    /// Adds what the items need, and says whether nothing is missing. Agents nest at most
    /// [`crate::MAX_AGENT_DEPTH`] deep.
    fn needs(&self, items: &'d [ContentItem], requests: &mut Vec<EvaluationRequest<'d>>) -> bool {
        let mut complete = true;
        for item in items {
            let kind = match item {
                ContentItem::Doc(doc) if !doc.src.is_empty() => {
                    RequestKind::Document(DocumentRequest {
                        src: &doc.src,
                        local: doc.local,
                        strip: doc.strip,
                        markdown: doc.markdown,
                    })
                }
                ContentItem::Img(img) if img.local && !img.src.is_empty() => {
                    RequestKind::Image(ImageRequest { src: &img.src })
                }
                ContentItem::Agent(agent) if !agent.src.is_empty() => {
                    if !self.needs(&agent.content, requests) {
                        complete = false;
                        continue;
                    }
                    if self.asked.contains(&id_of(item)) {
                        complete &= self.responses.contains_key(&id_of(item));
                        continue;
                    }
                    RequestKind::Agent(self.agent(agent))
                }
                _ => continue,
            };
            let id = id_of(item);
            complete &= self.responses.contains_key(&id);
            if !self.asked.contains(&id) {
                let span = item.span();
                requests.push(EvaluationRequest { id, span, kind });
            }
        }
        complete
    }

    fn agent(&self, agent: &'d Agent) -> AgentRequest<'d> {
        let mut builder = ContentBuilder::new(&self.responses, None);
        builder.content(&agent.content);
        let blank = builder.is_blank();
        AgentRequest {
            src: &agent.src,
            local: agent.local,
            input: if blank {
                Vec::new()
            } else {
                builder.into_blocks()
            },
        }
    }
}

/// Every item begins at an address of its own.
fn id_of(item: &ContentItem) -> RequestId {
    RequestId(item.span().start)
}

/// What an agent is told, as one text; pictures are left out.
pub(crate) fn text_of(blocks: &[ContentBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
