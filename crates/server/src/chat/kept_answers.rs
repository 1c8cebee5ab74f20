//! Stateless requests with an `Idempotency-Key`, whose answers are kept in memory for a while.
//!
//! Such a request runs on when its client leaves, so that it can be sent again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::access::Caller;
use super::problem::Problem;
use super::request_digest::RequestDigest;

/// The time for which an answer is kept after its end.
const KEPT: Duration = Duration::from_secs(600);
/// The number of answers that are kept.
const MOST: usize = 1_024;
/// The bytes of the answers that are kept after their ends.
const MOST_BYTES: usize = 32 << 20;

/// A part of an answer that can be kept.
pub(crate) trait KeptPart: Clone + Send + Sync + 'static {
    /// Returns the last part of an answer that the end of the server cuts.
    fn cut_off() -> Self;

    /// Returns whether the answer succeeded, if this is its last part.
    fn end(&self) -> Option<bool>;

    /// Returns the approximate size in memory.
    fn bytes(&self) -> usize;

    /// Returns the parts for a client that has received none.
    fn from_beginning(received: &[Self]) -> Vec<Self>;
}

/// The name of a key: those of each token and each API are different ones.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyName {
    token: Option<String>,
    api: &'static str,
    key: String,
}

impl KeyName {
    pub(crate) fn new(caller: &Caller, api: &'static str, key: &str) -> Self {
        Self {
            token: caller.token_hash.clone(),
            api,
            key: key.to_owned(),
        }
    }
}

/// The answers of a server by key.
pub(crate) struct KeptAnswers<P> {
    answers: Mutex<HashMap<KeyName, Arc<KeptAnswer<P>>>>,
}

impl<P> Default for KeptAnswers<P> {
    fn default() -> Self {
        Self {
            answers: Mutex::default(),
        }
    }
}

/// The answer of a request.
pub(crate) struct KeptAnswer<P> {
    digest: RequestDigest,
    pub(crate) id: String,
    /// The time of the request in seconds.
    pub(crate) created: u64,
    received: watch::Sender<Received<P>>,
}

/// The received parts of an answer.
struct Received<P> {
    parts: Vec<P>,
    /// The size of the parts.
    bytes: usize,
    ended: Option<Instant>,
}

impl<P: KeptPart> KeptAnswer<P> {
    fn new((digest, id, created): (RequestDigest, String, u64)) -> Self {
        Self {
            digest,
            id,
            created,
            received: watch::Sender::new(Received {
                parts: Vec::new(),
                bytes: 0,
                ended: None,
            }),
        }
    }

    fn push(&self, part: P) {
        self.received.send_modify(|received| {
            received.ended = part.end().map(|_| Instant::now());
            received.bytes += part.bytes();
            received.parts.push(part);
        });
    }

    fn bytes(&self) -> usize {
        self.received.borrow().bytes
    }

    fn require(&self, name: &KeyName, digest: &RequestDigest) -> Result<(), Problem> {
        let own = &self.digest;
        digest.require(&name.key, &own.whole, Some(&own.body))
    }

    fn ended(&self) -> Option<Instant> {
        self.received.borrow().ended
    }

    fn is_kept(&self) -> bool {
        self.ended().is_none_or(|ended| ended.elapsed() < KEPT)
    }

    /// Returns the parts of the answer from its beginning.
    pub(crate) fn parts(&self) -> mpsc::Receiver<P> {
        let (sender, parts) = mpsc::channel(64);
        let mut received = self.received.subscribe();
        tokio::spawn(async move {
            let (first, mut at) = {
                let received = received.borrow_and_update();
                (P::from_beginning(&received.parts), received.parts.len())
            };
            for part in first {
                let is_end = part.end().is_some();
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
                let is_end = part.end().is_some();
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
pub(crate) struct RunningRequest<P: KeptPart> {
    kept: Arc<KeptAnswers<P>>,
    name: KeyName,
    answer: Arc<KeptAnswer<P>>,
}

/// The answer under a key, and its request if it is new.
type ClaimedAnswer<P> = (Arc<KeptAnswer<P>>, Option<RunningRequest<P>>);

impl<P: KeptPart> RunningRequest<P> {
    /// Adds a part. After a failure the same key tries again.
    pub(crate) fn push(&self, part: P) {
        let end = part.end();
        if end == Some(false) {
            self.kept.answers().remove(&self.name);
        }
        self.answer.push(part);
        if end == Some(true) {
            self.kept.limit_bytes();
        }
    }
}

impl<P: KeptPart> Drop for RunningRequest<P> {
    fn drop(&mut self) {
        if self.answer.ended().is_none() {
            self.push(P::cut_off());
        }
    }
}

impl<P: KeptPart> KeptAnswers<P> {
    fn answers(&self) -> MutexGuard<'_, HashMap<KeyName, Arc<KeptAnswer<P>>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a key of a request that these answers do not contain.
    ///
    /// # Errors
    /// Returns a problem if the key belongs to another request.
    pub(crate) fn check(&self, name: &KeyName, digest: &RequestDigest) -> Result<(), Problem> {
        match self.answers().get(name) {
            Some(known) if known.is_kept() => known.require(name, digest),
            _ => Ok(()),
        }
    }

    /// Removes answers until the bytes of the others are permitted, those that ended first.
    fn limit_bytes(&self) {
        let mut answers = self.answers();
        let ended = answers
            .iter()
            .filter_map(|(name, known)| Some((known.ended()?, name.clone(), known.bytes())));
        let mut ended: Vec<_> = ended.collect();
        ended.sort_unstable();
        let mut bytes: usize = ended.iter().map(|(_, _, bytes)| bytes).sum();
        for (_, name, own) in ended {
            if bytes <= MOST_BYTES {
                return;
            }
            answers.remove(&name);
            bytes -= own;
        }
    }

    /// Returns the answer under a key, and the request if it is new.
    ///
    /// # Errors
    /// Returns a problem if the key belongs to another request.
    pub(crate) fn claim(
        self: &Arc<Self>,
        name: KeyName,
        request: (RequestDigest, String, u64),
    ) -> Result<ClaimedAnswer<P>, Problem> {
        let answer = KeptAnswer::new(request);
        let mut answers = self.answers();
        answers.retain(|_, known| known.is_kept());
        if let Some(known) = answers.get(&name) {
            known.require(&name, &answer.digest)?;
            return Ok((Arc::clone(known), None));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A part of this size, with which its answer ends or not.
    #[derive(Clone)]
    struct Piece(usize, bool);

    impl KeptPart for Piece {
        fn cut_off() -> Self {
            Self(0, true)
        }

        fn end(&self) -> Option<bool> {
            self.1.then_some(true)
        }

        fn bytes(&self) -> usize {
            self.0
        }

        fn from_beginning(received: &[Self]) -> Vec<Self> {
            received.to_vec()
        }
    }

    #[test]
    fn the_bytes_of_kept_answers_are_limited() {
        let kept = Arc::new(KeptAnswers::default());
        let claim = |key: &str| {
            let name = KeyName::new(&Caller::local(), "test", key);
            let digest = RequestDigest::of_body(&json!({}));
            kept.claim(name, (digest, key.to_owned(), 0)).unwrap().1
        };
        let add = |key: &str, bytes: usize| {
            let running = claim(key).unwrap();
            running.push(Piece(bytes, false));
            running.push(Piece(0, true));
        };
        let running = claim("running").unwrap();
        running.push(Piece(MOST_BYTES, false));
        add("first", MOST_BYTES / 2);
        add("second", MOST_BYTES / 2);
        // An answer that still arrives is not removed, and does not count.
        for key in ["first", "second", "running"] {
            assert!(claim(key).is_none(), "{key}");
        }
        add("third", 1);
        assert!(claim("second").is_none() && claim("third").is_none());
        let first = claim("first").unwrap();
        first.push(Piece(MOST_BYTES + 1, false));
        first.push(Piece(0, true));
        assert!(claim("first").is_some() && claim("third").is_some());
    }
}
