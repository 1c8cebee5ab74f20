//! Comparison of expected spans and log records with the trace.

use logue_graph::SignalDescriptor;
use logue_harness::sessions::SessionOutcome;
use serde_json::{Value, json};

use crate::checks::Checks;
use crate::runs::{Ran, World};
use crate::spans::SeenSpan;
use crate::vocabulary::{RunExpected, SpanExpected};

pub(crate) fn check(world: &World, expected: &RunExpected, ran: &Ran, checks: &mut Checks) {
    if expected.otel_spans.is_none()
        && expected.span_tree.is_none()
        && expected.log_records.is_none()
    {
        return;
    }
    let (mut spans, logs) = world.spans.take();
    if let SessionOutcome::Suspended(suspended) = &ran.outcome {
        for span in &mut spans {
            expand_metadata(span, &suspended.descriptor);
        }
    }
    if let Some(tree) = &expected.span_tree {
        let roots: Vec<_> = (0..spans.len())
            .filter(|at| spans.get(*at).is_some_and(|span| span.parent.is_none()))
            .collect();
        span_tree("the spans", tree, &roots, &spans, checks);
    }
    for wanted in expected.otel_spans.iter().flatten() {
        let named =
            (0..spans.len()).find(|at| spans.get(*at).is_some_and(|span| span.name == wanted.name));
        match named {
            Some(at) => span(wanted, at, &spans, checks),
            None => checks.holds(false, format!("there is no span `{}`", wanted.name)),
        }
    }
    if let Some(wanted) = &expected.log_records {
        checks.equal("the number of log records", &wanted.len(), &logs.len());
        for (wanted, found) in wanted.iter().zip(&logs) {
            checks.equal("the body of a log record", &wanted.body, &found.body);
            if let Some(level) = &wanted.level {
                checks.equal("the level of a log record", &level.as_str(), &found.level);
            }
            checks.includes("log record", &wanted.attributes, &found.attributes);
            for name in &wanted.attributes_absent {
                let there = found.attributes.contains_key(name);
                checks.holds(!there, format!("the log record has {name}"));
            }
        }
    }
}

/// Span attributes have fixed names in the program; an exporter writes those of the metadata out, for
/// which the span names their keys.
fn expand_metadata(span: &mut SeenSpan, descriptor: &SignalDescriptor) {
    let keys = span.attributes.get("openarmature.suspension.metadata_keys");
    let keys = keys.and_then(Value::as_str).unwrap_or_default().to_owned();
    for key in keys.split(',') {
        let value = descriptor
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.get(key));
        if let Some(value) = value {
            let name = format!("openarmature.suspension.metadata.{key}");
            span.attributes.insert(name, value.clone());
        }
    }
}

fn span_tree(
    what: &str,
    expected: &[SpanExpected],
    found: &[usize],
    spans: &[SeenSpan],
    checks: &mut Checks,
) {
    let names = |at: &usize| {
        spans
            .get(*at)
            .map(|span| span.name.clone())
            .unwrap_or_default()
    };
    let wanted: Vec<_> = expected.iter().map(|span| span.name.clone()).collect();
    let seen: Vec<_> = found.iter().map(names).collect();
    checks.equal(what, &wanted, &seen);
    for (wanted, at) in expected.iter().zip(found) {
        span(wanted, *at, spans, checks);
    }
}

fn span(expected: &SpanExpected, at: usize, spans: &[SeenSpan], checks: &mut Checks) {
    let Some(found) = spans.get(at) else {
        return;
    };
    if let Some(status) = &expected.status {
        let status = match status {
            Value::Object(status) => status.get("code").or(status.get("status_code")),
            other => Some(other),
        };
        let what = format!("the status of the span {}", found.name);
        checks.same(&what, status.unwrap_or(&Value::Null), found.status());
    }
    for (name, wanted) in &expected.attributes {
        // A span's attribute is one value; the way to a node is one of its names.
        let names = wanted.as_array().map(|names| {
            let names = names.iter().filter_map(Value::as_str);
            json!(names.collect::<Vec<_>>().join("/"))
        });
        let wanted = names.as_ref().unwrap_or(wanted);
        let what = format!("{}.{name}", found.name);
        checks.same(&what, wanted, found.attributes.get(name));
    }
    for name in &expected.attributes_absent {
        let there = found.attributes.contains_key(name);
        checks.holds(!there, format!("the span {} has {name}", found.name));
    }
    if let Some(parent) = &expected.parent {
        let name = found.parent.and_then(|parent| spans.get(parent));
        let name = json!(name.map(|parent| &parent.name));
        checks.same(
            &format!("the parent of the span {}", found.name),
            parent,
            Some(&name),
        );
    }
    if let Some(children) = &expected.children {
        let found_children: Vec<_> = (0..spans.len())
            .filter(|other| {
                spans
                    .get(*other)
                    .is_some_and(|span| span.parent == Some(at))
            })
            .collect();
        span_tree(
            &format!("the spans in {}", found.name),
            children,
            &found_children,
            spans,
            checks,
        );
    }
}
