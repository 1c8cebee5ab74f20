//! The spans of invocations and nodes.
//!
//! They carry names, numbers and ids, never the contents of a state or a message; of a signal's
//! metadata they carry the keys.

use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::error::EngineError;
use crate::pause::suspension::SignalDescriptor;
use crate::run::info::{NodeLocation, RunInfo};
use crate::run::outcome::RunOutcome;

pub(crate) fn invocation(info: &RunInfo) -> Span {
    let span = info_span!(
        "openarmature.invocation",
        openarmature.invocation_id = info.invocation_id,
        openarmature.correlation_id = info.correlation_id,
        openarmature.session_id = Empty,
        openarmature.outcome = Empty,
        openarmature.error.category = Empty,
        openarmature.suspension.signal_id = Empty,
        openarmature.suspension.metadata_keys = Empty,
        otel.status_code = Empty,
    );
    session(&span, info);
    span
}

pub(crate) fn node(info: &RunInfo, place: &NodeLocation) -> Span {
    let span = info_span!(
        "openarmature.node",
        otel.name = place.node_name(),
        openarmature.invocation_id = info.invocation_id,
        openarmature.correlation_id = info.correlation_id,
        openarmature.session_id = Empty,
        openarmature.node.name = place.node_name(),
        openarmature.node.namespace = Empty,
        openarmature.node.step = place.step,
        openarmature.node.attempt_index = place.attempt_index,
        openarmature.node.fan_out_index = Empty,
        openarmature.node.branch_name = Empty,
        openarmature.outcome = Empty,
        openarmature.error.category = Empty,
        openarmature.suspension.signal_id = Empty,
        openarmature.suspension.metadata_keys = Empty,
        otel.status_code = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    session(&span, info);
    let names: Vec<_> = place.names().collect();
    span.record("openarmature.node.namespace", names.join("/"));
    if let Some(index) = place.fan_out_index() {
        span.record("openarmature.node.fan_out_index", index);
    }
    if let Some(branch) = place.branch_name() {
        span.record("openarmature.node.branch_name", branch);
    }
    span
}

/// Records the outcome of an invocation.
pub(crate) fn ended(span: &Span, outcome: &RunOutcome) {
    match outcome {
        RunOutcome::Completed(_) => {
            span.record("openarmature.outcome", "completed");
            span.record("otel.status_code", "OK");
        }
        RunOutcome::Errored(errored) => error(span, &errored.error),
        RunOutcome::Suspended(suspended) => signal(span, &suspended.descriptor),
    }
}

pub(crate) fn completed(span: &Span, attempt_index: usize) {
    span.record("openarmature.node.attempt_index", attempt_index);
    span.record("openarmature.outcome", "completed");
    span.record("otel.status_code", "OK");
}

pub(crate) fn failed(span: &Span, cause: &EngineError, attempt_index: usize) {
    span.record("openarmature.node.attempt_index", attempt_index);
    error(span, cause);
}

pub(crate) fn suspended(span: &Span, descriptor: &SignalDescriptor, attempt_index: usize) {
    span.record("openarmature.node.attempt_index", attempt_index);
    signal(span, descriptor);
}

fn session(span: &Span, info: &RunInfo) {
    if let Some(session) = info.session_id() {
        span.record("openarmature.session_id", session);
    }
}

fn error(span: &Span, error: &EngineError) {
    span.record("openarmature.outcome", "errored");
    span.record("openarmature.error.category", error.derived_category());
    span.record("otel.status_code", "ERROR");
}

fn signal(span: &Span, descriptor: &SignalDescriptor) {
    if span.is_disabled() {
        return;
    }
    span.record("openarmature.outcome", "suspended");
    describe(span, descriptor);
    // Waiting for a signal is not an error.
    span.record("otel.status_code", "OK");
}

fn describe(span: &Span, descriptor: &SignalDescriptor) {
    span.record("openarmature.suspension.signal_id", &*descriptor.signal_id);
    let metadata = descriptor.metadata.as_ref();
    if let Some(metadata) = metadata.and_then(|metadata| metadata.as_object()) {
        let keys: Vec<_> = metadata.keys().map(String::as_str).collect();
        span.record("openarmature.suspension.metadata_keys", keys.join(","));
    }
}
