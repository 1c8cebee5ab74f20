//! The typed view: the meaning of the elements of a tree.

mod attribute_rules;
pub(crate) mod content;
pub(crate) mod document_checks;
pub(crate) mod element;
mod fields;
mod ignored;
pub(crate) mod offset_spans;
mod provenance;
pub(crate) mod read;
mod read_config;
pub(crate) mod read_content;
mod read_import;
pub(crate) mod read_root;
mod read_tool;
mod reference;
mod script;
pub(crate) mod shell_access;
pub(crate) mod shell_tool;
mod strict;
pub(crate) mod tool;
pub(crate) mod tool_use;
pub(crate) mod variable;

pub use content::{AgentElement, ContentItem, DocumentRef, Image, Import, MAX_AGENT_DEPTH, Text};
pub use element::{
    Config, Document, Element, MessageElement, MessageRole, ReasoningElement, Summary,
    ToolCallElement, ToolResponseElement,
};
pub use read_root::{ReadRoot, RootBase};
pub use reference::{Reference, ReferenceKind};
pub use shell_access::{ShellAccess, ShellProfile};
pub use shell_tool::{ArgumentLimits, ShellDetails};
pub use tool::{BUILTINS, BuiltinDeclaration, ToolDecl, ToolKind};
pub use variable::Variable;
