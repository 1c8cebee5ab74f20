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

mod check;
mod document;
pub mod edit;
mod evaluate;
mod findings;
mod format;
mod import;
mod json;
pub mod refine;
mod repair;
mod suggest;
mod syntax;
mod world;
pub mod write;

pub use check::{check, check_tree};
pub use document::{
    Agent, BUILTINS, BuiltinDeclaration, Config, ContentItem, Document, DocumentRef, Element,
    Image, Import, MAX_AGENT_DEPTH, MessageElement, MessageRole, Reasoning, Reference,
    ReferenceKind, Summary, Text, ToolCallElement, ToolDecl, ToolKind, ToolResponseElement,
};
pub use evaluate::{
    Evaluation, EvaluationRequest, EvaluationResponse, Evaluator, RequestId, RequestKind, evaluate,
};
pub use format::{format, format_changes};
pub use import::{ExpandedDocument, ImportTarget, MAX_IMPORT_DEPTH, SourcePart, load, source_map};
pub use repair::{Change, Repair, RepairKind, repair};
pub use syntax::{
    Attribute, Attributes, Child, Children, ElementNode, SyntaxToken, Tag, TextPiece, TextRun,
    TokenKind, Tree, parse,
};
pub use world::{
    AgentRequest, DocumentRequest, DocumentText, ImageData, ImageRequest, ImportRequest,
    ImportedText, MemoryWorld, World, WorldError, WorldErrorKind,
};
