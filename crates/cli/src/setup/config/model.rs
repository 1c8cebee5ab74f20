//! `[model]` of `logue.toml`: the model and the connections to its server.

use logue_model::ProviderAccount;
use serde::Deserialize;

use crate::setup::config::harmony::Harmony;

/// `[model]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    pub(crate) name: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) api_key_env: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    pub(crate) anthropic: Server,
    pub(crate) connect_timeout_seconds: Option<u64>,
    pub(crate) first_byte_timeout_seconds: Option<u64>,
    pub(crate) idle_timeout_seconds: Option<u64>,
    pub(crate) total_timeout_seconds: Option<u64>,
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
    pub(crate) base_url: Option<String>,
    pub(crate) api_key_env: Option<String>,
}

impl Model {
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
