//! A complete record moves between stores, and one store at a time continues its session.

use std::sync::{Arc, Mutex, PoisonError};

use logue_harness::store::{
    BoundLabel, CancelMode, Disposition, ImportResult, Lease, MemoryStore, NewEntry, OutcomeKind,
    RecordArrival, RecordDigest, RecordHash, RecordHead, RecordPart, RecordParts, SessionFork,
    SessionLocation, SharedStore, SignalResult, Store, StoreError, SuspensionFilter, record_hash,
};
use serde_json::{Map, json};

use super::fixtures::{
    LATER, NOW, TTL, accepted, claim_next, done, entry, keyed, lease, outcome, save, sound, turn,
    user_message, waiting_turn,
};
use super::script::{arbitrary, play};
use super::{Checked, ContractViolation, refused, same};

/// The addresses of the cases.
const HERE: &str = "test:here";
const THERE: &str = "test:there";

/// Reads the complete record of a session.
async fn parts_of(store: &dyn Store, session: &str) -> Result<Vec<RecordPart>, ContractViolation> {
    let parts = Arc::new(Mutex::new(Vec::new()));
    let sink = Box::new(Arc::clone(&parts));
    same("the session", store.export(session, sink).await?, true)?;
    let parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(parts.clone())
}

async fn hash_of(store: &dyn Store, session: &str) -> Result<RecordHash, ContractViolation> {
    let hash = record_hash(store, session).await?;
    hash.ok_or_else(|| ContractViolation::Promise {
        what: format!("the hash of `{session}`"),
        found: "none".to_owned(),
        expected: "one".to_owned(),
    })
}

/// Sets the epoch, which differs between stores.
fn without_epoch(mut parts: Vec<RecordPart>) -> Vec<RecordPart> {
    if let Some(RecordPart::Head(head)) = parts.first_mut() {
        head.epoch = 0;
    }
    parts
}

fn digest_of(parts: &[RecordPart]) -> Result<RecordHash, ContractViolation> {
    let mut digest = RecordDigest::default();
    for part in parts {
        digest.add(part)?;
    }
    digest.hash().ok_or_else(|| ContractViolation::Promise {
        what: "the parts".to_owned(),
        found: "none".to_owned(),
        expected: "some".to_owned(),
    })
}

/// Writes parts as a session that comes from an address.
async fn import(
    store: &dyn Store,
    session: &str,
    from: &str,
    parts: Vec<RecordPart>,
) -> Result<ImportResult, ContractViolation> {
    let arrival = RecordArrival {
        from: from.to_owned(),
        hash: digest_of(&parts)?,
    };
    let source = Box::new(RecordParts::new(parts));
    Ok(store.import(session, arrival, source).await?)
}

/// Creates a session with every kind of part but a record in quarantine.
async fn varied_session(store: &dyn Store) -> Checked {
    turn(store, "s", "i1", "first").await?;
    waiting_turn(
        store,
        "s",
        "b0f5f3bc-3a4e-4a53-9d6f-0a8f4d1f4d51",
        "approval",
    )
    .await?;
    let failed = NewEntry {
        digest: Some("d1".to_owned()),
        ..keyed("failed", "k1")
    };
    store.enqueue("s", failed).await?;
    let held = lease(store, "s").await?;
    claim_next(store, &held, "i3").await?;
    store
        .journal(&held, "i3", vec![json!({ "a": 0.1 }), json!("b")])
        .await?;
    let mut end = save("i3", 2);
    end.fields = Map::from_iter([
        ("z".to_owned(), json!("x".repeat(20_000))),
        ("a".to_owned(), json!(1)),
    ]);
    end.schema_version = Some("7".to_owned());
    end.settle = Some(Disposition::Done {
        outcome: outcome(OutcomeKind::Errored, 2),
        keep_journal: true,
        keep_suspension: false,
    });
    store.commit(&held, end).await?;
    store.enqueue("s", keyed("running", "k2")).await?;
    claim_next(store, &held, "i4").await?;
    store
        .journal(&held, "i4", vec![json!({ "started": "call" })])
        .await?;
    store.request_cancel("s", CancelMode::Rollback).await?;
    store.release(&held).await?;
    store
        .signal(
            "b0f5f3bc-3a4e-4a53-9d6f-0a8f4d1f4d51",
            None,
            Map::new(),
            LATER,
        )
        .await?;
    store.set_label("s", "agent", json!("a.md"), LATER).await?;
    store
        .set_label("s", "Äx", json!({ "deep": [null, 1.5e300] }), LATER)
        .await?;
    store
        .audit("s", "i1", vec![json!({ "allow": true })], NOW)
        .await?;
    Ok(())
}

pub(super) async fn a_record_arrives_as_it_was(store: SharedStore) -> Checked {
    varied_session(&*store).await?;
    let record = parts_of(&*store, "s").await?;
    let other = MemoryStore::new();
    let arrived = import(&other, "s", HERE, record.clone()).await?;
    same("the arrival in memory", arrived, ImportResult::Arriving)?;
    let there = parts_of(&other, "s").await?;
    same(
        "the record in memory",
        without_epoch(there),
        without_epoch(record.clone()),
    )?;
    let hash = hash_of(&*store, "s").await?;
    same("the hash in memory", hash_of(&other, "s").await?, hash)?;

    let seen = store.outcomes_since("s", 1, 9).await?;
    store.delete("s").await?;
    let arrived = import(&*store, "s", THERE, record.clone()).await?;
    same("the arrival", arrived, ImportResult::Arriving)?;
    let here = parts_of(&*store, "s").await?;
    same("the record", without_epoch(here), without_epoch(record))?;
    same("the hash", hash_of(&*store, "s").await?, hash)?;
    same("the outcomes", store.outcomes_since("s", 1, 9).await?, seen)?;
    same("the end", store.mark_arrived("s").await?, true)?;
    same("a second end", store.mark_arrived("s").await?, false)?;

    let again = store.enqueue("s", keyed("running", "k2")).await?;
    same("a known key", again, accepted(4, false, 0))?;
    let held = lease(&*store, "s").await?;
    let begun = claim_next(&*store, &held, "new").await?;
    same("what ran is recovered", begun.recovered, true)?;
    same("its notes", begun.notes, vec![json!({ "started": "call" })])?;
    same("its cancellation", begun.cancel, Some(CancelMode::Rollback))?;
    store
        .commit(&held, done("i4", 2, vec![user_message("x")]))
        .await?;
    let begun = claim_next(&*store, &held, "new").await?;
    same(
        "the signal",
        begun.entry.invocation_id.as_deref(),
        Some("b0f5f3bc-3a4e-4a53-9d6f-0a8f4d1f4d51"),
    )?;
    sound(&*store).await.map(drop)
}

pub(super) async fn the_hash_covers_each_part(store: SharedStore) -> Checked {
    varied_session(&*store).await?;
    let record = parts_of(&*store, "s").await?;
    let hash = digest_of(&record)?;
    same("the hash", hash_of(&*store, "s").await?, hash)?;
    for left_out in 1..record.len() {
        let mut shorter = record.clone();
        let part = shorter.remove(left_out);
        let differs = digest_of(&shorter)? != hash;
        same(&format!("a hash without {part:?}"), differs, true)?;
    }
    store.set_label("s", "agent", json!("b.md"), LATER).await?;
    let differs = hash_of(&*store, "s").await? != hash;
    same("the hash after a change", differs, true)
}

pub(super) async fn a_record_with_another_hash_leaves_nothing(store: SharedStore) -> Checked {
    varied_session(&*store).await?;
    let record = parts_of(&*store, "s").await?;
    let hash = digest_of(&record)?;
    store.delete("s").await?;
    for left_out in 1..record.len() {
        let mut shorter = record.clone();
        let part = shorter.remove(left_out);
        let arrival = RecordArrival {
            from: THERE.to_owned(),
            hash,
        };
        let source = Box::new(RecordParts::new(shorter));
        let refusal = store.import("s", arrival, source).await;
        refused(&format!("a record without {part:?}"), refusal, "damaged")?;
        same("the session", store.session("s").await?.is_some(), false)?;
    }
    same(
        "what waits",
        store.suspensions(SuspensionFilter::default()).await?,
        Vec::new(),
    )
}

/// Checks that every operation that continues a session is refused.
async fn nothing_continues(store: &dyn Store, stale: &Lease, expected: &'static str) -> Checked {
    let before = without_epoch(parts_of(store, "s").await?);
    refused("an entry", store.enqueue("s", entry("x")).await, expected)?;
    refused(
        "a lease",
        store.acquire("s", "b", LATER, TTL).await,
        expected,
    )?;
    let gone = ("owner", LATER);
    let taken = store.take_over("s", "b", gone, LATER, TTL).await;
    refused("a lease that is taken over", taken, expected)?;
    refused(
        "a label",
        store.set_label("s", "x", json!(1), LATER).await,
        expected,
    )?;
    let created = store.session("s").await?.map(|info| info.created_at);
    for only_if_new in [false, true] {
        let label = BoundLabel {
            name: "x".to_owned(),
            value: json!(1),
            only_created_at: created.unwrap_or(NOW),
            only_if_new,
            now: LATER,
        };
        let set = store.set_bound_label("s", label).await;
        refused("a label of the session that was read", set, expected)?;
    }
    refused(
        "an audit",
        store.audit("s", "i", vec![json!(1)], LATER).await,
        expected,
    )?;
    let signal = store.signal("waits", None, Map::new(), LATER).await;
    refused("a signal", signal, expected)?;
    let cancel = store.request_cancel("s", CancelMode::Interrupt).await;
    refused("a cancellation", cancel, expected)?;
    let fork = store.fork("s", SessionFork::new(0, "copy", LATER)).await;
    refused("a fork", fork, expected)?;
    let filter = SuspensionFilter {
        is_usable: true,
        ..SuspensionFilter::default()
    };
    let waiting = store.suspensions(filter).await?;
    same("the signals that are accepted", waiting, Vec::new())?;
    refused(
        "an old lease",
        store.renew(stale, LATER, TTL).await,
        "fenced",
    )?;
    let note = store.journal(stale, "i", vec![json!(1)]).await;
    refused("a note of an old lease", note, "fenced")?;
    let info = store.session("s").await?;
    same("what is pending", info.map(|info| info.pending), Some(0))?;
    let after = without_epoch(parts_of(store, "s").await?);
    same("the record", after, before)
}

pub(super) async fn a_moved_session_is_not_continued(store: SharedStore) -> Checked {
    waiting_turn(&*store, "s", "waits", "approval").await?;
    store.enqueue("s", entry("next")).await?;
    let location = store.location("s").await?;
    same(
        "the location",
        location,
        Some(SessionLocation::Here { lease: None }),
    )?;
    let held = lease(&*store, "s").await?;
    let hash = hash_of(&*store, "s").await?;
    same(
        "the move",
        store.mark_moved(&held, hash, THERE).await?,
        true,
    )?;
    let to = THERE.to_owned();
    let location = store.location("s").await?;
    same(
        "the new location",
        location,
        Some(SessionLocation::Moved { to }),
    )?;
    nothing_continues(&*store, &held, "moved").await?;
    store.release(&held).await?;
    nothing_continues(&*store, &held, "moved").await?;
    same(
        "an end of a move here",
        store.mark_arrived("s").await?,
        false,
    )?;
    // Without its record, a known key would begin a turn here.
    refused("a removal", store.delete("s").await, "moved")?;
    // It is complete elsewhere, so that its turns that wait keep it from nothing.
    same("its removal", store.prune("s", LATER, false).await?, true)
}

pub(super) async fn a_changed_session_is_not_moved(store: SharedStore) -> Checked {
    turn(&*store, "s", "i1", "first").await?;
    let held = lease(&*store, "s").await?;
    let hash = hash_of(&*store, "s").await?;
    store.enqueue("s", entry("meanwhile")).await?;
    same(
        "the move",
        store.mark_moved(&held, hash, THERE).await?,
        false,
    )?;
    let hash = hash_of(&*store, "s").await?;
    let stale = Lease {
        owner: "another".to_owned(),
        ..held.clone()
    };
    let taken = store.mark_moved(&stale, hash, THERE).await;
    refused("a move by another owner", taken, "fenced")?;
    store.release(&held).await?;
    let late = store.mark_moved(&held, hash, THERE).await;
    refused("a move without a lease", late, "fenced")?;
    let found = store.enqueue("s", entry("more")).await?;
    same("the next entry", found, accepted(3, true, 1))
}

pub(super) async fn an_arriving_session_is_not_continued(store: SharedStore) -> Checked {
    waiting_turn(&*store, "s", "waits", "approval").await?;
    store.enqueue("s", entry("next")).await?;
    let held = lease(&*store, "s").await?;
    let record = parts_of(&*store, "s").await?;
    store.delete("s").await?;
    import(&*store, "s", THERE, record).await?;
    let from = THERE.to_owned();
    let location = store.location("s").await?;
    same(
        "the location",
        location,
        Some(SessionLocation::Arriving { from }),
    )?;
    nothing_continues(&*store, &held, "arriving").await?;
    same("its removal", store.prune("s", LATER, true).await?, false)?;
    same("the end", store.mark_arrived("s").await?, true)?;
    let stale = store.renew(&held, LATER, TTL).await;
    refused("the lease of the source", stale, "fenced")?;
    let later = lease(&*store, "s").await?;
    same("a higher epoch", later.epoch > held.epoch, true)?;
    let signal = store.signal("waits", None, Map::new(), LATER).await?;
    let expected = SignalResult::Entry {
        session: "s".to_owned(),
        entry: 3,
        is_new: true,
    };
    same("its signal", signal, expected)
}

pub(super) async fn another_session_is_not_replaced(store: SharedStore) -> Checked {
    turn(&*store, "s", "i1", "first").await?;
    let record = parts_of(&*store, "s").await?;
    let equal = import(&*store, "s", THERE, record.clone()).await?;
    same("an equal session", equal, ImportResult::Equal)?;
    turn(&*store, "s", "i2", "second").await?;
    let different = import(&*store, "s", THERE, record).await?;
    same("another session", different, ImportResult::Different)?;
    let location = store.location("s").await?;
    same(
        "its location",
        location,
        Some(SessionLocation::Here { lease: None }),
    )?;
    same("its messages", store.history("s", 0, 9).await?.len(), 4)
}

pub(super) async fn an_arriving_session_is_replaced(store: SharedStore) -> Checked {
    waiting_turn(&*store, "s", "i1", "approval").await?;
    let first = parts_of(&*store, "s").await?;
    turn(&*store, "s", "i2", "second").await?;
    let second = parts_of(&*store, "s").await?;
    store.delete("s").await?;
    for record in [first, second] {
        let arrived = import(&*store, "s", THERE, record.clone()).await?;
        same("an arrival", arrived, ImportResult::Arriving)?;
        let found = parts_of(&*store, "s").await?;
        same("the record", without_epoch(found), without_epoch(record))?;
    }
    sound(&*store).await.map(drop)
}

pub(super) async fn a_session_comes_back(store: SharedStore) -> Checked {
    turn(&*store, "s", "i1", "first").await?;
    let other = MemoryStore::new();
    let held = lease(&*store, "s").await?;
    let hash = hash_of(&*store, "s").await?;
    import(&other, "s", HERE, parts_of(&*store, "s").await?).await?;
    store.mark_moved(&held, hash, THERE).await?;
    other.mark_arrived("s").await?;
    turn(&other, "s", "i2", "second").await?;

    let record = parts_of(&other, "s").await?;
    for foreign in [record.clone(), parts_of(&*store, "s").await?] {
        let foreign = import(&*store, "s", "test:elsewhere", foreign).await?;
        same(
            "a record from a third store",
            foreign,
            ImportResult::Elsewhere,
        )?;
    }
    let back = import(&*store, "s", THERE, record.clone()).await?;
    same("the way back", back, ImportResult::Arriving)?;
    store.mark_arrived("s").await?;
    let found = parts_of(&*store, "s").await?;
    same("the record", without_epoch(found), without_epoch(record))?;
    refused(
        "an old lease",
        store.renew(&held, LATER, TTL).await,
        "fenced",
    )?;
    turn(&*store, "s", "i3", "third").await
}

pub(super) async fn a_waiting_invocation_has_one_session(store: SharedStore) -> Checked {
    waiting_turn(&*store, "s", "i1", "approval").await?;
    let mut record = parts_of(&*store, "s").await?;
    if let Some(RecordPart::Head(head)) = record.first_mut() {
        *head = RecordHead {
            session: "t".to_owned(),
            ..head.clone()
        };
    }
    let arrival = RecordArrival {
        from: THERE.to_owned(),
        hash: digest_of(&record)?,
    };
    let source = Box::new(RecordParts::new(record));
    let refusal: Result<_, StoreError> = store.import("t", arrival, source).await;
    refused("a second session that waits", refusal, "exists")?;
    same("it", store.session("t").await?.is_some(), false)
}

pub(super) async fn an_unknown_session_has_no_record(store: SharedStore) -> Checked {
    let parts = Arc::new(Mutex::new(Vec::new()));
    let sink = Box::new(Arc::clone(&parts));
    same("the session", store.export("s", sink).await?, false)?;
    same("its location", store.location("s").await?, None)?;
    refused("its arrival", store.mark_arrived("s").await, "not found")?;
    let parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
    same("its parts", parts.clone(), Vec::new())
}

pub(super) async fn arbitrary_sessions_arrive_as_they_were(store: SharedStore) -> Checked {
    let script = arbitrary(0x7e57, 800);
    let sessions = play(&*store, &script).await;
    let model = MemoryStore::new();
    play(&model, &script).await;
    let other = MemoryStore::new();
    for session in sessions {
        if store.location(session).await?.is_none() {
            continue;
        }
        let record = parts_of(&*store, session).await?;
        same(
            "the record of the model",
            parts_of(&model, session).await?,
            record.clone(),
        )?;
        import(&other, session, HERE, record.clone()).await?;
        let there = parts_of(&other, session).await?;
        same(
            "the record in memory",
            without_epoch(there.clone()),
            without_epoch(record),
        )?;
        store.delete(session).await?;
        import(&*store, session, THERE, there.clone()).await?;
        let here = parts_of(&*store, session).await?;
        same("the record", without_epoch(here), without_epoch(there))?;
        store.mark_arrived(session).await?;
    }
    sound(&*store).await.map(drop)
}
