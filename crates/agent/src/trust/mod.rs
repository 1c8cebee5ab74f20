//! Trust: what a prompt grants and which prompts are trusted.

pub(crate) mod changes;
pub(crate) mod folder_trust;
pub(crate) mod form;
pub(crate) mod grant;
pub(crate) mod prompt_trust;
pub(crate) mod texts;
pub(crate) mod trust_file;
