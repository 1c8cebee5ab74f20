//! `[telemetry]` of `logue.toml`: where the spans of a run go, if anywhere.
//!
//! A build with the feature `otlp` can export them (`telemetry::otlp`); one without says that it cannot, and
//! goes on. Nothing that goes wrong with spans ever changes how a command ends.

#[cfg(feature = "otlp")]
mod otlp;

use crate::setup::config::Config;
use crate::terminal::complain;

/// Has the spans of what follows exported, if the settings say where to.
pub(crate) fn start(config: &Config) {
    let Some(endpoint) = config.spans() else {
        return;
    };
    #[cfg(feature = "otlp")]
    let started = otlp::start(&endpoint);
    #[cfg(not(feature = "otlp"))]
    let started: Result<(), String> = {
        // The address may hold a password.
        drop(endpoint);
        Err("this build has no export; one with the feature `otlp` has".to_owned())
    };
    if let Err(why) = started {
        warn(&why);
    }
}

/// Exports what is left, and waits for that for a short while.
pub(crate) fn finish() {
    #[cfg(feature = "otlp")]
    if let Err(why) = otlp::finish() {
        warn(&why);
    }
}

fn warn(why: &str) {
    let why = logue_source::escape_untrusted(why);
    complain(&format!("warning: spans are not exported: {why}\n"));
}
