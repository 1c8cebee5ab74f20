//! The merged settings of the project's `logue.toml` and the user's configuration.
//!
//! The project's file takes precedence over the user's; flags and environment take precedence over
//! both. The project's file is searched in the current directory and above it, up to the directory
//! of the repository. The directory of a prompt is not searched, because a prompt from elsewhere must
//! not bring its own settings. The user's file is `logue/config.toml` in the XDG configuration
//! directory. An unknown key is an error at its position, because a misspelled limit would have no
//! effect.

pub(crate) mod accounts;
pub(crate) mod browser;
pub(crate) mod dollars;
pub(crate) mod harmony;
pub(crate) mod limits;
pub(crate) mod mcp;
pub(crate) mod network;
pub(crate) mod permissions;
pub(crate) mod redact;
pub(crate) mod telemetry;
pub(crate) mod tools;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy as _;
use logue_agent::{DEFAULT_INLINE_BYTES, PermissionFile, Redaction, ResponseCache};
use logue_model::{HarmonyServer, HttpLimits, PromptForm, RetryBudget, ServerKind};
use logue_source::{ColorMode, Diagnostic, DiagnosticCode, Source, Span};
use logue_tools::{FetchPolicy, HostRule, SearchEngine, ShellPolicy};
use serde::Deserialize;

use crate::exit::{CliError, Exit};
use crate::setup::config::accounts::{ProviderAccount, Server};
use crate::setup::config::browser::Browser;
use crate::setup::config::harmony::Harmony;
use crate::setup::config::mcp::Mcp;
use crate::setup::config::network::Network;
use crate::setup::config::permissions::{PermissionTable, TrustTable};
use crate::setup::config::redact::Redact;
use crate::setup::config::telemetry::Telemetry;
use crate::setup::config::tools::Tools;
use crate::setup::environment::{cache_folder, data_folder, variable};

use dollars::Dollars;
use limits::Prices;

/// The effective settings of all files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    layers: Vec<Layer>,
    /// The patterns of all layers; a project cannot remove the user's.
    redaction: Redaction,
    hosts: Vec<HostRule>,
    /// The engine of the first file that names one.
    search: Option<SearchEngine>,
}

#[derive(Clone, Debug)]
struct Layer {
    /// The directory of the file, which its paths are relative to.
    folder: PathBuf,
    /// Whether the file belongs to the user rather than to a project.
    own: bool,
    permissions: PermissionFile,
    approval_timeout: Option<u64>,
    file: File,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    model: Model,
    #[serde(default)]
    tools: Tools,
    #[serde(default)]
    run: Run,
    #[serde(default)]
    network: Network,
    #[serde(default)]
    browser: Browser,
    #[serde(default)]
    transcript: Transcript,
    #[serde(default)]
    redact: Redact,
    #[serde(default)]
    store: Store,
    #[serde(default)]
    telemetry: Telemetry,
    #[serde(default)]
    mcp: Mcp,
    #[serde(default)]
    prices: BTreeMap<String, Prices>,
    #[serde(default)]
    permissions: PermissionTable,
    #[serde(default)]
    trust: TrustTable,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    name: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) api_key_env: Option<String>,
    server: Option<String>,
    stream: Option<bool>,
    #[serde(default)]
    pub(crate) anthropic: Server,
    connect_timeout_seconds: Option<u64>,
    first_byte_timeout_seconds: Option<u64>,
    idle_timeout_seconds: Option<u64>,
    total_timeout_seconds: Option<u64>,
    retries: Option<u32>,
    retry_timeout_seconds: Option<u64>,
    max_response_bytes: Option<usize>,
    max_event_bytes: Option<usize>,
    #[serde(default)]
    harmony: Harmony,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    max_requests: Option<NonZeroU32>,
    lock_timeout_seconds: Option<u64>,
    agent_cache_ttl_hours: Option<u32>,
    max_total_tokens: Option<NonZeroU64>,
    max_cost_usd: Option<Dollars>,
    max_agent_depth: Option<usize>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transcript {
    max_inline_bytes: Option<usize>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    url: Option<String>,
}

impl Config {
    /// Reads the files that apply to the current directory.
    ///
    /// # Errors
    /// Returns a failure if an existing file cannot be read or is not a valid configuration.
    pub(crate) fn load() -> Result<Self, CliError> {
        let folders = etcetera::choose_base_strategy().ok();
        let home = folders
            .as_ref()
            .map(|folders| folders.home_dir().to_owned());
        let mut paths = Vec::new();
        if let Ok(current) = std::env::current_dir() {
            paths.extend(project_file(&current, home.as_deref()).map(|path| (path, false)));
        }
        if let Some(folders) = folders {
            paths.push((folders.config_dir().join("logue").join("config.toml"), true));
        }
        let mut layers = Vec::new();
        let mut redaction = Redaction::default();
        let mut hosts = Vec::new();
        let mut search = None;
        for (path, own) in paths {
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    let message = format!("cannot read {}: {error}", path.display());
                    return Err(CliError::user("E-CONFIG-INVALID", message));
                }
            };
            let file: File = toml::from_str(&text).map_err(|error| {
                let span = error.span().map_or(Span::default(), Span::from);
                invalid(&path, &text, span, error.message())
            })?;
            file.redact
                .add_to(&mut redaction)
                .map_err(|(span, error)| invalid(&path, &text, span, &error.to_string()))?;
            let rules = file.network.rules(own);
            hosts.extend(rules.map_err(|(span, error)| invalid(&path, &text, span, &error))?);
            let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
            file.tools
                .check(own, &folder)
                .map_err(|(span, error)| invalid(&path, &text, span, &error))?;
            let engine = file.browser.engine(own);
            let engine = engine.map_err(|(span, error)| invalid(&path, &text, span, &error))?;
            search = search.or(engine);
            file.telemetry
                .check(own)
                .map_err(|(span, error)| invalid(&path, &text, span, error))?;
            file.mcp
                .check(own)
                .map_err(|(span, error)| invalid(&path, &text, span, &error))?;
            file.trust
                .check(own)
                .map_err(|(span, error)| invalid(&path, &text, span, error))?;
            let rules = file.permissions.rules();
            let rules = rules.map_err(|(span, error)| invalid(&path, &text, span, &error))?;
            let approval_timeout = file.permissions.approval_timeout_seconds;
            layers.push(Layer {
                folder,
                own,
                permissions: PermissionFile::new(path, rules),
                approval_timeout: approval_timeout.map(NonZeroU64::get),
                file,
            });
        }
        Ok(Self {
            layers,
            redaction,
            hosts,
            search,
        })
    }

    /// Returns the effective files by descending precedence.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.layers
            .iter()
            .map(|layer| layer.permissions.path.as_path())
    }

    fn first<T>(&self, pick: impl Fn(&File) -> Option<T>) -> Option<T> {
        self.layers.iter().find_map(|layer| pick(&layer.file))
    }

    /// Returns the model for a run whose flags and prompt name none.
    pub(crate) fn model(&self) -> Option<String> {
        variable("LOGUE_MODEL")
            .or_else(|| variable("OPENAI_MODEL"))
            .or_else(|| self.first(|file| file.model.name.clone()))
    }

    /// Returns the configured kind of the model server; the default depends on its address.
    pub(crate) fn dialect(&self) -> Result<Option<ServerKind>, CliError> {
        let word = self.first(|file| file.model.server.clone());
        word.map(|word| accounts::dialect(&word)).transpose()
    }

    /// Returns whether responses are streamed.
    pub(crate) fn stream(&self) -> bool {
        self.first(|file| file.model.stream).unwrap_or(true)
    }

    /// Returns the address of the model server of an account.
    pub(crate) fn address(&self, account: &ProviderAccount, flag: Option<&str>) -> BaseUrl {
        let variables = account.address_variables.iter();
        let named = flag
            .map(str::to_owned)
            .or_else(|| variables.copied().find_map(variable));
        if let Some(url) = named {
            return BaseUrl {
                url,
                of_project: false,
            };
        }
        let named = self.layers.iter().find_map(|layer| {
            let url = (account.table)(&layer.file.model).base_url?;
            Some(BaseUrl {
                url,
                of_project: !layer.own,
            })
        });
        named.unwrap_or_else(|| BaseUrl {
            url: account.base_url.to_owned(),
            of_project: false,
        })
    }

    /// Returns the key for a model server.
    ///
    /// The `logue.toml` of a project comes with a checkout, which is untrusted. If it names an address
    /// or a variable, only a key from `--api-key` or from a variable whose name begins with `LOGUE_`
    /// is sent.
    pub(crate) fn api_key(
        &self,
        account: &ProviderAccount,
        flag: Option<&str>,
        address: &BaseUrl,
    ) -> Result<Option<String>, CliError> {
        if let Some(key) = flag
            .map(str::to_owned)
            .or_else(|| account.own_key_variable.and_then(variable))
        {
            return Ok(Some(key));
        }
        let named = self.layers.iter().find_map(|layer| {
            let name = (account.table)(&layer.file.model).api_key_env?;
            Some((name, layer.own && !address.of_project))
        });
        match named {
            Some((name, trusted)) if trusted || name.starts_with("LOGUE_") => Ok(variable(&name)
                .or_else(|| {
                    if address.of_project {
                        None
                    } else {
                        variable(account.key_variable)
                    }
                })),
            Some((name, _)) => {
                let message = format!("a project's logue.toml may not send the variable `{name}`");
                Err(
                    CliError::user(DiagnosticCode::ConfigInvalid.as_str(), message).with_help(
                        "name a variable that begins with LOGUE_, or put the setting into your own \
                     logue/config.toml",
                    ),
                )
            }
            None if address.of_project => Ok(None),
            None => Ok(variable(account.key_variable)),
        }
    }

    /// Returns the limits of one request.
    pub(crate) fn limits(&self) -> HttpLimits {
        let seconds = |pick: fn(&Model) -> Option<u64>, default: Duration| {
            self.first(|file| pick(&file.model))
                .map_or(default, Duration::from_secs)
        };
        let mut limits = HttpLimits::default();
        limits.connect = seconds(|model| model.connect_timeout_seconds, limits.connect);
        limits.first_byte = seconds(|model| model.first_byte_timeout_seconds, limits.first_byte);
        limits.idle = seconds(|model| model.idle_timeout_seconds, limits.idle);
        limits.total = seconds(|model| model.total_timeout_seconds, limits.total);
        limits.response_bytes = self
            .first(|file| file.model.max_response_bytes)
            .unwrap_or(limits.response_bytes);
        limits.event_bytes = self
            .first(|file| file.model.max_event_bytes)
            .unwrap_or(limits.event_bytes);
        limits
    }

    /// Returns the form in which prompts are sent to gpt-oss models.
    pub(crate) fn harmony_prompt(&self) -> PromptForm {
        self.first(|file| file.model.harmony.prompt())
            .unwrap_or_default()
    }

    /// Returns the kind of the server for gpt-oss models.
    pub(crate) fn harmony_server(&self) -> HarmonyServer {
        self.first(|file| file.model.harmony.server())
            .unwrap_or_default()
    }

    /// Returns the further directories that tools may read.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let roots = |layer: &Layer| {
            let folder = layer.folder.clone();
            layer
                .file
                .tools
                .roots
                .clone()
                .into_iter()
                .map(move |root| folder.join(root))
        };
        self.layers.iter().flat_map(roots).collect()
    }

    /// Returns the limits and the access of tool programs.
    pub(crate) fn shell_policy(&self) -> ShellPolicy {
        let layers = self.layers.iter();
        let layers: Vec<tools::Layer<'_>> = layers
            .map(|layer| (&layer.file.tools, layer.folder.as_path()))
            .collect();
        let home = etcetera::home_dir().ok();
        tools::policy(&layers, std::env::current_exe().ok(), home.as_deref())
    }

    /// Returns the environment of tool programs and MCP servers.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let layers = self.layers.iter();
        let layers: Vec<tools::Layer<'_>> = layers
            .map(|layer| (&layer.file.tools, layer.folder.as_path()))
            .collect();
        tools::environment(&layers)
    }

    /// Returns the network policy with the hosts of the flags and of the files.
    pub(crate) fn network(&self, flags: &[HostRule]) -> FetchPolicy {
        let base = FetchPolicy::default();
        FetchPolicy {
            hosts: flags.iter().chain(&self.hosts).cloned().collect(),
            total: self
                .first(|file| file.network.timeout_seconds)
                .map_or(base.total, Duration::from_secs),
            max_bytes: self
                .first(|file| file.network.max_page_bytes)
                .unwrap_or(base.max_bytes),
            ..base
        }
    }

    /// Returns the search engine of `browser.search`.
    pub(crate) fn search(&self) -> Option<SearchEngine> {
        self.search.clone()
    }

    /// Returns the maximum number of model requests in one turn.
    pub(crate) fn max_requests(&self, flag: Option<u32>) -> usize {
        let most = flag.or_else(|| {
            self.first(|file| file.run.max_requests)
                .map(NonZeroU32::get)
        });
        most.and_then(|most| usize::try_from(most).ok())
            .unwrap_or(50)
    }

    /// Returns the limits of retries.
    pub(crate) fn retry_budget(&self, flag: Option<u32>) -> RetryBudget {
        let mut budget = RetryBudget::default();
        if let Some(retries) = flag.or_else(|| self.first(|file| file.model.retries)) {
            budget = budget.with_retries(retries);
        }
        if let Some(seconds) = self.first(|file| file.model.retry_timeout_seconds) {
            let most = Duration::from_secs(seconds);
            budget = budget.with_total(most).with_longest(most);
        }
        budget
    }

    /// Returns the cache of agent responses with its lifetime, or `None` if none is kept.
    pub(crate) fn agent_cache(&self) -> Option<ResponseCache> {
        let hours = self
            .first(|file| file.run.agent_cache_ttl_hours)
            .unwrap_or(24);
        let lifetime = Duration::from_hours(u64::from(hours));
        let folder = cache_folder("agents")?;
        (hours > 0).then(|| ResponseCache::new(folder, lifetime).without(self.redaction.clone()))
    }

    /// Returns the cache of rewritten prompts.
    ///
    /// Its long lifetime lets a conversation continue from the rewritten text.
    pub(crate) fn refined_prompts(&self) -> Option<ResponseCache> {
        let lifetime = Duration::from_hours(24 * 90);
        let cache = ResponseCache::new(cache_folder("refined")?, lifetime);
        Some(cache.without(self.redaction.clone()))
    }

    /// Returns the size in bytes of the largest inline payload.
    ///
    /// A larger one goes to a file named by its content.
    pub(crate) fn inline_bytes(&self) -> usize {
        self.first(|file| file.transcript.max_inline_bytes)
            .unwrap_or(DEFAULT_INLINE_BYTES)
    }

    /// Returns the URL of the session store, or `None` without a user data directory.
    pub(crate) fn store(&self, flag: Option<&str>) -> Option<String> {
        let named = flag.map(str::to_owned).or_else(|| variable("LOGUE_STORE"));
        let of_files = || {
            self.layers.iter().find_map(|layer| {
                let url = layer.file.store.url.clone()?;
                // A path in a file is relative to the file.
                match url.strip_prefix("sqlite:") {
                    Some(path) => {
                        let path = layer.folder.join(path);
                        Some(format!("sqlite:{}", path.display()))
                    }
                    None => Some(url),
                }
            })
        };
        let of_user = || {
            let path = data_folder()?.join("sessions.db");
            Some(format!("sqlite:{}", path.display()))
        };
        named.or_else(of_files).or_else(of_user)
    }

    /// Returns the full URL that spans are sent to, or `None` if export is disabled.
    pub(crate) fn spans(&self) -> Option<String> {
        if variable("OTEL_SDK_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true")) {
            return None;
        }
        variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| {
            let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT")
                .or_else(|| self.first(|file| file.telemetry.endpoint()))?;
            Some(format!("{}/v1/traces", base.trim_end_matches('/')))
        })
    }

    /// Returns the `[mcp]` tables of the files by descending precedence.
    pub(crate) fn mcp(&self) -> impl Iterator<Item = &Mcp> {
        self.layers.iter().map(|layer| &layer.file.mcp)
    }

    /// Returns the patterns of text that is not written.
    pub(crate) fn redaction(&self) -> &Redaction {
        &self.redaction
    }

    /// Returns the rules of each file, and whether the file belongs to the user.
    pub(crate) fn permission_files(&self) -> impl Iterator<Item = (bool, PermissionFile)> + '_ {
        let layers = self.layers.iter();
        layers.map(|layer| (layer.own, layer.permissions.clone()))
    }

    /// Returns the seconds that a turn waits for a decision.
    pub(crate) fn approval_timeout(&self) -> Option<u64> {
        self.layers.iter().find_map(|layer| layer.approval_timeout)
    }

    /// Returns the directories whose prompts are trusted.
    pub(crate) fn trusted_folders(&self) -> Vec<PathBuf> {
        let home = etcetera::home_dir().ok();
        let own = self.layers.iter().filter(|layer| layer.own);
        own.flat_map(|layer| layer.file.trust.directories(&layer.folder, home.as_deref()))
            .collect()
    }

    /// Returns the timeout for a file that another run holds.
    pub(crate) fn lock_timeout(&self) -> Duration {
        Duration::from_secs(
            self.first(|file| file.run.lock_timeout_seconds)
                .unwrap_or(10),
        )
    }
}

/// The address of a model server and its source.
#[derive(Clone, Debug)]
pub(crate) struct BaseUrl {
    pub(crate) url: String,
    /// Whether the file of a project names the address.
    of_project: bool,
}

/// Finds the nearest `logue.toml` in `folder` and above.
///
/// The search ends at the directory of the repository or the home directory, and ignores files of
/// other users.
fn project_file(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    for folder in folder.ancestors() {
        let file = folder.join("logue.toml");
        if std::fs::metadata(&file).is_ok_and(|metadata| metadata.is_file() && is_own(&metadata)) {
            return Some(file);
        }
        if folder.join(".git").exists() || Some(folder) == home {
            return None;
        }
    }
    None
}

/// Returns whether a file belongs to this user or to the system.
///
/// A file of another user in a shared parent directory must not configure this program.
fn is_own(metadata: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let this_user = std::fs::metadata("/proc/self").map(|own| own.uid());
        metadata.uid() == 0 || this_user.is_ok_and(|user| user == metadata.uid())
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        true
    }
}

fn invalid(path: &Path, text: &str, span: Span, message: &str) -> CliError {
    let diagnostic = Diagnostic::error(DiagnosticCode::ConfigInvalid, message, span)
        .with_help("correct the key or its value in this file");
    let source = Source::new(path.display().to_string(), text.as_bytes());
    CliError {
        report: Some(source.render(&diagnostic, ColorMode::Plain)),
        ..CliError::new(
            Exit::UserCorrectable,
            DiagnosticCode::ConfigInvalid.as_str(),
            message,
        )
    }
}
