//! The answers of the store for load balancers.

use std::time::Duration;

use axum::http::StatusCode;
use logue_harness::store::{SharedStore, StoreError};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::problem::Problem;

/// The time in which a store that works answers.
const ANSWER: Duration = Duration::from_secs(2);
/// The time for which an answer is used again.
const FRESH: Duration = Duration::from_secs(1);

/// The last answer of a store, and the question that waits for the next one.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Question>);

#[derive(Default)]
struct Question {
    /// A question whose answer has not come.
    ///
    /// A store that is away answers after many seconds.
    waiting: Option<JoinHandle<Result<(), StoreError>>>,
    last: Option<(Instant, Result<(), Problem>)>,
}

impl Readiness {
    /// Checks that the store accepts changes. Many callers ask it once.
    ///
    /// # Errors
    /// Returns the problem of a store that fails, or does not answer in time.
    pub(crate) async fn check(&self, store: &SharedStore) -> Result<(), Problem> {
        let mut question = self.0.lock().await;
        if let Some((at, answer)) = &question.last
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let mut waiting = question.waiting.take().unwrap_or_else(|| {
            let store = store.clone();
            tokio::spawn(async move { store.ready().await })
        });
        let answer = match timeout(ANSWER, &mut waiting).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(unready(error)),
            Ok(Err(_)) => Err(Problem::store_unavailable("the question has failed")),
            Err(_) => {
                question.waiting = Some(waiting);
                Err(Problem::store_unavailable(
                    "the session store does not answer",
                ))
            }
        };
        question.last = Some((Instant::now(), answer.clone()));
        answer
    }
}

/// Returns the answer for a store that fails.
fn unready(error: StoreError) -> Problem {
    if let StoreError::ReadOnly(message) = &error
        // The address before it is not for clients.
        && let Some((_, reason)) = message.rsplit_once(": ")
    {
        return Problem::store_unavailable(&format!("the session store is only read: {reason}"));
    }
    if error.is_full() {
        return Problem::store_unavailable("the disk of the session store is full");
    }
    Problem {
        // Load balancers send requests elsewhere, whatever the cause.
        status: StatusCode::SERVICE_UNAVAILABLE,
        ..Problem::from(error)
    }
}
