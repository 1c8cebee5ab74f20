//! The record of what the evaluation of a conversation obtained.

pub(crate) mod agent_log;
pub(crate) mod entry;
pub(crate) mod evaluation_record;
pub(crate) mod origin;
pub(crate) mod record_key;
