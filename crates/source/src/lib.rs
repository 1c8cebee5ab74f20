//! Positions, diagnostics and reports for source text.
//!
//! Every reader of this workspace reports positions: a [`Span`] of bytes, a [`Diagnostic`] with a
//! stable [`DiagnosticCode`], and a line and a column for people. This crate defines these types and
//! the renderer that turns a diagnostic and its text into a printed report. It does not depend on
//! any language; frames and tags are concepts of its callers.
//!
//! - [`Source`] is one named text with its line index, [`SourceMap`] a document with its imports.
//! - [`escape_untrusted`], [`escape_line`], [`escape_unambiguous`], [`escape_json`], [`excerpt`] and
//!   [`quote_word`] make hidden characters visible.
//!
//! # Examples
//!
//! ```
//! use logue_source::{ColorMode, Diagnostic, DiagnosticCode, Source, Span};
//!
//! let text = "<user>Hello";
//! let source = Source::new("prompt.md", text.as_bytes());
//! let code = DiagnosticCode::MdUnclosedTag;
//! let diagnostic = Diagnostic::error(code, "`<user>` is never closed", Span::new(0, 6))
//!     .with_help("add `</user>` where the message ends");
//! let report = source.render(&diagnostic, ColorMode::Plain);
//! assert!(report.contains("E-MD-UNCLOSED-TAG"));
//! assert!(report.contains("prompt.md:1:1"));
//! ```
//!
//! # Features
//!
//! The crate has no features. It performs no I/O and contains no unsafe code.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod code;
mod diagnostic;
mod escape;
mod escape_json;
mod hidden;
mod lines;
mod map;
mod render;
mod shell_words;
mod span;
mod user_message;

pub use code::DiagnosticCode;
pub use diagnostic::{Diagnostic, Label, Severity};
pub use escape::{
    UntrustedEscaper, escape_line, escape_unambiguous, escape_untrusted, excerpt, whole_words,
};
pub use escape_json::escape_json;
pub use lines::{LineColumn, LineIndex};
pub use map::SourceMap;
pub use render::{ColorMode, Origin, ReportStyle, Source};
pub use shell_words::{quote_word, quote_words};
pub use span::Span;
