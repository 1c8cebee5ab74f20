//! The audit: immutable records of decisions.

use logue_harness::store::{AuditEntry, SessionFork, SharedStore};
use serde_json::json;

use super::fixtures::{LATER, NOW, sound, turn};
use super::{Checked, refused, same};

pub(super) async fn records_stay_in_their_order(store: SharedStore) -> Checked {
    turn(&*store, "s", "i1", "x").await?;
    turn(&*store, "t", "i2", "x").await?;
    store
        .audit("s", "i1", vec![json!({"n": 1}), json!({"n": 2})], NOW)
        .await?;
    store.audit("t", "i2", vec![json!("other")], NOW).await?;
    store.audit("s", "i3", vec![json!({"n": 3})], LATER).await?;
    store.audit("s", "i3", Vec::new(), LATER).await?;
    let entry = |seq, invocation: &str, n: u64, at| AuditEntry {
        seq,
        invocation_id: invocation.to_owned(),
        record: json!({ "n": n }),
        at,
    };
    let all = [
        entry(0, "i1", 1, NOW),
        entry(1, "i1", 2, NOW),
        entry(2, "i3", 3, LATER),
    ];
    same("all", store.audited("s", 0, 10).await?, all.to_vec())?;
    let some = store.audited("s", 1, 1).await?;
    same(
        "one of them",
        some,
        all.get(1..2).unwrap_or_default().to_vec(),
    )?;
    same("past the end", store.audited("s", 3, 9).await?, Vec::new())?;
    let far = store.audited("s", u64::MAX, 9).await?;
    same("far past the end", far, Vec::new())?;
    // A decision does not change the conversation.
    let info = store.session("s").await?;
    same("the change", info.map(|info| info.updated_at), Some(NOW))?;
    sound(&*store).await.map(drop)
}

pub(super) async fn records_go_with_their_session_only(store: SharedStore) -> Checked {
    refused(
        "of no name",
        store.audit("", "i", vec![json!(1)], NOW).await,
        "not found",
    )?;
    same("of nothing", store.audited("none", 0, 9).await?, Vec::new())?;
    store.audit("new", "i", vec![json!(1)], NOW).await?;
    let made = store.session("new").await?;
    let actual = made.map(|info| (info.has_state, info.pending, info.seq));
    same("a session made by a record", actual, Some((false, 0, 0)))?;
    turn(&*store, "s", "i1", "x").await?;
    store.audit("s", "i1", vec![json!(1)], NOW).await?;
    store.fork("s", SessionFork::new(1, "f", NOW)).await?;
    same("of the copy", store.audited("f", 0, 9).await?, Vec::new())?;
    store.delete("f").await?;
    same("of the first", store.audited("s", 0, 9).await?.len(), 1)?;
    store.delete("s").await?;
    turn(&*store, "s", "i2", "y").await?;
    let after = store.audited("s", 0, 9).await?;
    same("of the next one of that name", after, Vec::new())?;
    sound(&*store).await.map(drop)
}
