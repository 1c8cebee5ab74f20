//! Building and checking graphs.

pub(crate) mod builder;
pub(crate) mod compile_error;
pub(crate) mod edge;
pub(crate) mod typed;
