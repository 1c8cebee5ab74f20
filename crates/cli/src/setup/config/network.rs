//! `[network]` of `logue.toml`: the allowed hosts and the limits of connections.

use std::num::NonZeroU64;

use logue_source::Span;
use logue_tools::HostRule;
use serde::Deserialize;
use toml::Spanned;

use crate::setup::config::origin::Origin;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Network {
    #[serde(default)]
    allowed_hosts: Vec<Spanned<String>>,
    pub(crate) timeout_seconds: Option<NonZeroU64>,
    pub(crate) max_page_bytes: Option<usize>,
}

impl Network {
    /// Returns the allowed hosts.
    ///
    /// Only a file of the user may name private hosts: the file of a project comes with a checkout,
    /// which is untrusted.
    ///
    /// # Errors
    /// Returns a message and its position for the first invalid or forbidden host.
    pub(crate) fn rules(&self, origin: Origin) -> Result<Vec<HostRule>, (Span, String)> {
        let read = |host: &Spanned<String>| {
            let failed = |message: String| (Span::from(host.span()), message);
            let rule: HostRule = host
                .get_ref()
                .parse()
                .map_err(|error| failed(format!("{error}")))?;
            if rule.is_private() && origin == Origin::Project {
                return Err(failed(format!(
                    "only --allow-host and your own logue/config.toml may open the private host \
                     `{rule}`"
                )));
            }
            Ok(rule)
        };
        self.allowed_hosts.iter().map(read).collect()
    }
}
