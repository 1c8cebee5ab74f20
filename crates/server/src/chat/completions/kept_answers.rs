//! Stateless requests with an `Idempotency-Key`, whose answers are kept in memory for a while.
//!
//! A turn of such a request runs on when its client leaves, so that the request can be sent again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::parts::{Part, from_beginning};
use crate::chat::access::Caller;
use crate::chat::problem::Problem;

/// The time for which an answer is kept after its end.
const KEPT: Duration = Duration::from_secs(600);
/// The number of answers that are kept.
const MOST: usize = 1_024;

/// The hash of a token, and a key.
type Name = (Option<String>, String);

/// The answers of a server by key.
#[derive(Default)]
pub(crate) struct KeptAnswers {
    answers: Mutex<HashMap<Name, Arc<KeptAnswer>>>,
}

/// The answer of a request.
pub(super) struct KeptAnswer {
    /// The digest of the body of the request.
    digest: String,
    pub(super) id: String,
    /// The time of the request in seconds.
    pub(super) created: u64,
    received: watch::Sender<Received>,
}

/// The received parts of an answer.
#[derive(Default)]
struct Received {
    parts: Vec<Part>,
    ended: Option<Instant>,
}

impl KeptAnswer {
    fn push(&self, part: Part) {
        self.received.send_modify(|received| {
            received.ended = matches!(part, Part::End(_)).then(Instant::now);
            received.parts.push(part);
        });
    }

    fn ended(&self) -> Option<Instant> {
        self.received.borrow().ended
    }

    fn is_kept(&self) -> bool {
        self.ended().is_none_or(|ended| ended.elapsed() < KEPT)
    }

    /// Returns the parts of the answer from its beginning.
    pub(super) fn parts(&self) -> mpsc::Receiver<Part> {
        let (sender, parts) = mpsc::channel(64);
        let mut received = self.received.subscribe();
        tokio::spawn(async move {
            let (first, mut at) = {
                let received = received.borrow_and_update();
                (from_beginning(&received.parts), received.parts.len())
            };
            for part in first {
                let is_end = matches!(part, Part::End(_));
                // The client may be gone.
                if sender.send(part).await.is_err() || is_end {
                    return;
                }
            }
            loop {
                let part = received.borrow_and_update().parts.get(at).cloned();
                let Some(part) = part else {
                    if received.changed().await.is_err() {
                        return;
                    }
                    continue;
                };
                at += 1;
                let is_end = matches!(part, Part::End(_));
                // The client may be gone.
                if sender.send(part).await.is_err() || is_end {
                    return;
                }
            }
        });
        parts
    }
}

/// A request whose answer others with its key await.
pub(super) struct RunningRequest {
    kept: Arc<KeptAnswers>,
    name: Name,
    answer: Arc<KeptAnswer>,
}

impl RunningRequest {
    /// Adds a part. After a failure the same key tries again.
    pub(super) fn push(&self, part: Part) {
        if matches!(part, Part::End(Err(_))) {
            self.kept.answers().remove(&self.name);
        }
        self.answer.push(part);
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        if self.answer.ended().is_none() {
            self.push(Part::End(Err(Problem::server_ends())));
        }
    }
}

impl KeptAnswers {
    fn answers(&self) -> MutexGuard<'_, HashMap<Name, Arc<KeptAnswer>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a key of a request that these answers do not contain.
    ///
    /// # Errors
    /// Returns a problem if the key belongs to another body.
    pub(super) fn check(
        &self,
        (caller, key): (&Caller, &str),
        digest: &str,
    ) -> Result<(), Problem> {
        let name = (caller.token_hash.clone(), key.to_owned());
        match self.answers().get(&name) {
            Some(known) if known.is_kept() && known.digest != digest => {
                Err(Problem::key_reused(key))
            }
            _ => Ok(()),
        }
    }

    /// Returns the answer under a key, and the request if it is new.
    ///
    /// # Errors
    /// Returns a problem if the key belongs to another body.
    pub(super) fn claim(
        self: &Arc<Self>,
        name: Name,
        (digest, id, created): (String, String, u64),
    ) -> Result<(Arc<KeptAnswer>, Option<RunningRequest>), Problem> {
        let answer = KeptAnswer {
            digest,
            id,
            created,
            received: watch::Sender::default(),
        };
        let mut answers = self.answers();
        answers.retain(|_, known| known.is_kept());
        if let Some(known) = answers.get(&name) {
            return if known.digest == answer.digest {
                Ok((Arc::clone(known), None))
            } else {
                Err(Problem::key_reused(&name.1))
            };
        }
        if answers.len() >= MOST {
            let ended = answers
                .iter()
                .filter_map(|(name, known)| Some((known.ended()?, name)));
            if let Some((_, oldest)) = ended.min() {
                let oldest = oldest.clone();
                answers.remove(&oldest);
            }
        }
        let answer = Arc::new(answer);
        answers.insert(name.clone(), Arc::clone(&answer));
        let running = RunningRequest {
            kept: Arc::clone(self),
            name,
            answer: Arc::clone(&answer),
        };
        Ok((answer, Some(running)))
    }
}
