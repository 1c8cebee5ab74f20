//! Attacks by a model, server or page.

pub(crate) mod approval;
pub(crate) mod changed;
pub(crate) mod confinement;
pub(crate) mod edits;
pub(crate) mod escape;
pub(crate) mod pages;
pub(crate) mod processes;
pub(crate) mod resources;
pub(crate) mod secrets;
pub(crate) mod servers;
pub(crate) mod swapped;
pub(crate) mod volume;
