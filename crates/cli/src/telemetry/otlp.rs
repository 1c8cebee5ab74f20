//! Export of spans over OTLP with protobuf and HTTP, in a separate thread.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use logue_server::TraceContexts;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Array, KeyValue, Value};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::span_contexts::SpanContexts;
use crate::setup::environment::variable;

/// The longest wait for a collector at the end of the program.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The export of this process.
static EXPORT: OnceLock<Export> = OnceLock::new();

struct Export {
    provider: SdkTracerProvider,
    contexts: SpanContexts,
    failure: LastError,
}

/// The message of the most recent failed export.
type LastError = Arc<Mutex<Option<String>>>;

/// Starts the export of all spans of the process to a collector.
///
/// # Errors
/// Returns a message if the address is invalid, or if the machine has no certificates to verify a
/// server with.
pub(super) fn start(endpoint: &str) -> Result<(), String> {
    // An already installed provider serves as well.
    drop(rustls::crypto::ring::default_provider().install_default());
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .build()
        .map_err(|error| error.to_string())?;
    let failure = LastError::default();
    let exporter = Exporter {
        inner: exporter,
        failure: Arc::clone(&failure),
    };
    let resource = Resource::builder();
    let resource = match variable("OTEL_SERVICE_NAME") {
        Some(_) => resource,
        None => resource.with_service_name("logue"),
    };
    let provider = SdkTracerProvider::builder()
        .with_resource(resource.build())
        .with_batch_exporter(exporter)
        .build();
    // Spans carry only documented names and numbers: no threads and no source files.
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("logue"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_level(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(|of| {
            of.is_span() && of.target().starts_with("logue_")
        }));
    let contexts = SpanContexts {
        captures_content: captures_content(),
    };
    let export = Export {
        provider,
        contexts,
        failure,
    };
    if EXPORT.set(export).is_err() {
        return Err("they are exported already".to_owned());
    }
    let subscriber = tracing_subscriber::registry().with(layer);
    subscriber.try_init().map_err(|error| error.to_string())
}

/// Returns the connection with traces of other programs, if spans are exported.
pub(super) fn contexts() -> Option<&'static dyn TraceContexts> {
    let export = EXPORT.get()?;
    Some(&export.contexts)
}

/// Returns whether the operator asks for messages in spans.
fn captures_content() -> bool {
    let value = variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
    value.is_some_and(|value| {
        ["true", "span_only", "span_and_event"]
            .iter()
            .any(|on| value.eq_ignore_ascii_case(on))
    })
}

/// Sends the remaining spans and ends the export.
///
/// # Errors
/// Returns a message if the collector rejected spans or did not accept them in time.
pub(super) fn finish() -> Result<(), String> {
    let Some(export) = EXPORT.get() else {
        return Ok(());
    };
    let ended = export.provider.shutdown_with_timeout(TIMEOUT);
    let failure = export.failure.lock();
    match failure.unwrap_or_else(PoisonError::into_inner).take() {
        Some(failure) => Err(failure),
        None => ended.map_err(|error| error.to_string()),
    }
}

/// An exporter that corrects the types of attributes and stores the latest failure.
#[derive(Debug)]
struct Exporter {
    inner: SpanExporter,
    failure: LastError,
}

impl opentelemetry_sdk::trace::SpanExporter for Exporter {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch
            .iter_mut()
            .flat_map(|span| &mut span.attributes)
            .for_each(with_type);
        let exported = self.inner.export(batch).await;
        if let Err(error) = &exported {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            *failure = Some(error.to_string());
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// The numeric attributes; unsigned numbers arrive here as text.
const COUNTS: [&str; 6] = [
    "gen_ai.request.max_tokens",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "openarmature.node.attempt_index",
    "openarmature.node.fan_out_index",
    "openarmature.node.step",
];

/// The list attribute; a field of a span cannot hold a list.
const REASONS: &str = "gen_ai.response.finish_reasons";

/// Converts an attribute to the type that the conventions require.
fn with_type(attribute: &mut KeyValue) {
    let Value::String(text) = &attribute.value else {
        return;
    };
    let key = attribute.key.as_str();
    if key == REASONS {
        attribute.value = Value::Array(Array::String(vec![text.clone()]));
    } else if COUNTS.contains(&key)
        && let Ok(count) = text.as_str().parse()
    {
        attribute.value = Value::I64(count);
    }
}
