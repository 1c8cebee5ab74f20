//! What reading and evaluating a document ask of the world outside it.
//!
//! The crate itself reads nothing. Whoever evaluates a document hands in a [`World`], or drives an
//! [`crate::Evaluator`] with answers from elsewhere;
//! [`MemoryWorld`] is the one for tests and examples.

pub(crate) mod error;
mod memory;
pub(crate) mod port;

pub use error::{WorldError, WorldErrorKind};
pub use memory::MemoryWorld;
pub use port::{
    AgentRequest, DocumentRequest, DocumentText, ImageData, ImageRequest, ImportRequest,
    ImportedText, World,
};
