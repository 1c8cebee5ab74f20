//! Invariants of a store at the end.

use std::collections::{BTreeMap, BTreeSet};

use logue_harness::store::{SessionFilter, Store as _, StoredOutcome};
use logue_message::{ChatMessage, Role, repair_history};
use logue_store::SqliteStore;

use crate::player::{Place, effects};

/// The content of a store that satisfies the invariants.
pub(crate) struct Stored {
    pub(crate) histories: BTreeMap<String, Vec<ChatMessage>>,
    pub(crate) outcomes: BTreeMap<String, Vec<StoredOutcome>>,
}

/// Reads all content and checks the invariants.
///
/// The store is sound, every history is valid for a provider, no effect happened twice, and each
/// effect in a history has happened.
pub(crate) fn check(place: &Place, context: &str) -> Stored {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let store =
        SqliteStore::open(place.store()).unwrap_or_else(|error| panic!("{context}: {error}"));
    let stored = runtime.block_on(async {
        let verified = store.verify(None).await.unwrap();
        assert_eq!(verified.faults, [], "{context}");
        let mut stored = Stored {
            histories: BTreeMap::new(),
            outcomes: BTreeMap::new(),
        };
        for session in store.list(SessionFilter::default()).await.unwrap() {
            let id = session.session;
            let messages = store.history(&id, 0, usize::MAX).await.unwrap();
            let messages: Vec<_> = messages
                .iter()
                .map(|m| ChatMessage::from_json(m).unwrap())
                .collect();
            let (_, repairs) = repair_history(messages.clone());
            assert_eq!(repairs, [], "{context}: {id}");
            let outcomes = store.outcomes_since(&id, 0, usize::MAX).await.unwrap();
            stored.histories.insert(id.clone(), messages);
            stored.outcomes.insert(id, outcomes);
        }
        stored
    });
    let happened = effects(&place.effects());
    let once: BTreeSet<_> = happened.iter().collect();
    assert_eq!(
        once.len(),
        happened.len(),
        "{context}: an effect happened twice"
    );
    for history in stored.histories.values() {
        for result in history
            .iter()
            .filter(|m| m.role == Role::Tool && m.text() == "worked")
        {
            let id = result.tool_call_id.clone().unwrap_or_default();
            assert!(once.contains(&id), "{context}: {id} never worked");
        }
    }
    stored
}

impl Stored {
    /// Checks that each effect has its result in a history, when no turn is open.
    pub(crate) fn lost_nothing(&self, place: &Place, context: &str) {
        let messages = self.histories.values().flatten();
        let kept: BTreeSet<_> = messages.filter_map(|m| m.tool_call_id.clone()).collect();
        for id in effects(&place.effects()) {
            assert!(kept.contains(&id), "{context}: the effect of {id} is lost");
        }
    }

    /// Returns the number of user messages that end with the key.
    pub(crate) fn said(&self, session: &str, key: &str) -> usize {
        let history = self.histories.get(session).into_iter().flatten();
        let end = format!(" {key}");
        history
            .filter(|m| m.role == Role::User && m.text().ends_with(&end))
            .count()
    }
}
