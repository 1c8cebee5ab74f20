//! The model that first settings name: that of the settings, or of a server that answers.

use logue_model::{ListedModel, ModelSelection, ProviderKind, ServerReport};

use crate::exit::CliError;
use crate::setup::server_list::listed_servers;
use crate::setup::settings::Settings;

/// Small models of known providers, which are chosen if a server lists them.
const PREFERRED: &[&str] = &["gpt-5-mini", "gpt-4.1-mini", "gpt-4o-mini"];
/// Parts of the names of models that do not answer questions.
const OTHER_USES: &[&str] = &[
    "embed",
    "whisper",
    "tts",
    "dall-e",
    "image",
    "moderation",
    "rerank",
    "transcribe",
    "realtime",
];

/// The model of a new project.
pub(crate) enum DefaultModel {
    /// A model that a project may name.
    ///
    /// Without an address, the settings name its server.
    Found {
        name: String,
        base_url: Option<String>,
    },
    /// A model that only the user's own settings can name.
    OfUser(String),
    /// No model is configured, and no server answered.
    Missing,
}

impl DefaultModel {
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Found { name, .. } | Self::OfUser(name) => Some(name),
            Self::Missing => None,
        }
    }

    pub(crate) fn base_url(&self) -> Option<&str> {
        match self {
            Self::Found { base_url, .. } => base_url.as_deref(),
            Self::OfUser(_) | Self::Missing => None,
        }
    }

    /// Returns whether a project that names the model requires trust.
    pub(crate) fn needs_trust(&self) -> bool {
        self.base_url().is_some()
    }
}

/// Returns the model of the settings, or of the first server that answers.
///
/// # Errors
/// Returns an error if the settings may not send the key that they name.
pub(crate) async fn default_model(settings: &Settings) -> Result<DefaultModel, CliError> {
    if let Some(name) = &settings.model.name {
        let is_alias = settings.model.alias(name).is_some();
        let is_recording = ModelSelection::parse(name).kind == ProviderKind::Replay;
        return Ok(if is_alias || is_recording {
            DefaultModel::OfUser(name.clone())
        } else {
            DefaultModel::Found {
                name: name.clone(),
                base_url: None,
            }
        });
    }
    let servers = listed_servers(None, None, settings).await?;
    let found = servers.iter().find_map(|server| {
        let model = choose_model(server.report.as_ref().ok()?, None)?;
        Some((server, model))
    });
    Ok(match found {
        Some((server, model)) => DefaultModel::Found {
            name: server.model_flag(&model.name, &settings.model),
            base_url: (!server.is_configured).then(|| server.url.clone()),
        },
        None => DefaultModel::Missing,
    })
}

/// Returns the model of a server to use by default.
pub(crate) fn choose_model<'a>(
    report: &'a ServerReport,
    wanted: Option<&str>,
) -> Option<&'a ListedModel> {
    let named = |name: &str| report.models.iter().find(|model| model.name == name);
    if let Some(wanted) = wanted {
        return named(wanted);
    }
    let answers = |model: &&ListedModel| !OTHER_USES.iter().any(|part| model.name.contains(part));
    PREFERRED
        .iter()
        .find_map(|name| named(name))
        .or_else(|| report.models.iter().find(answers))
}

/// Returns a TOML string.
pub(crate) fn quoted_toml(text: &str) -> String {
    // The escapes of JSON strings are escapes of TOML too, except `\/`, which is never written.
    serde_json::Value::from(text).to_string()
}
