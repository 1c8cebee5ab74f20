//! The hub that every format maps to.
//!
//! A [`ChatMessage`] is what a provider is sent and what a session remembers: a role, content and
//! tool calls, with the rules of which combination a role may have ([`ChatMessage::validate`]).
//! OpenChatML frames, ChatMD elements and wire formats each know how to become one and how to be
//! made from one; none of them knows another. [`ToolDefinition`] is the same for tools.
//!
//! ```
//! use logue_message::{ChatMessage, ToolCall};
//!
//! let call = ToolCall::new("call_1", "read_file", r#"{"file":"README.md"}"#);
//! let message = ChatMessage::assistant("").with_tool_calls(vec![call]);
//! assert!(message.validate().is_ok());
//! assert!(ChatMessage::user("").validate().is_err());
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod content;
mod definition;
mod history;
mod json;
mod message;
#[cfg(feature = "schema")]
pub mod schema;
mod tool_call;
mod validate;

pub use content::{Content, ContentBlock, ImageDetail, ImageSource};
pub use definition::ToolDefinition;
pub use history::{HistoryRepair, repair_history};
pub use message::{ChatMessage, InstructionRank, Role};
pub use tool_call::{Arguments, ArgumentsError, CallKind, ToolCall};
pub use validate::ShapeError;
