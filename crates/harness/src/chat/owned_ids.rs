//! Ids that no other harness creates.

use std::sync::Arc;

use logue_graph::IdSource;
use uuid::Uuid;

/// The ids of one harness: those of its source, bound to the harness.
///
/// A lease of an equal owner is the owner's own, and notes belong to an invocation by its id. A
/// source that counts gives equal ids in two harnesses, which would run one turn at once.
pub(super) struct OwnedIds {
    source: Arc<dyn IdSource>,
    /// The random part of the harness.
    tag: String,
}

impl OwnedIds {
    pub(super) fn new(source: Arc<dyn IdSource>) -> Self {
        let mut tag = Uuid::new_v4().simple().to_string();
        tag.truncate(12);
        Self { source, tag }
    }

    /// Returns the id of a lease owner, which is always bound to the harness.
    pub(super) fn owner(&self) -> String {
        self.bound(&self.source.new_id())
    }

    /// Returns the id of an invocation. UUIDs are unique and stay as they are.
    pub(super) fn invocation(&self) -> String {
        let id = self.source.new_id();
        match Uuid::try_parse(&id) {
            Ok(_) => id,
            Err(_) => self.bound(&id),
        }
    }

    fn bound(&self, id: &str) -> String {
        format!("{id}-{}", self.tag)
    }
}
