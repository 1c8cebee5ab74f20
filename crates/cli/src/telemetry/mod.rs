//! `[telemetry]` of `logue.toml`: where the spans of a run go, if anywhere.
//!
//! A build with the feature `otlp` can export them (`telemetry::otlp`); one without says that it cannot, and
//! goes on. Nothing that goes wrong with spans ever changes how a command ends.

#[cfg(feature = "otlp")]
mod otlp;

use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

use crate::config::Config;
use crate::terminal::complain;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Telemetry {
    endpoint: Option<Spanned<String>>,
}

impl Telemetry {
    /// Whether a file may say what it says. Only the user's own names an endpoint: a project's comes
    /// with a checkout, and a collector is sent what its users have keys for.
    ///
    /// # Errors
    /// Why not, and its place in the file.
    pub(crate) fn check(&self, own: bool) -> Result<(), (Span, &'static str)> {
        match &self.endpoint {
            Some(endpoint) if !own => Err((
                Span::from(endpoint.span()),
                "only OTEL_EXPORTER_OTLP_ENDPOINT and your own logue/config.toml may say where \
                 spans go",
            )),
            _ => Ok(()),
        }
    }

    /// The address that `/v1/traces` is added to.
    pub(crate) fn endpoint(&self) -> Option<String> {
        self.endpoint
            .as_ref()
            .map(|endpoint| endpoint.get_ref().clone())
    }
}

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
    let why = logue_source::visible(why);
    complain(&format!("warning: spans are not exported: {why}\n"));
}
