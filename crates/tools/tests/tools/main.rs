//! The tests of the crate, in one binary.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod browser;
mod envelope;
mod fetch;
mod files;
#[cfg(feature = "functions")]
mod functions;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_login;
mod patches;
#[cfg(unix)]
mod roots;
mod routing;
mod sandbox;
mod sandbox_calls;
mod search;
mod shell;
mod writing;

use std::fs;
use std::path::Path;

use logue_tools::{
    FnTool, Preview, Router, RouterHandle, ShellTool, Tool, ToolInvocation, ToolRequest,
    ToolResult, Toolbox,
};

#[test]
fn every_file_of_this_folder_is_a_declared_module() {
    let declared = include_str!("main.rs");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_declared = declared.lines().any(|line| line == format!("mod {name};"));
        assert!(
            name == "main" || is_declared,
            "{name} is not declared in main.rs"
        );
    }
}

#[test]
fn public_types_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<FnTool>();
    check::<Preview>();
    check::<Router>();
    check::<RouterHandle>();
    check::<ShellTool>();
    check::<Box<dyn Tool>>();
    check::<ToolInvocation<'_>>();
    check::<ToolRequest<'_>>();
    check::<ToolResult>();
    check::<Toolbox>();
    #[cfg(feature = "mcp")]
    check::<logue_tools::mcp::McpServers>();
}
