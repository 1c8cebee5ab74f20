//! Running graphs.

pub(crate) mod cycle;
pub(crate) mod end;
pub(crate) mod info;
pub(crate) mod interrupt;
pub(crate) mod invocation;
pub(crate) mod outcome;
pub(crate) mod shared;
pub(crate) mod step;
pub(crate) mod trace;
