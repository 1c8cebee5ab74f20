//! Requests of an evaluation, and the responses to them.

use std::collections::BTreeMap;

use logue_source::Span;

use crate::document::content::ContentItem;
use crate::world::error::WorldError;
use crate::world::port::{AgentRequest, DocumentRequest, DocumentText, ImageData, ImageRequest};

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

/// What the world gave for the elements of a document.
pub(super) type Responses = BTreeMap<RequestId, Result<EvaluationResponse, WorldError>>;

/// Every item begins at an address of its own.
pub(super) fn id_of(item: &ContentItem) -> RequestId {
    RequestId(item.span().start)
}
