//! The connections of a command to the allowed hosts.

use std::sync::Arc;

use logue_tools::{Fetcher, HostRule};

use crate::exit::CliError;
use crate::setup::settings::Settings;

/// Creates the fetcher for the hosts of the flags and of the settings.
///
/// Without a host there is none, since setting up TLS takes time.
pub(crate) fn fetcher(
    flags: &[HostRule],
    settings: &Settings,
) -> Result<Option<Arc<Fetcher>>, CliError> {
    let hosts: Vec<HostRule> = flags
        .iter()
        .chain(&settings.network.hosts)
        .cloned()
        .collect();
    if hosts.is_empty() {
        return Ok(None);
    }
    let policy = settings.network.clone().with_hosts(hosts);
    let fetcher = Fetcher::new(policy).map_err(|error| {
        let failure = CliError::user("E-NETWORK-DENIED", error.message);
        error.help.into_iter().fold(failure, CliError::with_help)
    })?;
    Ok(Some(Arc::new(fetcher)))
}
