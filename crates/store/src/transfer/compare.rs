//! The comparison of a session in two stores.

use logue_harness::store::{RecordHash, Store, StoreError, record_hash};

use super::{TransferEnd, TransferError};

/// The number of records that are read at once.
const PAGE: usize = 256;

/// The result of the comparison of a session in two stores.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionComparison {
    /// The complete records are equal.
    Equal {
        /// Their hash.
        hash: RecordHash,
    },
    /// The target has everything of the source, and continued from there.
    Continued,
    /// The records differ.
    Different,
    /// The target has no such session.
    Missing,
}

/// Compares a session.
///
/// What only ever grows has to be the beginning of that of the target: messages, outcomes and audit.
pub(super) async fn compare(
    source: &TransferEnd,
    target: &TransferEnd,
    session: &str,
) -> Result<SessionComparison, TransferError> {
    let (here, there) = (&*source.store, &*target.store);
    let own = record_hash(here, session).await;
    let own = own.map_err(TransferError::Source)?;
    let other = record_hash(there, session).await;
    let Some(other) = other.map_err(TransferError::Target)? else {
        return Ok(SessionComparison::Missing);
    };
    if own == Some(other) {
        return Ok(SessionComparison::Equal { hash: other });
    }
    Ok(if continues(here, there, session).await? {
        SessionComparison::Continued
    } else {
        SessionComparison::Different
    })
}

/// Returns whether the target's session continues that of the source.
async fn continues(
    here: &dyn Store,
    there: &dyn Store,
    session: &str,
) -> Result<bool, TransferError> {
    let own = here.session(session).await.map_err(TransferError::Source)?;
    let other = there.session(session).await;
    let (Some(own), Some(other)) = (own, other.map_err(TransferError::Target)?) else {
        return Ok(false);
    };
    let is_later = other.updated_at >= own.updated_at
        && other.created_at == own.created_at
        && (other.seq, other.cursor, other.updated_at) != (own.seq, own.cursor, own.updated_at);
    Ok(is_later
        && same(own.seq, |from, limit| async move {
            let read = read_both(
                here.history(session, from, limit),
                there.history(session, from, limit),
            );
            read.await
        })
        .await?
        && same(own.cursor, |from, limit| async move {
            let read = read_both(
                here.outcomes_since(session, from, limit),
                there.outcomes_since(session, from, limit),
            );
            read.await
        })
        .await?
        && same(u64::MAX, |from, limit| async move {
            let own = here.audited(session, from, limit).await;
            let own = own.map_err(TransferError::Source)?;
            let other = there.audited(session, from, own.len()).await;
            let other = other.map_err(TransferError::Target)?;
            Ok((own.len(), own == other))
        })
        .await?)
}

/// Reads a range of both stores, and returns its length and whether it is equal.
async fn read_both<T: PartialEq>(
    own: impl Future<Output = Result<Vec<T>, StoreError>>,
    other: impl Future<Output = Result<Vec<T>, StoreError>>,
) -> Result<(usize, bool), TransferError> {
    let own = own.await.map_err(TransferError::Source)?;
    let other = other.await.map_err(TransferError::Target)?;
    Ok((own.len(), own == other))
}

/// Compares the first `total` records, page by page.
async fn same<F: Future<Output = Result<(usize, bool), TransferError>>>(
    total: u64,
    page: impl Fn(u64, usize) -> F,
) -> Result<bool, TransferError> {
    let mut from = 0;
    while from < total {
        let left = usize::try_from(total - from).unwrap_or(usize::MAX);
        let (count, is_equal) = page(from, PAGE.min(left)).await?;
        if !is_equal {
            return Ok(false);
        }
        if count == 0 {
            break;
        }
        from += count as u64;
    }
    Ok(true)
}
