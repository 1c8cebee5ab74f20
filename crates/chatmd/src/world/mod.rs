//! The port to external data that reading and evaluating a document require.
//!
//! The crate itself does no I/O. The caller passes a [`World`], or drives an [`crate::Evaluator`]
//! with its own responses. [`MemoryWorld`] is the implementation for tests and examples.

pub(crate) mod error;
mod memory;
pub(crate) mod port;

pub use error::{WorldError, WorldErrorKind};
pub use memory::MemoryWorld;
pub use port::{
    AgentRequest, DocumentRequest, DocumentText, ImageData, ImageRequest, ImportRequest,
    ImportedText, World,
};
