//! One owner at a time; operations of an earlier owner have no effect.

use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{Commit, Lease, LeaseResult, SharedStore, Store, StoreError};
use serde_json::json;

use super::fixtures::{
    LATER, NOW, TTL, claim_next, done, entry, history, lease, lease_at, save, sound, user_message,
};
use super::{Checked, refused, same};

pub(super) async fn one_owner_at_a_time(store: SharedStore) -> Checked {
    let unknown = store.acquire("s", "a", NOW, TTL).await;
    refused("a session that does not exist", unknown, "not found")?;
    store.enqueue("s", entry("x")).await?;
    let first = lease_at(&*store, "s", "a", NOW).await?;
    same("the session", &*first.session, "s")?;
    same("the owner", &*first.owner, "a")?;
    let held = LeaseResult::Held {
        owner: "a".to_owned(),
        until: LATER,
    };
    let before = Timestamp(LATER.0 - 1);
    for now in [NOW, before, Timestamp(0)] {
        same(
            "for another",
            store.acquire("s", "b", now, TTL).await?,
            held.clone(),
        )?;
    }
    let second = lease_at(&*store, "s", "b", LATER).await?;
    same("a later epoch", second.epoch > first.epoch, true)?;
    store.release(&second).await?;
    let third = lease_at(&*store, "s", "c", NOW).await?;
    same("an epoch after that", third.epoch > second.epoch, true)?;
    let info = store.session("s").await?;
    same(
        "the epoch of the session",
        info.map(|info| info.epoch),
        Some(third.epoch),
    )
}

pub(super) async fn a_lease_of_an_owner_that_is_gone_is_taken_over(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let first = lease_at(&*store, "s", "a", NOW).await?;
    let held = LeaseResult::Held {
        owner: "a".to_owned(),
        until: LATER,
    };
    // Not one of another owner, and not one that was renewed in between.
    for gone in [("c", LATER), ("a", Timestamp(LATER.0 - 1))] {
        let taken = store.take_over("s", "b", gone, NOW, TTL).await?;
        same("another lease", taken, held.clone())?;
    }
    let taken = store.take_over("s", "b", ("a", LATER), NOW, TTL).await?;
    let LeaseResult::Lease(second) = taken else {
        return same("a lease", taken, held);
    };
    same("a later epoch", second.epoch > first.epoch, true)?;
    let renewed = store.renew(&first, NOW, TTL).await;
    refused("the one that is gone", renewed, "fenced")?;
    store.release(&second).await?;
    // A free session is taken as by `acquire`.
    let taken = store.take_over("s", "c", ("a", LATER), NOW, TTL).await?;
    same("free", matches!(taken, LeaseResult::Lease(_)), true)
}

pub(super) async fn times_of_different_clocks_are_not_compared(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    lease_at(&*store, "s", "a@one/1", NOW).await?;
    let held = LeaseResult::Held {
        owner: "a@one/1".to_owned(),
        until: LATER,
    };
    let late = Timestamp(LATER.0 * 2);
    for other in ["b@two/1", "b", "b@"] {
        let found = store.acquire("s", other, late, TTL).await?;
        same(other, found, held.clone())?;
    }
    let taken = store.acquire("s", "b@one/2", late, TTL).await?;
    same(
        "the same clock",
        matches!(taken, LeaseResult::Lease(_)),
        true,
    )
}

pub(super) async fn an_owner_gets_a_new_epoch(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let first = lease(&*store, "s").await?;
    let second = lease(&*store, "s").await?;
    same("a later epoch", second.epoch > first.epoch, true)?;
    refused(
        "the first one",
        store.renew(&first, NOW, TTL).await,
        "fenced",
    )?;
    same(
        "the second one",
        store.renew(&second, NOW, TTL).await?,
        None,
    )
}

/// A database that lost a lease in a crash gives its epoch to another owner.
pub(super) async fn a_lease_is_valid_for_its_owner_only(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let held = lease_at(&*store, "s", "a#2@one", NOW).await?;
    claim_next(&*store, &held, "i1").await?;
    for stale in ["a#1@one", "a@one", "b#2@one", "a#2@two", ""] {
        let lost = Lease {
            owner: stale.to_owned(),
            ..held.clone()
        };
        nothing_comes_of(&*store, &lost).await?;
        store.release(&lost).await?;
    }
    same("the owner", store.renew(&held, NOW, TTL).await?, None)?;
    store
        .commit(&held, done("i1", 0, vec![user_message("x")]))
        .await
        .map_err(Into::into)
}

pub(super) async fn an_acquisition_is_of_its_holder(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    for (holder, other) in [
        (["a#1", "a#2"], "b#1"),
        (["a#1#1@one/1", "a#1#2@one/1"], "a#2#1@one/1"),
        (["a@b#1@one/1", "a@b@one/1"], "a@b@one/2"),
        (["a#@c@one#1", "a@one#1"], "a@one#2"),
    ] {
        let first = lease_at(&*store, "s", holder[0], NOW).await?;
        let held = LeaseResult::Held {
            owner: first.owner.clone(),
            until: LATER,
        };
        let refused = store.acquire("s", other, NOW, TTL).await?;
        same("another holder", refused, held)?;
        let second = lease_at(&*store, "s", holder[1], NOW).await?;
        same("a later epoch", second.epoch > first.epoch, true)?;
        nothing_comes_of(&*store, &first).await?;
        store.release(&first).await?;
        same(
            "the second one",
            store.renew(&second, NOW, TTL).await?,
            None,
        )?;
        store.release(&second).await?;
    }
    Ok(())
}

pub(super) async fn a_lease_that_is_over_can_be_renewed(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let first = lease_at(&*store, "s", "a", NOW).await?;
    claim_next(&*store, &first, "i1").await?;
    same(
        "after its end",
        store.renew(&first, LATER, TTL).await?,
        None,
    )?;
    let held = LeaseResult::Held {
        owner: "a".to_owned(),
        until: LATER.after(TTL),
    };
    same(
        "for another",
        store.acquire("s", "b", LATER, TTL).await?,
        held,
    )?;
    // No other owner took the lease, so its commit is valid at any time.
    let late = done("i1", 0, vec![user_message("x")]);
    store.commit(&first, late).await?;
    same(
        "the history",
        history(&*store, "s").await?,
        vec![user_message("x")],
    )
}

pub(super) async fn a_lease_that_was_taken_over_does_nothing(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let old = lease_at(&*store, "s", "a", NOW).await?;
    claim_next(&*store, &old, "i1").await?;
    store.journal(&old, "i1", vec![json!(1)]).await?;
    let new = lease_at(&*store, "s", "b", LATER).await?;

    let error = store.commit(&old, save("i1", 0)).await.err();
    let actual = match error {
        Some(StoreError::Fenced {
            session,
            epoch,
            current,
        }) => Some((session, epoch, current)),
        _ => None,
    };
    same(
        "the error",
        actual,
        Some(("s".to_owned(), old.epoch, new.epoch)),
    )?;
    nothing_comes_of(&*store, &old).await?;
    let recovered = claim_next(&*store, &new, "i2").await?;
    same(
        "what was begun",
        recovered.entry.invocation_id.as_deref(),
        Some("i1"),
    )?;
    same("its notes", recovered.notes, vec![json!(1)])?;
    nothing_comes_of(&*store, &old).await?;

    // Releasing a lost lease does not affect the current owner.
    store.release(&old).await?;
    same("the new one", store.renew(&new, LATER, TTL).await?, None)?;
    store
        .commit(&new, done("i1", 0, vec![user_message("x")]))
        .await?;
    nothing_comes_of(&*store, &old).await?;
    same(
        "the history",
        history(&*store, "s").await?,
        vec![user_message("x")],
    )
}

pub(super) async fn messages_are_appended_by_the_latest_lease_and_its_turn_only(
    store: SharedStore,
) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let old = lease_at(&*store, "s", "a", NOW).await?;
    let new = lease_at(&*store, "s", "a", NOW).await?;
    claim_next(&*store, &new, "i1").await?;
    let append = |invocation: &str, expected_seq| Commit {
        messages: vec![user_message("saved")],
        ..save(invocation, expected_seq)
    };
    let earlier = store.commit(&old, append("i1", 0)).await;
    refused("messages under an earlier lease", earlier, "fenced")?;
    let other = store.commit(&new, append("i2", 0)).await;
    refused("messages of a turn that does not run", other, "not found")?;
    let ahead = store.commit(&new, append("i1", 1)).await;
    refused("messages after a gap", ahead, "conflict")?;
    same("the history", history(&*store, "s").await?, Vec::new())?;
    store.commit(&new, append("i1", 0)).await?;
    let again = store.commit(&new, append("i1", 0)).await;
    refused("the same place again", again, "conflict")?;
    store.commit(&new, append("i1", 1)).await?;
    same(
        "the history after two saves",
        history(&*store, "s").await?,
        vec![user_message("saved"), user_message("saved")],
    )?;
    sound(&*store).await?;
    Ok(())
}

pub(super) async fn a_lease_that_was_given_back_does_nothing(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let lease = lease_at(&*store, "s", "a", NOW).await?;
    claim_next(&*store, &lease, "i1").await?;
    store.release(&lease).await?;
    store.release(&lease).await?;
    nothing_comes_of(&*store, &lease).await?;
    let next = lease_at(&*store, "s", "b", NOW).await?;
    same("a later epoch", next.epoch > lease.epoch, true)?;
    same(
        "recovery",
        claim_next(&*store, &next, "i2").await?.recovered,
        true,
    )
}

pub(super) async fn a_deleted_session_leaves_no_valid_lease(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    lease(&*store, "s").await?;
    let old = lease(&*store, "s").await?;
    store.delete("s").await?;
    refused("its lease", store.renew(&old, NOW, TTL).await, "not found")?;
    store.release(&old).await?;
    store.enqueue("s", entry("y")).await?;
    nothing_comes_of(&*store, &old).await?;
    let new = lease(&*store, "s").await?;
    same("a later epoch", new.epoch > old.epoch, true)?;
    nothing_comes_of(&*store, &old).await?;
    same("what is there", store.inbox("s").await?.len(), 1)
}

pub(super) async fn a_distant_end_is_kept(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    store.acquire("s", "a", NOW, Duration::MAX).await?;
    let held = LeaseResult::Held {
        owner: "a".to_owned(),
        until: Timestamp(u64::MAX),
    };
    let asked = store
        .acquire("s", "b", Timestamp(u64::MAX - 1), TTL)
        .await?;
    same("for another", asked, held)
}

/// Checks that every operation refuses this lease and changes nothing.
async fn nothing_comes_of(store: &dyn Store, lease: &Lease) -> Checked {
    let before = (store.session("s").await?, store.inbox("s").await?);
    refused("renewal", store.renew(lease, NOW, TTL).await, "fenced")?;
    refused(
        "beginning",
        store.claim_next(lease, "i9", NOW).await,
        "fenced",
    )?;
    let note = store.journal(lease, "i1", vec![json!("late")]).await;
    refused("a note", note, "fenced")?;
    let seq = before.0.as_ref().map_or(0, |info| info.seq);
    let late = done("i1", seq, vec![user_message("late")]);
    let ended = store.commit(lease, late.clone()).await;
    refused("an end", ended, "fenced")?;
    let ended = store.commit_and_release(lease, late).await;
    refused("an end with a release", ended, "fenced")?;
    refused("a save", store.commit(lease, save("i1", 7)).await, "fenced")?;
    let after = (store.session("s").await?, store.inbox("s").await?);
    same("the session", after, before)?;
    sound(store).await.map(drop)
}
