//! The prompt of a command.

pub(crate) mod input;
