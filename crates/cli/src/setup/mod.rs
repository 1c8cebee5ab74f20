//! The shared setup of commands: configuration, models, sessions and output.

pub(crate) mod argument_editor;
pub(crate) mod config;
pub(crate) mod environment;
pub(crate) mod failures;
pub(crate) mod mcp;
pub(crate) mod model;
pub(crate) mod network;
pub(crate) mod output;
pub(crate) mod permissions;
pub(crate) mod prepare_failure;
pub(crate) mod preview;
pub(crate) mod prompt;
pub(crate) mod requirements;
pub(crate) mod server_access;
pub(crate) mod session_agent;
pub(crate) mod session_turn;
pub(crate) mod settings;
pub(crate) mod signals;
pub(crate) mod store;
pub(crate) mod suspended;
pub(crate) mod terminal_approver;
pub(crate) mod transcript;
pub(crate) mod trust;
pub(crate) mod trust_changes;
pub(crate) mod trust_file;
pub(crate) mod turn_environment;
