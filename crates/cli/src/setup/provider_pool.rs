//! Providers that the turns of a server share, with their open connections.

use std::sync::{Arc, Mutex, PoisonError};

use logue_model::{EndpointOptions, Provider, ServerProtocol};

use crate::exit::CliError;

/// The number of providers that are kept. Records of suspended turns may name further servers.
const MOST: usize = 64;

/// The server of a provider: its protocol, its address and the key for it.
type Server = (ServerProtocol, String, Option<String>);

/// Providers with their servers.
type Known = Vec<(Server, Arc<dyn Provider>)>;

/// Providers by their servers. Cloning shares it.
///
/// A pool belongs to one set of settings: what else a provider depends on is not compared.
#[derive(Clone, Default)]
pub(crate) struct ProviderPool(Arc<Mutex<Known>>);

impl ProviderPool {
    /// Returns the provider of a server, which `create` creates at the first use.
    ///
    /// # Errors
    /// Returns the error of `create`.
    pub(crate) fn provider(
        &self,
        protocol: ServerProtocol,
        options: EndpointOptions,
        create: impl FnOnce(EndpointOptions) -> Result<Arc<dyn Provider>, CliError>,
    ) -> Result<Arc<dyn Provider>, CliError> {
        let server = (protocol, options.base_url.clone(), options.api_key.clone());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, provider)) = known.iter().find(|(own, _)| *own == server) {
            return Ok(Arc::clone(provider));
        }
        let provider = create(options)?;
        if known.len() >= MOST {
            known.clear();
        }
        known.push((server, Arc::clone(&provider)));
        Ok(provider)
    }
}
