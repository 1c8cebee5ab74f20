//! Sessions are independent, and can be copied, listed, labelled and removed.

use logue_harness::Timestamp;
use logue_harness::store::{
    BoundLabel, Commit, EntryPayload, IntegrityReport, LabelResult, NewEntry, NewSuspension,
    SessionFilter, SessionFork, SharedStore, SignalResult, Store, SuspensionFilter,
};
use serde_json::{Map, Value, json};

use super::fixtures::{
    LATER, NOW, claim_next, done, entry, history, keyed, lease, save, sound, together, turn,
    user_message, waiting_turn,
};
use super::{Checked, ContractViolation, refused, same};

pub(super) async fn sessions_do_not_touch_each_other(store: SharedStore) -> Checked {
    for session in ["a", "b", "c"] {
        turn(&*store, session, "i1", session).await?;
        store.enqueue(session, entry("next")).await?;
    }
    let lease = lease(&*store, "b").await?;
    claim_next(&*store, &lease, "i2").await?;
    store.journal(&lease, "i2", vec![json!(1)]).await?;
    let commit = Commit {
        fields: Map::from_iter([("topic".to_owned(), json!("b"))]),
        ..done("i2", 2, vec![user_message("next")])
    };
    store.commit(&lease, commit).await?;
    for session in ["a", "c"] {
        let info = store.session(session).await?;
        let actual = info.map(|info| (info.seq, info.cursor, info.pending, info.fields.len()));
        same(session, actual, Some((2, 1, 1, 0)))?;
        let words = user_message(session);
        same(
            session,
            history(&*store, session).await?.first(),
            Some(&words),
        )?;
    }
    let borrowed = store.notes("a", "i2").await?;
    same("a journal of another", borrowed, Vec::new())
}

pub(super) async fn labels_lie_beside_the_state(store: SharedStore) -> Checked {
    store.set_label("s", "agent", json!("a.chat"), NOW).await?;
    let info = store.session("s").await?;
    let actual = info.map(|info| (info.has_state, info.pending, info.labels.len()));
    same("a session made by a label", actual, Some((false, 0, 1)))?;
    turn(&*store, "s", "i1", "x").await?;
    store
        .set_label("s", "agent", json!({ "file": "b.chat" }), LATER)
        .await?;
    store.set_label("s", "", Value::Null, NOW).await?;
    let info = store.session("s").await?;
    let actual = info.map(|info| {
        (
            Value::Object(info.labels),
            info.fields.len(),
            info.updated_at,
        )
    });
    let labels = json!({ "agent": { "file": "b.chat" }, "": null });
    same("the labels", actual, Some((labels, 0, LATER)))
}

pub(super) async fn a_label_is_set_once(store: SharedStore) -> Checked {
    let set = store.set_label_once("s", "agent", json!("a.chat"), NOW);
    same("a label of a missing session", set.await?, None)?;
    turn(&*store, "s", "i1", "x").await?;
    let again = store.set_label_once("s", "agent", json!("b.chat"), LATER);
    same("the earlier value", again.await?, Some(json!("a.chat")))?;
    store.set_label("s", "null", Value::Null, NOW).await?;
    let null = store.set_label_once("s", "null", json!(1), LATER).await?;
    same("a label without a value", null, Some(Value::Null))?;
    let other = store.set_label_once("s", "other", json!({ "deep": [1] }), NOW);
    same("another label", other.await?, None)?;
    let info = store.session("s").await?;
    let labels = info.as_ref().map(|info| Value::Object(info.labels.clone()));
    let expected = json!({ "agent": "a.chat", "null": null, "other": { "deep": [1] } });
    same("the labels", labels, Some(expected))?;
    let changed = info.map(|info| info.updated_at);
    same("the time of the last change", changed, Some(NOW))?;
    for round in 0..8 {
        let session = format!("new {round}");
        let set = |value: u64| store.set_label_once(&session, "agent", json!(value), NOW);
        let answers = together(vec![set(1), set(2), set(3)]).await;
        let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
        let setters = answers.iter().filter(|earlier| earlier.is_none());
        same("the calls that set it", setters.count(), 1)?;
        let value = store.session(&session).await?;
        let value = value.and_then(|info| info.labels.get("agent").cloned());
        let others = answers.into_iter().flatten();
        let is_same = |other: Value| Some(other) == value;
        let others: Vec<bool> = others.map(is_same).collect();
        same("the answers of the others", others, vec![true; 2])?;
    }
    Ok(())
}

pub(super) async fn a_bound_label_is_set_on_no_other_session(store: SharedStore) -> Checked {
    let label = |created_at, only_if_new, value: u64| BoundLabel {
        name: "agent".to_owned(),
        value: json!(value),
        only_created_at: created_at,
        only_if_new,
        now: LATER,
    };
    for is_once in [false, true] {
        let other = store.set_bound_label("s", label(NOW, is_once, 0)).await?;
        same("a missing session", other, LabelResult::OtherSession)?;
    }
    same("what is created", store.session("s").await?.is_none(), true)?;
    turn(&*store, "s", "i1", "x").await?;
    let created = store.session("s").await?.map(|info| info.created_at);
    let created = created.unwrap_or(NOW);
    let set = store.set_bound_label("s", label(created, true, 1)).await?;
    same("the first label", set, LabelResult::Set)?;
    let set = store.set_bound_label("s", label(created, true, 2)).await?;
    same("a label once more", set, LabelResult::Kept(json!(1)))?;
    let set = store.set_bound_label("s", label(created, false, 3)).await?;
    same("another value", set, LabelResult::Set)?;
    let info = store.session("s").await?;
    let found = info.map(|info| (Value::Object(info.labels), info.updated_at));
    same("the label", found, Some((json!({ "agent": 3 }), LATER)))?;
    store.delete("s").await?;
    let later = NewEntry {
        now: Timestamp(created.0 + 1),
        ..entry("another")
    };
    store.enqueue("s", later).await?;
    for is_once in [false, true] {
        let other = label(created, is_once, 4);
        let other = store.set_bound_label("s", other).await?;
        same("another session", other, LabelResult::OtherSession)?;
    }
    let labels = store.session("s").await?.map(|info| info.labels.len());
    same("the labels of another session", labels, Some(0))
}

pub(super) async fn a_fork_is_a_session_of_its_own(store: SharedStore) -> Checked {
    turn(&*store, "s", "i1", "one").await?;
    turn(&*store, "s", "i2", "two").await?;
    store.set_label("s", "agent", json!("a.chat"), NOW).await?;
    let held = lease(&*store, "s").await?;
    let fields = Commit {
        fields: Map::from_iter([("topic".to_owned(), json!("x"))]),
        schema_version: Some("3".to_owned()),
        ..save("none", 4)
    };
    store.commit(&held, fields).await?;
    store.enqueue("s", keyed("waits", "k")).await?;

    refused(
        "of nothing",
        store.fork("none", SessionFork::new(0, "f", NOW)).await,
        "not found",
    )?;
    refused(
        "onto another",
        store.fork("s", SessionFork::new(0, "s", NOW)).await,
        "exists",
    )?;
    refused(
        "beyond the end",
        store.fork("s", SessionFork::new(5, "f", NOW)).await,
        "conflict",
    )?;
    same("what that left", store.session("f").await?, None)?;

    store.fork("s", SessionFork::new(3, "f", LATER)).await?;
    let expected: Vec<Value> = history(&*store, "s").await?.into_iter().take(3).collect();
    same("its history", history(&*store, "f").await?, expected)?;
    let info = store.session("f").await?;
    let actual = info
        .as_ref()
        .map(|info| (info.seq, info.pending, info.cursor));
    same("its lengths", actual, Some((3, 0, 0)))?;
    let actual = info
        .as_ref()
        .map(|info| (info.has_state, info.created_at, info.updated_at));
    same("its times", actual, Some((true, LATER, LATER)))?;
    let actual = info.map(|info| (info.fields.len(), info.labels.len(), info.schema_version));
    same(
        "what it has with it",
        actual,
        Some((1, 1, Some("3".to_owned()))),
    )?;

    let put = store.enqueue("f", keyed("own", "k")).await?;
    same(
        "a key of its own",
        put,
        super::fixtures::accepted(1, true, 0),
    )?;
    let lease = lease(&*store, "f").await?;
    claim_next(&*store, &lease, "i3").await?;
    store
        .commit(&lease, done("i3", 3, vec![user_message("own")]))
        .await?;
    same("the origin", history(&*store, "s").await?.len(), 4)?;
    store.delete("s").await?;
    same("its own history", history(&*store, "f").await?.len(), 4)?;
    a_fork_has_what_it_adds(&*store).await?;
    store.fork("f", SessionFork::new(0, "empty", NOW)).await?;
    same("an empty one", history(&*store, "empty").await?, Vec::new())?;
    sound(&*store).await.map(drop)
}

pub(super) async fn a_deleted_session_is_gone(store: SharedStore) -> Checked {
    same("nothing", store.delete("s").await?, false)?;
    turn(&*store, "s", "i1", "x").await?;
    waiting_turn(&*store, "s", "i2", "approval").await?;
    turn(&*store, "other", "i4", "stays").await?;
    store.enqueue("s", keyed("y", "k")).await?;
    store.set_label("s", "agent", json!("a.chat"), NOW).await?;
    let held = lease(&*store, "s").await?;
    claim_next(&*store, &held, "i3").await?;
    store.journal(&held, "i3", vec![json!(1)]).await?;
    same("something", store.delete("s").await?, true)?;
    same("twice", store.delete("s").await?, false)?;

    same("the session", store.session("s").await?, None)?;
    same("its history", history(&*store, "s").await?, Vec::new())?;
    same("its entry", store.entry("s", 1).await?, None)?;
    same(
        "its outcomes",
        store.outcomes_since("s", 0, 9).await?,
        Vec::new(),
    )?;
    same("its journal", store.notes("s", "i3").await?, Vec::new())?;
    same("what waited", store.suspension("i2").await?, None)?;
    let listed = store.suspensions(SuspensionFilter::default()).await?;
    same("what waited, in the list", listed, Vec::new())?;
    let answer = store.signal("i2", None, Map::new(), NOW).await?;
    same("its signal", answer, SignalResult::Unknown)?;
    refused(
        "its lease",
        store.renew(&held, NOW, super::fixtures::TTL).await,
        "not found",
    )?;
    same("another", history(&*store, "other").await?.len(), 2)?;

    let put = store.enqueue("s", keyed("y", "k")).await?;
    same(
        "one of that name",
        put,
        super::fixtures::accepted(1, true, 0),
    )?;
    let info = store.session("s").await?;
    let actual = info.map(|info| (info.seq, info.cursor, info.has_state, info.labels.len()));
    same("it is new", actual, Some((0, 0, false, 0)))?;
    sound(&*store).await.map(drop)
}

pub(super) async fn sessions_are_listed_by_their_last_change(store: SharedStore) -> Checked {
    let at = |now| {
        let mut put = entry("x");
        put.now = Timestamp(now);
        put
    };
    for (session, now) in [
        ("p/b", 10),
        ("p/a", 10),
        ("p/c", 30),
        ("q", 20),
        ("p", 40),
        ("P/d", 50),
    ] {
        store.enqueue(session, at(now)).await?;
    }
    let list = async |prefix: Option<&str>, limit| -> Result<Vec<String>, ContractViolation> {
        let filter = SessionFilter {
            prefix: prefix.map(str::to_owned),
            limit,
            is_pending: false,
        };
        let found = store.list(filter).await?;
        Ok(found.into_iter().map(|info| info.session).collect())
    };
    let all = ["P/d", "p", "p/c", "q", "p/a", "p/b"];
    same(
        "all",
        list(None, None).await?,
        all.map(str::to_owned).to_vec(),
    )?;
    same("an empty prefix", list(Some(""), None).await?.len(), 6)?;
    let some = ["p/c", "p/a", "p/b"].map(str::to_owned);
    same("a prefix", list(Some("p/"), None).await?, some.to_vec())?;
    same(
        "some of them",
        list(Some("p/"), Some(2)).await?,
        some[..2].to_vec(),
    )?;
    same("none of them", list(None, Some(0)).await?, Vec::new())?;
    same("another prefix", list(Some("p/x"), None).await?, Vec::new())?;

    store.enqueue("p/b", at(60)).await?;
    store
        .set_label("q", "agent", json!(1), Timestamp(55))
        .await?;
    // A clock that was set back does not lower a timestamp.
    store
        .set_label("p", "agent", json!(1), Timestamp(1))
        .await?;
    let all = ["p/b", "q", "P/d", "p", "p/c", "p/a"];
    same(
        "after changes",
        list(None, None).await?,
        all.map(str::to_owned).to_vec(),
    )?;
    let infos = store.list(SessionFilter::default()).await?;
    for info in infos {
        let alone = store.session(&info.session).await?;
        same("the listed session", alone, Some(info))?;
    }
    Ok(())
}

pub(super) async fn a_sound_store_has_no_faults(store: SharedStore) -> Checked {
    same(
        "an empty one",
        sound(&*store).await?,
        IntegrityReport::default(),
    )?;
    turn(&*store, "a", "i1", "x").await?;
    turn(&*store, "a", "i2", "y").await?;
    waiting_turn(&*store, "b", "i3", "approval").await?;
    turn(&*store, "b", "i4", "z").await?;
    let counts = async |session| -> Result<_, ContractViolation> {
        let verified = Store::verify(&*store, session).await?;
        same("faults", &verified.faults, &Vec::new())?;
        Ok((verified.sessions, verified.messages))
    };
    same("all", counts(None).await?, (2, 6))?;
    same("one", counts(Some("a")).await?, (1, 4))?;
    same("none", counts(Some("c")).await?, (0, 0))
}

pub(super) async fn sessions_with_pending_entries_are_listed(store: SharedStore) -> Checked {
    let pending = async || -> Result<Vec<String>, ContractViolation> {
        let filter = SessionFilter {
            is_pending: true,
            ..SessionFilter::default()
        };
        let found = store.list(filter).await?;
        Ok(found.into_iter().map(|info| info.session).collect())
    };
    same("of no session", pending().await?, Vec::new())?;
    turn(&*store, "settled", "i1", "x").await?;
    waiting_turn(&*store, "waits", "i2", "approval").await?;
    same("without entries", pending().await?, Vec::new())?;
    store.enqueue("settled", entry("y")).await?;
    same("an entry", pending().await?, vec!["settled".to_owned()])?;
    let held = lease(&*store, "settled").await?;
    claim_next(&*store, &held, "i3").await?;
    same("that runs", pending().await?, vec!["settled".to_owned()])?;
    store.commit(&held, done("i3", 2, Vec::new())).await?;
    store.signal("i2", None, Map::new(), NOW).await?;
    same("a signal", pending().await?, vec!["waits".to_owned()])
}

/// Checks the messages, the waiting turn and the entry that a fork adds.
async fn a_fork_has_what_it_adds(store: &dyn Store) -> Checked {
    let suspension = NewSuspension {
        signal_id: "go".to_owned(),
        metadata: None,
        record: json!({ "left": 1 }),
    };
    let fork = |into: &str, invocation: &str| SessionFork {
        messages: vec![user_message("added")],
        suspended: vec![(invocation.to_owned(), suspension.clone())],
        work: Some(EntryPayload::Message {
            message: user_message("first"),
        }),
        ..SessionFork::new(1, into, LATER)
    };
    store.fork("f", fork("added", "waits")).await?;
    same("its messages", history(store, "added").await?.len(), 2)?;
    same(
        "the added message",
        history(store, "added").await?.pop(),
        Some(user_message("added")),
    )?;
    let waiting = store.suspension("waits").await?;
    let waiting = waiting.map(|one| (one.session, one.signal_id, one.record, one.since));
    let expected = ("added", "go", json!({ "left": 1 }), LATER);
    let expected = (
        expected.0.to_owned(),
        expected.1.to_owned(),
        expected.2,
        expected.3,
    );
    same("the waiting turn", waiting, Some(expected))?;
    let entries = store.inbox("added").await?;
    same("its inbox", entries.len(), 1)?;
    let taken = store.fork("f", fork("twice", "waits")).await;
    refused("a taken invocation", taken, "exists")?;
    same("what that left", store.session("twice").await?, None)?;
    let signalled = store.signal("waits", Some("go"), Map::new(), LATER).await?;
    let is_second = matches!(
        signalled,
        SignalResult::Entry {
            entry: 2,
            is_new: true,
            ..
        }
    );
    same("the signal", is_second, true)?;
    store.delete("added").await?;
    same(
        "the end of its turn",
        store.suspension("waits").await?,
        None,
    )
}
