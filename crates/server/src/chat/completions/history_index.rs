//! An index of histories by the hashes of their prefixes.
//!
//! It only finds candidates: their messages are compared before a session is continued. It follows
//! the store, so that it contains what other processes and earlier ones wrote.

use std::collections::{BTreeSet, HashMap};

use logue_harness::store::{SessionFilter, SessionInfo, Store, StoreError, current_history};
use logue_message::ChatMessage;
use tokio::sync::Mutex;

use super::exchanges::{Exchange, PrefixHash, exchanges, prefix_hashes};
use crate::chat::owner::owner_of;

/// The number of sessions of the first page that is read.
const PAGE: usize = 64;
/// The time in milliseconds by which the clocks of processes may differ.
const CLOCK_DIFFERENCE: u64 = 10 * 60 * 1_000;

/// The creation, the length and the owner of a history, which is only appended to.
type HistoryState = (u64, u64, Option<String>);

/// The index of a server.
#[derive(Default)]
pub(crate) struct HistoryIndex {
    histories: Mutex<Histories>,
}

#[derive(Default)]
struct Histories {
    sessions: HashMap<String, Indexed>,
    by_prefix: HashMap<PrefixHash, BTreeSet<String>>,
    /// The time of the latest change that is contained.
    latest: u64,
}

/// The hashes of a session.
struct Indexed {
    state: HistoryState,
    prefixes: Vec<PrefixHash>,
}

impl HistoryIndex {
    /// Returns the sessions whose history may begin with these exchanges.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub(crate) async fn candidates(
        &self,
        store: &dyn Store,
        owner: Option<&str>,
        given: &[Exchange],
    ) -> Result<Vec<String>, StoreError> {
        let Some(hash) = prefix_hashes(owner, given).pop() else {
            return Ok(Vec::new());
        };
        let mut histories = self.histories.lock().await;
        histories.follow(store).await?;
        let found = histories.by_prefix.get(&hash).into_iter().flatten();
        Ok(found.cloned().collect())
    }
}

impl Histories {
    /// Reads what has changed in the store.
    async fn follow(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let known = self.latest.saturating_sub(CLOCK_DIFFERENCE);
        let mut limit = PAGE;
        // Sessions are listed from the latest change on.
        let listed = loop {
            let filter = SessionFilter {
                prefix: None,
                limit: Some(limit),
                ..SessionFilter::default()
            };
            let listed = store.list(filter).await?;
            let is_known = listed.last().is_none_or(|last| last.updated_at.0 < known);
            if is_known || listed.len() < limit {
                break listed;
            }
            limit = limit.saturating_mul(8);
        };
        if listed.len() < limit {
            // All sessions are listed, so that others were removed.
            let existing: BTreeSet<&str> = listed.iter().map(|info| &*info.session).collect();
            let missing = self
                .sessions
                .keys()
                .filter(|own| !existing.contains(&***own));
            let missing: Vec<String> = missing.cloned().collect();
            for session in &missing {
                self.remove(session);
            }
        }
        for info in &listed {
            self.add(store, info).await?;
        }
        let latest = listed.first().map_or(0, |first| first.updated_at.0);
        self.latest = self.latest.max(latest);
        Ok(())
    }

    async fn add(&mut self, store: &dyn Store, info: &SessionInfo) -> Result<(), StoreError> {
        let owner = owner_of(info);
        let state = (info.created_at.0, info.seq, owner.map(str::to_owned));
        let known = self.sessions.get(&info.session);
        if known.is_some_and(|known| known.state == state) {
            return Ok(());
        }
        self.remove(&info.session);
        let messages = match history(store, &info.session).await {
            // A damaged session is not continued.
            Err(StoreError::Damaged(_)) => Vec::new(),
            messages => messages?,
        };
        let prefixes = prefix_hashes(owner, &exchanges(&messages));
        for hash in &prefixes {
            let sessions = self.by_prefix.entry(*hash).or_default();
            sessions.insert(info.session.clone());
        }
        let indexed = Indexed { state, prefixes };
        self.sessions.insert(info.session.clone(), indexed);
        Ok(())
    }

    fn remove(&mut self, session: &str) {
        let Some(indexed) = self.sessions.remove(session) else {
            return;
        };
        for hash in indexed.prefixes {
            if let Some(sessions) = self.by_prefix.get_mut(&hash) {
                sessions.remove(session);
                if sessions.is_empty() {
                    self.by_prefix.remove(&hash);
                }
            }
        }
    }
}

/// Returns the messages of a session.
///
/// # Errors
/// Returns an error if the store fails.
pub(crate) async fn history(
    store: &dyn Store,
    session: &str,
) -> Result<Vec<ChatMessage>, StoreError> {
    let stored = current_history(store, session, 0, usize::MAX >> 1).await;
    let stored = match stored {
        Ok(stored) => stored,
        // It was removed meanwhile.
        Err(StoreError::NotFound { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let messages = stored.iter();
    // Positions stay: a message that is superseded or cannot be read is hidden.
    let messages = messages.map(|message| {
        let read = ChatMessage::from_json(message).ok();
        read.unwrap_or_else(|| ChatMessage::system(""))
    });
    Ok(messages.collect())
}
