//! The accounts of model providers and their keys.
//!
//! A key belongs to an [`ProviderAccount`] and is never sent to the server of another one. `openai:` and
//! `responses:` share an account with every server that supports their formats.

use logue_model::{ModelSelection, ProviderKind};
use logue_source::DiagnosticCode;

use crate::exit::CliError;
use crate::setup::config::Layers;
use crate::setup::config::model::{Model, Server};
use crate::setup::config::origin::Origin;
use crate::setup::environment::variable;

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
    pub(crate) fn for_kind(kind: ProviderKind) -> &'static Self {
        match kind {
            ProviderKind::Anthropic => &ANTHROPIC,
            _ => &OPENAI,
        }
    }

    /// Returns the account that `--base-url` and `--api-key` belong to.
    ///
    /// It is the account of the model that `-m` names.
    pub(crate) fn for_flags(model: Option<&str>) -> &'static Self {
        model.map_or(&OPENAI, |name| {
            Self::for_kind(ModelSelection::parse(name).kind)
        })
    }

    /// Returns whether both accounts are identical.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The address and the keys of an account, from the environment and the files.
#[derive(Clone)]
pub(crate) struct AccountSettings {
    base_url: BaseUrl,
    /// The value of the variable for this program.
    own_key: Option<String>,
    /// The variable that a file names.
    named_key: Option<NamedKey>,
    /// The value of the provider's variable.
    provider_key: Option<String>,
}

/// The address of a model server and its source.
#[derive(Clone, Debug)]
pub(crate) struct BaseUrl {
    pub(crate) url: String,
    /// Whether the file of a project names the address.
    of_project: bool,
}

/// A variable that a file names, and its value.
#[derive(Clone)]
struct NamedKey {
    variable: String,
    value: Option<String>,
    origin: Origin,
}

impl AccountSettings {
    /// Merges the settings of an account: the environment, the project's file, the user's file, the
    /// default.
    pub(super) fn new(account: &ProviderAccount, layers: &Layers) -> Self {
        let mut variables = account.address_variables.iter().copied();
        let of_variable = variables.find_map(variable).map(|url| BaseUrl {
            url,
            of_project: false,
        });
        let of_files = || {
            layers.iter().find_map(|layer| {
                Some(BaseUrl {
                    url: (account.table)(&layer.tables.model).base_url?,
                    of_project: layer.origin == Origin::Project,
                })
            })
        };
        let default = || BaseUrl {
            url: account.base_url.to_owned(),
            of_project: false,
        };
        let named_key = layers.iter().find_map(|layer| {
            let name = (account.table)(&layer.tables.model).api_key_env?;
            Some(NamedKey {
                value: variable(&name),
                variable: name,
                origin: layer.origin,
            })
        });
        Self {
            base_url: of_variable.or_else(of_files).unwrap_or_else(default),
            own_key: account.own_key_variable.and_then(variable),
            named_key,
            provider_key: variable(account.key_variable),
        }
    }

    /// Returns the address of the model server; a flag takes precedence.
    pub(crate) fn base_url(&self, flag: Option<&str>) -> BaseUrl {
        flag.map_or_else(
            || self.base_url.clone(),
            |url| BaseUrl {
                url: url.to_owned(),
                of_project: false,
            },
        )
    }

    /// Returns the key for a model server; a flag takes precedence.
    ///
    /// The `logue.toml` of a project comes with a checkout, which is untrusted. If it names an address
    /// or a variable, only a key from `--api-key` or from a variable whose name begins with `LOGUE_`
    /// is sent.
    ///
    /// # Errors
    /// Returns an error if the file of a project names another variable.
    pub(crate) fn api_key(
        &self,
        flag: Option<&str>,
        base_url: &BaseUrl,
    ) -> Result<Option<String>, CliError> {
        let own_key = flag.map(str::to_owned).or_else(|| self.own_key.clone());
        if own_key.is_some() {
            return Ok(own_key);
        }
        let provider_key = self.provider_key.as_ref().filter(|_| !base_url.of_project);
        let Some(named) = &self.named_key else {
            return Ok(provider_key.cloned());
        };
        let is_trusted = named.origin == Origin::User && !base_url.of_project;
        if !is_trusted && !named.variable.starts_with("LOGUE_") {
            let message = format!(
                "a project's logue.toml may not send the variable `{}`",
                named.variable
            );
            return Err(
                CliError::user(DiagnosticCode::ConfigInvalid.as_str(), message).with_help(
                    "name a variable that begins with LOGUE_, or put the setting into your own \
                     logue/config.toml",
                ),
            );
        }
        Ok(named.value.as_ref().or(provider_key).cloned())
    }
}
