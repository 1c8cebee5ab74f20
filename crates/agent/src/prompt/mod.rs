//! Prompts: their text, evaluation, scope and tools.

pub(crate) mod agent_variables;
pub(crate) mod call_schemas;
pub(crate) mod confinement;
pub(crate) mod document;
pub(crate) mod external_tool;
pub(crate) mod file_loader;
pub(crate) mod grants;
pub(crate) mod openchatml_prompt;
pub(crate) mod read_roots;
pub(crate) mod refine;
pub(crate) mod scope;
pub(crate) mod source_file;
pub(crate) mod toolbox;
pub(crate) mod variables;
