//! The ids of runs that answer interrupts.
//!
//! The signals of a run make its decisions happen once. The record here binds the id of a run to its
//! answers, so that the same id never decides about anything else.

use axum::http::StatusCode;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::input::ResumeEntry;
use crate::chat::api::Api;
use crate::chat::problem::Problem;

/// The label of a thread's session with the runs that answered interrupts.
const RESUMES: &str = "ag_ui_resumes";
/// The most runs of a thread that are remembered.
const MAX_RESUMES: usize = 64;

/// Returns the digest of the answers of a run, in any order.
pub(super) fn digest(entries: &[ResumeEntry]) -> String {
    let texts = entries.iter().map(|entry| {
        let payload = entry.payload.clone().unwrap_or_default();
        json!([entry.interrupt_id, format!("{:?}", entry.status), payload]).to_string()
    });
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    format!("{:x}", Sha256::digest(json!(texts).to_string()))
}

/// Binds the id of a run to its answers.
///
/// # Errors
/// Returns a problem if the id belongs to other answers, or the store fails.
pub(super) async fn claim(api: &Api, thread: &str, run: &str, digest: &str) -> Result<(), Problem> {
    let _lock = api.turns.locks.lock(thread).await;
    let mut known = resumes(api, thread).await?;
    match known.iter().find(|(own, _)| own == run) {
        Some((_, own)) if own == digest => return Ok(()),
        Some(_) => return Err(reused(run)),
        None => {}
    }
    let oldest = (known.len() + 1).saturating_sub(MAX_RESUMES);
    known.drain(..oldest);
    known.push((run.to_owned(), digest.to_owned()));
    let now = api.turns.clock.now();
    api.store()
        .set_label(thread, RESUMES, json!(known), now)
        .await?;
    Ok(())
}

/// Refuses the id of a run that answered interrupts before.
///
/// # Errors
/// Returns a problem if it did, or the store fails.
pub(super) async fn require_unclaimed(api: &Api, thread: &str, run: &str) -> Result<(), Problem> {
    let known = resumes(api, thread).await?;
    if known.iter().any(|(own, _)| own == run) {
        return Err(reused(run));
    }
    Ok(())
}

async fn resumes(api: &Api, thread: &str) -> Result<Vec<(String, String)>, Problem> {
    let info = api.store().session(thread).await?;
    let label = info.and_then(|mut info| info.labels.remove(RESUMES));
    let known = label.map(serde_json::from_value::<Vec<(String, String)>>);
    Ok(known.and_then(Result::ok).unwrap_or_default())
}

/// Returns the problem of a run whose id belongs to another one.
pub(super) fn reused(run: &str) -> Problem {
    let detail = format!("the run `{run}` was another one");
    Problem::new(StatusCode::CONFLICT, "idempotency_key_reused", detail)
        .with_help("give each run an id of its own")
}
