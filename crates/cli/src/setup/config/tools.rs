//! `[tools]` of `logue.toml`: the limits and the access of programs that a model runs.
//!
//! Settings of one tool are in the table `[tools.settings."NAME"]` and take precedence over those of
//! all tools. The file of a project comes with a checkout, which is untrusted: it may confine more,
//! never less. Directories of its own and variables that it names require the user's trust
//! ([`keys`](crate::setup::config::keys)); only the user's file may open more.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Component, Path, PathBuf};

use logue_source::Span;
use logue_tools::sandbox::SandboxMode;
use serde::Deserialize;
use toml::Spanned;

use crate::setup::config::origin::Origin;

/// The table `[tools]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ToolsTable")]
pub(crate) struct Tools {
    /// Further directories that tools may read and write.
    pub(crate) roots: Vec<Spanned<PathBuf>>,
    /// The maximum number of concurrent calls.
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// Whether results are sent in envelopes.
    pub(crate) result_envelope: Option<bool>,
    /// The names of variables that programs receive.
    pub(crate) environment: Vec<String>,
    pub(crate) sandbox_required: Option<Spanned<bool>>,
    /// The confinement of all tools.
    pub(crate) all: Settings,
    /// The confinement by tool.
    pub(crate) named: BTreeMap<String, Settings>,
}

/// The settings of all tools, or of one tool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) sandbox: Option<Spanned<SandboxChoice>>,
    pub(crate) network: Option<Spanned<bool>>,
    #[serde(default)]
    pub(crate) readable: Vec<Spanned<PathBuf>>,
    #[serde(default)]
    pub(crate) writable: Vec<Spanned<PathBuf>>,
    pub(crate) timeout_seconds: Option<NonZeroU64>,
    pub(crate) max_output_bytes: Option<usize>,
    pub(crate) max_memory_mib: Option<u64>,
    pub(crate) max_file_mib: Option<u64>,
    pub(crate) max_disk_mib: Option<u64>,
    pub(crate) max_processes: Option<usize>,
}

/// The sandbox modes that files name.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxChoice {
    Auto,
    Landlock,
    Bwrap,
    Off,
}

impl SandboxChoice {
    /// Returns the rank of the mode; a stricter one has a higher rank.
    pub(crate) const fn strictness(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Auto => 1,
            Self::Landlock => 2,
            Self::Bwrap => 3,
        }
    }
}

impl From<SandboxChoice> for SandboxMode {
    fn from(choice: SandboxChoice) -> Self {
        match choice {
            SandboxChoice::Auto => Self::Auto,
            SandboxChoice::Landlock => Self::Landlock,
            SandboxChoice::Bwrap => Self::Bubblewrap,
            SandboxChoice::Off => Self::Off,
        }
    }
}

/// The parsed table `[tools]`.
///
/// It repeats the settings of all tools, because `serde(flatten)` loses positions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsTable {
    #[serde(default)]
    roots: Vec<Spanned<PathBuf>>,
    concurrency: Option<NonZeroUsize>,
    result_envelope: Option<bool>,
    #[serde(default)]
    environment: Vec<String>,
    sandbox_required: Option<Spanned<bool>>,
    sandbox: Option<Spanned<SandboxChoice>>,
    network: Option<Spanned<bool>>,
    #[serde(default)]
    readable: Vec<Spanned<PathBuf>>,
    #[serde(default)]
    writable: Vec<Spanned<PathBuf>>,
    timeout_seconds: Option<NonZeroU64>,
    max_output_bytes: Option<usize>,
    max_memory_mib: Option<u64>,
    max_file_mib: Option<u64>,
    max_disk_mib: Option<u64>,
    max_processes: Option<usize>,
    #[serde(default)]
    settings: BTreeMap<String, Settings>,
}

impl From<ToolsTable> for Tools {
    fn from(table: ToolsTable) -> Self {
        Self {
            roots: table.roots,
            concurrency: table.concurrency,
            result_envelope: table.result_envelope,
            environment: table.environment,
            sandbox_required: table.sandbox_required,
            all: Settings {
                sandbox: table.sandbox,
                network: table.network,
                readable: table.readable,
                writable: table.writable,
                timeout_seconds: table.timeout_seconds,
                max_output_bytes: table.max_output_bytes,
                max_memory_mib: table.max_memory_mib,
                max_file_mib: table.max_file_mib,
                max_disk_mib: table.max_disk_mib,
                max_processes: table.max_processes,
            },
            named: table.settings,
        }
    }
}

impl Tools {
    /// Checks that the roots exist; they are relative to the directory of the file.
    ///
    /// # Errors
    /// Returns a message and its position for the first root that is not a directory.
    pub(crate) fn check_roots(&self, folder: &Path) -> Result<(), (Span, String)> {
        for root in &self.roots {
            let path = folder.join(root.get_ref());
            if !path.is_dir() {
                let message = format!("the root {} is not a directory", path.display());
                return Err((Span::from(root.span()), message));
            }
        }
        Ok(())
    }

    /// Checks that a file contains no forbidden setting.
    ///
    /// # Errors
    /// Returns a message and its position for the first setting of a project that opens access.
    pub(crate) fn check(&self, origin: Origin, folder: &Path) -> Result<(), (Span, String)> {
        if origin == Origin::User {
            return Ok(());
        }
        let refused = |span, what: String| {
            let message = format!("only your own logue/config.toml may {what}");
            Err((Span::from(span), message))
        };
        if let Some(required) = self.sandbox_required.as_ref().filter(|it| !it.get_ref()) {
            return refused(required.span(), "do without a sandbox".to_owned());
        }
        for settings in std::iter::once(&self.all).chain(self.named.values()) {
            let off = settings.sandbox.as_ref();
            if let Some(off) = off.filter(|choice| *choice.get_ref() == SandboxChoice::Off) {
                return refused(off.span(), "switch the sandbox off".to_owned());
            }
            if let Some(network) = settings.network.as_ref().filter(|open| *open.get_ref()) {
                return refused(network.span(), "open the network for tools".to_owned());
            }
            let mut paths = settings.readable.iter().chain(&settings.writable);
            if let Some(path) = paths.find(|path| leads_out(path.get_ref(), folder)) {
                let what = "open something outside of the project's directory";
                return refused(path.span(), what.to_owned());
            }
        }
        Ok(())
    }
}

/// Returns whether a path leads out of its file's directory, directly or through links.
pub(super) fn leads_out(path: &Path, folder: &Path) -> bool {
    let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.starts_with("~") || !path.components().all(is_inside) {
        return true;
    }
    match (folder.canonicalize(), folder.join(path).canonicalize()) {
        (Ok(folder), Ok(real)) => !real.starts_with(folder),
        // A missing path opens no access.
        _ => false,
    }
}
