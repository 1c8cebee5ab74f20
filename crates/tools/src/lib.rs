//! Tools of language models: declaration, confinement and execution.
//!
//! A [`Tool`] has a definition, which the model reads, and a method that runs a call. A [`Toolbox`]
//! holds the tools of one run; a call of any other name is refused. A [`Router`] validates
//! arguments and applies concurrency limits, deadlines and cancellation.
//!
//! Three kinds of tools are included. An [`FnTool`] calls an async Rust function. A [`Builtin`]
//! reads and writes files below [`Roots`]. A [`ShellTool`] runs one declared command in a
//! [sandbox](sandbox::Sandbox), with the model's arguments as an argument vector and limits of
//! time, output and memory. With the feature `mcp` the tools of MCP servers are added.
//!
//! Network access goes through a [`Fetcher`], which connects only to the hosts of its
//! [`FetchPolicy`].
//!
//! A failed call does not fail the turn: the model receives the error as a [`ToolResult`]. The
//! crate is independent of models, sessions and transcripts.
//!
//! # Examples
//! ```
//! # #[cfg(feature = "functions")] {
//! use std::sync::Arc;
//!
//! use logue_message::ToolCall;
//! use logue_tools::{FnTool, Router, Toolbox};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: i64,
//!     b: i64,
//! }
//!
//! let add = FnTool::new("add", "Adds two numbers.", |args: Add| async move {
//!     (args.a + args.b).to_string()
//! });
//! let mut toolbox = Toolbox::new();
//! toolbox.add(Arc::new(add.read_only())).unwrap();
//! let router = Router::new(toolbox);
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! let call = ToolCall::new("call-1", "add", r#"{"a": 2, "b": 3}"#);
//! assert_eq!(router.call((&call).into()).await.text, "5");
//!
//! let call = ToolCall::new("call-2", "add", r#"{"a": "two"}"#);
//! let result = router.call((&call).into()).await;
//! assert_eq!(result.code, Some("E-CALL-SCHEMA"));
//! # });
//! # }
//! ```
//!
//! # Features
//! - `functions` (default): [`FnTool::new`], which derives the JSON Schema from the argument type
//!   with `schemars`.
//! - `mcp`: `mcp`, the client of MCP servers over standard streams and HTTP.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod builtin;
mod covered;
mod digest;
mod envelope;
mod fetch;
mod fn_tool;
mod hidden_files;
#[cfg(feature = "mcp")]
pub mod mcp;
mod named_root;
mod output;
mod patch;
mod private_file;
mod private_folder;
mod roots;
mod router;
pub mod sandbox;
mod scope;
mod server_words;
mod shell;
mod tool;
mod tool_image;
mod tool_source;
mod toolbox;
mod writing;

pub use builtin::{
    BrowserFind, BrowserOpen, BrowserSearch, Builtin, BuiltinPower, ImportImage, Python,
    ReadDirectory, ReadFile, ResultFields, Search, SearchEngine, SearchLimits, UnknownBuiltin,
    WebpageToMarkdown,
};
pub use covered::{CommandFiles, CoveredFile, FileContent, FileHasher};
pub use envelope::envelope;
pub use fetch::{
    FetchCategory, FetchError, FetchKey, FetchPolicy, Fetched, Fetcher, HostRule, HostRuleError,
    Resolver,
};
pub use fn_tool::{FnTool, IntoToolResult, Json};
/// The boxed future that the methods of [`Tool`] return.
pub use futures_util::future::BoxFuture;
pub use hidden_files::HiddenFiles;
pub use named_root::NamedRoot;
pub use private_file::{FileOwners, PrivateFileError, replace_private_file};
pub use private_folder::private_folder;
pub use roots::{EntryKind, FolderHandle, OpenedFile, RootError, Roots};
pub use router::{Batch, DEFAULT_CONCURRENCY, Router, RouterHandle, SchemaWarning, ToolRequest};
/// The crate of the trait `JsonSchema` that argument types of [`FnTool`] implement.
#[cfg(feature = "functions")]
pub use schemars;
pub use scope::{AccessScope, WrittenFiles};
pub use server_words::server_command;
pub use shell::{CommandError, ShellOptions, ShellPolicy, ShellTool, WordLimits, command_words};
pub use tool::{
    APPROVAL_STALE, ARGUMENTS_REDACTED, Preview, Provenance, Tool, ToolInvocation, ToolResult,
};
pub use tool_image::{MAX_IMAGE_BYTES, MAX_IMAGES, ToolImage, ToolImageError};
pub use tool_source::{
    ServerAccess, ServerToolRequest, ToolServerError, ToolServerErrorKind, ToolServers, ToolSource,
};
pub use toolbox::{Toolbox, ToolboxError, with_note};
