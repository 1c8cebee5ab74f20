//! The accounts of model providers and their keys.
//!
//! A key belongs to an [`ProviderAccount`] and is never sent to the server of another one. `openai:` and
//! `responses:` share an account with every server that supports their formats.

use logue_model::{ModelSelection, ProviderKind, ServerKind};
use serde::Deserialize;

use crate::exit::CliError;
use crate::setup::config::Model;

/// The sources of a provider's address and key, in order of precedence.
#[derive(Debug)]
pub(crate) struct ProviderAccount {
    /// The name that users write.
    pub(crate) name: &'static str,
    /// The variables that contain the address.
    pub(crate) address_variables: &'static [&'static str],
    /// The variable for this program, which takes precedence over the files.
    pub(crate) own_key_variable: Option<&'static str>,
    /// The variable that contains the key, unless a file names another one.
    pub(crate) key_variable: &'static str,
    /// The table of `logue.toml`.
    pub(crate) table: fn(&Model) -> Server,
    /// The default address.
    pub(crate) base_url: &'static str,
    /// The variable that overrides the default address.
    pub(crate) base_url_variable: &'static str,
    /// The name of the table.
    pub(crate) table_name: &'static str,
    /// Returns the base URL below which `models` lists the available models.
    pub(crate) models_at: fn(&str) -> String,
    /// Returns the headers that contain a key.
    pub(crate) headers: fn(String) -> Vec<(String, String)>,
}

/// The account of all servers that support a format of `OpenAI`.
pub(crate) static OPENAI: ProviderAccount = ProviderAccount {
    name: "openai",
    address_variables: &["LOGUE_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"],
    own_key_variable: Some("LOGUE_API_KEY"),
    key_variable: "OPENAI_API_KEY",
    table: |model| Server {
        base_url: model.base_url.clone(),
        api_key_env: model.api_key_env.clone(),
    },
    base_url: "https://api.openai.com/v1",
    base_url_variable: "OPENAI_BASE_URL",
    table_name: "model",
    models_at: str::to_owned,
    headers: |key| vec![("authorization".to_owned(), format!("Bearer {key}"))],
};

/// The account of Anthropic.
pub(crate) static ANTHROPIC: ProviderAccount = ProviderAccount {
    name: "anthropic",
    address_variables: &["ANTHROPIC_BASE_URL"],
    own_key_variable: None,
    key_variable: "ANTHROPIC_API_KEY",
    table: |model| model.anthropic.clone(),
    base_url: "https://api.anthropic.com",
    base_url_variable: "ANTHROPIC_BASE_URL",
    table_name: "model.anthropic",
    models_at: |url| {
        let url = url.trim_end_matches('/');
        format!("{}/v1", url.strip_suffix("/v1").unwrap_or(url))
    },
    headers: |key| {
        vec![
            ("x-api-key".to_owned(), key),
            ("anthropic-version".to_owned(), "2023-06-01".to_owned()),
        ]
    },
};

impl ProviderAccount {
    /// Returns the account for a kind of provider.
    pub(crate) fn of(kind: ProviderKind) -> &'static Self {
        match kind {
            ProviderKind::Anthropic => &ANTHROPIC,
            _ => &OPENAI,
        }
    }

    /// Returns the account that `--base-url` and `--api-key` belong to.
    ///
    /// It is the account of the model that `-m` names.
    pub(crate) fn of_flags(model: Option<&str>) -> &'static Self {
        model.map_or(&OPENAI, |name| Self::of(ModelSelection::parse(name).kind))
    }

    /// Returns whether both accounts are identical.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The server keys of `[model]` and `[model.anthropic]` in `logue.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    pub(crate) base_url: Option<String>,
    pub(crate) api_key_env: Option<String>,
}

/// Parses a server kind of `logue.toml`.
pub(crate) fn dialect(word: &str) -> Result<ServerKind, CliError> {
    ServerKind::parse(word).ok_or_else(|| {
        let words: Vec<&str> = ServerKind::ALL.iter().map(|(word, _)| *word).collect();
        let message = format!("unknown server `{word}`: `server` under [model] in logue.toml");
        CliError::user("E-CONFIG-INVALID", message)
            .with_help(format!("write one of {}", words.join(", ")))
    })
}
