//! A document with everything that it imports (ChatMD §9).
//!
//! Every import gets the text that it names as a part of its own, in one address space with the
//! document: the document's own offsets stay what they are, and a span in an imported text says by
//! itself which text that is and which import led there. So elements and findings of all texts are
//! ordinary elements and findings, and [`ExpandedDocument::source_map`] shows where each of them is.
//!
//! What an imported text contributes depends on where the import stands and on what the text is. At
//! the top level its elements take the import's place. Inside a message it contributes what a
//! message can hold: the `doc`, `img` and `agent` elements of a document, or the words of a text.

mod classify;
pub(crate) mod expanded;
mod loader;

pub use expanded::{ExpandedDocument, ImportTarget, SourcePart, source_map};
pub use loader::{MAX_IMPORT_DEPTH, load};
