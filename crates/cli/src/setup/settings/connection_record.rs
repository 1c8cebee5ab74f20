//! The model and the servers of a suspended turn, as its metadata records them.

use std::collections::BTreeMap;

use logue_agent::CONNECTION;
use logue_harness::store::Suspension;
use logue_model::{ProviderAccount, redacted_base_url};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::arguments::ModelArgs;
use crate::exit::CliError;
use crate::setup::settings::Settings;
use crate::setup::settings::accounts::{AccountSettings, account_of_flags};

/// The model and the servers that a turn used.
///
/// The later decision may come from a process with another environment. It must not send the
/// conversation to another server.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ConnectionRecord {
    /// The model that replaces the prompt's.
    pub(crate) model: Option<String>,
    /// The model for a prompt that names none.
    pub(crate) default_model: Option<String>,
    /// The servers by the name of the account.
    servers: BTreeMap<String, ServerRecord>,
}

/// The server of an account, without its key.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ServerRecord {
    /// The address without user information and query.
    base_url: String,
    /// Whether a key was sent.
    sends_key: bool,
}

impl ConnectionRecord {
    /// Describes the connections of a turn.
    pub(crate) fn new(model_args: &ModelArgs, settings: &Settings) -> Self {
        let of_flags = account_of_flags(model_args.model.as_deref(), &settings.model);
        let servers = ProviderAccount::ALL.iter().map(|account| {
            let flag = |flag: &Option<String>| flag.clone().filter(|_| *account == of_flags);
            let (url, key) = (flag(&model_args.base_url), flag(&model_args.api_key));
            let server = settings.model.account(account);
            let server = server.record(url.as_deref(), key.as_deref());
            (account.name.to_owned(), server)
        });
        Self {
            // Another machine may have other aliases.
            model: settings.model.of_flag(model_args.model.as_deref()),
            default_model: settings.model.of_flag(settings.model.name.as_deref()),
            servers: servers.collect(),
        }
    }

    /// Reads the record of a suspended turn; earlier versions wrote none.
    pub(crate) fn of(waiting: &Suspension) -> Option<Self> {
        let record = waiting.metadata.as_ref()?.get(CONNECTION)?;
        Self::deserialize(record).ok()
    }

    pub(crate) fn to_json(&self) -> Value {
        json!(self)
    }

    /// Returns the server of an account.
    pub(super) fn server(&self, account: &ProviderAccount) -> Option<&ServerRecord> {
        self.servers.get(account.name)
    }
}

impl AccountSettings {
    /// Returns the recorded server that replaces the configured one.
    ///
    /// The configured address of the same server may have a password, so it is preferred.
    fn replacement(&self, flag: Option<&str>) -> Option<&ServerRecord> {
        let recorded = self.recorded.as_ref().filter(|_| flag.is_none())?;
        let configured = redacted_base_url(&self.base_url(None).url);
        let is_same = configured.trim_end_matches('/') == recorded.base_url.trim_end_matches('/');
        (!is_same).then_some(recorded)
    }

    /// Describes the server for the values of `--base-url` and `--api-key`.
    fn record(&self, url: Option<&str>, key: Option<&str>) -> ServerRecord {
        if let Some(recorded) = self.replacement(url) {
            return ServerRecord {
                base_url: recorded.base_url.clone(),
                sends_key: recorded.sends_key || key.is_some(),
            };
        }
        let base_url = self.base_url(url);
        let key = self.api_key(key, &base_url);
        ServerRecord {
            sends_key: !matches!(key, Ok(None)),
            base_url: redacted_base_url(&base_url.url),
        }
    }

    /// Returns the address of the server and the key for it.
    ///
    /// Flags take precedence over the server of a suspended turn, and that over the settings. A key of
    /// the settings is never sent to a recorded server, which it may not belong to.
    ///
    /// # Errors
    /// Returns an error if the recorded server requires a key or a password that only a flag can give.
    pub(crate) fn endpoint(
        &self,
        url: Option<&str>,
        key: Option<&str>,
    ) -> Result<(String, Option<String>), CliError> {
        let Some(recorded) = self.replacement(url) else {
            let base_url = self.base_url(url);
            let key = self.api_key(key, &base_url)?;
            return Ok((base_url.url, key));
        };
        let is_complete = !recorded.base_url.contains("[redacted]");
        if is_complete && (key.is_some() || !recorded.sends_key) {
            return Ok((recorded.base_url.clone(), key.map(str::to_owned)));
        }
        let configured = redacted_base_url(&self.base_url(None).url);
        let name = self.account.name;
        let message = format!(
            "the turn used the `{name}` server {}, and the settings name {configured}; its secrets are not recorded",
            recorded.base_url
        );
        Err(CliError::user("model_not_configured", message)
            .with_help(format!("continue there: --base-url {}", recorded.base_url))
            .with_help(format!("use the other server: --base-url {configured}")))
    }
}
