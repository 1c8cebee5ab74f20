//! `[network]` of `logue.toml`: which hosts prompts may reach, and for how long.

use logue_source::Span;
use logue_tools::HostRule;
use serde::Deserialize;
use toml::Spanned;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Network {
    #[serde(default)]
    allowed_hosts: Vec<Spanned<String>>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) max_page_bytes: Option<usize>,
}

impl Network {
    /// The hosts. Only a file of the user's own may name private ones: a project's comes with a
    /// checkout, and a checkout may come from anybody.
    ///
    /// # Errors
    /// The first text that names no host or may not name this one, with its place in the file.
    pub(crate) fn rules(&self, own: bool) -> Result<Vec<HostRule>, (Span, String)> {
        let read = |host: &Spanned<String>| {
            let failed = |message: String| (Span::from(host.span()), message);
            let rule: HostRule = host
                .get_ref()
                .parse()
                .map_err(|error| failed(format!("{error}")))?;
            if rule.is_private() && !own {
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
