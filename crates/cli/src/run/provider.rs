//! Which model answers a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{Model, read_bytes};
use logue_model::{
    Category, ChatCompletions, ChatOptions, Echo, HarmonyCompletions, HarmonyOptions,
    ModelSelection, PlainNames, ProviderError, ProviderKind, Recorder, Recording, Replay, Retrying,
    Structured,
};

use super::source_failure;
use crate::arguments::Asking;
use crate::config::Config;
use crate::exit::{Exit, Failure};

/// What is needed to reach a model server, beside the model's name.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    base_url: Option<String>,
    api_key: Option<String>,
    retries: Option<u32>,
    config: Config,
}

impl Connection {
    pub(crate) fn new(asking: &Asking, config: &Config) -> Self {
        Self {
            base_url: asking.base_url.clone(),
            api_key: asking.api_key.clone(),
            retries: asking.demanding.retries,
            config: config.clone(),
        }
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
                Category::RecordFailed.as_str(),
                "a recording holds every word as it was sent, and [redact] keeps some off the disk",
            )
            .with_help("run without --record, or record where no logue.toml has [redact]"));
        }
        // What is recorded is the answer that counts, however often the model was asked for it.
        let mended = Arc::new(Structured::new(chosen.provider));
        let recorder = Recorder::new(mended, path).map_err(|error| {
            Failure::user(Category::RecordFailed.as_str(), error.to_string())
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
        (None, None) => (config.model().ok_or_else(no_model)?, PathBuf::new()),
    };
    connect(&name, &folder, &Connection::new(asking, config))
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
                Failure::user(Category::ReplayUnreadable.as_str(), error.to_string())
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
        ProviderKind::Harmony => {
            let config = &connection.config;
            let address = config.address(connection.base_url.as_deref());
            let mut options = HarmonyOptions::new(address.url.clone());
            options.api_key = config.api_key(connection.api_key.as_deref(), &address)?;
            options.limits = config.limits();
            options.prompt = config.harmony_prompt();
            options.server = config.harmony_server();
            let identity = format!("harmony:{} {}", options.base_url, selection.model);
            let provider =
                HarmonyCompletions::new(options).map_err(|error| provider_failure(&error))?;
            Ok(Model {
                provider: Arc::new(provider),
                identity,
                name: selection.model,
            })
        }
        ProviderKind::Reserved(prefix) => {
            let message = format!("`{name}`: the provider `{prefix}` cannot be spoken to yet");
            Err(Failure::user("no_model", message)
                .with_help("use a server that speaks Chat Completions: openai:NAME, or just NAME"))
        }
        _ => {
            let config = &connection.config;
            let address = config.address(connection.base_url.as_deref());
            let options = ChatOptions {
                api_key: config.api_key(connection.api_key.as_deref(), &address)?,
                base_url: address.url,
                limits: config.limits(),
            };
            let identity = format!("{} {}", options.base_url, selection.model);
            let provider =
                ChatCompletions::new(options).map_err(|error| provider_failure(&error))?;
            Ok(Model {
                provider: Arc::new(PlainNames::new(Arc::new(provider))),
                identity,
                name: selection.model,
            })
        }
    }
}

fn no_model() -> Failure {
    Failure::user("no_model", "nothing names a model")
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
