//! How Logue points at text.
//!
//! Every reader of this workspace answers with positions: a [`Span`] of bytes, a
//! [`Diagnostic`] with a stable [`DiagnosticCode`], and, for people, a line and a column. This crate holds
//! those types and the one renderer that turns a diagnostic and its text into the report that the
//! program prints. It knows no language: what a frame or a tag is, its callers know.
//!
//! ```
//! use logue_source::{DiagnosticCode, Diagnostic, Source, Span, ColorMode};
//!
//! let text = "<user>Hello";
//! let source = Source::new("prompt.md", text.as_bytes());
//! let diagnostic = Diagnostic::error(DiagnosticCode::MdUnclosedTag, "`<user>` is never closed", Span::new(0, 6))
//!     .with_help("add `</user>` where the message ends");
//! let report = source.render(&diagnostic, ColorMode::Plain);
//! assert!(report.contains("E-MD-UNCLOSED-TAG"));
//! assert!(report.contains("prompt.md:1:1"));
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod code;
mod diagnostic;
mod lines;
mod map;
mod render;
mod span;
mod user_message;
mod visible;

pub use code::DiagnosticCode;
pub use diagnostic::{Diagnostic, Label, Severity};
pub use lines::{LineColumn, LineIndex};
pub use map::SourceMap;
pub use render::{ColorMode, Origin, Source};
pub use span::Span;
pub use visible::visible;
