//! Comparison of expected spans and log records with the trace.

use serde_json::json;

use crate::checks::Checks;
use crate::runs::World;
use crate::spans::SeenSpan;
use crate::vocabulary::{Case, RunExpected, SpanExpected};

pub(crate) fn check(world: &World, case: &Case, expected: &RunExpected, checks: &mut Checks) {
    if expected.otel_spans.is_none()
        && expected.span_tree.is_none()
        && expected.log_records.is_none()
    {
        return;
    }
    let (spans, logs) = world.spans.take();
    let roots: Vec<_> = (0..spans.len())
        .filter(|at| spans.get(*at).is_some_and(|span| span.parent.is_none()))
        .collect();
    if let Some(tree) = &expected.span_tree {
        span_tree("the spans", tree, &roots, &spans, checks);
    }
    // An observer of a run sees one tree, whose root is the span of the invocation.
    for (observer, root) in expected.otel_spans.iter().flat_map(|trees| &trees.0) {
        let attached = case
            .observers
            .iter()
            .any(|known| known.name == *observer && known.behavior.as_deref() == Some("otel"));
        checks.holds(
            attached,
            format!("no span observer `{observer}` is attached"),
        );
        let what = format!("the spans of {observer}");
        span_tree(&what, std::slice::from_ref(root), &roots, &spans, checks);
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
        let what = format!("the status of the span {}", found.name);
        checks.same(&what, &json!(status), found.status());
    }
    for (name, wanted) in &expected.attributes {
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
