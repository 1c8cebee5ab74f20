//! Spans and log records, kept in memory while a case runs.

use std::sync::{Arc, Mutex};

use logue_graph::span_attributes;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::seen::lock;

/// Keeps what the thread that it is installed in traces. Clones share what they keep.
#[derive(Clone, Default)]
pub(crate) struct SpanRecorder(Arc<Mutex<Traced>>);

#[derive(Default)]
struct Traced {
    spans: Vec<SeenSpan>,
    entered: Vec<usize>,
    logs: Vec<SeenLog>,
}

/// A span as a tracing backend would have it.
#[derive(Clone, Debug)]
pub(crate) struct SeenSpan {
    pub(crate) name: String,
    pub(crate) parent: Option<usize>,
    pub(crate) attributes: Map<String, Value>,
}

#[derive(Clone, Debug)]
pub(crate) struct SeenLog {
    pub(crate) body: String,
    pub(crate) level: &'static str,
    pub(crate) attributes: Map<String, Value>,
}

impl SeenSpan {
    pub(crate) fn status(&self) -> Option<&Value> {
        self.attributes.get("otel.status_code")
    }
}

impl SpanRecorder {
    pub(crate) fn take(&self) -> (Vec<SeenSpan>, Vec<SeenLog>) {
        let mut traced = lock(&self.0);
        traced.entered.clear();
        (
            std::mem::take(&mut traced.spans),
            std::mem::take(&mut traced.logs),
        )
    }
}

fn number(id: &Id) -> usize {
    usize::try_from(id.into_u64() - 1).unwrap_or(usize::MAX)
}

impl Subscriber for SpanRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Spans of libraries are irrelevant for a case.
        metadata.is_span() || !metadata.target().starts_with("logue_harness")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields(Map::new());
        attributes.record(&mut fields);
        let mut traced = lock(&self.0);
        let parent = if attributes.is_root() {
            None
        } else {
            let named = attributes.parent().map(number);
            named.or_else(|| traced.entered.last().copied())
        };
        let name = fields.0.remove("otel.name");
        let name = match name {
            Some(Value::String(name)) => name,
            _ => attributes.metadata().name().to_owned(),
        };
        traced.spans.push(SeenSpan {
            name,
            parent,
            attributes: fields.0,
        });
        Id::from_u64(traced.spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Fields(Map::new());
        values.record(&mut fields);
        if let Some(span) = lock(&self.0).spans.get_mut(number(span)) {
            span.attributes.extend(fields.0);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let body = match fields.0.remove("message") {
            Some(Value::String(body)) => body,
            _ => String::new(),
        };
        let mut traced = lock(&self.0);
        // A record belongs to the span in which it is written, and is exported with its fields.
        let within = traced.entered.last().copied();
        if let Some(span) = within.and_then(|at| traced.spans.get(at)) {
            for (name, value) in &span.attributes {
                fields.0.entry(name).or_insert_with(|| value.clone());
            }
        }
        traced.logs.push(SeenLog {
            body,
            level: event.metadata().level().as_str(),
            attributes: fields.0,
        });
    }

    fn enter(&self, span: &Id) {
        lock(&self.0).entered.push(number(span));
    }

    fn exit(&self, span: &Id) {
        let mut traced = lock(&self.0);
        let at = traced.entered.iter().rposition(|at| *at == number(span));
        if let Some(at) = at {
            traced.entered.remove(at);
        }
    }
}

struct Fields(Map<String, Value>);

impl Fields {
    fn set(&mut self, field: &Field, value: &Value) {
        self.0.extend(span_attributes(field.name(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.set(field, &json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, &json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, &json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, &json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, &json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, &json!(value));
    }
}
