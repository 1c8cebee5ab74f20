//! Chat messages, tool calls and tool definitions, independent of any format.
//!
//! A [`ChatMessage`] is the unit of provider requests and session histories: a role, content and
//! tool calls. [`ChatMessage::validate`] checks which combination a role permits. OpenChatML
//! frames, ChatMD elements and wire formats convert to and from this type, and never to each other.
//! [`ToolDefinition`] has the same purpose for tools.
//!
//! # Examples
//!
//! ```
//! use logue_message::{ChatMessage, ToolCall};
//!
//! let call = ToolCall::new("call_1", "read_file", r#"{"file":"README.md"}"#);
//! let message = ChatMessage::assistant("").with_tool_calls(vec![call]);
//! assert!(message.validate().is_ok());
//! assert!(ChatMessage::user("").validate().is_err());
//! ```
//!
//! # Features
//!
//! - `schema`: validation of values against JSON Schemas, in the module `schema`. Off by default,
//!   because it adds the crate `jsonschema` and its dependencies.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod content;
mod deadline;
mod definition;
mod history;
mod json;
mod json_error;
mod message;
#[cfg(feature = "schema")]
pub mod schema;
mod superseded;
mod tool_call;
mod validate;

pub use content::{Content, ContentBlock, ImageDetail, ImageSource, image_media_type};
pub use deadline::{DEADLINE_PARAMETER, DeadlineError, SplitArguments};
pub use definition::{ToolDefinition, object_parameters};
pub use history::{HistoryRepair, cancelled_result, repair_history, unstarted_result};
pub use json_error::MessageJsonError;
pub use message::{ChatMessage, InstructionRank, Role};
pub use superseded::without_superseded;
pub use tool_call::{Arguments, ArgumentsError, CallKind, ToolCall};
pub use validate::ShapeError;
