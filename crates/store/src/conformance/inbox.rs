//! Entries are queued in order, once per key, and cancelled only while they run.

use logue_harness::Timestamp;
use logue_harness::store::{
    CancelMode, EnqueueResult, EntryPayload, EntryState, MAX_SESSION_ID_BYTES, NewEntry,
    SessionFork, SharedStore,
};
use serde_json::Value;

use super::fixtures::{
    NOW, TTL, accepted, claim_next, done, entry, keyed, lease, sound, user_message,
};
use super::{Checked, refused, same};

pub(super) async fn entries_keep_their_order(store: SharedStore) -> Checked {
    for number in 1..=5 {
        let put = store.enqueue("s", entry(&number.to_string())).await?;
        same(
            "an entry that was put",
            put,
            accepted(number, true, number - 1),
        )?;
    }
    let inbox = store.inbox("s").await?;
    let numbers: Vec<u64> = inbox.iter().map(|entry| entry.entry).collect();
    same("the inbox", numbers, vec![1, 2, 3, 4, 5])?;
    let works = inbox.iter().map(|entry| entry.work.clone());
    let expected = (1..=5).map(|number: u64| {
        Some(EntryPayload::Message {
            message: user_message(&number.to_string()),
        })
    });
    same("its work", works.collect::<Vec<_>>(), expected.collect())?;

    let lease = lease(&*store, "s").await?;
    for number in 1..=5 {
        let invocation = format!("i{number}");
        let begun = claim_next(&*store, &lease, &invocation).await?;
        same("what begins", begun.entry.entry, number)?;
        same("its state", begun.entry.state, EntryState::Running)?;
        same(
            "its invocation",
            begun.entry.invocation_id.as_deref(),
            Some(&*invocation),
        )?;
        same("its acceptance", begun.entry.accepted_at, NOW)?;
        same(
            "its recovery",
            (begun.recovered, begun.notes.len()),
            (false, 0),
        )?;
        let rest = store.inbox("s").await?;
        same("the first of the inbox", rest.first(), Some(&begun.entry))?;
        let messages = vec![user_message(&number.to_string())];
        let commit = done(&invocation, number - 1, messages);
        store.commit(&lease, commit).await?;
    }
    same(
        "what is left",
        store.claim_next(&lease, "i6", NOW).await?,
        None,
    )?;
    same("the inbox at last", store.inbox("s").await?, Vec::new())
}

pub(super) async fn a_key_is_put_once(store: SharedStore) -> Checked {
    let put = store.enqueue("s", keyed("first", "k")).await?;
    same("the first delivery", put, accepted(1, true, 0))?;
    store.enqueue("s", entry("another")).await?;
    let put = store.enqueue("s", keyed("other words", "k")).await?;
    same("a delivery while it waits", put, accepted(1, false, 0))?;

    let lease = lease(&*store, "s").await?;
    claim_next(&*store, &lease, "i1").await?;
    let again = NewEntry {
        cancel: Some(CancelMode::Rollback),
        only_if_idle: true,
        ..keyed("first", "k")
    };
    let put = store.enqueue("s", again).await?;
    same("a delivery while it runs", put, accepted(1, false, 0))?;
    let asked = store.renew(&lease, NOW, TTL).await?;
    same("what that one asked for", asked, None)?;
    store
        .commit(&lease, done("i1", 0, vec![user_message("first")]))
        .await?;
    let put = store.enqueue("s", keyed("first", "k")).await?;
    same("a delivery after its end", put, accepted(1, false, 0))?;
    same("how many wait", store.inbox("s").await?.len(), 1)?;

    let put = store.enqueue("s", keyed("second", "k2")).await?;
    same("another key", put, accepted(3, true, 1))?;
    let put = store.enqueue("s", keyed("second", "k2")).await?;
    same("another key again", put, accepted(3, false, 1))?;
    let key = store.entry("s", 3).await?.and_then(|entry| entry.key);
    same("the key of the entry", key.as_deref(), Some("k2"))?;
    for (session, key, expected) in [
        ("s", "k", Some(1)),
        ("s", "k2", Some(3)),
        ("s", "k3", None),
        ("other", "k", None),
    ] {
        let found = store.entry_with_key(session, key).await?;
        same(
            "the entry of a key",
            found.map(|found| found.entry),
            expected,
        )?;
    }
    Ok(())
}

pub(super) async fn a_key_is_bound_to_its_hash(store: SharedStore) -> Checked {
    let with = |digest: Option<&str>| NewEntry {
        digest: digest.map(str::to_owned),
        ..keyed("first", "k")
    };
    let put = store.enqueue("s", with(Some("a"))).await?;
    same("the first delivery", put, accepted(1, true, 0))?;
    let put = store.enqueue("s", with(Some("a"))).await?;
    same("the same work", put, accepted(1, false, 0))?;
    let put = store.enqueue("s", with(None)).await?;
    same("work without a hash", put, accepted(1, false, 0))?;
    let put = store.enqueue("s", with(Some("b"))).await?;
    same("other work", put, EnqueueResult::OtherWork { entry: 1 })?;
    same("how many wait", store.inbox("s").await?.len(), 1)
}

pub(super) async fn a_settled_entry_is_retried_once(store: SharedStore) -> Checked {
    let again = |retries, key: Option<&str>| NewEntry {
        retries: Some(retries),
        key: key.map(str::to_owned),
        digest: Some("a".to_owned()),
        ..entry("again")
    };
    let first = NewEntry {
        digest: Some("a".to_owned()),
        ..keyed("first", "k")
    };
    store.enqueue("s", first.clone()).await?;
    let put = store.enqueue("s", again(1, Some("k"))).await?;
    same("while it waits", put, accepted(1, false, 0))?;
    let lease = lease(&*store, "s").await?;
    claim_next(&*store, &lease, "i1").await?;
    store.commit(&lease, done("i1", 0, Vec::new())).await?;
    store.enqueue("s", entry("another")).await?;

    let put = store.enqueue("s", again(1, None)).await?;
    same("after another entry", put, EnqueueResult::Superseded)?;
    let put = store.enqueue("s", again(1, Some("k"))).await?;
    same("by its key", put, accepted(3, true, 1))?;
    let put = store.enqueue("s", again(1, Some("k"))).await?;
    same("by its key again", put, accepted(3, false, 1))?;
    let put = store.enqueue("s", first).await?;
    same("where the key leads", put, accepted(3, false, 1))?;
    let other = NewEntry {
        digest: Some("b".to_owned()),
        ..keyed("first", "k")
    };
    let put = store.enqueue("s", other).await?;
    let moved = EnqueueResult::OtherWork { entry: 3 };
    same("what the key is bound to", put, moved)?;
    let keys = [store.entry("s", 1).await?, store.entry("s", 3).await?];
    let keys = keys.map(|entry| entry.and_then(|entry| entry.key));
    same("the keys", keys, [None, Some("k".to_owned())])?;

    claim_next(&*store, &lease, "i2").await?;
    store.commit(&lease, done("i2", 0, Vec::new())).await?;
    claim_next(&*store, &lease, "i3").await?;
    store.commit(&lease, done("i3", 0, Vec::new())).await?;
    let put = store.enqueue("s", again(3, None)).await?;
    same("the last entry", put, accepted(4, true, 0))?;
    let put = store.enqueue("s", again(3, None)).await?;
    same("the last entry again", put, EnqueueResult::Superseded)?;
    let key = store.entry("s", 4).await?.and_then(|entry| entry.key);
    same("its key", key.as_deref(), Some("k"))?;
    let found = store.entry_with_key("s", "k").await?;
    same(
        "the entry of the key",
        found.map(|found| found.entry),
        Some(4),
    )
}

pub(super) async fn a_turn_that_goes_on_keeps_its_invocation(store: SharedStore) -> Checked {
    let work = EntryPayload::Continue {
        invocation_id: "i1".to_owned(),
        said: Some(0),
        upto: 0,
        guarded: Vec::new(),
        decision: None,
        open: vec!["c2".to_owned()],
    };
    let put = NewEntry {
        work: work.clone(),
        ..entry("x")
    };
    store.enqueue("s", put).await?;
    let lease = lease(&*store, "s").await?;
    let begun = claim_next(&*store, &lease, "i2").await?;
    let id = begun.entry.invocation_id;
    same("its invocation", id.as_deref(), Some("i1"))?;
    let commit = done("i1", 0, vec![user_message("answer")]);
    store.commit(&lease, commit).await?;
    let kept = store.entry("s", 1).await?.and_then(|entry| entry.work);
    same("its work at the end", kept, Some(work))
}

pub(super) async fn a_key_is_of_its_session(store: SharedStore) -> Checked {
    for session in ["a", "b"] {
        let put = store.enqueue(session, keyed("x", "k")).await?;
        same(session, put, accepted(1, true, 0))?;
    }
    Ok(())
}

pub(super) async fn only_if_idle_is_refused_while_another_waits_or_runs(
    store: SharedStore,
) -> Checked {
    let alone = NewEntry {
        only_if_idle: true,
        ..entry("alone")
    };
    let put = store.enqueue("s", alone.clone()).await?;
    same("in an empty inbox", put, accepted(1, true, 0))?;
    let put = store.enqueue("s", alone.clone()).await?;
    same("while one waits", put, EnqueueResult::Busy)?;
    let lease = lease(&*store, "s").await?;
    claim_next(&*store, &lease, "i1").await?;
    let impatient = NewEntry {
        cancel: Some(CancelMode::Interrupt),
        key: Some("k".to_owned()),
        ..alone.clone()
    };
    let put = store.enqueue("s", impatient).await?;
    same("while one runs", put, EnqueueResult::Busy)?;
    let asked = store.renew(&lease, NOW, TTL).await?;
    same("what the refused one asked for", asked, None)?;
    store
        .commit(&lease, done("i1", 0, vec![user_message("alone")]))
        .await?;
    let put = store.enqueue("s", alone).await?;
    same("when all is settled", put, accepted(2, true, 0))
}

pub(super) async fn only_after_is_refused_when_the_session_has_continued(
    store: SharedStore,
) -> Checked {
    let after = |outcome| NewEntry {
        only_after: Some(outcome),
        ..entry("next")
    };
    let put = store.enqueue("s", after(1)).await?;
    same("before the outcome", put, EnqueueResult::Busy)?;
    let put = store.enqueue("s", after(0)).await?;
    same("in an empty inbox", put, accepted(1, true, 0))?;
    let put = store.enqueue("s", after(0)).await?;
    same("while one waits", put, EnqueueResult::Busy)?;
    let lease = lease(&*store, "s").await?;
    claim_next(&*store, &lease, "i1").await?;
    store
        .commit(&lease, done("i1", 0, vec![user_message("next")]))
        .await?;
    let put = store.enqueue("s", after(0)).await?;
    same("after another outcome", put, EnqueueResult::Busy)?;
    let put = store.enqueue("s", after(1)).await?;
    same("after the outcome", put, accepted(2, true, 0))
}

pub(super) async fn only_created_at_is_refused_in_another_session(store: SharedStore) -> Checked {
    let of = |at| NewEntry {
        only_created_at: Some(at),
        ..keyed("next", "k")
    };
    let put = store.enqueue("s", of(NOW)).await?;
    same("in a missing session", put, EnqueueResult::OtherSession)?;
    same("what is created", store.session("s").await?.is_none(), true)?;
    store.enqueue("s", entry("first")).await?;
    let created = store.session("s").await?.map(|info| info.created_at);
    let created = created.unwrap_or(NOW);
    let put = store.enqueue("s", of(created)).await?;
    same("in the session", put, accepted(2, true, 1))?;
    let put = store.enqueue("s", of(created)).await?;
    same("again", put, accepted(2, false, 1))?;
    store.delete("s").await?;
    let later = NewEntry {
        now: Timestamp(created.0 + 1),
        ..entry("another")
    };
    store.enqueue("s", later).await?;
    let put = store.enqueue("s", of(created)).await?;
    same("in another session", put, EnqueueResult::OtherSession)?;
    same("how many wait", store.inbox("s").await?.len(), 1)
}

pub(super) async fn a_waiting_entry_is_cancelled_when_it_is_claimed(store: SharedStore) -> Checked {
    let ask = |entry| store.request_cancel_of("s", entry, CancelMode::Interrupt);
    same("in a missing session", ask(1).await?, false)?;
    for text in ["one", "two", "three"] {
        store.enqueue("s", entry(text)).await?;
    }
    same("a waiting entry", ask(2).await?, true)?;
    same("a missing entry", ask(4).await?, false)?;
    let lease = lease(&*store, "s").await?;
    let first = claim_next(&*store, &lease, "i1").await?;
    same("of the first entry", first.cancel, None)?;
    let asked = store.renew(&lease, NOW, TTL).await?;
    same("asked of the running entry", asked, None)?;
    store
        .commit(&lease, done("i1", 0, vec![user_message("one")]))
        .await?;
    same("a settled entry", ask(1).await?, false)?;
    let second = claim_next(&*store, &lease, "i2").await?;
    same(
        "of the second entry",
        second.cancel,
        Some(CancelMode::Interrupt),
    )?;
    store
        .commit(&lease, done("i2", 1, vec![user_message("two")]))
        .await?;
    let third = claim_next(&*store, &lease, "i3").await?;
    same("of the third entry", third.cancel, None)?;
    same("the running entry", ask(3).await?, true)?;
    let asked = store.renew(&lease, NOW, TTL).await?;
    same("asked at last", asked, Some(CancelMode::Interrupt))?;
    sound(&*store).await?;
    Ok(())
}

pub(super) async fn cancel_reaches_the_running_entry_only(store: SharedStore) -> Checked {
    let ask = |mode| store.request_cancel("s", mode);
    same(
        "without a session",
        ask(CancelMode::Interrupt).await?,
        false,
    )?;
    store.enqueue("s", entry("one")).await?;
    store.enqueue("s", entry("two")).await?;
    same("while one waits", ask(CancelMode::Interrupt).await?, false)?;
    let lease = lease(&*store, "s").await?;
    let begun = claim_next(&*store, &lease, "i1").await?;
    same("before it is asked", begun.cancel, None)?;

    same("while one runs", ask(CancelMode::Interrupt).await?, true)?;
    let asked = store.renew(&lease, NOW, TTL).await?;
    same("a request", asked, Some(CancelMode::Interrupt))?;
    same("while one runs", ask(CancelMode::Rollback).await?, true)?;
    let asked = store.renew(&lease, NOW, TTL).await?;
    same("the latest request", asked, Some(CancelMode::Rollback))?;
    let recovered = claim_next(&*store, &lease, "i2").await?;
    same(
        "after recovery",
        recovered.cancel,
        Some(CancelMode::Rollback),
    )?;

    store
        .commit(&lease, done("i1", 0, vec![user_message("one")]))
        .await?;
    same("when it ended", ask(CancelMode::Interrupt).await?, false)?;
    let next = claim_next(&*store, &lease, "i3").await?;
    same("the next entry", (next.entry.entry, next.cancel), (2, None))?;
    same("its renewal", store.renew(&lease, NOW, TTL).await?, None)
}

pub(super) async fn an_entry_can_cancel_the_one_that_runs(store: SharedStore) -> Checked {
    let impatient = NewEntry {
        cancel: Some(CancelMode::Interrupt),
        ..entry("Stop, and do this.")
    };
    store.enqueue("s", impatient.clone()).await?;
    let lease = lease(&*store, "s").await?;
    let begun = claim_next(&*store, &lease, "i1").await?;
    same("an entry that found nothing to end", begun.cancel, None)?;
    let put = store.enqueue("s", impatient).await?;
    same("the entry after it", put, accepted(2, true, 1))?;
    let asked = store.renew(&lease, NOW, TTL).await?;
    same("what it asked for", asked, Some(CancelMode::Interrupt))
}

pub(super) async fn an_id_has_a_maximum_length(store: SharedStore) -> Checked {
    let longest = "é".repeat(MAX_SESSION_ID_BYTES / 2);
    let longer = format!("{longest}x");
    store.enqueue(&longest, entry("x")).await?;
    let put = store.enqueue(&longer, entry("x")).await;
    refused("an entry", put, "id too long")?;
    let label = store.set_label(&longer, "name", Value::Null, NOW).await;
    refused("a label", label, "id too long")?;
    let fork = store
        .fork(&longest, SessionFork::new(0, &longer, NOW))
        .await;
    refused("a fork", fork, "id too long")?;
    same("sessions", sound(&*store).await?.sessions, 1)
}

pub(super) async fn an_empty_id_is_refused(store: SharedStore) -> Checked {
    refused("an entry", store.enqueue("", entry("x")).await, "not found")?;
    let label = store.set_label("", "name", Value::Null, NOW).await;
    refused("a label", label, "not found")?;
    let lease = store.acquire("", "owner", NOW, TTL).await;
    refused("a lease", lease, "not found")?;
    store.enqueue("s", entry("x")).await?;
    refused(
        "a fork",
        store.fork("s", SessionFork::new(0, "", NOW)).await,
        "not found",
    )?;
    same("sessions", sound(&*store).await?.sessions, 1)
}
