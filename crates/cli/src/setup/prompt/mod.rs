//! The prompt of a command: where it is read from and what it may name.

pub(crate) mod input;
