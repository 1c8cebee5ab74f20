//! Files that tools write: where they may be, and how several of them change together.
//!
//! A [`WriteTarget`] is where a path of a model leads, found as for reading: below a root, links resolved.
//! `commit` puts new content into the places. All of it is on the disk under other names before the
//! first file is replaced, so that what can fail fails while everything is still as it was.
//!
//! A tool works out a [`Plan`] first. A person may be shown it, as a diff with a fingerprint; what is
//! done later is worked out again, and only done if it has the same fingerprint.

mod change;
mod diff;
mod plan;
mod target;

pub(crate) use change::Change;
use change::commit;
pub(crate) use plan::{Plan, lines_changed, sha256};
pub(crate) use target::{WriteTarget, text};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a file that tools change.
pub(crate) const LARGEST: usize = 16 * 1024 * 1024;

/// One writer at a time in this program: between reading a file and replacing it nobody else of us
/// changes it, also when several agents run at once.
pub(crate) fn exclusively() -> MutexGuard<'static, ()> {
    static WRITING: Mutex<()> = Mutex::new(());
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}
