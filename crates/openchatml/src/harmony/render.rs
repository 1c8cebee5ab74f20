//! Harmony written: a typed conversation to prompt text and to token ids.
//!
//! ```text
//! Conversation ─▶ validate ─▶ plan ─┬─▶ text   (bodies refused or escaped)
//!                                   └─▶ ids    (bodies are ordinary text, whatever they spell)
//! ```
//!
//! What comes out is, byte for byte and id for id, what models of this format were trained on.
//! Where the usual renderer loses or breaks something, this one says what was meant;
//! [`RendererCompat::OpenAi0_0_8`] writes it as that renderer does. `docs/harmony-differences.md` lists all
//! differences, and `testing/harmony-differential` checks that there are no others.
//!
//! A conversation cannot forge its own structure. A header value that would end early or read as
//! something else is refused. A body that spells a control token is harmless as ids; as text it is
//! refused, because a model takes the token for real, unless [`RenderOptions::escape`] asks for the
//! form that people and [`read`](super::read()) understand.

mod builtin;
mod conversation;
mod error;
mod header;
#[cfg(feature = "o200k")]
mod ids;
mod json;
pub(super) mod layout;
mod options;
mod pieces;
mod plan;
mod schema;
mod schema_compat;
mod system;
mod text;
mod tools;
mod typescript;

pub use conversation::{Content, Conversation, RenderMessage};
pub use error::RenderError;
#[cfg(feature = "o200k")]
pub use ids::Renderer;
pub use options::{Form, Reasoning, RenderOptions, RendererCompat};
pub use pieces::{Piece, PieceContent, PiecePlace};
pub use system::{DeveloperContent, ReasoningEffort, SystemContent};
pub use tools::{FunctionTool, ToolNamespace};
