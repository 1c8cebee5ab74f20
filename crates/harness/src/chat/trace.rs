//! The spans of turns. They carry names and ids, never what a message holds; of a signal's metadata
//! they carry the keys, and the values only if the graph is built so.

use logue_graph::SignalDescriptor;
use tracing::field::Empty;
use tracing::{Span, info_span};

use super::outcome::ChatTurnOutcome;

/// A turn of a chat, around the invocation that it runs.
pub(super) fn turn(session: &str, invocation_id: &str) -> Span {
    info_span!(
        "openarmature.turn",
        openarmature.session_id = session,
        openarmature.invocation_id = invocation_id,
        openarmature.outcome = Empty,
        openarmature.error.category = Empty,
        openarmature.suspension.signal_id = Empty,
        openarmature.suspension.metadata_keys = Empty,
        openarmature.suspension.metadata = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

/// Records the signal from which a turn resumes.
pub(super) fn record_resume(span: &Span, descriptor: &SignalDescriptor, values: bool) {
    describe(span, descriptor, values);
}

/// Says how a turn ended.
///
/// `values` adds the values of a signal's metadata to their names.
pub(super) fn turn_ended(span: &Span, outcome: &ChatTurnOutcome, values: bool) {
    match outcome {
        ChatTurnOutcome::Completed(_) => {
            span.record("openarmature.outcome", "completed");
            span.record("otel.status_code", "OK");
        }
        ChatTurnOutcome::Errored(turn) => turn_failed(span, &turn.error_category),
        ChatTurnOutcome::Suspended(turn) => signal(span, &turn.signal_descriptor, values),
    }
}

/// Says that a turn failed, or that it is another process's now.
pub(super) fn turn_failed(span: &Span, category: &str) {
    span.record("openarmature.outcome", "errored");
    span.record("openarmature.error.category", category);
    span.record("error.type", category);
    span.record("otel.status_code", "ERROR");
}

fn signal(span: &Span, descriptor: &SignalDescriptor, values: bool) {
    if span.is_disabled() {
        return;
    }
    span.record("openarmature.outcome", "suspended");
    describe(span, descriptor, values);
    // Waiting for a signal does not count as an error.
    span.record("otel.status_code", "OK");
}

fn describe(span: &Span, descriptor: &SignalDescriptor, values: bool) {
    span.record("openarmature.suspension.signal_id", &*descriptor.signal_id);
    let metadata = descriptor.metadata.as_ref();
    if let Some(metadata) = metadata.and_then(|metadata| metadata.as_object()) {
        let keys: Vec<_> = metadata.keys().map(String::as_str).collect();
        span.record("openarmature.suspension.metadata_keys", keys.join(","));
    }
    if let Some(metadata) = descriptor.metadata.as_ref().filter(|_| values) {
        span.record("openarmature.suspension.metadata", metadata.to_string());
    }
}
