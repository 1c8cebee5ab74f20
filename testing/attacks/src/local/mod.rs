//! Attacks by another user or program of the machine.

pub(crate) mod folders;
pub(crate) mod listener;
pub(crate) mod owners;
