//! Evaluation of a typed view: settings, tools and messages of a model request.
//!
//! Evaluation needs external data: the text of documents, images, the answers of agents. An
//! [`Evaluator`] returns requests for them, receives responses, and returns further requests. Its
//! driver decides how to fetch the data, and how much in parallel. [`evaluate()`] is the driver
//! that queries a [`World`] sequentially.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::content::{AgentElement, ContentItem};
use crate::document::element::{Document, Element};
use crate::evaluate::content_builder::ContentBuilder;
use crate::evaluate::evaluation::Evaluation;
use crate::evaluate::messages::Assembler;
use crate::evaluate::request::{
    EvaluationRequest, EvaluationResponse, RequestId, RequestKind, Responses, id_of,
};
use crate::world::error::WorldError;
use crate::world::port::{AgentRequest, DocumentRequest, ImageRequest, World};

/// Evaluates a document: fetches its references and builds its messages (ChatMD §6–§8).
///
/// Text stays verbatim, with one exception: content of a RAW block with white space around it is
/// the content of the block. In tool calls and responses white space around a block or a `<doc>` is
/// omitted too, so that a payload keeps every byte. A message of white space is omitted with a
/// warning.
///
/// Findings of [`Document::from_tree`] are not repeated. An unexpanded import is an error;
/// [`crate::load()`] expands imports. Linear in the size of the document and of the responses of
/// the world.
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

/// A resumable evaluation that requests external data.
///
/// ```
/// use chatmd::{EvaluationResponse, Document, DocumentText, Evaluator};
///
/// let tree = chatmd::parse("<user><doc src=\"a.md\" local/> and <doc src=\"b.md\" local/></user>");
/// let (document, _) = Document::from_tree(&tree);
/// let mut evaluator = Evaluator::new(&document);
/// // Both can be fetched concurrently, in any order.
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
    /// Creates an evaluation without responses.
    pub fn new(document: &'d Document) -> Self {
        Self {
            document,
            asked: BTreeSet::new(),
            responses: BTreeMap::new(),
        }
    }

    /// Returns the requests that are new since the last call.
    ///
    /// They do not depend on one another. The request for an agent follows the responses for its
    /// input, so there may be new requests after all responses. Without new requests, evaluation
    /// can be finished.
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

    /// Stores the response to a request.
    pub fn resolve(&mut self, id: RequestId, response: Result<EvaluationResponse, WorldError>) {
        self.responses.insert(id, response);
    }

    /// Completes the evaluation; each missing response is an error at its element.
    pub fn finish(self) -> Evaluation {
        Assembler::new(&self.responses).assemble(self.document)
    }

    /// Adds the requests of items and returns whether all responses are present.
    ///
    /// Recursion ends at [`crate::MAX_AGENT_DEPTH`].
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

    fn agent(&self, agent: &'d AgentElement) -> AgentRequest<'d> {
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
