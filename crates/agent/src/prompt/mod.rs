//! Prompts: reading them, and what they may reach.

pub(crate) mod document;
pub(crate) mod environment;
pub(crate) mod external_tool;
pub(crate) mod file_loader;
pub(crate) mod openchatml_prompt;
pub(crate) mod refine;
pub(crate) mod source_file;
