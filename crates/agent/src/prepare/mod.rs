//! Preparation: from a prompt and an environment to an assistant that can answer.

pub(crate) mod conversation;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod host_error;
pub(crate) mod models;
pub(crate) mod prepared;
pub(crate) mod rule_tools;
pub(crate) mod source;
