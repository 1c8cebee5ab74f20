//! ChatMarkdown: one file that is prompt, tool permissions and transcript.
//!
//! Reading goes in three steps, each usable alone. [`parse`] gives a lossless [`Tree`] of any text,
//! [`Document::from_tree`] what its elements say, and [`evaluate`] the messages that a model is
//! sent, asking a [`World`] for the files that the document names. No step fails: each gives what
//! it can, and diagnostics with positions. [`write`](mod@write) makes the text of new elements, and
//! what it writes reads back byte by byte.
//!
//! The crate reads no file, knows no model and runs no tool.
//!
//! ```
//! use chatmd::{Document, MemoryWorld, check, evaluate, parse, write};
//!
//! let mut text = String::from("<config model=\"gpt-4o\"/>\n<tool name=\"read_file\"/>\n");
//! text = write::append(&text, &write::user("What is in <b>?"));
//! assert!(check(&text).is_empty());
//!
//! let tree = parse(&text);
//! let (document, _) = Document::from_tree(&tree);
//! let evaluation = evaluate(&document, &mut MemoryWorld::new());
//! assert_eq!(evaluation.config.model.as_deref(), Some("gpt-4o"));
//! assert_eq!(evaluation.tools[0].exposed_name(), Some("read_file"));
//! assert_eq!(evaluation.messages[0].text(), "What is in <b>?");
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod attribute_rules;
mod attributes;
mod builder;
mod content;
mod declaration;
mod document;
mod document_checks;
pub mod edit;
mod evaluate;
mod findings;
mod format;
mod import;
mod json;
mod lexer;
mod offset_spans;
mod outline;
mod reference;
pub mod refine;
mod repair;
mod suggest;
mod tag;
mod tool_use;
mod tree;
mod view;
mod walk;
mod whitespace;
mod world;
pub mod write;

pub use attributes::{Attribute, Attributes};
pub use builder::parse;
pub use declaration::{BUILTINS, BuiltinDeclaration, ToolDecl, ToolKind};
pub use document::{
    Agent, Config, ContentItem, Document, DocumentRef, Element, Image, Import, MAX_AGENT_DEPTH,
    MessageElement, MessageRole, Reasoning, Summary, Text, ToolCallElement, ToolResponseElement,
};
pub use evaluate::{
    Evaluation, EvaluationRequest, EvaluationResponse, Evaluator, RequestId, RequestKind, evaluate,
};
pub use format::{format, format_changes};
pub use import::{ExpandedDocument, ImportTarget, MAX_IMPORT_DEPTH, SourcePart, load, source_map};
pub use lexer::TokenKind;
pub use reference::{Reference, ReferenceKind};
pub use repair::{Change, Repair, RepairKind, repair};
pub use tag::Tag;
pub use tree::{Child, Children, ElementNode, SyntaxToken, TextPiece, TextRun, Tree};
pub use world::{
    AgentRequest, DocumentRequest, DocumentText, ImageData, ImageRequest, ImportRequest,
    ImportedText, MemoryWorld, World, WorldError, WorldErrorKind,
};

use logue_source::Diagnostic;

/// Everything that can be said about a text without the files it names, in the order of the text:
/// the diagnostics of its tree and of its typed view, and what does not concern a run: calls of
/// tools that nothing declares (`undeclared-tool`), and tools that were never called
/// (`unused-tool`).
///
/// ```
/// let findings = chatmd::check("<user>Hello</user>\n<doc src=\"a.md\" local/>");
/// assert_eq!(findings[0].code.as_str(), "content-dropped");
/// ```
pub fn check(text: &str) -> Vec<Diagnostic> {
    check_tree(&parse(text)).1
}

/// The same for a text that is parsed already, with its typed view.
pub fn check_tree(tree: &Tree<'_>) -> (Document, Vec<Diagnostic>) {
    let (document, of_view) = Document::from_tree(tree);
    let of_history = tool_use::check(&document);
    let mut findings = [tree.diagnostics().to_vec(), of_view, of_history].concat();
    findings.sort_by_key(|finding| finding.primary.start);
    (document, findings)
}
