//! The typed view: the meaning of the elements of a tree.

mod attribute_rules;
pub(crate) mod content;
pub(crate) mod document_checks;
pub(crate) mod element;
mod fields;
mod ignored;
pub(crate) mod offset_spans;
pub(crate) mod read;
pub(crate) mod read_content;
mod read_import;
mod read_tool;
mod reference;
pub(crate) mod tool;
pub(crate) mod tool_use;
pub(crate) mod variable;

pub use content::{AgentElement, ContentItem, DocumentRef, Image, Import, MAX_AGENT_DEPTH, Text};
pub use element::{
    Config, Document, Element, MessageElement, MessageRole, ReasoningElement, Summary,
    ToolCallElement, ToolResponseElement,
};
pub use reference::{Reference, ReferenceKind};
pub use tool::{BUILTINS, BuiltinDeclaration, ToolDecl, ToolKind};
pub use variable::Variable;
