//! Conversion of conversations between forms.

pub(crate) mod builtin_tools;
pub(crate) mod chatmd;
pub(crate) mod form;
pub(crate) mod in_memory;
pub(crate) mod loss_policy;
pub(crate) mod rows;
pub(crate) mod writer;
