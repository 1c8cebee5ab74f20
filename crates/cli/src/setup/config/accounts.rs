//! Whose server a model is at, and which key goes there.
//!
//! A key belongs to an [`Account`]: what was meant for one is never sent to the server of another.
//! `openai:` and `responses:` are one account, and so is every server that speaks their formats.

use logue_model::{ModelSelection, ProviderKind, ServerKind};
use serde::Deserialize;

use crate::exit::Failure;
use crate::setup::config::Model;

/// Where the address and the key of one provider are looked for, in that order.
#[derive(Debug)]
pub(crate) struct Account {
    /// The word that users know it by.
    pub(crate) name: &'static str,
    /// Variables that name the address.
    pub(crate) address_variables: &'static [&'static str],
    /// The variable that is meant for this program, whatever a file names.
    pub(crate) own_key_variable: Option<&'static str>,
    /// The variable that holds the key where a file names no other.
    pub(crate) key_variable: &'static str,
    /// The table of `logue.toml`.
    pub(crate) table: fn(&Model) -> Server,
    /// The address where nobody names one.
    pub(crate) base_url: &'static str,
    /// The variable that its users set to another address.
    pub(crate) base_url_variable: &'static str,
    /// What the table is called.
    pub(crate) table_name: &'static str,
    /// The address below which `models` lists what there is.
    pub(crate) models_at: fn(&str) -> String,
    /// The headers that carry a key.
    pub(crate) headers: fn(String) -> Vec<(String, String)>,
}

/// Whatever speaks a format of `OpenAI`.
pub(crate) static OPENAI: Account = Account {
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

/// Anthropic.
pub(crate) static ANTHROPIC: Account = Account {
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

impl Account {
    /// The account that a model of that kind is at.
    pub(crate) fn of(kind: ProviderKind) -> &'static Self {
        match kind {
            ProviderKind::Anthropic => &ANTHROPIC,
            _ => &OPENAI,
        }
    }

    /// The account that `--base-url` and `--api-key` belong to: that of the model that `-m` names.
    pub(crate) fn of_flags(model: Option<&str>) -> &'static Self {
        model.map_or(&OPENAI, |name| Self::of(ModelSelection::parse(name).kind))
    }

    /// Whether both are the same one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Where a server is, as `logue.toml` says it: keys of `[model]` and of `[model.anthropic]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    pub(crate) base_url: Option<String>,
    pub(crate) api_key_env: Option<String>,
}

/// The kind of server that a word of `logue.toml` names.
pub(crate) fn dialect(word: &str) -> Result<ServerKind, Failure> {
    ServerKind::parse(word).ok_or_else(|| {
        let words: Vec<&str> = ServerKind::ALL.iter().map(|(word, _)| *word).collect();
        let message =
            format!("`server` under [model] in logue.toml is `{word}`, which is no server");
        Failure::user("E-CONFIG-INVALID", message)
            .with_help(format!("write one of {}", words.join(", ")))
    })
}
