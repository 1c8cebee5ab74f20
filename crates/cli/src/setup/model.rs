//! The model of a run.

use std::path::Path;
use std::sync::Arc;

use logue_agent::{HostError, Model, Models, read_all, read_bytes};
use logue_model::{
    Category, Echo, EndpointOptions, HarmonyCompletions, HarmonyOptions, HttpProvider,
    ModelSelection, Provider, ProviderAccount, ProviderBackend, ProviderError, ProviderKind,
    Recorder, Recording, Replay, RequestCapture, RetryProvider, SanitizedNames, ServerProbe,
    ServerProtocol, StructuredProvider,
};
use logue_tools::{RootError, Roots};

use crate::arguments::ModelArgs;
use crate::exit::{CliError, Exit};
use crate::setup::failures::source_failure;
use crate::setup::settings::accounts::account_of_flags;
use crate::setup::settings::{ModelSettings, Settings};
use crate::setup::unknown_model::ModelSuggestions;

/// The settings for connections to model servers.
#[derive(Clone)]
pub(crate) struct Connection {
    /// The account that the flags apply to.
    account: &'static ProviderAccount,
    base_url: Option<String>,
    api_key: Option<String>,
    retries: Option<u32>,
    settings: ModelSettings,
    capture: Option<RequestCapture>,
}

impl Connection {
    pub(crate) fn new(model_args: &ModelArgs, settings: &Settings) -> Self {
        Self {
            account: account_of_flags(model_args.model.as_deref(), &settings.model),
            base_url: model_args.base_url.clone(),
            api_key: model_args.api_key.clone(),
            retries: model_args.response.retries,
            settings: settings.model.clone(),
            capture: None,
        }
    }

    /// Returns the address of an account's server and the key for it.
    fn options(&self, account: &'static ProviderAccount) -> Result<EndpointOptions, CliError> {
        let ours = account == self.account;
        let flag = |flag: &Option<String>| flag.clone().filter(|_| ours);
        let (base_url, api_key) = (flag(&self.base_url), flag(&self.api_key));
        let settings = self.settings.account(account);
        let (base_url, api_key) = settings.endpoint(base_url.as_deref(), api_key.as_deref())?;
        let mut options = EndpointOptions::new(base_url).with_limits(self.settings.http);
        options.api_key = api_key;
        options.capture.clone_from(&self.capture);
        Ok(options)
    }
}

/// Wraps a provider in a recorder that writes to a new file.
///
/// The recording contains only the accepted response if the model was re-prompted.
pub(crate) fn recorded(
    provider: Arc<dyn Provider>,
    path: &Path,
    settings: &Settings,
) -> Result<Arc<dyn Provider>, CliError> {
    if !settings.redaction.is_empty() {
        return Err(CliError::user(
            Category::RecordingWriteFailed.as_str(),
            "a recording contains all text as sent, including text that [redact] keeps off the disk",
        )
        .with_help("run without --record, or record where no logue.toml has [redact]"));
    }
    let recorder =
        Recorder::new(Arc::new(StructuredProvider::new(provider)), path).map_err(|error| {
            CliError::user(Category::RecordingWriteFailed.as_str(), error.to_string())
                .with_help("name a new file in an existing directory")
        })?;
    Ok(Arc::new(recorder))
}

/// The models of a command.
///
/// Flags take precedence over prompts, and prompts over the configuration. Agents may name other
/// models.
pub(crate) struct ConfiguredModels {
    model_args: ModelArgs,
    connection: Connection,
}

impl ConfiguredModels {
    pub(crate) fn new(model_args: &ModelArgs, settings: &Settings) -> Self {
        Self {
            model_args: model_args.clone(),
            connection: Connection::new(model_args, settings),
        }
    }
}

impl ConfiguredModels {
    /// Sends no request to a server; `capture` receives them.
    #[must_use]
    pub(crate) fn with_capture(mut self, capture: RequestCapture) -> Self {
        self.connection.capture = Some(capture);
        self
    }
}

impl Models for ConfiguredModels {
    fn find(&self, named: Option<&str>, roots: &Roots) -> Result<Model, HostError> {
        let default = || {
            let flag = self.model_args.model.clone();
            flag.or_else(|| self.connection.settings.name.clone())
        };
        let (name, files) = match named {
            Some(name) => (name.to_owned(), RecordingFiles::Below(roots)),
            None => match default() {
                Some(name) => (name, RecordingFiles::Any),
                None => return Err(model_not_configured().into()),
            },
        };
        Ok(connect(&name, files, &self.connection)?)
    }

    fn find_main(&self, named: Option<&str>, roots: &Roots) -> Result<Model, HostError> {
        Ok(model(&self.model_args, &self.connection, named, roots)?)
    }
}

/// Returns the model for a prompt that names `named`.
fn model(
    model_args: &ModelArgs,
    connection: &Connection,
    named: Option<&str>,
    roots: &Roots,
) -> Result<Model, CliError> {
    let (name, files) = match (&model_args.model, named) {
        (Some(name), _) => (name.clone(), RecordingFiles::Any),
        (None, Some(name)) => (name.to_owned(), RecordingFiles::Below(roots)),
        (None, None) => {
            let name = connection.settings.name.clone();
            let name = name.ok_or_else(model_not_configured)?;
            (name, RecordingFiles::Any)
        }
    };
    let full = connection.settings.of_flag(Some(&name));
    let account = full.and_then(|name| ModelSelection::parse(&name).kind.account());
    let given = model_args.base_url.is_some() || model_args.api_key.is_some();
    if given && account.is_some_and(|account| account != connection.account) {
        let account = connection.account.name;
        return Err(CliError::user(
            "model_not_configured",
            format!("--base-url and --api-key are for `{account}`, and the model is `{name}`"),
        )
        .with_help(format!("name the model on the command line too: -m {name}")));
    }
    connect(&name, files, connection)
}

/// The files that `replay:FILE` may name.
#[derive(Clone, Copy)]
enum RecordingFiles<'a> {
    /// Every file, relative to the current directory: the user names it.
    Any,
    /// The files below these roots: a prompt names it.
    Below(&'a Roots),
}

impl RecordingFiles<'_> {
    /// Reads a recording; returns the path to show as well.
    fn read(self, name: &str) -> Result<(Vec<u8>, String), CliError> {
        let roots = match self {
            Self::Any => {
                let bytes = read_bytes(Path::new(name)).map_err(|error| source_failure(&error))?;
                return Ok((bytes, name.to_owned()));
            }
            Self::Below(roots) => roots,
        };
        let opened = roots.open_file(name).map_err(|error| match error {
            RootError::Outside(_) => CliError::user("E-OUTSIDE-ROOTS", error.to_string())
                .with_help("only the user may name it: use -m replay:FILE"),
            _ => CliError::user("E-SOURCE-READ", error.to_string()),
        })?;
        let shown = opened.path.display().to_string();
        let bytes = read_all(&shown, opened.file).map_err(|error| source_failure(&error))?;
        Ok((bytes, shown))
    }
}

/// Returns the model with a name.
fn connect(
    name: &str,
    files: RecordingFiles<'_>,
    connection: &Connection,
) -> Result<Model, CliError> {
    // Only the user defines aliases, so the model of an alias may be any recording.
    let mut model = match connection.settings.alias(name) {
        Some(full) => reach(&full, RecordingFiles::Any, connection)?,
        None => reach(name, files, connection)?,
    };
    let mut budget = connection.settings.retry;
    if let Some(retries) = connection.retries {
        budget = budget.with_retries(retries);
    }
    model.provider = Arc::new(RetryProvider::new(model.provider, budget));
    Ok(model)
}

fn reach(
    name: &str,
    files: RecordingFiles<'_>,
    connection: &Connection,
) -> Result<Model, CliError> {
    let selection = ModelSelection::parse(name);
    let entry = selection.kind.entry();
    let prefix = entry.identity_prefix;
    match entry.backend {
        ProviderBackend::Recording => {
            let (bytes, shown) = files.read(&selection.model)?;
            let recording = Recording::parse(&shown, &bytes).map_err(|error| {
                CliError::user(Category::RecordingInvalid.as_str(), error.to_string())
                    .with_help("`logue check` on the recording shows the place")
            })?;
            let replay = Arc::new(Replay::new(recording));
            Ok(Model::new(replay, "", format!("{prefix}{shown}")))
        }
        ProviderBackend::Echo => Ok(Model::new(Arc::new(Echo), "", prefix)),
        ProviderBackend::Server { protocol, account } => {
            let options = connection.options(account)?;
            if connection.capture.is_none() {
                require_key(account, &options, name)?;
            }
            let (url, model) = (options.base_url.clone(), selection.model);
            let key = options.api_key.as_deref();
            let headers = key.map_or_else(Vec::new, |key| account.headers_with_key(key));
            let probe = ServerProbe::new(account.models_base_url(&url)).with_headers(headers);
            let create = |options| server(protocol, options, &connection.settings);
            let provider = match &connection.settings.pool {
                Some(pool) if connection.capture.is_none() => {
                    pool.provider(protocol, options, create)?
                }
                _ => create(options)?,
            };
            let aliases = connection.settings.aliases.keys().cloned().collect();
            let provider = ModelSuggestions::new(provider, probe, name, &model, aliases);
            let provider = Arc::new(provider);
            let identity = format!("{prefix}{url} {model}");
            Ok(Model::new(provider, model, identity))
        }
    }
}

/// The beginning of the message about a missing key.
pub(crate) const NO_KEY: &str = "no key for ";

/// Checks that there is a key for a server that answers no request without one.
fn require_key(
    account: &'static ProviderAccount,
    options: &EndpointOptions,
    name: &str,
) -> Result<(), CliError> {
    let url = options.base_url.trim_end_matches('/');
    if options.api_key.is_some() || url != account.base_url.trim_end_matches('/') {
        return Ok(());
    }
    let message = format!("{NO_KEY}{url}, the server of the model `{name}`");
    let code = Category::Authentication.as_str();
    let failure = CliError::user(code, message).with_help(format!(
        "set {}, or `api_key_env` under [{}] in logue.toml",
        account.key_variable, account.table
    ));
    let prefix = name.split_once(':').map(|(prefix, _)| prefix);
    let prefix = prefix.filter(|prefix| ProviderKind::from_prefix(prefix).is_none());
    let known = ProviderKind::ALL.iter().map(|kind| kind.entry().prefix);
    let Some(prefix) = prefix else {
        return Err(failure);
    };
    let help = if let Some(near) = chatmd::suggest(prefix, known.clone()) {
        format!("did you mean `{near}:`?")
    } else {
        let known: Vec<String> = known.map(|known| format!("`{known}:`")).collect();
        format!(
            "`{prefix}:` is not a provider; there are {}",
            known.join(", ")
        )
    };
    Err(failure.with_help(help))
}

/// Returns the provider of a gateway, and the base URL of its server.
///
/// Neither retries nor suggestions: the gateway's client decides.
pub(crate) fn harmony_upstream(
    model_args: &ModelArgs,
    settings: &Settings,
) -> Result<(Arc<dyn Provider>, String), CliError> {
    let connection = Connection::new(model_args, settings);
    let options = connection.options(ProviderAccount::OPENAI)?;
    let url = options.base_url.clone();
    let mut harmony = harmony_options(options, &connection.settings);
    harmony.accepts_incomplete = true;
    let provider = HarmonyCompletions::new(harmony).map_err(|error| provider_failure(&error))?;
    Ok((Arc::new(provider), url))
}

fn harmony_options(options: EndpointOptions, settings: &ModelSettings) -> HarmonyOptions {
    let mut harmony = HarmonyOptions::new(options.base_url);
    harmony.api_key = options.api_key;
    harmony.limits = options.limits;
    harmony.capture = options.capture;
    harmony.prompt = settings.harmony_prompt;
    harmony.server = settings.harmony_server;
    harmony
}

/// Creates the provider for a server.
fn server(
    protocol: ServerProtocol,
    options: EndpointOptions,
    settings: &ModelSettings,
) -> Result<Arc<dyn Provider>, CliError> {
    let failed = |error| provider_failure(&error);
    match protocol {
        ServerProtocol::Json(format) => {
            let mut provider = HttpProvider::new(format, options).map_err(failed)?;
            if let Some(kind) = settings.server_kind {
                provider = provider.with_server_kind(kind);
            }
            let provider = provider.with_stream(settings.stream);
            Ok(Arc::new(SanitizedNames::new(Arc::new(provider))))
        }
        ServerProtocol::Harmony => {
            let harmony = harmony_options(options, settings);
            // Harmony has no restrictions on tool names.
            Ok(Arc::new(HarmonyCompletions::new(harmony).map_err(failed)?))
        }
    }
}

/// The message of a command without a model.
pub(crate) const NO_MODEL: &str = "no model is configured";

fn model_not_configured() -> CliError {
    CliError::user("model_not_configured", NO_MODEL)
        .with_help("add <config model=\"…\"/> to the prompt, or use -m, LOGUE_MODEL or logue.toml")
}

pub(crate) fn provider_failure(error: &ProviderError) -> CliError {
    let exit = if error.category.is_transient() {
        Exit::Retryable
    } else {
        Exit::UserCorrectable
    };
    let failure = CliError::new(exit, error.category.as_str(), error.message.clone());
    match &error.help {
        Some(help) => failure.with_help(help.clone()),
        None => failure,
    }
}
