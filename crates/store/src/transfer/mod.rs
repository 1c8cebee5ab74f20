//! Moves complete sessions from one store to another.
//!
//! Each session moves on its own, in steps that can be repeated after a crash at any point. The order
//! of the steps makes at most one of the two stores continue it at any time; see
//! [`logue_harness::store`].

mod compare;
mod spool;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use logue_harness::store::{
    ImportResult, Lease, LeaseResult, RecordArrival, RecordHash, RecordHead, SessionLocation,
    SharedStore, Store, StoreError, record_hash,
};
use logue_harness::{Clock, SystemClock};

pub use self::compare::SessionComparison;
use self::spool::Spool;

/// The duration of the lease of a session that moves.
const TTL: Duration = Duration::from_secs(10);
/// The number of attempts for a session that changes while it is copied.
const ATTEMPTS: usize = 5;

/// A store of a transfer, with its address for messages and marks.
#[derive(Clone)]
pub struct TransferEnd {
    /// The store.
    pub store: SharedStore,
    /// Its address without a password; equal for each run.
    pub address: String,
}

/// A transfer of sessions between two stores.
pub struct Transfer {
    source: TransferEnd,
    target: TransferEnd,
    owner: String,
    is_copy: bool,
    folder: PathBuf,
}

/// A transfer of a session that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The store that it comes from failed.
    #[error("{0}")]
    Source(#[source] StoreError),
    /// The store that it goes to failed.
    #[error("{0}")]
    Target(#[source] StoreError),
    /// The two addresses name one store.
    #[error("both addresses name the same store")]
    SameStore,
}

/// The size of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferSize {
    /// The number of messages.
    pub messages: u64,
    /// The number of entries of the inbox.
    pub entries: u64,
    /// The length of the complete record as JSON lines.
    pub bytes: u64,
}

/// The result of the transfer of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransferResult {
    /// The target continues it now, or has a copy.
    Transferred {
        /// Its size.
        size: TransferSize,
        /// The hash of its record.
        hash: RecordHash,
    },
    /// An earlier transfer had moved it to this target.
    AlreadyMoved,
    /// It was moved to another store.
    MovedElsewhere {
        /// The address of that store.
        to: String,
    },
    /// It is arriving in the source itself.
    Arriving {
        /// The address where it comes from.
        from: String,
    },
    /// A turn or command uses it; `None` if it changed too often.
    InUse {
        /// The owner of the lease.
        owner: Option<String>,
    },
    /// The target has another session of that id.
    Different,
    /// The target had moved it to a third store, which continues it.
    WentElsewhere {
        /// The address of that store.
        to: String,
    },
    /// It was moved to the target, which has not got its record.
    Lost,
    /// The source has no such session.
    Missing,
}

impl Transfer {
    /// Creates a transfer. `owner` names it in leases, and differs between transfers.
    ///
    /// Sessions that are large are kept in a file without a name in `folder` for the time between.
    pub fn new(
        source: TransferEnd,
        target: TransferEnd,
        owner: impl Into<String>,
        folder: impl Into<PathBuf>,
    ) -> Self {
        Self {
            source,
            target,
            owner: owner.into(),
            is_copy: false,
            folder: folder.into(),
        }
    }

    /// Leaves the sessions of the source in use, so that both stores have one.
    #[must_use]
    pub fn with_copies(mut self) -> Self {
        self.is_copy = true;
        self
    }

    /// Returns what a transfer of a session would do first, without changing anything.
    ///
    /// `None` stands for a transfer of the session.
    ///
    /// # Errors
    /// Returns [`TransferError`] if one of the stores fails.
    pub async fn plan(&self, session: &str) -> Result<Option<TransferResult>, TransferError> {
        let location = self.source.store.location(session).await;
        Ok(match location.map_err(TransferError::Source)? {
            Some(SessionLocation::Here { lease: None }) => self.departure(session).await?,
            Some(SessionLocation::Here { lease }) => {
                let owner = lease.map(|(owner, _)| owner);
                Some(TransferResult::InUse { owner })
            }
            Some(SessionLocation::Moved { to }) if to == self.target.address => {
                Some(TransferResult::AlreadyMoved)
            }
            Some(SessionLocation::Moved { .. }) if self.is_copy => None,
            Some(SessionLocation::Moved { to }) => Some(TransferResult::MovedElsewhere { to }),
            Some(SessionLocation::Arriving { from }) => Some(TransferResult::Arriving { from }),
            _ => Some(TransferResult::Missing),
        })
    }

    /// Transfers a session, or continues an interrupted transfer of it.
    ///
    /// # Errors
    /// Returns [`TransferError`] if one of the stores fails. The source then still continues the
    /// session, or the next transfer ends the move.
    pub async fn run(&self, session: &str) -> Result<TransferResult, TransferError> {
        match self.plan(session).await? {
            None | Some(TransferResult::InUse { .. }) => {}
            Some(TransferResult::AlreadyMoved) => return self.end_move(session).await,
            Some(other) => return Ok(other),
        }
        let lease = match self.lease(session).await? {
            Ok(lease) => lease,
            Err(TransferResult::Missing) => return self.withdraw(session).await,
            Err(held) => return Ok(held),
        };
        let result = match &lease {
            Some(lease) => self.with_lease(session, lease).await,
            None => self.copy(session).await.map(|(_, result)| result),
        };
        if let Some(lease) = lease {
            self.give_back(&lease).await;
        }
        result
    }

    /// Compares a session of the source with that of the target.
    ///
    /// # Errors
    /// Returns [`TransferError`] if one of the stores cannot be read; [`StoreError::Damaged`] in it
    /// concerns this session only.
    pub async fn compare(&self, session: &str) -> Result<SessionComparison, TransferError> {
        compare::compare(&self.source, &self.target, session).await
    }

    /// Takes the lease of a session. A copy of a moved one needs none, because it no longer changes.
    async fn lease(
        &self,
        session: &str,
    ) -> Result<Result<Option<Lease>, TransferResult>, TransferError> {
        let source = &self.source.store;
        let now = SystemClock.now();
        match source.acquire(session, &self.owner, now, TTL).await {
            Ok(LeaseResult::Lease(lease)) => {
                let checked = self.check_stores(session).await;
                if checked.is_err() {
                    self.give_back(&lease).await;
                }
                checked.map(|()| Ok(Some(lease)))
            }
            Ok(LeaseResult::Held { owner, .. }) => {
                Ok(Err(TransferResult::InUse { owner: Some(owner) }))
            }
            Ok(_) => Ok(Err(TransferResult::InUse { owner: None })),
            Err(StoreError::Moved { .. }) if self.is_copy => Ok(Ok(None)),
            Err(StoreError::NotFound { .. }) => Ok(Err(TransferResult::Missing)),
            Err(error) => Err(TransferError::Source(error)),
        }
    }

    /// Gives a lease back. One that cannot be given back expires.
    async fn give_back(&self, lease: &Lease) {
        drop(self.source.store.release(lease).await);
    }

    /// Refuses a target that has the lease which was taken in the source.
    async fn check_stores(&self, session: &str) -> Result<(), TransferError> {
        let found = self.target.store.location(session).await;
        match found.map_err(TransferError::Target)? {
            Some(SessionLocation::Here {
                lease: Some((owner, _)),
            }) if owner.starts_with(&self.owner) => Err(TransferError::SameStore),
            _ => Ok(()),
        }
    }

    async fn with_lease(
        &self,
        session: &str,
        lease: &Lease,
    ) -> Result<TransferResult, TransferError> {
        for _ in 0..ATTEMPTS {
            let (hash, result) = self.copy(session).await?;
            if result == TransferResult::Missing {
                return self.withdraw(session).await;
            }
            let (Some(hash), false) = (hash, self.is_copy) else {
                return Ok(result);
            };
            let source = &self.source.store;
            match source.mark_moved(lease, hash, &self.target.address).await {
                Ok(true) => {
                    self.arrive(session).await?;
                    return Ok(result);
                }
                // A message or a signal came meanwhile.
                Ok(false) => {}
                Err(error) if error.is_conflict() => {
                    return Ok(TransferResult::InUse { owner: None });
                }
                Err(StoreError::NotFound { .. }) => return self.withdraw(session).await,
                Err(error) => return Err(TransferError::Source(error)),
            }
        }
        Ok(TransferResult::InUse { owner: None })
    }

    /// Removes the copy of a session that the source no longer has.
    ///
    /// Nothing else would end its arrival.
    async fn withdraw(&self, session: &str) -> Result<TransferResult, TransferError> {
        let target = &self.target.store;
        let found = target.location(session).await;
        let found = found.map_err(TransferError::Target)?;
        let own = SessionLocation::arriving_owner(&self.source.address);
        if let Some(SessionLocation::Arriving { from }) = found
            && SessionLocation::arriving_owner(&from) == own
        {
            let removed = target.delete(session).await;
            removed.map_err(TransferError::Target)?;
        }
        Ok(TransferResult::Missing)
    }

    /// Copies the record of a session. The hash is `None` if there is no copy.
    ///
    /// The target continues a copy at once, and the session of a move not yet.
    async fn copy(
        &self,
        session: &str,
    ) -> Result<(Option<RecordHash>, TransferResult), TransferError> {
        let spool = read(&*self.source.store, session, &self.folder).await;
        let spool = spool.map_err(TransferError::Source)?;
        let (Some(head), Some(hash)) = (spool.head(), spool.hash()) else {
            return Ok((None, TransferResult::Missing));
        };
        let size = size_of(head, spool.bytes());
        let arrival = RecordArrival {
            from: self.source.address.clone(),
            hash,
        };
        let record = Box::new(spool.source().map_err(TransferError::Source)?);
        let imported = self.target.store.import(session, arrival, record).await;
        match imported.map_err(TransferError::Target)? {
            ImportResult::Different => return Ok((None, TransferResult::Different)),
            ImportResult::Elsewhere => {
                let went = self.departure(session).await?;
                return Ok((None, went.unwrap_or(TransferResult::Different)));
            }
            ImportResult::Arriving if self.is_copy => self.arrive(session).await?,
            _ => {}
        }
        Ok((Some(hash), TransferResult::Transferred { size, hash }))
    }

    /// Returns the third store to which the target had moved the session.
    ///
    /// Only the store of that address may give it back: another record of the session may be that of
    /// an older backup, and two stores would continue it.
    async fn departure(&self, session: &str) -> Result<Option<TransferResult>, TransferError> {
        let found = self.target.store.location(session).await;
        let found = found.map_err(TransferError::Target)?;
        let found = found.filter(|found| !found.permits_arrival(&self.source.address));
        Ok(match found {
            Some(SessionLocation::Moved { to }) => Some(TransferResult::WentElsewhere { to }),
            _ => None,
        })
    }

    /// Ends the move of a session that the source no longer continues.
    async fn end_move(&self, session: &str) -> Result<TransferResult, TransferError> {
        let target = &*self.target.store;
        let found = target.location(session).await;
        match found.map_err(TransferError::Target)? {
            Some(SessionLocation::Arriving { .. }) => {}
            Some(_) => return Ok(TransferResult::AlreadyMoved),
            None => return Ok(TransferResult::Lost),
        }
        let spool = read(&*self.source.store, session, &self.folder).await;
        let spool = spool.map_err(TransferError::Source)?;
        let there = record_hash(target, session).await;
        let there = there.map_err(TransferError::Target)?;
        let (Some(head), Some(hash)) = (spool.head(), spool.hash()) else {
            return Ok(TransferResult::Missing);
        };
        if there != Some(hash) {
            return Ok(TransferResult::Lost);
        }
        self.arrive(session).await?;
        let size = size_of(head, spool.bytes());
        Ok(TransferResult::Transferred { size, hash })
    }

    async fn arrive(&self, session: &str) -> Result<(), TransferError> {
        let arrived = self.target.store.mark_arrived(session).await;
        arrived.map(drop).map_err(TransferError::Target)
    }
}

/// Reads the complete record of a session; an empty one if there is no session.
async fn read(
    store: &dyn Store,
    session: &str,
    folder: &std::path::Path,
) -> Result<Spool, StoreError> {
    let spool = Arc::new(Mutex::new(Spool::new(folder)));
    store.export(session, Box::new(Arc::clone(&spool))).await?;
    let mut spool = spool.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(spool.take())
}

const fn size_of(head: &RecordHead, bytes: u64) -> TransferSize {
    TransferSize {
        messages: head.messages,
        entries: head.entries,
        bytes,
    }
}

impl std::fmt::Debug for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transfer")
            .field("source", &self.source.address)
            .field("target", &self.target.address)
            .field("is_copy", &self.is_copy)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TransferEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TransferEnd").field(&self.address).finish()
    }
}
