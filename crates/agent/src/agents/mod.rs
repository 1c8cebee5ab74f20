//! Agents: prompts that other prompts and models run.

pub(crate) mod agent_tool;
pub(crate) mod code_agent;
pub(crate) mod fork;
pub(crate) mod response_cache;
pub(crate) mod run_agent;
