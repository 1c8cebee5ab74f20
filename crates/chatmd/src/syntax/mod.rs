//! The lossless tree of a text: tokens, tags, attributes, elements.

pub(crate) mod advice;
pub(crate) mod attributes;
pub(crate) mod builder;
pub(crate) mod fragment;
pub(crate) mod lexer;
mod outline;
pub(crate) mod tag;
mod tag_errors;
pub(crate) mod tree;
pub(crate) mod truncation;
pub(crate) mod walk;
pub(crate) mod whitespace;

pub use attributes::{Attribute, Attributes};
pub use builder::parse;
pub use lexer::TokenKind;
pub use tag::Tag;
pub use tree::{Child, Children, ElementNode, SyntaxToken, TextPiece, TextRun, Tree};
