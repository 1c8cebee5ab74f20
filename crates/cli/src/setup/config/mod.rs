//! The tables of the project's `logue.toml` and of the user's configuration, as they are written.
//!
//! Each file is one [`Layer`]. Reading checks every value, and rejects what the file of a project may
//! not contain. [`settings`](crate::setup::settings) merges the layers.
//!
//! The project's file is searched in the current directory and above it, up to the directory
//! of the repository. The directory of a prompt is not searched, because a prompt from elsewhere must
//! not bring its own settings. The user's file is `logue/config.toml` in the XDG configuration
//! directory. An unknown key is an error at its position, because a misspelled limit would have no
//! effect.

pub(crate) mod browser;
pub(crate) mod dollars;
mod find;
pub(crate) mod harmony;
pub(crate) mod mcp;
pub(crate) mod model;
pub(crate) mod network;
pub(crate) mod origin;
pub(crate) mod permissions;
mod reading_error;
pub(crate) mod redact;
pub(crate) mod run;
pub(crate) mod telemetry;
pub(crate) mod tools;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use logue_agent::{PermissionFile, Redaction};
use logue_source::{ColorMode, Diagnostic, DiagnosticCode, Source, Span};
use logue_store::is_store_address;
use logue_tools::{HostRule, SearchEngine};
use serde::Deserialize;
use toml::Spanned;

use crate::exit::{CliError, Exit};
use crate::setup::config::browser::Browser;
use crate::setup::config::find::project_file;
use crate::setup::config::mcp::Mcp;
use crate::setup::config::model::Model;
use crate::setup::config::network::Network;
use crate::setup::config::origin::Origin;
use crate::setup::config::permissions::{PermissionTable, TrustTable};
use crate::setup::config::reading_error::reading_error;
use crate::setup::config::redact::Redact;
use crate::setup::config::run::{Prices, Run};
use crate::setup::config::telemetry::Telemetry;
use crate::setup::config::tools::Tools;

/// The tables of one file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tables {
    #[serde(default)]
    pub(crate) model: Model,
    #[serde(default)]
    pub(crate) tools: Tools,
    #[serde(default)]
    pub(crate) run: Run,
    #[serde(default)]
    pub(crate) network: Network,
    #[serde(default)]
    pub(crate) browser: Browser,
    #[serde(default)]
    pub(crate) transcript: Transcript,
    #[serde(default)]
    pub(crate) redact: Redact,
    #[serde(default)]
    pub(crate) store: Store,
    #[serde(default)]
    pub(crate) telemetry: Telemetry,
    #[serde(default)]
    pub(crate) mcp: Mcp,
    #[serde(default)]
    pub(crate) prices: BTreeMap<String, Prices>,
    #[serde(default)]
    pub(crate) permissions: PermissionTable,
    #[serde(default)]
    pub(crate) trust: TrustTable,
}

/// `[transcript]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transcript {
    pub(crate) max_inline_bytes: Option<usize>,
}

/// `[store]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Store {
    pub(crate) url: Option<Spanned<String>>,
}

impl Store {
    /// Checks the address.
    ///
    /// # Errors
    /// Returns a message and its position for an address of an unknown kind.
    fn check(&self) -> Result<(), (Span, String)> {
        match &self.url {
            Some(url) if !is_store_address(url.get_ref()) => {
                let message = "`url`: expected `sqlite:PATH` or `memory:`";
                Err((Span::from(url.span()), message.to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// One file and its checked values.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) origin: Origin,
    /// The directory of the file, which its paths are relative to.
    pub(crate) folder: PathBuf,
    /// The path of the file, and its permission rules.
    pub(crate) permissions: PermissionFile,
    pub(crate) hosts: Vec<HostRule>,
    pub(crate) search: Option<SearchEngine>,
    pub(crate) tables: Tables,
}

/// The files that apply to the current directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layers {
    project: Option<Layer>,
    user: Option<Layer>,
    /// The patterns of both files; a project cannot remove the user's.
    pub(crate) redaction: Redaction,
}

impl Layers {
    /// Reads the files that apply to the current directory.
    ///
    /// # Errors
    /// Returns an error if an existing file cannot be read or is not a valid configuration.
    pub(crate) fn read() -> Result<Self, CliError> {
        let folders = etcetera::choose_base_strategy().ok();
        let home = folders
            .as_ref()
            .map(|folders| folders.home_dir().to_owned());
        let current = std::env::current_dir().ok();
        let project = current.and_then(|current| project_file(&current, home.as_deref()));
        let user = folders.map(|folders| folders.config_dir().join("logue").join("config.toml"));
        let mut layers = Self::default();
        if let Some(path) = project {
            layers.project = Layer::read(path, Origin::Project, &mut layers.redaction)?;
        }
        if let Some(path) = user {
            layers.user = Layer::read(path, Origin::User, &mut layers.redaction)?;
        }
        Ok(layers)
    }

    /// Returns the layers by descending precedence: the project's file, then the user's.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Layer> + Clone {
        self.project.iter().chain(&self.user)
    }

    /// Returns the project's value, or the user's if the project sets none.
    pub(crate) fn nearest<T>(&self, pick: impl Fn(&Tables) -> Option<T>) -> Option<T> {
        self.iter().find_map(|layer| pick(&layer.tables))
    }

    /// Returns the lowest value, so that a project cannot raise a limit of the user.
    pub(crate) fn strictest<T: PartialOrd>(
        &self,
        pick: impl Fn(&Tables) -> Option<T>,
    ) -> Option<T> {
        let values = self.iter().filter_map(|layer| pick(&layer.tables));
        values.reduce(|lowest, value| if value < lowest { value } else { lowest })
    }

    /// Returns the user's limit or `default`, unless a project's is lower.
    pub(crate) fn limit<T: Ord>(&self, default: T, pick: impl Fn(&Tables) -> Option<T>) -> T {
        let of = |layer: &Option<Layer>| layer.as_ref().and_then(|layer| pick(&layer.tables));
        let most = of(&self.user).unwrap_or(default);
        match of(&self.project) {
            Some(limit) => limit.min(most),
            None => most,
        }
    }

    /// Returns the layer of the user, for keys that no project may set.
    pub(crate) fn user(&self) -> Option<&Layer> {
        self.user.as_ref()
    }

    /// Returns the layer of the project.
    pub(crate) fn project(&self) -> Option<&Layer> {
        self.project.as_ref()
    }
}

impl Layer {
    /// Reads and checks a file; `None` if it does not exist.
    fn read(
        path: PathBuf,
        origin: Origin,
        redaction: &mut Redaction,
    ) -> Result<Option<Self>, CliError> {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                return Err(CliError::user("E-CONFIG-INVALID", message));
            }
        };
        let failed = |(span, message): (Span, String)| invalid(&path, &text, span, &message);
        let tables: Tables =
            toml::from_str(&text).map_err(|error| failed(reading_error(&text, &error)))?;
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        tables
            .redact
            .add_to(redaction)
            .map_err(|(span, error)| failed((span, error.to_string())))?;
        let hosts = tables.network.rules(origin).map_err(failed)?;
        tables.model.check().map_err(failed)?;
        tables.store.check().map_err(failed)?;
        tables.tools.check(origin, &folder).map_err(failed)?;
        tables.tools.check_roots(&folder).map_err(failed)?;
        let search = tables.browser.engine(origin).map_err(failed)?;
        tables.telemetry.check(origin).map_err(failed)?;
        tables.mcp.check(origin).map_err(failed)?;
        tables.trust.check(origin).map_err(failed)?;
        let rules = tables.permissions.rules().map_err(failed)?;
        Ok(Some(Self {
            origin,
            folder,
            permissions: PermissionFile::new(path, rules),
            hosts,
            search,
            tables,
        }))
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
