//! Which model answers a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{Model, read_bytes};
use logue_model::{
    Anthropic, Category, ChatCompletions, ChatOptions, Echo, HarmonyCompletions, HarmonyOptions,
    ModelSelection, PlainNames, Provider, ProviderError, ProviderKind, Recorder, Recording, Replay,
    Responses, Retrying, Structured,
};

use crate::arguments::Asking;
use crate::exit::{Exit, Failure};
use crate::setup::config::Config;
use crate::setup::config::accounts::Account;
use crate::setup::failures::source_failure;

/// What is needed to reach a model server, beside the model's name.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The account that the flags are for.
    account: &'static Account,
    base_url: Option<String>,
    api_key: Option<String>,
    retries: Option<u32>,
    config: Config,
}

impl Connection {
    pub(crate) fn new(asking: &Asking, config: &Config) -> Self {
        Self {
            account: Account::of_flags(asking.model.as_deref()),
            base_url: asking.base_url.clone(),
            api_key: asking.api_key.clone(),
            retries: asking.demanding.retries,
            config: config.clone(),
        }
    }

    /// Where the server of an account is, and the key for it.
    fn options(&self, account: &Account) -> Result<ChatOptions, Failure> {
        let ours = account.is(self.account);
        let flag = |flag: &Option<String>| flag.clone().filter(|_| ours);
        let (base_url, api_key) = (flag(&self.base_url), flag(&self.api_key));
        let address = self.config.address(account, base_url.as_deref());
        Ok(ChatOptions {
            api_key: self.config.api_key(account, api_key.as_deref(), &address)?,
            base_url: address.url,
            limits: self.config.limits(),
        })
    }
}

/// Sets the provider up: flag over prompt over environment and configuration.
pub(crate) fn choose(
    asking: &Asking,
    record: Option<&Path>,
    config: &Config,
    named: Option<&str>,
    prompt_folder: &Path,
) -> Result<Model, Failure> {
    let mut chosen = model(asking, config, named, prompt_folder)?;
    if let Some(path) = record {
        if !config.redaction().is_empty() {
            return Err(Failure::user(
                Category::RecordingWriteFailed.as_str(),
                "a recording holds every word as it was sent, and [redact] keeps some off the disk",
            )
            .with_help("run without --record, or record where no logue.toml has [redact]"));
        }
        // What is recorded is the answer that counts, however often the model was asked for it.
        let mended = Arc::new(Structured::new(chosen.provider));
        let recorder = Recorder::new(mended, path).map_err(|error| {
            Failure::user(Category::RecordingWriteFailed.as_str(), error.to_string())
                .with_help("name a file that does not exist yet, in a folder that does")
        })?;
        chosen.provider = Arc::new(recorder);
    }
    Ok(chosen)
}

/// The model for a prompt that names `named`, without a recorder.
pub(crate) fn model(
    asking: &Asking,
    config: &Config,
    named: Option<&str>,
    prompt_folder: &Path,
) -> Result<Model, Failure> {
    // A path in a prompt counts from the prompt, one on the command line from where it is typed.
    let (name, folder) = match (&asking.model, named) {
        (Some(name), _) => (name.clone(), PathBuf::new()),
        (None, Some(name)) => (name.to_owned(), prompt_folder.to_owned()),
        (None, None) => (
            config.model().ok_or_else(model_not_configured)?,
            PathBuf::new(),
        ),
    };
    let connection = Connection::new(asking, config);
    let kind = ModelSelection::parse(&name).kind;
    let given = asking.base_url.is_some() || asking.api_key.is_some();
    if given && kind.is_server() && !Account::of(kind).is(connection.account) {
        let account = connection.account.name;
        return Err(Failure::user(
            "model_not_configured",
            format!("--base-url and --api-key are for `{account}`, and the model is `{name}`"),
        )
        .with_help(format!("name the model on the command line too: -m {name}")));
    }
    connect(&name, &folder, &connection)
}

/// The model of that name; a path in it counts from `folder`.
pub(crate) fn connect(
    name: &str,
    folder: &Path,
    connection: &Connection,
) -> Result<Model, Failure> {
    let model = reach(name, folder, connection)?;
    let budget = connection.config.retry_budget(connection.retries);
    Ok(Model {
        provider: Arc::new(Retrying::new(model.provider, budget)),
        ..model
    })
}

fn reach(name: &str, folder: &Path, connection: &Connection) -> Result<Model, Failure> {
    let selection = ModelSelection::parse(name);
    match selection.kind {
        ProviderKind::Replay => {
            let path = folder.join(&selection.model);
            let bytes = read_bytes(&path).map_err(|error| source_failure(&error))?;
            let shown = path.display().to_string();
            let recording = Recording::parse(&shown, &bytes).map_err(|error| {
                Failure::user(Category::RecordingInvalid.as_str(), error.to_string())
                    .with_help("`logue check` on the recording shows the place")
            })?;
            Ok(Model {
                provider: Arc::new(Replay::new(recording)),
                identity: format!("replay:{shown}"),
                name: String::new(),
            })
        }
        ProviderKind::Echo => Ok(Model {
            provider: Arc::new(Echo),
            identity: "echo:".to_owned(),
            name: String::new(),
        }),
        kind => {
            let options = connection.options(Account::of(kind))?;
            let (url, model) = (options.base_url.clone(), selection.model);
            let provider = server(kind, options, &connection.config)?;
            // The wire format is part of who answers; the usual one goes without saying.
            let identity = match kind {
                ProviderKind::Responses => format!("responses {url} {model}"),
                ProviderKind::Anthropic => format!("anthropic {url} {model}"),
                ProviderKind::Harmony => format!("harmony:{url} {model}"),
                _ => format!("{url} {model}"),
            };
            Ok(Model {
                provider,
                identity,
                name: model,
            })
        }
    }
}

/// The provider of a wire format.
fn server(
    kind: ProviderKind,
    options: ChatOptions,
    config: &Config,
) -> Result<Arc<dyn Provider>, Failure> {
    let (dialect, stream) = (config.dialect()?, config.stream());
    let failed = |error| provider_failure(&error);
    let provider: Arc<dyn Provider> = match kind {
        ProviderKind::Harmony => {
            let mut harmony = HarmonyOptions::new(options.base_url);
            harmony.api_key = options.api_key;
            harmony.limits = options.limits;
            harmony.prompt = config.harmony_prompt();
            harmony.server = config.harmony_server();
            // Harmony calls tools by their own names.
            return Ok(Arc::new(HarmonyCompletions::new(harmony).map_err(failed)?));
        }
        ProviderKind::Anthropic => {
            let provider = Anthropic::new(options).map_err(failed)?;
            Arc::new(provider.with_stream(stream))
        }
        ProviderKind::Responses => {
            let provider = Responses::new(options).map_err(failed)?;
            let provider = match dialect {
                Some(dialect) => provider.with_dialect(dialect),
                None => provider,
            };
            Arc::new(provider.with_stream(stream))
        }
        _ => {
            let provider = ChatCompletions::new(options).map_err(failed)?;
            let provider = match dialect {
                Some(dialect) => provider.with_dialect(dialect),
                None => provider,
            };
            Arc::new(provider.with_stream(stream))
        }
    };
    Ok(Arc::new(PlainNames::new(provider)))
}

fn model_not_configured() -> Failure {
    Failure::user("model_not_configured", "nothing names a model")
        .with_help("add <config model=\"…\"/> to the prompt, or use -m, LOGUE_MODEL or logue.toml")
}

pub(crate) fn provider_failure(error: &ProviderError) -> Failure {
    let exit = if error.category.is_transient() {
        Exit::Retryable
    } else {
        Exit::UserCorrectable
    };
    let failure = Failure::new(exit, error.category.as_str(), error.message.clone());
    match &error.help {
        Some(help) => failure.with_help(help.clone()),
        None => failure,
    }
}
