//! Requests of an evaluation, and the responses to them.

use std::collections::BTreeMap;

use logue_source::Span;

use crate::document::content::ContentItem;
use crate::world::error::WorldError;
use crate::world::port::{AgentRequest, DocumentRequest, DocumentText, ImageData, ImageRequest};

/// A request of an evaluation for external data.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EvaluationRequest<'d> {
    /// Identifies the request in [`crate::Evaluator::resolve`].
    pub id: RequestId,
    /// Span of the element that requires the data.
    pub span: Span,
    /// Requested data.
    pub kind: RequestKind<'d>,
}

/// The id of one request of one evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(usize);

/// The data that a request asks for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RequestKind<'d> {
    /// The text of a document (ChatMD §8.1).
    Document(DocumentRequest<'d>),
    /// An image file (ChatMD §8.2).
    Image(ImageRequest<'d>),
    /// The final answer of an agent (ChatMD §8.3).
    Agent(AgentRequest<'d>),
}

/// The response to an [`EvaluationRequest`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EvaluationResponse {
    /// Response to [`RequestKind::Document`].
    Document(DocumentText),
    /// Response to [`RequestKind::Image`].
    Image(ImageData),
    /// Response to [`RequestKind::Agent`]: the last answer of the agent.
    Agent(String),
}

/// The responses for the elements of a document.
pub(super) type Responses = BTreeMap<RequestId, Result<EvaluationResponse, WorldError>>;

/// Returns the request id of an item, which is its unique start address.
pub(super) fn id_of(item: &ContentItem) -> RequestId {
    RequestId(item.span().start)
}
