//! A turn ends atomically, and an interrupted turn is recovered.

use logue_harness::Timestamp;
use logue_harness::store::{
    BeginResult, BegunTurn, CancelMode, Commit, Disposition, EntryPayload, EntryState, JournalNote,
    OutcomeKind, SharedStore, Store, StoreError, StoredOutcome,
};
use serde_json::{Map, Value, json};

use super::fixtures::{
    LATER, NOW, TTL, claim_next, done, entry, history, keyed, lease, lease_at, outcome, save,
    sound, suspended, turn, user_message, waiting_turn,
};
use super::{Checked, ContractViolation, refused, same};

pub(super) async fn a_turn_goes_from_the_inbox_into_the_history(store: SharedStore) -> Checked {
    store.enqueue("s", keyed("Hello.", "k")).await?;
    let info = store.session("s").await?;
    let bare = info.map(|info| (info.seq, info.has_state, info.pending, info.cursor));
    same("a session with an inbox only", bare, Some((0, false, 1, 0)))?;

    let lease = lease(&*store, "s").await?;
    claim_next(&*store, &lease, "i1").await?;
    store.journal(&lease, "i1", vec![json!("called")]).await?;
    let commit = Commit {
        schema_version: Some("2".to_owned()),
        now: LATER,
        ..done("i1", 0, vec![user_message("Hello."), user_message("Hi.")])
    };
    store.commit(&lease, commit).await?;

    same(
        "the history",
        history(&*store, "s").await?,
        vec![user_message("Hello."), user_message("Hi.")],
    )?;
    let expected = StoredOutcome {
        cursor: 1,
        entry: 1,
        invocation_id: "i1".to_owned(),
        resumed: false,
        kind: OutcomeKind::Completed,
        replies_from: 1,
        replies_to: 2,
        body: json!({ "kind": "completed" }),
        at: LATER,
    };
    let found = store.outcome_of("s", 1).await?;
    same("the outcome", found.as_ref(), Some(&expected))?;
    let since = store.outcomes_since("s", 0, 10).await?;
    same("the outcomes", since, vec![expected])?;
    same("the journal", store.notes("s", "i1").await?, Vec::new())?;

    let settled = store.entry("s", 1).await?;
    let actual = settled.map(|entry| (entry.state, entry.work, entry.key, entry.invocation_id));
    let kept = (
        EntryState::Settled,
        None,
        Some("k".to_owned()),
        Some("i1".to_owned()),
    );
    same("the settled entry", actual, Some(kept))?;
    let info = store.session("s").await?;
    let actual = info.map(|info| (info.seq, info.has_state, info.pending, info.cursor));
    same("the session", actual, Some((2, true, 0, 1)))?;
    let info = store.session("s").await?;
    let actual = info.map(|info| (info.schema_version, info.created_at, info.updated_at));
    same(
        "its times",
        actual,
        Some((Some("2".to_owned()), NOW, LATER)),
    )?;
    sound(&*store).await.map(drop)
}

/// Begins a turn.
async fn begin(
    store: &dyn Store,
    owner: &str,
    invocation_id: &str,
    now: Timestamp,
) -> Result<BegunTurn, ContractViolation> {
    match store.begin("s", owner, invocation_id, now, TTL).await? {
        BeginResult::Turn(begun) => Ok(*begun),
        other => Err(ContractViolation::Promise {
            what: format!("a turn of `{owner}`"),
            found: format!("{other:?}"),
            expected: "a turn".to_owned(),
        }),
    }
}

pub(super) async fn a_turn_is_begun_in_one_step(store: SharedStore) -> Checked {
    let unknown = store.begin("s", "a", "i1", NOW, TTL).await;
    refused("a session that does not exist", unknown, "not found")?;
    store.set_label("s", "color", json!("red"), NOW).await?;
    let idle = store.begin("s", "a", "i1", NOW, TTL).await?;
    same("a session without entries", idle, BeginResult::Idle)?;
    // It is free: an idle session is not taken.
    let taken = lease_at(&*store, "s", "b", NOW).await?;
    let held = BeginResult::Held {
        owner: "b".to_owned(),
        until: LATER,
    };
    let found = store.begin("s", "a", "i1", NOW, TTL).await?;
    same("one that is held and idle", found, held.clone())?;
    store.enqueue("s", entry("x")).await?;
    let found = store.begin("s", "a", "i1", NOW, TTL).await?;
    same("one that is held", found, held)?;
    store.release(&taken).await?;

    let begun = begin(&*store, "a#1", "i1", NOW).await?;
    same("a later epoch", begun.lease.epoch > taken.epoch, true)?;
    same("the owner", &*begun.lease.owner, "a#1")?;
    same("its entry", begun.claimed.entry.entry, 1)?;
    same("its state", begun.claimed.entry.state, EntryState::Running)?;
    same("recovery", begun.claimed.recovered, false)?;
    let read = store.session("s").await?;
    same("the session", &begun.info, &read)?;
    let kept = read.map(|info| (info.epoch, info.labels.len(), info.pending));
    same("what it has", kept, Some((begun.lease.epoch, 1, 1)))?;
    let inbox = store.inbox("s").await?;
    same("the inbox", inbox, vec![begun.claimed.entry.clone()])?;
    let commit = done("i1", 0, vec![user_message("x")]);
    store.commit(&begun.lease, commit).await.map_err(Into::into)
}

pub(super) async fn a_broken_turn_is_begun_again(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let first = begin(&*store, "a", "i1", NOW).await?;
    store.journal(&first.lease, "i1", vec![json!("n")]).await?;
    let held = store.begin("s", "b", "i2", NOW, TTL).await?;
    same(
        "another owner",
        matches!(held, BeginResult::Held { .. }),
        true,
    )?;
    for (owner, now) in [("a", NOW), ("b", LATER)] {
        let begun = begin(&*store, owner, "i2", now).await?;
        same("recovery", begun.claimed.recovered, true)?;
        same("its notes", begun.claimed.notes, vec![json!("n")])?;
        let invocation = begun.claimed.entry.invocation_id;
        same("its invocation", invocation.as_deref(), Some("i1"))?;
        same("a later epoch", begun.lease.epoch > first.lease.epoch, true)?;
    }
    let late = store.journal(&first.lease, "i1", vec![json!("late")]).await;
    refused("the first owner", late, "fenced")
}

pub(super) async fn the_end_of_a_turn_gives_the_session_back(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let begun = begin(&*store, "a", "i1", NOW).await?;
    let lease = &begun.lease;
    let conflict = done("i1", 7, vec![user_message("x")]);
    let refusal = store.commit_and_release(lease, conflict).await;
    refused("another length", refusal, "conflict")?;
    same("the lease", store.renew(lease, NOW, TTL).await?, None)?;
    let end = done("i1", 0, vec![user_message("x"), user_message("y")]);
    store.commit_and_release(lease, end.clone()).await?;
    let found = history(&*store, "s").await?;
    same("the history", found, end.messages.clone())?;
    let late = store.renew(lease, NOW, TTL).await;
    refused("a lease that was given back", late, "fenced")?;
    let again = store.commit_and_release(lease, end).await;
    refused("a second end", again, "fenced")?;

    store.enqueue("s", entry("z")).await?;
    let next = begin(&*store, "b", "i2", NOW).await?;
    let seq = next.info.as_ref().map(|info| info.seq);
    same("the next owner", seq, Some(2))?;
    let waits = suspended("i2", 2, "mail");
    store.commit_and_release(&next.lease, waits).await?;
    let free = lease_at(&*store, "s", "c", NOW).await?;
    same("a later epoch", free.epoch > next.lease.epoch, true)
}

pub(super) async fn a_conflict_leaves_nothing(store: SharedStore) -> Checked {
    turn(&*store, "s", "i1", "one").await?;
    store.enqueue("s", entry("two")).await?;
    let lease = lease(&*store, "s").await?;
    claim_next(&*store, &lease, "i2").await?;
    store.journal(&lease, "i2", vec![json!(1)]).await?;
    let before = (store.session("s").await?, store.inbox("s").await?);
    for expected in [0, 1, 3, u64::MAX] {
        let commit = Commit {
            fields: Map::from_iter([("topic".to_owned(), json!("x"))]),
            schema_version: Some("9".to_owned()),
            now: LATER,
            ..done(
                "i2",
                expected,
                vec![user_message("two"), user_message("lost")],
            )
        };
        let actual = match store.commit(&lease, commit).await {
            Err(StoreError::Conflict {
                session,
                expected,
                found,
            }) => Some((session, expected, found)),
            _ => None,
        };
        same("the error", actual, Some(("s".to_owned(), expected, 2)))?;
    }
    let after = (store.session("s").await?, store.inbox("s").await?);
    same("the session", after, before)?;
    same("the history", history(&*store, "s").await?.len(), 2)?;
    same("the outcome", store.outcome_of("s", 2).await?, None)?;
    same("the journal", store.notes("s", "i2").await?.len(), 1)?;
    store
        .commit(&lease, done("i2", 2, vec![user_message("two")]))
        .await?;
    sound(&*store).await.map(drop)
}

pub(super) async fn another_invocation_changes_nothing(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let lease = lease(&*store, "s").await?;
    let early = store.journal(&lease, "i1", vec![json!(1)]).await;
    refused("a note before the beginning", early, "not found")?;
    let early = store
        .commit(&lease, done("i1", 0, vec![user_message("x")]))
        .await;
    refused("an end before the beginning", early, "not found")?;
    claim_next(&*store, &lease, "i1").await?;
    let other = store.journal(&lease, "i2", vec![json!(1)]).await;
    refused("a note of another", other, "not found")?;
    let other = store
        .commit(&lease, done("i2", 0, vec![user_message("x")]))
        .await;
    refused("an end of another", other, "not found")?;
    let other = store.commit(&lease, save("i2", 0)).await;
    refused("a save of another", other, "not found")?;
    same("the history", history(&*store, "s").await?, Vec::new())?;
    store
        .commit(&lease, done("i1", 0, vec![user_message("x")]))
        .await?;
    let twice = store
        .commit(&lease, done("i1", 1, vec![user_message("x")]))
        .await;
    refused("a second end", twice, "not found")?;
    same(
        "the history",
        history(&*store, "s").await?,
        vec![user_message("x")],
    )
}

pub(super) async fn a_broken_turn_is_found_with_its_notes(store: SharedStore) -> Checked {
    store.enqueue("s", entry("one")).await?;
    store.enqueue("s", entry("two")).await?;
    let first = lease_at(&*store, "s", "a", NOW).await?;
    let begun = claim_next(&*store, &first, "i1").await?;
    let notes = [json!({ "tool": "shell" }), json!("called"), Value::Null];
    store.journal(&first, "i1", notes[..1].to_vec()).await?;
    store.journal(&first, "i1", Vec::new()).await?;
    store.journal(&first, "i1", notes[1..].to_vec()).await?;
    let expected = (0..).zip(notes.clone());
    let expected = expected.map(|(seq, note)| JournalNote { seq, note });
    same(
        "the journal",
        store.notes("s", "i1").await?,
        expected.collect(),
    )?;

    for (owner, now) in [("b", LATER), ("c", LATER.after(TTL))] {
        let next = lease_at(&*store, "s", owner, now).await?;
        let found = claim_next(&*store, &next, "i2").await?;
        same("that it was found", found.recovered, true)?;
        same("the entry", &found.entry, &begun.entry)?;
        same("its notes", found.notes, notes.to_vec())?;
    }
    let last = lease_at(&*store, "s", "c", LATER.after(TTL)).await?;
    store.journal(&last, "i1", vec![json!(4)]).await?;
    let seqs = store.notes("s", "i1").await?;
    let seqs: Vec<u64> = seqs.iter().map(|note| note.seq).collect();
    same("notes that follow", seqs, vec![0, 1, 2, 3])?;
    store
        .commit(&last, done("i1", 0, vec![user_message("one")]))
        .await?;
    let next = claim_next(&*store, &last, "i3").await?;
    same(
        "the next one",
        (next.entry.entry, next.recovered),
        (2, false),
    )?;
    sound(&*store).await.map(drop)
}

pub(super) async fn a_turn_that_went_on_after_a_signal_is_found_again(
    store: SharedStore,
) -> Checked {
    waiting_turn(&*store, "s", "i1", "approval").await?;
    store.signal("i1", None, Map::new(), NOW).await?;
    let first = lease_at(&*store, "s", "a", NOW).await?;
    let begun = claim_next(&*store, &first, "fresh").await?;
    same(
        "its invocation",
        begun.entry.invocation_id.as_deref(),
        Some("i1"),
    )?;
    store.journal(&first, "i1", vec![json!("called")]).await?;
    let next = lease_at(&*store, "s", "b", LATER).await?;
    let found = claim_next(&*store, &next, "other").await?;
    same("the entry", &found.entry, &begun.entry)?;
    same("its notes", found.notes, vec![json!("called")])?;
    let record = store.suspension("i1").await?.map(|found| found.record);
    same(
        "the state that it requires to resume",
        record,
        Some(json!({ "position": ["i1", "approval"] })),
    )
}

pub(super) async fn a_requeued_entry_is_as_new(store: SharedStore) -> Checked {
    store.enqueue("s", entry("one")).await?;
    store.enqueue("s", entry("two")).await?;
    let lease = lease(&*store, "s").await?;
    claim_next(&*store, &lease, "i1").await?;
    store.journal(&lease, "i1", vec![json!(1)]).await?;
    store.request_cancel("s", CancelMode::Rollback).await?;
    let back = Commit {
        settle: Some(Disposition::Requeue),
        ..save("i1", 0)
    };
    store.commit(&lease, back).await?;
    let inbox = store.inbox("s").await?;
    let actual: Vec<_> = inbox
        .iter()
        .map(|entry| (entry.entry, entry.state, entry.invocation_id.clone()))
        .collect();
    let waiting = |number| (number, EntryState::Waiting, None);
    same("the inbox", actual, vec![waiting(1), waiting(2)])?;
    same("the journal", store.notes("s", "i1").await?, Vec::new())?;
    same(
        "the outcomes",
        store.outcomes_since("s", 0, 9).await?,
        Vec::new(),
    )?;
    let info = store.session("s").await?;
    same(
        "that it has no state",
        info.map(|info| info.has_state),
        Some(false),
    )?;

    let again = claim_next(&*store, &lease, "i2").await?;
    let actual = (
        again.entry.entry,
        again.recovered,
        again.cancel,
        again.notes.len(),
    );
    same("its second beginning", actual, (1, false, None, 0))?;
    same(
        "its invocation",
        again.entry.invocation_id.as_deref(),
        Some("i2"),
    )
}

pub(super) async fn a_failed_turn_leaves_its_words_and_its_journal(store: SharedStore) -> Checked {
    store.enqueue("s", entry("Try.")).await?;
    let lease = lease(&*store, "s").await?;
    for (number, keep_journal) in [(1, true), (2, false)] {
        let invocation = format!("i{number}");
        claim_next(&*store, &lease, &invocation).await?;
        store
            .journal(&lease, &invocation, vec![json!("called")])
            .await?;
        let failed = Commit {
            settle: Some(Disposition::Done {
                outcome: outcome(OutcomeKind::Errored, 0),
                keep_journal,
                keep_suspension: false,
            }),
            ..save(&invocation, 0)
        };
        store.commit(&lease, failed).await?;
        let entry = store.entry("s", number).await?;
        let work = entry.and_then(|entry| entry.work);
        let words = EntryPayload::Message {
            message: user_message("Try."),
        };
        same("its words", work, Some(words))?;
        let notes = store.notes("s", &invocation).await?;
        same("its notes", notes.len(), usize::from(keep_journal))?;
        let actual = store.outcome_of("s", number).await?;
        let actual = actual.map(|outcome| (outcome.kind, outcome.replies_from, outcome.replies_to));
        same("its outcome", actual, Some((OutcomeKind::Errored, 0, 0)))?;
        store.enqueue("s", super::fixtures::entry("Try.")).await?;
    }
    let info = store.session("s").await?;
    let actual = info.map(|info| (info.seq, info.has_state, info.cursor));
    same("the session", actual, Some((0, false, 2)))?;
    sound(&*store).await.map(drop)
}

pub(super) async fn a_save_in_the_middle_settles_nothing(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let lease = lease(&*store, "s").await?;
    store.commit(&lease, save("none", 0)).await?;
    let info = store.session("s").await?;
    same(
        "a save while nothing runs",
        info.map(|info| info.has_state),
        Some(true),
    )?;
    claim_next(&*store, &lease, "i1").await?;
    store.journal(&lease, "i1", vec![json!(1)]).await?;
    let middle = Commit {
        messages: vec![user_message("x")],
        ..save("i1", 0)
    };
    store.commit(&lease, middle).await?;
    same(
        "the history",
        history(&*store, "s").await?,
        vec![user_message("x")],
    )?;
    same("the journal", store.notes("s", "i1").await?.len(), 1)?;
    let states: Vec<_> = store
        .inbox("s")
        .await?
        .into_iter()
        .map(|entry| entry.state)
        .collect();
    same("the entry", states, vec![EntryState::Running])?;
    store
        .commit(&lease, done("i1", 1, vec![user_message("y")]))
        .await?;
    let actual = store.outcome_of("s", 1).await?;
    let actual = actual.map(|outcome| (outcome.replies_from, outcome.replies_to));
    same("the outcome", actual, Some((2, 2)))
}

pub(super) async fn outcomes_are_read_from_a_cursor(store: SharedStore) -> Checked {
    for number in 1..=7 {
        turn(&*store, "s", &format!("i{number}"), &number.to_string()).await?;
    }
    let mut cursor = 0;
    let mut read = Vec::new();
    loop {
        let outcomes = store.outcomes_since("s", cursor, 3).await?;
        let Some(last) = outcomes.last() else {
            break;
        };
        same("how many at once", outcomes.len() <= 3, true)?;
        cursor = last.cursor;
        read.extend(outcomes.into_iter().map(|outcome| outcome.invocation_id));
    }
    let expected = (1..=7).map(|number| format!("i{number}"));
    same("each outcome once", read, expected.collect())?;
    let info = store.session("s").await?;
    same("the cursor", info.map(|info| info.cursor), Some(cursor))?;
    for beyond in [cursor, cursor + 1, u64::MAX] {
        same(
            "after the last",
            store.outcomes_since("s", beyond, 3).await?,
            Vec::new(),
        )?;
    }
    same(
        "none of them",
        store.outcomes_since("s", 0, 0).await?,
        Vec::new(),
    )?;
    let from: Vec<u64> = store
        .outcomes_since("s", 0, usize::MAX)
        .await?
        .iter()
        .map(|outcome| outcome.replies_from)
        .collect();
    same(
        "where replies begin",
        from,
        (0..7).map(|turn| turn * 2 + 1).collect(),
    )
}

pub(super) async fn fields_are_set_one_by_one(store: SharedStore) -> Checked {
    store.enqueue("s", entry("x")).await?;
    let lease = lease(&*store, "s").await?;
    let with = |fields: Value, version: Option<&str>| Commit {
        fields: fields.as_object().cloned().unwrap_or_default(),
        schema_version: version.map(str::to_owned),
        ..save("none", 0)
    };
    let first = with(json!({ "a": 1, "b": [1, 2], "": null }), Some("1"));
    store.commit(&lease, first).await?;
    let second = with(json!({ "b": { "x": [] }, "c": "new" }), None);
    store
        .commit(
            &lease,
            Commit {
                now: Timestamp(0),
                ..second
            },
        )
        .await?;
    let info = store.session("s").await?;
    let actual = info.map(|info| {
        (
            Value::Object(info.fields),
            info.schema_version,
            info.updated_at,
        )
    });
    let fields = json!({ "a": 1, "b": { "x": [] }, "c": "new", "": null });
    same(
        "the fields",
        actual,
        Some((fields, Some("1".to_owned()), NOW)),
    )
}
