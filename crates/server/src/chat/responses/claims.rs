//! Requests with an `Idempotency-Key`: the same request, sent again, is the same response.
//!
//! A claim is a session of its own, whose creation is atomic in every store. It binds the key to the
//! body of the request, and contains the entry that the request became. It remains when the response
//! is deleted, so that its key never begins the response again.

use std::time::Duration;

use logue_harness::Timestamp;
use logue_harness::store::{SessionFork, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::OwnedMutexGuard;

use super::ids::ResponseId;
use crate::chat::access::Caller;
use crate::chat::api::Api;
use crate::chat::problem::Problem;
use crate::chat::request_digest::RequestDigest;
use crate::chat::request_records::REQUEST_BODY;

/// The label with the digest of the body alone, without a header.
const BODY_ALONE: &str = "request_body_alone";
/// The label with the place of the entry.
const PLACE: &str = "request_place";
/// The time in which another server accepts the first request, in steps.
const STEPS: usize = 50;
const STEP: Duration = Duration::from_millis(100);

/// The claim of a key.
pub(crate) struct Claim {
    pub(crate) session: String,
    /// The time of the first request.
    pub(crate) created_at: Timestamp,
    /// The entry of the request, as soon as it is recorded.
    pub(crate) place: Option<ClaimedPlace>,
    /// Held until the message is accepted.
    _lock: OwnedMutexGuard<()>,
}

/// The session and the key of an entry.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct ClaimedPlace {
    pub(crate) session: String,
    pub(crate) key: String,
    /// The word for how the request continued its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) how: Option<String>,
    /// The entry, as soon as the session contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) entry: Option<u64>,
}

/// The name of a key, which one request at a time claims.
pub(crate) struct ClaimName {
    key: String,
    /// The session of the claim.
    session: String,
    lock: OwnedMutexGuard<()>,
}

impl ClaimName {
    /// Waits until no other request of this server claims the key.
    ///
    /// Keys of different APIs are different ones; Responses have no name here.
    pub(crate) async fn lock(
        api: &Api,
        caller: &Caller,
        api_name: Option<&str>,
        key: &str,
    ) -> Self {
        let owner = caller.token_hash.as_deref().unwrap_or_default();
        let named = match api_name {
            None => json!([owner, key]),
            Some(api_name) => json!([owner, key, api_name]),
        };
        let named = named.to_string();
        let session = format!("idempotency-{:x}", Sha256::digest(named));
        let lock = api.turns.locks.lock(&session).await;
        Self {
            key: key.to_owned(),
            session,
            lock,
        }
    }

    /// Checks the key of a request that does not claim it.
    ///
    /// # Errors
    /// Returns a problem if the key belongs to another request, or the store fails.
    pub(crate) async fn check(&self, api: &Api, digest: &RequestDigest) -> Result<(), Problem> {
        let info = api.store().session(&self.session).await?;
        match info.map(|info| info.labels) {
            Some(labels) if labels.contains_key(REQUEST_BODY) => self.require(digest, &labels),
            _ => Ok(()),
        }
    }

    /// Checks that a request is the one with these labels.
    fn require(&self, digest: &RequestDigest, labels: &Map<String, Value>) -> Result<(), Problem> {
        let label = |name| labels.get(name).and_then(Value::as_str);
        let whole = label(REQUEST_BODY).unwrap_or_default();
        digest.require(&self.key, whole, label(BODY_ALONE))
    }

    /// Claims the key for a request, or finds its earlier request.
    ///
    /// # Errors
    /// Returns a problem if the key belongs to another request, or the store fails.
    pub(crate) async fn claim(self, api: &Api, digest: &RequestDigest) -> Result<Claim, Problem> {
        let mut place = None;
        let mut created_at = api.turns.clock.now();
        if !create(api, &self.session, digest).await? {
            for _ in 0..STEPS {
                let info = api.store().session(&self.session).await?;
                created_at = info.as_ref().map_or(created_at, |info| info.created_at);
                let labels = info.map(|info| info.labels).unwrap_or_default();
                self.require(digest, &labels)?;
                place = labels.get(PLACE).and_then(ClaimedPlace::from_json);
                if place.is_some() {
                    break;
                }
                // Another server may be about to accept it; one that died never does.
                tokio::time::sleep(STEP).await;
            }
        }
        Ok(Claim {
            session: self.session,
            created_at,
            place,
            _lock: self.lock,
        })
    }
}

impl Claim {
    /// Records the entry that the request is about to become.
    ///
    /// # Errors
    /// Returns a problem if the store fails.
    pub(crate) async fn record(&mut self, api: &Api, place: ClaimedPlace) -> Result<(), Problem> {
        let now = api.turns.clock.now();
        let label = json!(place);
        api.store()
            .set_label(&self.session, PLACE, label, now)
            .await?;
        self.place = Some(place);
        Ok(())
    }

    /// Records the entry that the request has become.
    ///
    /// The client does not know its id before.
    ///
    /// # Errors
    /// Returns a problem if the store fails.
    pub(crate) async fn accepted(
        &mut self,
        api: &Api,
        session: &str,
        entry: u64,
    ) -> Result<(), Problem> {
        // A request for decisions has no place of its own before.
        let place = ClaimedPlace {
            session: session.to_owned(),
            entry: Some(entry),
            ..self.place.clone().unwrap_or_default()
        };
        self.record(api, place).await
    }
}

impl ClaimedPlace {
    /// Returns the response of the request, once it is accepted.
    pub(crate) fn response(&self) -> Option<ResponseId> {
        Some(ResponseId::new(&self.session, self.entry?))
    }

    fn from_json(label: &Value) -> Option<Self> {
        serde_json::from_value(label.clone()).ok()
    }
}

/// Creates the session of a claim. Returns whether it is new.
async fn create(api: &Api, session: &str, digest: &RequestDigest) -> Result<bool, Problem> {
    let (store, now) = (api.store(), api.turns.clock.now());
    if store.session(session).await?.is_some() {
        return Ok(false);
    }
    let source = api.turns.ids.new_id();
    let whole = json!(digest.whole);
    store.set_label(&source, REQUEST_BODY, whole, now).await?;
    if digest.body != digest.whole {
        let body = json!(digest.body);
        store.set_label(&source, BODY_ALONE, body, now).await?;
    }
    let created = store.fork(&source, SessionFork::new(0, session, now)).await;
    store.delete(&source).await?;
    match created {
        Ok(()) => Ok(true),
        Err(StoreError::Exists { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
