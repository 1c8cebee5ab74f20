//! `[telemetry]` of `logue.toml`: where the spans of a run go, if anywhere.

use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

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
