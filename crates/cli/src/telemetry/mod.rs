//! The export of a run's spans, as `[telemetry]` of `logue.toml` configures it.
//!
//! A build with the feature `otlp` can export spans (`telemetry::otlp`). A build without it prints a
//! warning and continues. Failures of the export never change the exit status of a command.

#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
mod span_contexts;

use logue_server::TraceContexts;

use crate::setup::settings::Settings;
use crate::terminal::print_error;

/// Starts the export of spans if the settings name a collector.
pub(crate) fn start(settings: &Settings) {
    let Some(endpoint) = settings.traces_url.clone() else {
        return;
    };
    #[cfg(feature = "otlp")]
    let started = otlp::start(&endpoint);
    #[cfg(not(feature = "otlp"))]
    let started: Result<(), String> = {
        // The address may contain a password, so it is not printed.
        drop(endpoint);
        Err("this build has no export; one with the feature `otlp` has".to_owned())
    };
    if let Err(why) = started {
        warn(&why);
    }
}

/// Returns the connection of spans with traces of other programs, if spans are exported.
pub(crate) fn contexts() -> Option<&'static dyn TraceContexts> {
    #[cfg(feature = "otlp")]
    return otlp::contexts();
    #[cfg(not(feature = "otlp"))]
    None
}

/// Exports the remaining spans and waits at most two seconds for the collector.
pub(crate) fn finish() {
    #[cfg(feature = "otlp")]
    if let Err(why) = otlp::finish() {
        warn(&why);
    }
}

fn warn(why: &str) {
    let why = logue_source::escape_untrusted(why);
    print_error(&format!("warning: spans are not exported: {why}\n"));
}
