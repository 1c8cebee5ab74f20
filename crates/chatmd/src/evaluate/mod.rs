//! Evaluation: from the typed view to the messages that a model receives.

mod content_builder;
mod evaluation;
mod evaluator;
mod messages;
mod request;

pub use evaluation::Evaluation;
pub use evaluator::{Evaluator, evaluate};
pub use request::{EvaluationRequest, EvaluationResponse, RequestId, RequestKind};
