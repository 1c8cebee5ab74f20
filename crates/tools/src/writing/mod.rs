//! Writes of tools: target resolution, plans, previews and atomic replacement.
//!
//! A [`WriteTarget`] is a path from a model, resolved below a root as for reading. A [`Plan`] lists
//! the changes of a call; its preview is a diff with a fingerprint, and it is carried out only while
//! the fingerprint is the approved one. `commit` writes all new contents under temporary names
//! before it replaces the first file, so most errors occur before anything has changed.

mod change;
mod diff;
mod plan;
mod target;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use change::Change;
use change::commit;
pub(crate) use plan::{Plan, lines_changed};
pub(crate) use target::{WriteTarget, decode_text};

/// Maximum size in bytes of a file that tools change.
pub(crate) const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;

/// Locks out the other writing tools of this process, including those of concurrent agents.
///
/// The lock covers reading and replacing a file, so no other tool changes it in between.
pub(crate) fn lock_writes() -> MutexGuard<'static, ()> {
    static WRITES: Mutex<()> = Mutex::new(());
    WRITES.lock().unwrap_or_else(PoisonError::into_inner)
}
