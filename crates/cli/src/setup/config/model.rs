//! `[model]` of `logue.toml`: the model and the connections to its server.

use std::num::NonZeroU64;

use logue_model::{ProviderAccount, ServerKind, is_base_url, redacted_base_url};
use logue_source::Span;
use serde::Deserialize;
use toml::Spanned;

use crate::setup::config::harmony::Harmony;

/// `[model]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    pub(crate) name: Option<String>,
    base_url: Option<Spanned<String>>,
    pub(crate) api_key_env: Option<String>,
    server: Option<Spanned<String>>,
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    anthropic: Server,
    pub(crate) connect_timeout_seconds: Option<NonZeroU64>,
    pub(crate) first_byte_timeout_seconds: Option<NonZeroU64>,
    pub(crate) idle_timeout_seconds: Option<NonZeroU64>,
    pub(crate) total_timeout_seconds: Option<NonZeroU64>,
    pub(crate) retries: Option<u32>,
    pub(crate) retry_timeout_seconds: Option<u64>,
    pub(crate) max_response_bytes: Option<usize>,
    pub(crate) max_event_bytes: Option<usize>,
    #[serde(default)]
    pub(crate) harmony: Harmony,
}

/// The server keys of `[model]` and `[model.anthropic]` in `logue.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    base_url: Option<Spanned<String>>,
    pub(crate) api_key_env: Option<String>,
}

impl Server {
    /// Returns the address.
    pub(crate) fn base_url(&self) -> Option<String> {
        self.base_url.as_ref().map(|url| url.get_ref().clone())
    }
}

impl Model {
    /// Checks the addresses and the kind of the server.
    ///
    /// # Errors
    /// Returns a message and its position for the first invalid value.
    pub(crate) fn check(&self) -> Result<(), (Span, String)> {
        let urls = [&self.base_url, &self.anthropic.base_url];
        for url in urls.into_iter().flatten() {
            if !is_base_url(url.get_ref()) {
                let message = format!(
                    "invalid base URL `{}`: expected a complete URL such as \
                     http://localhost:8000/v1",
                    redacted_base_url(url.get_ref())
                );
                return Err((Span::from(url.span()), message));
            }
        }
        match &self.server {
            Some(name) if self.server_kind().is_none() => {
                let names: Vec<&str> = ServerKind::ALL.iter().map(|(name, _)| *name).collect();
                let message = format!(
                    "unknown server `{}`: expected one of {}",
                    name.get_ref(),
                    names.join(", ")
                );
                Err((Span::from(name.span()), message))
            }
            _ => Ok(()),
        }
    }

    /// Returns the kind of the server.
    pub(crate) fn server_kind(&self) -> Option<ServerKind> {
        ServerKind::parse(self.server.as_ref()?.get_ref())
    }

    /// Returns the server keys of an account, if the account has a table here.
    pub(crate) fn server(&self, account: &ProviderAccount) -> Option<Server> {
        match account.table {
            "model" => Some(Server {
                base_url: self.base_url.clone(),
                api_key_env: self.api_key_env.clone(),
            }),
            "model.anthropic" => Some(self.anthropic.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_account_has_a_table() {
        let model = Model::default();
        for account in ProviderAccount::ALL {
            assert!(model.server(account).is_some(), "[{}]", account.table);
        }
    }
}
