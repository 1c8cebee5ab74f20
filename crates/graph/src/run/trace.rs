//! The spans of invocations and nodes.
//!
//! They carry names, numbers and ids, never the contents of a state or a message. Of a signal's
//! metadata they carry the keys, and the values only if the graph is built so.

use serde_json::Value;
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::error::EngineError;
use crate::pause::suspension::SignalDescriptor;
use crate::run::info::{NodeLocation, RunInfo};
use crate::run::outcome::RunOutcome;

/// The field with the metadata of a signal as JSON.
const METADATA: &str = "openarmature.suspension.metadata";

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
        openarmature.suspension.metadata = Empty,
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
        openarmature.suspension.metadata = Empty,
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
pub(crate) fn ended(span: &Span, outcome: &RunOutcome, values: bool) {
    match outcome {
        RunOutcome::Completed(_) => completed(span),
        RunOutcome::Errored(errored) => failed(span, &errored.error),
        RunOutcome::Suspended(waits) => suspended(span, &waits.descriptor, values),
    }
}

/// Records the last attempt of a node.
pub(crate) fn attempt(span: &Span, attempt_index: usize) {
    span.record("openarmature.node.attempt_index", attempt_index);
}

pub(crate) fn completed(span: &Span) {
    span.record("openarmature.outcome", "completed");
    span.record("otel.status_code", "OK");
}

pub(crate) fn failed(span: &Span, error: &EngineError) {
    span.record("openarmature.outcome", "errored");
    span.record("openarmature.error.category", error.derived_category());
    span.record("otel.status_code", "ERROR");
}

/// Records a suspension; `values` adds the values of the metadata to their names.
pub(crate) fn suspended(span: &Span, descriptor: &SignalDescriptor, values: bool) {
    if span.is_disabled() {
        return;
    }
    span.record("openarmature.outcome", "suspended");
    span.record("openarmature.suspension.signal_id", &*descriptor.signal_id);
    if let Some(Value::Object(metadata)) = &descriptor.metadata {
        let keys: Vec<_> = metadata.keys().map(String::as_str).collect();
        span.record("openarmature.suspension.metadata_keys", keys.join(","));
    }
    if let Some(metadata) = descriptor.metadata.as_ref().filter(|_| values) {
        span.record(METADATA, metadata.to_string());
    }
    // Waiting for a signal is not an error.
    span.record("otel.status_code", "OK");
}

/// Returns the attributes that a field of a span contains.
///
/// A field of `tracing` has a fixed name and one value; an exporter passes each field through this
/// function. `openarmature.suspension.metadata` becomes one attribute per entry, named by its path,
/// and every other field is an attribute itself. Lists and empty maps in metadata are one value.
pub fn span_attributes(field: &str, value: &Value) -> Vec<(String, Value)> {
    let metadata = value.as_str().filter(|_| field == METADATA);
    let metadata = metadata.and_then(|text| serde_json::from_str(text).ok());
    let mut attributes = Vec::new();
    match metadata {
        Some(metadata) => flatten(field.to_owned(), metadata, &mut attributes),
        None => attributes.push((field.to_owned(), value.clone())),
    }
    attributes
}

fn flatten(name: String, value: Value, into: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                flatten(format!("{name}.{key}"), value, into);
            }
        }
        value => into.push((name, value)),
    }
}

fn session(span: &Span, info: &RunInfo) {
    if let Some(session) = info.session_id() {
        span.record("openarmature.session_id", session);
    }
}
