//! Leases do not depend on the wall clocks of their processes.

use std::sync::Arc;
use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{LeaseResult, ProcessLeases, SharedStore, Store};
use logue_store::SqliteStore;

use super::{NOW, TTL, entry, place};

const HOUR: u64 = 3_600_000;

/// Two processes with their connections to one file.
fn two(path: &std::path::Path) -> [ProcessLeases; 2] {
    [(), ()].map(|()| {
        let store: SharedStore = Arc::new(SqliteStore::open(path).unwrap());
        ProcessLeases::new(store)
    })
}

fn is_held(result: &LeaseResult) -> bool {
    matches!(result, LeaseResult::Held { .. })
}

#[tokio::test]
async fn an_hour_more_or_less_changes_nothing() {
    let (_folder, path) = place();
    let [one, other] = two(&path);
    one.enqueue("s", entry("x", None)).await.unwrap();
    for (own, others) in [(NOW.0 + 2 * HOUR, 0), (0, NOW.0 + 2 * HOUR), (NOW.0, NOW.0)] {
        let (own, others) = (Timestamp(own), Timestamp(others));
        let LeaseResult::Lease(lease) = one.acquire("s", "a", own, TTL).await.unwrap() else {
            panic!("it is free");
        };
        let second = other.acquire("s", "b", others, TTL).await.unwrap();
        assert!(is_held(&second), "{own:?} {others:?}: {second:?}");
        // A step of the clock in the middle of a lease.
        one.renew(&lease, others, TTL).await.unwrap();
        let second = other.acquire("s", "b", own, TTL).await.unwrap();
        assert!(is_held(&second), "{own:?} {others:?}: {second:?}");
        one.release(&lease).await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_ends_after_its_time_and_with_its_release() {
    let (_folder, path) = place();
    let [one, other] = two(&path);
    one.enqueue("s", entry("x", None)).await.unwrap();
    let brief = Duration::from_millis(40);
    one.acquire("s", "a", NOW, brief).await.unwrap();
    let second = other.acquire("s", "b", NOW, TTL).await.unwrap();
    assert!(is_held(&second), "{second:?}");
    tokio::time::sleep(brief).await;
    let second = other.acquire("s", "b", NOW, TTL).await.unwrap();
    assert!(!is_held(&second), "{second:?}");
    other.release_all().await;
    let third = one.acquire("s", "a", NOW, TTL).await.unwrap();
    assert!(!is_held(&third), "{third:?}");
}

#[tokio::test]
async fn a_lease_of_another_machine_is_taken_when_nobody_renews_it() {
    let (_folder, path) = place();
    let [one, _] = two(&path);
    let foreign = SqliteStore::open(&path).unwrap();
    one.enqueue("s", entry("x", None)).await.unwrap();
    // Its clock is far behind, and its process has a number that is free here.
    let name = "a@another-boot/1/999999/1";
    let LeaseResult::Lease(lease) = foreign.acquire("s", name, Timestamp(5), TTL).await.unwrap()
    else {
        panic!("it is free");
    };
    let brief = Duration::from_millis(60);
    for round in 0..3 {
        let found = one.acquire("s", "b", NOW, brief).await.unwrap();
        assert!(is_held(&found), "{round}: {found:?}");
        tokio::time::sleep(brief).await;
        foreign
            .renew(&lease, Timestamp(10 + round), TTL)
            .await
            .unwrap();
    }
    let found = one.acquire("s", "b", NOW, brief).await.unwrap();
    assert!(is_held(&found), "{found:?}");
    tokio::time::sleep(brief).await;
    let found = one.acquire("s", "b", NOW, brief).await.unwrap();
    assert!(!is_held(&found), "{found:?}");
}
