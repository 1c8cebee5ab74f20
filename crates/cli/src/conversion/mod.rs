//! Conversations read from one form and written in another.

pub(crate) mod chatmd;
pub(crate) mod form;
pub(crate) mod in_memory;
