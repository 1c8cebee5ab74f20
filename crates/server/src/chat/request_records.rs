//! Records of requests that the server keeps in the store beside conversations.

use logue_harness::store::SessionInfo;

/// The label with the digest of the body of a request with an idempotency key.
pub(super) const REQUEST_BODY: &str = "request_body";
/// The label of a session whose labels another session receives.
const SEED: &str = "seed";
/// The beginning of the labels with the streamed ids of items.
pub(super) const SENT_IDS: &str = "response_items:";

/// Returns whether a session is a record of a server's requests instead of a conversation.
///
/// Such a session binds an idempotency key to a request, or was left by a server that ended while it
/// created a session. It has no messages and no turns, and may be removed: the key then begins a
/// new request.
pub fn is_request_record(info: &SessionInfo) -> bool {
    let is_marked = [REQUEST_BODY, SEED]
        .iter()
        .any(|name| info.labels.contains_key(*name));
    // A copy has the labels of its source.
    is_marked && !info.has_state && (info.seq, info.cursor, info.pending) == (0, 0, 0)
}

/// Returns whether a label of a conversation is a record of a server's requests.
pub fn is_request_label(name: &str) -> bool {
    name.starts_with(SENT_IDS)
}
