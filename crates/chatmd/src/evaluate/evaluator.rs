//! The typed view to what a model is sent: settings, tools, messages.
//!
//! Evaluation needs things that only the world has: the text of documents, pictures, the answers of
//! agents. It asks for them as data. An [`Evaluator`] says what it needs, is told, and says what it
//! needs next, so whoever drives it decides how to get things and how many at once;
//! [`evaluate()`] is the driver that asks a [`World`] one by one.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::content::{Agent, ContentItem};
use crate::document::element::{Document, Element};
use crate::evaluate::content_builder::ContentBuilder;
use crate::evaluate::evaluation::Evaluation;
use crate::evaluate::messages::Assembler;
use crate::evaluate::request::{
    EvaluationRequest, EvaluationResponse, RequestId, RequestKind, Responses, id_of,
};
use crate::world::error::WorldError;
use crate::world::port::{AgentRequest, DocumentRequest, ImageRequest, World};

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
