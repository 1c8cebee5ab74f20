//! Ids and bodies are whatever the caller says, and come back as they were.

use logue_harness::store::{LeaseResult, SharedStore, SuspensionFilter};
use serde_json::{Map, Value, json};

use super::fixtures::{
    NOW, TTL, accepted, claim_next, done, history, keyed, lease, sound, suspended, turn,
    user_message,
};
use super::{Checked, same};

/// Ids that some medium may take for one another, or for something else.
const ODD: &[&str] = &[
    " ",
    "a",
    "A",
    "a ",
    "a\0",
    "a\0b",
    "\0",
    "%",
    "_",
    "a%",
    "'; DROP TABLE session; --",
    "\"",
    "\\",
    "../../etc/passwd",
    "a/b",
    "1",
    "01",
    "1.0",
    "é",
    "e\u{301}",
    "🦀",
    "\u{10ffff}",
    "\u{d7ff}",
    "\u{e000}",
    "ß",
    "ss",
    "null",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    "0F8FAD5B-D9CB-469F-A165-70867728950E",
    "0f8fad5bd9cb469fa16570867728950e",
    "0f8fad5-bd9cb-469f-a165-70867728950e",
    "0f8fad5b-d9cb-469f-a165-70867728950-",
];

pub(super) async fn odd_ids_are_kept_apart(store: SharedStore) -> Checked {
    for id in ODD {
        let put = store.enqueue(id, keyed(id, id)).await?;
        same("an entry", put, accepted(1, true, 0))?;
        let put = store.enqueue("keys", keyed(id, id)).await?;
        same(
            "a key is new",
            matches!(
                put,
                logue_harness::store::EnqueueResult::Entry { is_new: true, .. }
            ),
            true,
        )?;
        store.set_label("keys", id, json!(id), NOW).await?;
        let lease = store.acquire(id, id, NOW, TTL).await?;
        let LeaseResult::Lease(lease) = lease else {
            return same(
                "a lease",
                lease,
                LeaseResult::Held {
                    owner: String::new(),
                    until: NOW,
                },
            );
        };
        same("its owner", &*lease.owner, id)?;
        claim_next(&*store, &lease, id).await?;
        store.journal(&lease, id, vec![json!(id)]).await?;
        store.commit(&lease, suspended(id, 0, id)).await?;
    }
    for id in ODD {
        let entry = store.entry(id, 1).await?;
        let actual = entry.map(|entry| (entry.key, entry.invocation_id));
        same(
            "the ids of an entry",
            actual,
            Some((Some((*id).to_owned()), Some((*id).to_owned()))),
        )?;
        let found = store.suspension(id).await?;
        let actual = found.map(|found| (found.session, found.signal_id));
        same(
            "those of a suspension",
            actual,
            Some(((*id).to_owned(), (*id).to_owned())),
        )?;
        let filter = SuspensionFilter {
            signal_id: Some((*id).to_owned()),
            ..SuspensionFilter::default()
        };
        same(
            "those of its signal",
            store.suspensions(filter).await?.len(),
            1,
        )?;
        let filter = logue_harness::store::SessionFilter {
            prefix: Some((*id).to_owned()),
            limit: None,
            ..logue_harness::store::SessionFilter::default()
        };
        let found = store.list(filter).await?;
        let mut found: Vec<String> = found.into_iter().map(|info| info.session).collect();
        found.sort_unstable();
        let mut expected: Vec<String> = ODD
            .iter()
            .filter(|other| other.starts_with(id))
            .map(|&other| other.to_owned())
            .collect();
        expected.extend("keys".starts_with(id).then(|| "keys".to_owned()));
        expected.sort_unstable();
        same("those that begin so", found, expected)?;
    }
    let info = store.session("keys").await?;
    same(
        "labels",
        info.map(|info| info.labels.len()),
        Some(ODD.len()),
    )?;
    for id in ODD {
        same("one is deleted", store.delete(id).await?, true)?;
    }
    same("what is left", sound(&*store).await?.sessions, 1)
}

pub(super) async fn bodies_come_back_as_they_were(store: SharedStore) -> Checked {
    let mut deep = json!("bottom");
    for level in 0..200 {
        deep = if level % 2 == 0 {
            json!([deep])
        } else {
            json!({ "d": deep })
        };
    }
    let bodies = vec![
        Value::Null,
        json!(true),
        json!(""),
        json!("\0 \u{1} \u{7f} \u{2028} \u{feff} 🦀 e\u{301} \\ \" / \u{ffff}"),
        json!([0.1, 1e300, -0.0, 5e-324, f64::MAX, 0.1 + 0.2]),
        json!([u64::MAX, i64::MIN, 9_007_199_254_740_993_u64]),
        json!({ "": "", "z": 1, "a": [[], {}], "content": [{ "type": "text", "text": "x\r\n\ty" }] }),
        json!(2.225_073_858_507_201e-308),
        json!(123_456_789.012_345_68),
        deep,
    ];
    store.enqueue("s", keyed("x", "k")).await?;
    let held = lease(&*store, "s").await?;
    claim_next(&*store, &held, "i1").await?;
    store.journal(&held, "i1", bodies.clone()).await?;
    let notes = store.notes("s", "i1").await?;
    let notes: Vec<Value> = notes.into_iter().map(|note| note.note).collect();
    same("notes", &notes, &bodies)?;
    store.commit(&held, done("i1", 0, bodies.clone())).await?;
    let found = history(&*store, "s").await?;
    same("messages", &found, &bodies)?;
    // Equal values may still differ in the order of their members.
    same(
        "how they are written",
        format!("{found:?}"),
        format!("{bodies:?}"),
    )?;
    for (index, body) in bodies.iter().enumerate() {
        store
            .set_label("s", &index.to_string(), body.clone(), NOW)
            .await?;
    }
    let info = store.session("s").await?;
    let labels = info.map(|info| info.labels.values().cloned().collect::<Vec<_>>());
    same(
        "labels",
        labels.map(|labels| labels.len()),
        Some(bodies.len()),
    )?;
    sound(&*store).await.map(drop)
}

pub(super) async fn a_huge_body_is_kept(store: SharedStore) -> Checked {
    let huge = user_message(&"Ünïcödé \u{0} text. ".repeat(200_000));
    store.enqueue("s", keyed("x", "k")).await?;
    let lease = lease(&*store, "s").await?;
    claim_next(&*store, &lease, "i1").await?;
    store.journal(&lease, "i1", vec![huge.clone()]).await?;
    let messages = vec![user_message("small"), huge.clone(), user_message("small")];
    store.commit(&lease, done("i1", 0, messages)).await?;
    let found = store.history("s", 1, 1).await?;
    same("the body", found == vec![huge], true)
}

pub(super) async fn what_does_not_exist_is_empty(store: SharedStore) -> Checked {
    turn(&*store, "s", "i1", "x").await?;
    for session in ["none", ""] {
        same("a session", store.session(session).await?, None)?;
        same("an inbox", store.inbox(session).await?, Vec::new())?;
        same("an entry", store.entry(session, 1).await?, None)?;
        same("a history", history(&*store, session).await?, Vec::new())?;
        same("notes", store.notes(session, "i1").await?, Vec::new())?;
        same(
            "outcomes",
            store.outcomes_since(session, 0, 9).await?,
            Vec::new(),
        )?;
        same("an outcome", store.outcome_of(session, 1).await?, None)?;
        same("a deletion", store.delete(session).await?, false)?;
    }
    for number in [0, 2, u64::from(u32::MAX), u64::MAX] {
        same("an entry", store.entry("s", number).await?, None)?;
        same("an outcome", store.outcome_of("s", number).await?, None)?;
        let rest = store.history("s", number.max(2), usize::MAX).await?;
        same("the rest of a history", rest, Vec::new())?;
    }
    same("a part of it", store.history("s", 1, 1).await?.len(), 1)?;
    same("nothing of it", store.history("s", 0, 0).await?, Vec::new())?;
    let empty = Map::new();
    same(
        "a signal",
        store.signal("i1", None, empty, NOW).await?,
        logue_harness::store::SignalResult::Unknown,
    )
}
