//! What a model may do: tools, confined and bounded.
//!
//! A [`Tool`] has a definition that the model is told and a call that runs it. A [`Toolbox`] holds
//! the tools of one run, and only those: a name that nobody declared is refused. Two kinds are
//! here. Built-ins read and write files below [`Roots`] and nowhere else; a [`ShellTool`] runs
//! one declared command with the model's arguments as an argument vector, never through a shell,
//! under limits of time, output and memory, in a [sandbox](sandbox::Sandbox) that ends with
//! everything in it.
//!
//! What comes from the network comes through a [`Fetcher`], from the hosts that its [`FetchPolicy`]
//! names and from no other.
//!
//! A call never fails the turn: what goes wrong is told to the model as the result
//! ([`ToolResult::failure`]). This crate knows no model, session or transcript.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod builtin;
mod envelope;
mod fetch;
mod fn_tool;
#[cfg(feature = "mcp")]
pub mod mcp;
mod output;
mod patch;
mod roots;
mod router;
pub mod sandbox;
mod scope;
mod shell;
mod tool;
mod tool_source;
mod toolbox;
mod writing;

pub use builtin::{
    AppendToFile, ApplyPatch, BrowserFind, BrowserOpen, BrowserSearch, Builtin, BuiltinPower,
    FindAndReplace, Python, ReadDirectory, ReadFile, ResultFields, Search, SearchEngine,
    SearchLimits, UnknownBuiltin, WebpageToMarkdown, WriteFile,
};
pub use envelope::envelope;
pub use fetch::{
    FetchCategory, FetchError, FetchKey, FetchPolicy, Fetched, Fetcher, HostRule, HostRuleError,
    Resolver,
};
pub use fn_tool::{FnTool, IntoToolResult, Json};
/// The boxed future that the methods of [`Tool`] return.
pub use futures_util::future::BoxFuture;
pub use roots::{Opened, RootError, Roots};
pub use router::{Batch, DEFAULT_CONCURRENCY, Router, RouterHandle, SchemaWarning, ToolRequest};
/// The crate of the trait `JsonSchema` that argument types of [`FnTool`] implement.
#[cfg(feature = "functions")]
pub use schemars;
pub use scope::{AccessScope, WrittenFiles};
pub use shell::{CommandError, ShellOptions, ShellPolicy, ShellTool, command_words};
pub use tool::{Preview, Provenance, Tool, ToolInvocation, ToolResult};
pub use tool_source::{
    ServerToolRequest, ToolServerError, ToolServerErrorKind, ToolServers, ToolSource,
};
pub use toolbox::{Toolbox, ToolboxError};
