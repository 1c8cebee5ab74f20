//! Expansion of the imports of a document (ChatMD §9).
//!
//! Each imported text is a part of its own, in one address space with the document. The offsets of
//! the document stay unchanged, and a span in an imported text identifies that text and the chain
//! of its imports. So elements and findings of all texts are ordinary elements and findings, and
//! [`ExpandedDocument::source_map`] resolves their positions.
//!
//! The contribution of an imported text depends on its kind and on the position of the import. At
//! the top level its elements replace the import. Inside a message it contributes the `doc`, `img`
//! and `agent` elements of a document, or the text of a plain text.

mod classify;
pub(crate) mod expanded;
mod loader;

pub use expanded::{ExpandedDocument, ImportTarget, SourcePart, source_map};
pub use loader::{MAX_IMPORT_DEPTH, load};
