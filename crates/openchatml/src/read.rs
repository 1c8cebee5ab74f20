//! Readers of OpenChatML 2.x: the state machine, its batch driver and the document header.

pub(crate) mod attributes;
pub(crate) mod batch;
pub(crate) mod header_fast;
pub(crate) mod machine;
pub(crate) mod number_fidelity;
pub(crate) mod preamble;
