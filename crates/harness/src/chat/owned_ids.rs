//! Ids that no other harness creates.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use logue_graph::IdSource;

/// The ids of one harness: those of its source, bound to the harness.
///
/// A lease of an equal owner is the owner's own, and notes belong to an invocation by its id. A
/// source that counts gives equal ids in two harnesses, which would run one turn at once.
pub(super) struct OwnedIds {
    source: Arc<dyn IdSource>,
    /// The random part of the harness.
    tag: String,
    /// The number of leases that were requested.
    acquisitions: AtomicU64,
}

impl OwnedIds {
    pub(super) fn new(source: Arc<dyn IdSource>) -> Self {
        // The keys of each state come from the randomness of the system.
        let tag = format!("{:016x}", RandomState::new().hash_one(()));
        Self {
            source,
            tag,
            acquisitions: AtomicU64::new(0),
        }
    }

    /// Returns the id of a lease owner, which is always bound to the harness.
    pub(super) fn owner(&self) -> String {
        self.bound(&self.source.new_id())
    }

    /// Returns an owner name that no other lease has.
    pub(super) fn acquisition(&self, owner: &str) -> String {
        let number = self.acquisitions.fetch_add(1, Ordering::Relaxed);
        format!("{owner}#{number}")
    }

    /// Returns the id of an invocation. UUIDs are unique and stay as they are.
    pub(super) fn invocation(&self) -> String {
        let id = self.source.new_id();
        if is_uuid(&id) { id } else { self.bound(&id) }
    }

    fn bound(&self, id: &str) -> String {
        format!("{id}-{}", self.tag)
    }
}

/// Returns whether a text is a UUID in its usual spelling.
fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    let digits = text.bytes().filter(|byte| *byte != b'-');
    lengths.eq([8, 4, 4, 4, 12]) && digits.into_iter().all(|byte| byte.is_ascii_hexdigit())
}
