//! Chat templates: Jinja as the package `transformers` renders it, with the spans of the assistant.
//!
//! ```text
//! row ─▶ plain rendering ──────────────────────────┐
//!   └──▶ values with marks ─▶ marked rendering ─▶ strip ─▶ equal? ─▶ spans
//! ```
//!
//! Spans are found by marks, which are characters that the row does not contain, around each value
//! of the conversation. A second rendering shows where the values are. It is used only if it equals
//! the plain one without its marks; otherwise the kinds of values that change it have no marks.
//! `{% generation %}` in a template, where it exists, gives the trained text, and marks only its
//! classes. Where both say too little, the row is refused.

mod chat_template;
mod clock;
mod engine;
mod failure;
mod generation;
mod input;
mod marks;
mod node;
mod python_json;
mod regions;
mod spans;

pub(crate) use chat_template::TemplateRendering;
pub use chat_template::{ChatTemplate, TemplateOptions};
pub use clock::TemplateDate;
pub(crate) use node::Members;
