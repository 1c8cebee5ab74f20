//! The note that an owner left its running turn.

use serde_json::{Value, json};

use super::{Lease, Store, StoreError};

/// The member of the note, whose value states the reason.
pub(crate) const LEFT: &str = "left";
/// The value of the member if the store did not let the turn end.
const BY_STORE: &str = "store_failed";

/// The reason that an owner left its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaveReason {
    /// Its process was asked to end.
    ProcessEnds,
    /// The store did not let the turn end.
    StoreFailed,
}

impl LeaveReason {
    /// Returns the note.
    pub(crate) fn to_note(self) -> Value {
        match self {
            Self::ProcessEnds => json!({ LEFT: true }),
            Self::StoreFailed => json!({ LEFT: BY_STORE }),
        }
    }

    /// Returns the reason that a note states, if it is such a note.
    pub(crate) fn from_note(note: &Value) -> Option<Self> {
        let value = note.get(LEFT)?;
        Some(if value.as_str() == Some(BY_STORE) {
            Self::StoreFailed
        } else {
            Self::ProcessEnds
        })
    }
}

/// Notes in the journal of a turn that its owner leaves it.
///
/// The next owner then counts no crash. A journal that ends with such a note gets no other one.
pub(crate) async fn note_left(
    store: &dyn Store,
    lease: &Lease,
    invocation_id: &str,
    reason: LeaveReason,
) -> Result<(), StoreError> {
    let notes = store.notes(&lease.session, invocation_id).await?;
    let last = notes.last();
    if last.is_some_and(|last| LeaveReason::from_note(&last.note).is_some()) {
        return Ok(());
    }
    let noted = store.journal(lease, invocation_id, vec![reason.to_note()]);
    noted.await
}
