//! The effective settings of a command, resolved once.
//!
//! [`resolve`] merges the environment, the project's file and the user's file, in this order of
//! precedence, and applies the defaults. Flags take precedence over all of them; the command that
//! has a flag applies it. All other code only reads the fields.

pub(crate) mod accounts;
pub(crate) mod connection_record;
mod known_prices;
mod resolve;
pub(crate) mod serve;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use logue_agent::{PermissionFile, Price, Redaction, ResponseCache, Routing};
use logue_harness::chat::OnCrash;
use logue_model::{
    HarmonyServer, HttpLimits, PromptForm, ProviderAccount, RetryBudget, ServerKind,
};
use logue_tools::mcp::McpOptions;
use logue_tools::{FetchPolicy, SearchEngine, ShellPolicy};

use crate::exit::CliError;
use crate::setup::config::{GrantPolicy, Layers};
use crate::setup::provider_pool::ProviderPool;
use crate::setup::settings::accounts::AccountSettings;
use crate::setup::settings::connection_record::ConnectionRecord;
use crate::setup::settings::serve::ServeSettings;

/// The effective settings.
#[derive(Clone)]
pub(crate) struct Settings {
    /// The files that were read, by descending precedence.
    pub(crate) files: Vec<PathBuf>,
    /// The report of the project's grants that were ignored.
    pub(crate) ignored: Option<String>,
    pub(crate) model: ModelSettings,
    pub(crate) run: RunSettings,
    pub(crate) caches: CacheSettings,
    pub(crate) tools: ToolSettings,
    /// The hosts and limits of connections.
    pub(crate) network: FetchPolicy,
    /// The search engine of `browser.search`.
    pub(crate) search: Option<SearchEngine>,
    pub(crate) mcp: McpOptions,
    pub(crate) permissions: PermissionSettings,
    pub(crate) trust: TrustSettings,
    /// The patterns of text that is not written.
    pub(crate) redaction: Redaction,
    /// The size in bytes of the largest inline payload; larger ones go to files.
    pub(crate) max_inline_bytes: usize,
    /// The URL of the session store; `None` without a user data directory.
    pub(crate) store_url: Option<String>,
    /// The address for notifications of a database.
    pub(crate) store_listen: Option<String>,
    /// The default time after which an unchanged session may be removed.
    pub(crate) session_ttl: Option<Duration>,
    /// The full URL that spans are sent to; `None` disables the export.
    pub(crate) traces_url: Option<String>,
    /// The limits of `logue serve`.
    pub(crate) serve: ServeSettings,
    /// The token of `logue mcp serve --http`.
    pub(crate) serve_token: Option<String>,
}

/// The model and the connections to its server.
#[derive(Clone)]
pub(crate) struct ModelSettings {
    /// The model for a run whose flags and prompt name none.
    pub(crate) name: Option<String>,
    /// The models by the aliases of the user's file.
    pub(crate) aliases: BTreeMap<String, String>,
    accounts: Vec<AccountSettings>,
    /// The configured kind of the server; the default depends on the address.
    pub(crate) server_kind: Option<ServerKind>,
    /// Whether responses are streamed.
    pub(crate) stream: bool,
    /// The limits of one request.
    pub(crate) http: HttpLimits,
    pub(crate) retry: RetryBudget,
    /// The form in which prompts are sent to gpt-oss models.
    pub(crate) harmony_prompt: PromptForm,
    /// The kind of the server for gpt-oss models.
    pub(crate) harmony_server: HarmonyServer,
    /// The providers that turns share; `None` if each turn creates its own.
    pub(crate) pool: Option<ProviderPool>,
}

/// The limits of a run.
#[derive(Clone)]
pub(crate) struct RunSettings {
    /// The maximum number of model requests in one turn.
    pub(crate) max_requests: usize,
    pub(crate) max_total_tokens: Option<u64>,
    /// The maximum cost in US dollars.
    pub(crate) max_cost: Option<f64>,
    pub(crate) prices: BTreeMap<String, Price>,
    /// The maximum depth of agents that call agents.
    pub(crate) max_agent_depth: usize,
    /// The routing of the calls of an answer.
    pub(crate) routing: Routing,
    /// The timeout for a file that another run holds.
    pub(crate) lock_timeout: Duration,
    /// The policy for turns whose process died.
    pub(crate) on_crash: OnCrash,
    /// Whether prompts are rewritten before they run.
    pub(crate) refines: bool,
}

/// The caches between runs; `None` disables a cache.
#[derive(Clone)]
pub(crate) struct CacheSettings {
    pub(crate) agent_responses: Option<ResponseCache>,
    pub(crate) refined_prompts: Option<ResponseCache>,
}

/// The access of tools.
#[derive(Clone)]
pub(crate) struct ToolSettings {
    /// The further directories that tools may read.
    pub(crate) roots: Vec<PathBuf>,
    /// The limits and the access of tool programs.
    pub(crate) shell: ShellPolicy,
}

/// The permission rules of the files.
#[derive(Clone)]
pub(crate) struct PermissionSettings {
    pub(crate) project: Option<PermissionFile>,
    pub(crate) user: Option<PermissionFile>,
    /// The seconds that a turn waits for a decision.
    pub(crate) approval_timeout: Option<u64>,
}

/// The prompts that are trusted without a question.
#[derive(Clone)]
pub(crate) struct TrustSettings {
    /// The directories of trusted prompts.
    pub(crate) directories: Vec<PathBuf>,
    /// Whether every prompt is trusted.
    pub(crate) everything: bool,
    /// The prompts about whose trust the user is asked or warned.
    pub(crate) questions: TrustQuestions,
}

/// The prompts about whose trust the user is asked or warned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrustQuestions {
    All,
    /// Those with server programs, which run only if the prompt is trusted.
    Servers,
    None,
}

impl Settings {
    /// Reads and merges the environment and the files.
    ///
    /// `trusts_project` applies the grants of the project's file for this command.
    ///
    /// # Errors
    /// Returns an error if an existing file cannot be read, is not a valid configuration, or grants
    /// access without the user's trust.
    pub(crate) fn load(trusts_project: bool) -> Result<Self, CliError> {
        let policy = if trusts_project {
            GrantPolicy::Apply
        } else {
            GrantPolicy::Refuse
        };
        Ok(resolve::resolve(&Layers::read(policy)?))
    }

    /// Reads and merges the environment and the files, for a command that inspects.
    ///
    /// Grants of a project's file that is not trusted are ignored.
    ///
    /// # Errors
    /// Returns an error if an existing file cannot be read or is not a valid configuration.
    pub(crate) fn inspect() -> Result<Self, CliError> {
        Ok(resolve::resolve(&Layers::read(GrantPolicy::Ignore)?))
    }

    /// Returns the settings of the environment alone.
    pub(crate) fn without_files() -> Self {
        resolve::resolve(&Layers::default())
    }
}

impl ModelSettings {
    /// Returns these settings with the default model and the servers of a suspended turn.
    pub(crate) fn resuming(mut self, record: &ConnectionRecord) -> Self {
        self.name.clone_from(&record.default_model);
        for account in &mut self.accounts {
            account.recorded = record.server(account.account).cloned();
        }
        self
    }

    /// Returns the model that an alias denotes, and `None` for other names.
    ///
    /// An alias of an alias denotes the model of that. The alias of a model that ends with `:` is a
    /// prefix: with `work = "openai:"`, `work:gpt-4o` denotes `openai:gpt-4o`.
    pub(crate) fn alias(&self, name: &str) -> Option<String> {
        let mut model = self.alias_once(name)?;
        // The settings were checked, so no alias leads back to itself.
        for _ in 0..self.aliases.len() {
            match self.alias_once(&model) {
                Some(next) => model = next,
                None => break,
            }
        }
        Some(model)
    }

    fn alias_once(&self, name: &str) -> Option<String> {
        if let Some(model) = self.aliases.get(name) {
            return Some(model.clone());
        }
        let (alias, model) = name.split_once(':')?;
        let prefix = self.aliases.get(alias)?;
        prefix.ends_with(':').then(|| format!("{prefix}{model}"))
    }

    /// Returns the model of a flag, with its alias replaced.
    pub(crate) fn of_flag(&self, name: Option<&str>) -> Option<String> {
        name.map(|name| self.alias(name).unwrap_or_else(|| name.to_owned()))
    }

    /// Returns the address and the keys of an account.
    pub(crate) fn account(&self, account: &'static ProviderAccount) -> AccountSettings {
        let mut accounts = self.accounts.iter();
        let settings = accounts.find(|settings| settings.is_of(account)).cloned();
        settings.unwrap_or_else(|| AccountSettings::unconfigured(account))
    }
}
