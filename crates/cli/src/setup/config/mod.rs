//! The tables of the project's `logue.toml` and of the user's configuration, as they are written.
//!
//! Each file is one [`Layer`]. Reading checks every value, and rejects what the file of a project may
//! not contain. Keys of a project that grant access ([`keys`]) apply only if the user trusts the content
//! of the file, which is read once: the judged bytes are the ones that apply.
//! [`settings`](crate::setup::settings) merges the layers.
//!
//! The project's file is searched in the current directory and above it, up to the directory
//! of the repository. The directory of a prompt is not searched, because a prompt from elsewhere must
//! not bring its own settings. The user's file is `logue/config.toml` in the XDG configuration
//! directory. An unknown key is an error at its position, because a misspelled limit would have no
//! effect.

pub(crate) mod browser;
pub(crate) mod dollars;
pub(crate) mod find;
pub(crate) mod harmony;
pub(crate) mod keys;
pub(crate) mod mcp;
pub(crate) mod model;
pub(crate) mod model_aliases;
pub(crate) mod network;
pub(crate) mod origin;
pub(crate) mod permissions;
pub(crate) mod project_trust;
mod reading_error;
pub(crate) mod redact;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod telemetry;
pub(crate) mod tools;

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy as _;
use logue_agent::{PermissionFile, Redaction};
use logue_source::{ColorMode, Diagnostic, DiagnosticCode, Severity, Source, Span};
use logue_store::is_store_address;
use logue_tools::{HostRule, PrivateFileError, SearchEngine};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

use crate::age::parse_age;
use crate::exit::{CliError, Exit};
use crate::setup::config::browser::Browser;
use crate::setup::config::find::project_file;
use crate::setup::config::mcp::Mcp;
use crate::setup::config::model::Model;
use crate::setup::config::model_aliases::ModelAliases;
use crate::setup::config::network::Network;
use crate::setup::config::origin::Origin;
use crate::setup::config::permissions::{PermissionTable, TrustTable};
use crate::setup::config::project_trust::ProjectGrants;
use crate::setup::config::reading_error::reading_error;
use crate::setup::config::redact::Redact;
use crate::setup::config::run::{Prices, Run};
use crate::setup::config::serve::Serve;
use crate::setup::config::telemetry::Telemetry;
use crate::setup::config::tools::Tools;
use crate::setup::environment::file_owners;

/// Returns the path of the user's file.
pub(crate) fn user_file() -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    Some(folders.config_dir().join("logue").join("config.toml"))
}

/// The tables of one file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tables {
    #[serde(default)]
    pub(crate) model: Model,
    #[serde(default)]
    pub(crate) models: ModelAliases,
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
    pub(crate) serve: Serve,
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
    ttl: Option<Spanned<String>>,
    /// The address for notifications of a database.
    pub(crate) listen: Option<String>,
}

impl Store {
    /// Checks the values.
    ///
    /// # Errors
    /// Returns a message and its position for an address of an unknown kind or an invalid time.
    fn check(&self) -> Result<(), (Span, String)> {
        match &self.url {
            Some(url) if !is_store_address(url.get_ref()) => {
                let message = "`url`: expected `sqlite:PATH`, `postgres://…` or `memory:`";
                return Err((Span::from(url.span()), message.to_owned()));
            }
            _ => {}
        }
        match &self.ttl {
            Some(ttl) => parse_age(ttl.get_ref())
                .map(drop)
                .map_err(|cause| (Span::from(ttl.span()), format!("`ttl`: {cause}"))),
            None => Ok(()),
        }
    }

    /// Returns the time after its last change when a session may be removed.
    pub(crate) fn ttl(&self) -> Option<Duration> {
        parse_age(self.ttl.as_ref()?.get_ref()).ok()
    }
}

/// The treatment of granting keys in a project's file without trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantPolicy {
    /// They apply, because the command line trusts the project.
    Apply,
    /// Reading fails.
    Refuse,
    /// They have no effect; a warning reports them.
    Ignore,
}

/// A file and its text, which is read once.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
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
    /// The report of the project's keys that were ignored.
    pub(crate) ignored: Option<String>,
}

impl Layers {
    /// Reads the files that apply to the current directory.
    ///
    /// # Errors
    /// Returns an error if an existing file cannot be read, is not a valid configuration, or grants
    /// access that the policy refuses.
    pub(crate) fn read(policy: GrantPolicy) -> Result<Self, CliError> {
        let folders = etcetera::choose_base_strategy().ok();
        let home = folders
            .as_ref()
            .map(|folders| folders.home_dir().to_owned());
        let current = std::env::current_dir().ok();
        let project = current.and_then(|current| project_file(&current, home.as_deref()));
        let user = user_file();
        let mut layers = Self::default();
        if let Some(file) = project.map(ConfigFile::read).transpose()?.flatten() {
            layers.read_project(&file, policy)?;
        }
        if let Some(file) = user.map(ConfigFile::read_own).transpose()?.flatten() {
            let layer = Layer::new(&file, Origin::User, file.table()?, &mut layers.redaction)?;
            layers.user = Some(layer);
        }
        Ok(layers)
    }

    fn read_project(&mut self, file: &ConfigFile, policy: GrantPolicy) -> Result<(), CliError> {
        let mut table = file.table()?;
        // Errors of the file precede the question of trust.
        let layer = Layer::new(file, Origin::Project, table.clone(), &mut self.redaction)?;
        let grants = ProjectGrants::new(file, table.get_ref());
        let applies = policy == GrantPolicy::Apply || grants.reason()?.is_trusted();
        self.project = Some(if applies {
            layer
        } else if policy == GrantPolicy::Ignore {
            self.ignored = Some(grants.report(Severity::Warning)?);
            grants.remove_from(table.get_mut());
            Layer::new(file, Origin::Project, table, &mut Redaction::default())?
        } else {
            return Err(grants.refusal()?);
        });
        Ok(())
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

impl ConfigFile {
    /// Reads a file; `None` if it does not exist.
    pub(crate) fn read(path: PathBuf) -> Result<Option<Self>, CliError> {
        let text = std::fs::read_to_string(&path);
        Self::from_result(path, text)
    }

    /// Reads the file of the user; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or if another user could have written it.
    fn read_own(path: PathBuf) -> Result<Option<Self>, CliError> {
        let mut text = String::new();
        let opened = file_owners().open_linked(&path);
        let result = opened.and_then(|mut file| file.read_to_string(&mut text));
        Self::from_result(path, result.map(|_| text))
    }

    fn from_result(path: PathBuf, text: io::Result<String>) -> Result<Option<Self>, CliError> {
        match text {
            Ok(text) => Ok(Some(Self { path, text })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                let help = PrivateFileError::in_error(&error).map(PrivateFileError::help);
                let error = CliError::user("E-CONFIG-INVALID", message);
                Err(help.into_iter().fold(error, CliError::with_help))
            }
        }
    }

    /// Parses the text.
    pub(crate) fn table(&self) -> Result<Spanned<DeTable<'_>>, CliError> {
        DeTable::parse(&self.text).map_err(|error| self.malformed(&error))
    }

    /// The directory of the file.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn malformed(&self, error: &toml::de::Error) -> CliError {
        let (span, message) = reading_error(&self.text, error);
        self.invalid(span, &message)
    }

    fn invalid(&self, span: Span, message: &str) -> CliError {
        let code = DiagnosticCode::ConfigInvalid;
        let diagnostic = Diagnostic::error(code, message, span)
            .with_help("correct the key or its value in this file");
        let text = without_passwords(&self.text);
        let source = Source::new(self.path.display().to_string(), text.as_bytes());
        CliError {
            report: Some(source.render(&diagnostic, ColorMode::Plain).into()),
            ..CliError::new(Exit::UserCorrectable, code.as_str(), message)
        }
    }

    fn source(&self) -> Source<'_> {
        Source::new(self.path.display().to_string(), self.text.as_bytes())
    }
}

impl Layer {
    /// Checks the values of a file, and adds its patterns.
    pub(crate) fn new(
        file: &ConfigFile,
        origin: Origin,
        table: Spanned<DeTable<'_>>,
        redaction: &mut Redaction,
    ) -> Result<Self, CliError> {
        let failed = |(span, message): (Span, String)| file.invalid(span, &message);
        let tables = Tables::deserialize(Deserializer::from(table));
        let tables = tables.map_err(|error| file.malformed(&error))?;
        let folder = file.folder().to_owned();
        tables
            .redact
            .add_to(redaction)
            .map_err(|(span, error)| failed((span, error.to_string())))?;
        let hosts = tables.network.rules(origin).map_err(failed)?;
        tables.model.check().map_err(failed)?;
        tables.models.check(origin).map_err(failed)?;
        tables.store.check().map_err(failed)?;
        tables.tools.check(origin, &folder).map_err(failed)?;
        tables.tools.check_roots(&folder).map_err(failed)?;
        let search = tables.browser.engine(origin).map_err(failed)?;
        tables.telemetry.check(origin).map_err(failed)?;
        tables.mcp.check(origin).map_err(failed)?;
        tables.trust.check(origin).map_err(failed)?;
        let rules = tables.permissions.rules().map_err(failed)?;
        Ok(Self {
            origin,
            folder,
            permissions: PermissionFile::new(file.path.clone(), rules),
            hosts,
            search,
            tables,
        })
    }
}

/// Replaces the user information and the query of addresses by stars.
///
/// Each byte is replaced by one star, so positions stay.
fn without_passwords(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let start = match line.find("://") {
            Some(at) => at + 3,
            None if line.contains("url") => line.find(['"', '\'']).map_or(0, |at| at + 1),
            None => return line.to_owned(),
        };
        let Some((before, address)) = line.split_at_checked(start) else {
            return line.to_owned();
        };
        let (user, rest) = address.rsplit_once('@').unwrap_or(("", address));
        let sign = if user.len() + rest.len() < address.len() {
            "@"
        } else {
            ""
        };
        let query = rest.find('?').map_or(rest.len(), |at| at + 1);
        let (place, query) = rest.split_at_checked(query).unwrap_or((rest, ""));
        let end = query.find(['"', '\'', '\n']).unwrap_or(query.len());
        let (query, end) = query.split_at_checked(end).unwrap_or((query, ""));
        let stars = |text: &str| "*".repeat(text.len());
        format!("{before}{}{sign}{place}{}{end}", stars(user), stars(query))
    });
    lines.collect()
}
