//! The spans of a run, as a subscriber sees them.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use logue_graph::{
    CompiledGraph, END, GraphBuilder, Invocation, Mapping, NodeError, RunOutcome, SignalDescriptor,
    Update, span_attributes,
};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::{compile, graph, logs};

/// Keeps every span with its fields and the span that it was in.
#[derive(Clone, Default)]
struct Recorder(Arc<Inner>);

#[derive(Default)]
struct Inner {
    last: AtomicU64,
    spans: Mutex<HashMap<u64, Span>>,
    entered: Mutex<Vec<u64>>,
}

#[derive(Clone, Default)]
struct Span {
    name: &'static str,
    parent: Option<u64>,
    fields: HashMap<&'static str, String>,
}

impl Visit for Span {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.0.last.fetch_add(1, Ordering::SeqCst) + 1;
        let mut span = Span {
            name: attributes.metadata().name(),
            parent: self.0.entered.lock().unwrap().last().copied(),
            ..Span::default()
        };
        attributes.record(&mut span);
        self.0.spans.lock().unwrap().insert(id, span);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, record: &Record<'_>) {
        if let Some(span) = self.0.spans.lock().unwrap().get_mut(&id.into_u64()) {
            record.record(span);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        self.0.entered.lock().unwrap().push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        let left = self.0.entered.lock().unwrap().pop();
        assert_eq!(
            left,
            Some(id.into_u64()),
            "spans are left as they were entered"
        );
    }
}

impl Recorder {
    /// The spans in their order: the path of names, and fields.
    fn taken(&self) -> Vec<(String, HashMap<&'static str, String>)> {
        let spans = std::mem::take(&mut *self.0.spans.lock().unwrap());
        let mut ids: Vec<_> = spans.keys().copied().collect();
        ids.sort_unstable();
        let path = |id: u64| {
            let mut names = Vec::new();
            let mut at = Some(id);
            while let Some(span) = at.and_then(|id| spans.get(&id)) {
                names.push(
                    span.fields
                        .get("openarmature.node.name")
                        .map_or(span.name, String::as_str),
                );
                at = span.parent;
            }
            names.reverse();
            names.join(" > ")
        };
        let taken = ids.iter().map(|id| (path(*id), spans[id].fields.clone()));
        taken.collect()
    }
}

/// `a`, then a subgraph that suspends, then `fails`.
fn build() -> CompiledGraph {
    compile(builder()).unwrap()
}

fn builder() -> GraphBuilder {
    let sub = graph()
        .add_node_fn("gate", |ctx| async move {
            tokio::task::yield_now().await;
            let metadata = json!({ "kind": "secret words", "who": "secret too" });
            let descriptor = SignalDescriptor::new("sig").with_metadata(metadata);
            match ctx.suspend(descriptor).await {}
        })
        .entry("gate")
        .add_edge("gate", END);
    graph()
        .add_node_fn("a", |ctx| async move {
            tokio::task::yield_now().await;
            logs(ctx).await
        })
        .add_subgraph("sub", compile(sub).unwrap(), Mapping::new())
        .add_node_fn("fails", |_| async {
            Err(NodeError::new("secret reason").with_category("provider_unavailable"))
        })
        .entry("a")
        .add_edge("a", "sub")
        .add_edge("sub", "fails")
        .add_edge("fails", END)
}

fn run<F: Future<Output = RunOutcome>>(recorder: &Recorder, run: F) -> RunOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    tracing::subscriber::with_default(recorder.clone(), || runtime.block_on(run))
}

#[test]
fn every_invocation_and_every_node_has_a_span() {
    let recorder = Recorder::default();
    let graph = build();
    let start = Invocation::new(Update::new().with("note", json!("secret"))).with_session_id("s1");
    let waiting = run(&recorder, graph.invoke(start)).suspended().unwrap();
    let spans = recorder.taken();
    let paths: Vec<_> = spans.iter().map(|(path, _)| path.as_str()).collect();
    let root = "openarmature.invocation";
    assert_eq!(
        paths,
        [
            root.to_owned(),
            format!("{root} > a"),
            format!("{root} > sub"),
            format!("{root} > sub > gate"),
        ]
    );
    let field = |span: usize, name: &str| spans[span].1.get(name).map(String::as_str);
    for span in 0..4 {
        assert_eq!(field(span, "openarmature.session_id"), Some("s1"));
        assert_eq!(field(span, "openarmature.invocation_id"), Some("id-1"));
        assert_eq!(field(span, "openarmature.correlation_id"), Some("id-2"));
        assert_eq!(field(span, "otel.status_code"), Some("OK"));
    }
    assert_eq!(field(1, "openarmature.outcome"), Some("completed"));
    assert_eq!(field(1, "openarmature.suspension.signal_id"), None);
    for span in [0, 2, 3] {
        assert_eq!(field(span, "openarmature.outcome"), Some("suspended"));
        assert_eq!(
            field(span, "openarmature.suspension.signal_id"),
            Some("sig")
        );
        assert_eq!(
            field(span, "openarmature.suspension.metadata_keys"),
            Some("kind,who")
        );
    }
    assert_eq!(field(3, "otel.name"), Some("gate"));
    assert_eq!(field(3, "openarmature.node.namespace"), Some("sub/gate"));
    assert_eq!(field(3, "openarmature.node.step"), Some("2"));
    assert_eq!(field(3, "openarmature.node.attempt_index"), Some("0"));

    let signal = serde_json::Map::new();
    let _failed = run(&recorder, graph.resume(waiting.paused, signal));
    let resumed = recorder.taken();
    let paths: Vec<_> = resumed.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        [
            root.to_owned(),
            format!("{root} > sub"),
            format!("{root} > fails")
        ]
    );
    for span in [0, 2] {
        let fields = &resumed[span].1;
        assert_eq!(fields["openarmature.outcome"], "errored");
        assert_eq!(
            fields["openarmature.error.category"],
            "provider_unavailable"
        );
        assert_eq!(fields["otel.status_code"], "ERROR");
        assert_eq!(fields["openarmature.invocation_id"], "id-1");
    }
    for (_, fields) in spans.iter().chain(&resumed) {
        assert!(
            !fields.values().any(|value| value.contains("secret")),
            "{fields:?}"
        );
    }
}

#[test]
fn without_a_session_no_span_names_one() {
    let recorder = Recorder::default();
    let _waiting = run(&recorder, build().invoke(crate::nothing()));
    for (path, fields) in recorder.taken() {
        assert!(!fields.contains_key("openarmature.session_id"), "{path}");
    }
}

#[test]
fn spans_hold_the_metadata_of_signals_only_if_the_graph_is_built_so() {
    const FIELD: &str = "openarmature.suspension.metadata";
    let recorder = Recorder::default();
    let start = || Invocation::new(Update::new());
    let waiting = run(&recorder, build().invoke(start())).suspended();
    assert!(waiting.is_some());
    for (path, fields) in recorder.taken() {
        assert_eq!(fields.get(FIELD), None, "{path}");
        let words: Vec<_> = fields.values().filter(|it| it.contains("secret")).collect();
        assert_eq!(words, Vec::<&String>::new(), "{path}");
    }

    let graph = compile(builder().with_signal_metadata_in_spans()).unwrap();
    drop(run(&recorder, graph.invoke(start())));
    let spans = recorder.taken();
    let holding = spans
        .iter()
        .filter(|(_, fields)| fields.contains_key(FIELD));
    // The invocation, the subgraph and the node in it, whose graph is built without the setting.
    assert_eq!(holding.count(), 3);
    let attributes = span_attributes(FIELD, &json!(spans[3].1[FIELD]));
    assert_eq!(
        attributes,
        [
            (format!("{FIELD}.kind"), json!("secret words")),
            (format!("{FIELD}.who"), json!("secret too")),
        ]
    );
}

#[test]
fn a_field_with_metadata_stands_for_one_attribute_per_entry() {
    const FIELD: &str = "openarmature.suspension.metadata";
    let text = json!({ "a": { "b": 1, "c": {} }, "d": [1, 2], "e": null }).to_string();
    assert_eq!(
        span_attributes(FIELD, &json!(text)),
        [
            (format!("{FIELD}.a.b"), json!(1)),
            (format!("{FIELD}.a.c"), json!({})),
            (format!("{FIELD}.d"), json!([1, 2])),
            (format!("{FIELD}.e"), json!(null)),
        ]
    );
    for (field, value) in [
        ("openarmature.outcome", json!(text)),
        (FIELD, json!("no JSON")),
        (FIELD, json!(7)),
    ] {
        assert_eq!(span_attributes(field, &value), [(field.to_owned(), value)]);
    }
}
