//! `[telemetry]` of `logue.toml`: the collector of a run's spans.

use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

use crate::setup::config::origin::Origin;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Telemetry {
    endpoint: Option<Spanned<String>>,
}

impl Telemetry {
    /// Checks that a file contains no forbidden setting.
    ///
    /// Only a file of the user may name an endpoint: the file of a project comes with a checkout, and
    /// requests to a collector contain the keys of its users.
    ///
    /// # Errors
    /// Returns a message and its position for the endpoint of a project.
    pub(crate) fn check(&self, origin: Origin) -> Result<(), (Span, String)> {
        match &self.endpoint {
            Some(endpoint) if origin == Origin::Project => Err((
                Span::from(endpoint.span()),
                "only OTEL_EXPORTER_OTLP_ENDPOINT and your own logue/config.toml may say where \
                 spans go"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Returns the address to which `/v1/traces` is appended.
    pub(crate) fn endpoint(&self) -> Option<String> {
        self.endpoint
            .as_ref()
            .map(|endpoint| endpoint.get_ref().clone())
    }
}
