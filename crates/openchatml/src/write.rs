//! Writers of OpenChatML 2.2: frames, document headers and edits of a document.

pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod rewrite;
