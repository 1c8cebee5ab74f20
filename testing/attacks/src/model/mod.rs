//! Attacks by a model, server or page.

pub(crate) mod approval;
pub(crate) mod confinement;
pub(crate) mod escape;
pub(crate) mod processes;
pub(crate) mod swapped;
