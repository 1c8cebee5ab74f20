//! ChatMarkdown (ChatMD): a file that is prompt, tool permissions and transcript.
//!
//! Reading has three steps, each usable alone:
//!
//! 1. [`parse`] returns a lossless [`Tree`] of any text.
//! 2. [`Document::from_tree`] returns the typed elements of a tree.
//! 3. [`evaluate`] returns the settings, tools and messages of a model request, with the files of a
//!    [`World`].
//!
//! No step fails: each returns a result and diagnostics with positions. [`load`] additionally expands
//! imports. [`write`](mod@write) writes the text of new elements, which reads back byte by byte.
//! [`edit`], [`format()`] and [`repair()`] change existing text, and [`refine`] validates rewritten
//! prompts.
//!
//! The crate does no I/O, calls no model and runs no tool.
//!
//! # Examples
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
//!
//! # Features
//!
//! The crate has no Cargo features.
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
mod line_end;
pub mod refine;
mod repair;
mod suggest;
mod syntax;
mod world;
pub mod write;

pub use check::{check, check_tree};
pub use document::{
    AgentElement, ArgumentLimits, BUILTINS, BuiltinDeclaration, Config, ContentItem, Document,
    DocumentRef, Element, Image, Import, MAX_AGENT_DEPTH, MessageElement, MessageRole, ReadRoot,
    ReasoningElement, Reference, ReferenceKind, RootBase, ShellAccess, ShellDetails, ShellProfile,
    Summary, Text, ToolCallElement, ToolDecl, ToolKind, ToolResponseElement, Variable,
};
pub use evaluate::{
    Evaluation, EvaluationRequest, EvaluationResponse, Evaluator, RequestId, RequestKind, evaluate,
};
pub use format::{format, format_changes};
pub use import::{ExpandedDocument, ImportTarget, MAX_IMPORT_DEPTH, SourcePart, load, source_map};
pub use line_end::{line_end, with_line_ends};
pub use repair::{Change, Repair, RepairKind, repair};
pub use suggest::suggest;
pub use syntax::{
    Attribute, Attributes, Child, Children, ElementNode, SyntaxToken, Tag, TextPiece, TextRun,
    TokenKind, Tree, parse,
};
pub use world::{
    AgentRequest, DocumentRequest, DocumentText, ImageData, ImageRequest, ImportRequest,
    ImportedText, MemoryWorld, World, WorldError, WorldErrorKind,
};
