//! The texts of errors for models and clients.
//!
//! A diagnostic can quote what the model server received, or the source of a prompt. Clients, and models
//! that call agents, receive only those that are composed from their own request. The store keeps all
//! of them for operators.

use logue_harness::ErrorBucket;

/// Codes whose diagnostics contain nothing but the client's request and limits.
const OWN: &[&str] = &[
    "agent_broken",
    "agent_not_found",
    "agent_removed",
    "approval_expired",
    "approval_stale",
    "budget_exceeded",
    "chat_message_shape_invalid",
    "idempotency_key_reused",
    "max_requests_reached",
    "session_awaiting_signal",
    "session_busy",
    "turn_cancelled",
    "turn_interrupted",
];

/// Returns the text of an error that quotes nothing from outside.
pub fn public_detail(bucket: ErrorBucket, code: &str, diagnostic: &str) -> String {
    if OWN.contains(&code) {
        return diagnostic.to_owned();
    }
    let text = match (code, bucket) {
        ("provider_rate_limit", _) => "the model server limits its requests; try again later",
        ("provider_authentication", _) => "the model server refused the key of this server",
        ("provider_invalid_model" | "provider_model_not_loaded", _) => {
            "the model server does not offer the model of the agent"
        }
        ("provider_invalid_request", _) => "the model server refused the request",
        ("provider_invalid_response", _) => "the answer of the model server is malformed",
        ("provider_unavailable", _) => "the model server is not available; try again later",
        ("structured_output_invalid", _) => "the answer does not have the required form",
        ("session_write_conflict", _) => {
            "another request changed or removed the session; send the message again"
        }
        ("session_moved", _) => "the session was moved to another store",
        ("session_arriving", _) => "the session is being moved to this store; try again later",
        (_, ErrorBucket::UserCorrectable) => "the agent cannot answer this message",
        (_, ErrorBucket::RetryableTransient) => "the agent is not available; try again later",
        (_, ErrorBucket::SessionTerminating) => "the session cannot continue",
    };
    text.to_owned()
}
