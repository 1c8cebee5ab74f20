//! A suspended turn resumes once, for any sender and number of signals.

use logue_harness::store::{
    Commit, Disposition, EnqueueResult, EntryPayload, EntryState, NewEntry, OutcomeKind,
    SharedStore, SignalResult, StoreError, Suspension, SuspensionFilter, SuspensionStatus,
};
use serde_json::{Map, Value, json};

use super::fixtures::{
    LATER, NOW, accepted, claim_next, done, entry, lease, outcome, save, sound, suspended,
    together, turn, user_message, waiting_turn,
};
use super::{Checked, refused, same};

fn payload(value: Value) -> Map<String, Value> {
    Map::from_iter([("approved".to_owned(), value)])
}

fn signalled(entry: u64, is_new: bool) -> SignalResult {
    SignalResult::Entry {
        session: "s".to_owned(),
        entry,
        is_new,
    }
}

pub(super) async fn a_signal_is_consumed_once(store: SharedStore) -> Checked {
    waiting_turn(&*store, "s", "i1", "approval").await?;
    let waiting = Suspension {
        invocation_id: "i1".to_owned(),
        session: "s".to_owned(),
        signal_id: "approval".to_owned(),
        metadata: Some(json!({ "ask": "approval" })),
        status: SuspensionStatus::Suspended,
        entry: None,
        record: json!({ "position": ["i1", "approval"] }),
        since: NOW,
    };
    let found = store.suspension("i1").await?;
    same("what waits", found.as_ref(), Some(&waiting))?;
    let actual = store.outcome_of("s", 1).await?;
    let actual = actual.map(|outcome| (outcome.kind, outcome.resumed));
    same(
        "the suspension",
        actual,
        Some((OutcomeKind::Suspended, false)),
    )?;

    let first = store
        .signal("i1", None, payload(json!(true)), LATER)
        .await?;
    same("the first signal", first, signalled(2, true))?;
    let again = store
        .signal("i1", None, payload(json!(false)), LATER)
        .await?;
    same("the second signal", again, signalled(2, false))?;
    let came = store.entry("s", 2).await?;
    let work = EntryPayload::Resume {
        invocation_id: "i1".to_owned(),
        payload: payload(json!(true)),
    };
    let actual = came.map(|came| (came.state, came.work, came.accepted_at));
    same(
        "the entry",
        actual,
        Some((EntryState::Waiting, Some(work.clone()), LATER)),
    )?;
    let found = store.suspension("i1").await?;
    let came = Suspension {
        status: SuspensionStatus::Signalled,
        entry: Some(2),
        ..waiting
    };
    same("what was signalled", found, Some(came))?;

    let lease = lease(&*store, "s").await?;
    let begun = claim_next(&*store, &lease, "fresh").await?;
    same(
        "the resumed invocation",
        begun.entry.invocation_id.as_deref(),
        Some("i1"),
    )?;
    same("its state", begun.entry.state, EntryState::Running)?;
    let again = store
        .signal("i1", None, payload(json!(false)), LATER)
        .await?;
    same("a signal while it runs", again, signalled(2, false))?;
    store
        .commit(&lease, done("i1", 0, vec![user_message("Done.")]))
        .await?;
    let again = store
        .signal("i1", None, payload(json!(false)), LATER)
        .await?;
    same("a signal after its end", again, signalled(2, false))?;
    let found = store.suspension("i1").await?;
    let actual = found.map(|found| (found.status, found.entry, found.record));
    same(
        "what is over",
        actual,
        Some((SuspensionStatus::Resumed, Some(2), Value::Null)),
    )?;
    let actual = store.outcome_of("s", 2).await?;
    same(
        "the outcome",
        actual.map(|outcome| outcome.resumed),
        Some(true),
    )?;
    // A signal is not a message, and the history omits it.
    let kept = store.entry("s", 2).await?.and_then(|entry| entry.work);
    same("the settled entry", kept, Some(work))?;
    same("the inbox", store.inbox("s").await?, Vec::new())?;
    sound(&*store).await.map(drop)
}

pub(super) async fn signals_at_the_same_time_are_one(store: SharedStore) -> Checked {
    waiting_turn(&*store, "s", "i1", "approval").await?;
    let signals = (0..16).map(|number| store.signal("i1", None, payload(json!(number)), NOW));
    let answers = together(signals.collect()).await;
    let mut count_new = 0;
    for answer in answers {
        let answer = answer?;
        count_new += u32::from(answer == signalled(2, true));
        let known = [signalled(2, true), signalled(2, false)].contains(&answer);
        same("an answer", (known, &answer), (true, &answer))?;
    }
    same("new signals", count_new, 1)?;
    same("the inbox", store.inbox("s").await?.len(), 1)
}

pub(super) async fn a_signal_waits_behind_others(store: SharedStore) -> Checked {
    waiting_turn(&*store, "s", "i1", "approval").await?;
    store.enqueue("s", entry("between")).await?;
    same(
        "a signal",
        store.signal("i1", None, Map::new(), NOW).await?,
        signalled(3, true),
    )?;
    let lease = lease(&*store, "s").await?;
    let begun = claim_next(&*store, &lease, "i2").await?;
    let actual = (begun.entry.entry, begun.entry.invocation_id);
    same("what comes first", actual, (2, Some("i2".to_owned())))?;
    store
        .commit(&lease, done("i2", 0, vec![user_message("between")]))
        .await?;
    let begun = claim_next(&*store, &lease, "i3").await?;
    let actual = (begun.entry.entry, begun.entry.invocation_id);
    same("what comes then", actual, (3, Some("i1".to_owned())))
}

pub(super) async fn a_second_wait_replaces_the_first(store: SharedStore) -> Checked {
    waiting_turn(&*store, "s", "i1", "first").await?;
    store.signal("i1", None, payload(json!(1)), NOW).await?;
    let held = lease(&*store, "s").await?;
    claim_next(&*store, &held, "fresh").await?;
    store.journal(&held, "i1", vec![json!(1)]).await?;
    let again = Commit {
        messages: vec![user_message("Wait once more.")],
        now: LATER,
        ..suspended("i1", 0, "second")
    };
    store.commit(&held, again).await?;
    let found = store.suspension("i1").await?;
    let actual = found.map(|found| (found.signal_id, found.status, found.entry, found.since));
    let expected = (
        "second".to_owned(),
        SuspensionStatus::Suspended,
        None,
        LATER,
    );
    same("what waits", actual, Some(expected))?;
    same("the journal", store.notes("s", "i1").await?, Vec::new())?;
    let all = store.suspensions(SuspensionFilter::default()).await?;
    let actual: Vec<_> = all
        .iter()
        .map(|found| (&*found.signal_id, found.status))
        .collect();
    let expected = [
        ("first", SuspensionStatus::Resumed),
        ("second", SuspensionStatus::Suspended),
    ];
    same("both times", actual, expected.to_vec())?;

    // A late first signal does not match the second suspension.
    let late = store
        .signal("i1", Some("first"), payload(json!(1)), NOW)
        .await?;
    same("the first signal again", late, signalled(2, false))?;
    let never = store
        .signal("i1", Some("third"), payload(json!(1)), NOW)
        .await?;
    same(
        "a signal that matches no suspension",
        never,
        SignalResult::Unknown,
    )?;
    let second = store
        .signal("i1", Some("second"), payload(json!(2)), NOW)
        .await?;
    same("the second signal", second, signalled(3, true))?;
    claim_next(&*store, &held, "fresh").await?;
    let failed = Commit {
        settle: Some(Disposition::Done {
            outcome: outcome(OutcomeKind::Errored, 1),
            keep_journal: true,
            keep_suspension: false,
        }),
        ..save("i1", 1)
    };
    store.commit(&held, failed).await?;
    let found = store.suspension("i1").await?;
    let actual = found.map(|found| (found.signal_id, found.status, found.entry));
    let expected = ("second".to_owned(), SuspensionStatus::Resumed, Some(3));
    same("what is over, though it failed", actual, Some(expected))?;
    let again = store.signal("i1", None, payload(json!(3)), NOW).await?;
    same("a signal too many", again, signalled(3, false))?;
    sound(&*store).await.map(drop)
}

pub(super) async fn a_failed_resume_may_keep_its_suspension(store: SharedStore) -> Checked {
    waiting_turn(&*store, "s", "i1", "approval").await?;
    let put = store.signal("i1", None, payload(json!(1)), NOW).await?;
    same("the signal", put, signalled(2, true))?;
    let held = lease(&*store, "s").await?;
    claim_next(&*store, &held, "fresh").await?;
    let seq = store.session("s").await?.map_or(0, |info| info.seq);
    let failed = Commit {
        settle: Some(Disposition::Done {
            outcome: outcome(OutcomeKind::Errored, seq),
            keep_journal: false,
            keep_suspension: true,
        }),
        ..save("i1", seq)
    };
    store.commit(&held, failed).await?;
    let kept = store.suspension("i1").await?;
    let kept = kept.map(|kept| (kept.status, kept.record.is_null()));
    same(
        "the suspension",
        kept,
        Some((SuspensionStatus::Signalled, false)),
    )?;

    store.enqueue("s", entry("another")).await?;
    let work = store.entry("s", 2).await?.and_then(|entry| entry.work);
    let again = NewEntry {
        retries: Some(2),
        work: work.ok_or_else(|| StoreError::Damaged("no work".to_owned()))?,
        ..entry("again")
    };
    let put = store.enqueue("s", again.clone()).await?;
    same("a signalled entry", put, accepted(4, true, 1))?;
    let put = store.enqueue("s", again).await?;
    same("the same entry again", put, EnqueueResult::Superseded)?;
    let put = store.signal("i1", None, payload(json!(1)), NOW).await?;
    same("where the signal leads", put, signalled(4, false))
}

pub(super) async fn an_id_has_one_turn_that_waits(store: SharedStore) -> Checked {
    waiting_turn(&*store, "s", "i1", "approval").await?;
    for session in ["s", "other"] {
        store.enqueue(session, entry("x")).await?;
        let lease = lease(&*store, session).await?;
        claim_next(&*store, &lease, "i1").await?;
        let before = (store.session(session).await?, store.inbox(session).await?);
        let commit = Commit {
            messages: vec![user_message("x")],
            ..suspended("i1", 0, "second")
        };
        refused(
            "a second turn",
            store.commit(&lease, commit).await,
            "exists",
        )?;
        let after = (store.session(session).await?, store.inbox(session).await?);
        same("the session", after, before)?;
        store
            .commit(&lease, done("i1", 0, vec![user_message("x")]))
            .await?;
    }
    let found = store.suspension("i1").await?;
    let actual = found.map(|found| (found.session, found.signal_id, found.status));
    let expected = (
        "s".to_owned(),
        "approval".to_owned(),
        SuspensionStatus::Suspended,
    );
    same("what waits", actual, Some(expected))
}

pub(super) async fn suspensions_are_listed_as_they_came(store: SharedStore) -> Checked {
    for (session, invocation, signal) in [
        ("b", "i3", "mail"),
        ("a", "i1", "mail"),
        ("a", "i2", "call"),
        ("b", "i0", "call"),
    ] {
        waiting_turn(&*store, session, invocation, signal).await?;
    }
    store.signal("i1", None, Map::new(), NOW).await?;
    let filters = [
        (None, None, None, vec!["i3", "i1", "i2", "i0"]),
        (Some("a"), None, None, vec!["i1", "i2"]),
        (None, Some("mail"), None, vec!["i3", "i1"]),
        (None, None, Some(SuspensionStatus::Signalled), vec!["i1"]),
        (
            None,
            None,
            Some(SuspensionStatus::Suspended),
            vec!["i3", "i2", "i0"],
        ),
        (
            Some("b"),
            Some("call"),
            Some(SuspensionStatus::Suspended),
            vec!["i0"],
        ),
        (Some("c"), None, None, vec![]),
        (None, Some("fax"), None, vec![]),
    ];
    for (session, signal_id, status, expected) in filters {
        let filter = SuspensionFilter {
            session: session.map(str::to_owned),
            signal_id: signal_id.map(str::to_owned),
            status,
            is_usable: false,
        };
        let found = store.suspensions(filter).await?;
        let actual: Vec<&str> = found.iter().map(|found| &*found.invocation_id).collect();
        same("the list", actual, expected)?;
        let bare = found.iter().all(|found| found.record.is_null());
        same("that records are left out", bare, true)?;
    }
    Ok(())
}

pub(super) async fn an_unknown_signal_changes_nothing(store: SharedStore) -> Checked {
    turn(&*store, "s", "i1", "x").await?;
    for unknown in ["i1", "unknown", ""] {
        let answer = store.signal(unknown, None, Map::new(), NOW).await?;
        same("the answer", answer, SignalResult::Unknown)?;
        same("the suspension", store.suspension(unknown).await?, None)?;
    }
    same("the inbox", store.inbox("s").await?, Vec::new())?;
    same("sessions", sound(&*store).await?.sessions, 1)
}
