//! Outputs: a file that appears when it is complete, or standard output.
//!
//! A file is written under a name of its own beside the target, `NAME.partial`, and renamed at the
//! end. A killed run leaves it and its progress, from which the next run continues. A running one
//! holds its lock. Pipes and devices are written directly.

mod form;
mod partial;
mod progress;

pub use form::OutputForm;
pub(crate) use partial::{COMPANIONS, Partial, is_stdout, is_stream, with_suffix};
pub(crate) use progress::{ProgressFile, Saved};
