//! Logs of events that do not share the database of the store.

use std::sync::Arc;

use logue_harness::events::{EventBatch, EventLog, LogPosition, MemoryEventLog};
use logue_harness::store::{Lease, StoreError};
use logue_store::SqliteEventLog;

use super::{NOW, place};

fn batch(entry: u64, epoch: u64) -> EventBatch {
    EventBatch {
        progress: None,
        lease: Some(Lease {
            session: "s".to_owned(),
            owner: format!("owner {epoch}"),
            epoch,
        }),
        events: vec![(entry, Arc::from("{}"))],
        now: NOW,
    }
}

/// An owner that lost the session appends nothing after the first append of the next one.
async fn refuses_earlier_leases(log: &dyn EventLog) {
    let accepted = LogPosition::default().with_accepted(2);
    let begins = |progress| EventBatch {
        progress: Some(progress),
        lease: None,
        ..batch(1, 0)
    };
    let begun = begins((LogPosition::default(), accepted));
    log.append("s", begun).await.unwrap().unwrap();
    log.append("s", batch(1, 4)).await.unwrap().unwrap();
    log.append("s", batch(1, 5)).await.unwrap().unwrap();
    let refused = log.append("s", batch(1, 4)).await.unwrap_err();
    let expected = |error: &StoreError, own| matches!(error, StoreError::Fenced { epoch, current: 5, .. } if *epoch == own);
    assert!(expected(&refused, 4), "{refused}");
    // Nothing of a turn follows its outcome.
    let settled = begins((accepted, accepted.with_outcome(1, 1)));
    log.append("s", settled).await.unwrap().unwrap();
    let refused = log.append("s", batch(1, 5)).await.unwrap_err();
    assert!(expected(&refused, 5), "{refused}");
    log.append("s", batch(2, 5)).await.unwrap().unwrap();
    assert_eq!(log.position("s").await.unwrap().seq, 5);
}

#[tokio::test]
async fn earlier_leases_are_refused() {
    refuses_earlier_leases(&MemoryEventLog::new()).await;
    let (_folder, path) = place();
    let log = SqliteEventLog::beside(&path, "").unwrap();
    refuses_earlier_leases(&log).await;
    // Another process too.
    let other = SqliteEventLog::beside(&path, "").unwrap();
    let refused = other.append("s", batch(2, 4)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { .. }), "{refused}");
}
