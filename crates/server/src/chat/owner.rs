//! The tokens to which sessions belong.
//!
//! The OpenAI-compatible endpoints continue only sessions of the token and the agent of a request.

use logue_harness::store::SessionInfo;
use serde_json::{Value, json};

use super::access::Caller;
use super::api::Api;
use super::problem::Problem;

/// The label with the hash of the token that created a session.
const TOKEN: &str = "token";

/// Records that a session belongs to the token of a caller.
///
/// # Errors
/// Returns a problem if it belongs to another token, or if the store fails.
pub(crate) async fn record_owner(api: &Api, caller: &Caller, session: &str) -> Result<(), Problem> {
    if let Some(token) = &caller.token_hash {
        let now = api.turns.clock.now();
        let set = api
            .store()
            .set_label_once(session, TOKEN, json!(token), now);
        // Another client began the session at the same moment.
        if set.await?.is_some_and(|earlier| earlier != json!(token)) {
            return Err(Problem::unknown_session(session));
        }
    }
    Ok(())
}

/// Returns whether a session belongs to the token of a caller.
///
/// A session without a token belongs to callers without one.
pub(crate) fn is_owner(caller: &Caller, session: &SessionInfo) -> bool {
    owner_of(session) == caller.token_hash.as_deref()
}

/// Returns the hash of the token to which a session belongs.
pub(crate) fn owner_of(session: &SessionInfo) -> Option<&str> {
    session.labels.get(TOKEN).and_then(Value::as_str)
}
