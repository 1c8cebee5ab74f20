//! The configured addresses and keys of the provider accounts.
//!
//! `logue-model` contains the names of variables and tables; this module reads them. A key belongs to a
//! [`ProviderAccount`] and is never sent to the server of another one.

use logue_model::{ModelSelection, ProviderAccount};
use logue_source::DiagnosticCode;

use crate::exit::CliError;
use crate::setup::config::Layers;
use crate::setup::config::origin::Origin;
use crate::setup::environment::variable;
use crate::setup::settings::ModelSettings;
use crate::setup::settings::connection_record::ServerRecord;

/// Returns the account that `--base-url` and `--api-key` belong to.
///
/// It is the account of the model that `-m` names, and the account of Chat Completions without `-m` or
/// for a model without a server, whose agents may have servers.
pub(crate) fn account_of_flags(
    model: Option<&str>,
    settings: &ModelSettings,
) -> &'static ProviderAccount {
    let name = settings.of_flag(model);
    let account = name.and_then(|name| ModelSelection::parse(&name).kind.account());
    account.unwrap_or(ProviderAccount::OPENAI)
}

/// The address and the keys of an account, from the environment and the files.
#[derive(Clone)]
pub(crate) struct AccountSettings {
    pub(super) account: &'static ProviderAccount,
    base_url: BaseUrl,
    /// The value of the variable for this program.
    own_key: Option<String>,
    /// The variable that a file names.
    named_key: Option<NamedKey>,
    /// The value of the provider's variable.
    provider_key: Option<String>,
    /// The server of the suspended turn that this process resumes.
    pub(super) recorded: Option<ServerRecord>,
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
    pub(super) fn new(account: &'static ProviderAccount, layers: &Layers) -> Self {
        let mut variables = account.base_url_variables.iter().copied();
        let of_variable = variables.find_map(variable).map(|url| BaseUrl {
            url,
            of_project: false,
        });
        let of_files = || {
            layers.iter().find_map(|layer| {
                Some(BaseUrl {
                    url: layer.tables.model.server(account)?.base_url()?,
                    of_project: layer.origin == Origin::Project,
                })
            })
        };
        let default = || BaseUrl {
            url: account.base_url.to_owned(),
            of_project: false,
        };
        let named_key = layers.iter().find_map(|layer| {
            let name = layer.tables.model.server(account)?.api_key_env?;
            Some(NamedKey {
                value: variable(&name),
                variable: name,
                origin: layer.origin,
            })
        });
        Self {
            account,
            base_url: of_variable.or_else(of_files).unwrap_or_else(default),
            own_key: account.own_key_variable.and_then(variable),
            named_key,
            provider_key: variable(account.key_variable),
            recorded: None,
        }
    }

    /// Returns the settings of an account that is not configured.
    pub(super) fn unconfigured(account: &'static ProviderAccount) -> Self {
        Self {
            account,
            base_url: BaseUrl {
                url: account.base_url.to_owned(),
                of_project: false,
            },
            own_key: None,
            named_key: None,
            provider_key: None,
            recorded: None,
        }
    }

    /// Returns whether these are the settings of an account.
    pub(super) fn is_of(&self, account: &ProviderAccount) -> bool {
        self.account == account
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
