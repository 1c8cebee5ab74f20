//! `[tools]` of `logue.toml`: the limits and the access of programs that a model runs.
//!
//! Settings of one tool are in the table `[tools.settings."NAME"]` and take precedence over those of
//! all tools. The file of a project comes with a checkout, which is untrusted: it may confine more,
//! never less. Only the user's file may open access.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use chatmd::ToolKind;
use logue_agent::Prompt;
use logue_source::Span;
use logue_tools::sandbox::{Sandbox, SandboxMode};
use logue_tools::{ShellOptions, ShellPolicy};
use serde::Deserialize;
use toml::Spanned;

use crate::terminal::print_error;

/// The table `[tools]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ToolsTable")]
pub(crate) struct Tools {
    /// Further directories that tools may read and write.
    pub(crate) roots: Vec<PathBuf>,
    /// The maximum number of concurrent calls.
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// Whether results are sent in envelopes.
    pub(crate) result_envelope: Option<bool>,
    environment: Vec<String>,
    sandbox_required: Option<Spanned<bool>>,
    all: Settings,
    named: BTreeMap<String, Settings>,
}

/// The settings of all tools, or of one tool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    sandbox: Option<Spanned<Choice>>,
    network: Option<Spanned<bool>>,
    #[serde(default)]
    readable: Vec<Spanned<PathBuf>>,
    #[serde(default)]
    writable: Vec<Spanned<PathBuf>>,
    timeout_seconds: Option<u64>,
    max_output_bytes: Option<usize>,
    max_memory_mib: Option<u64>,
    max_file_mib: Option<u64>,
    max_processes: Option<usize>,
}

/// The sandbox modes that files name.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Choice {
    Auto,
    Landlock,
    Bwrap,
    Off,
}

impl From<Choice> for SandboxMode {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Auto => Self::Auto,
            Choice::Landlock => Self::Landlock,
            Choice::Bwrap => Self::Bubblewrap,
            Choice::Off => Self::Off,
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
    roots: Vec<PathBuf>,
    concurrency: Option<NonZeroUsize>,
    result_envelope: Option<bool>,
    #[serde(default)]
    environment: Vec<String>,
    sandbox_required: Option<Spanned<bool>>,
    sandbox: Option<Spanned<Choice>>,
    network: Option<Spanned<bool>>,
    #[serde(default)]
    readable: Vec<Spanned<PathBuf>>,
    #[serde(default)]
    writable: Vec<Spanned<PathBuf>>,
    timeout_seconds: Option<u64>,
    max_output_bytes: Option<usize>,
    max_memory_mib: Option<u64>,
    max_file_mib: Option<u64>,
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
                max_processes: table.max_processes,
            },
            named: table.settings,
        }
    }
}

impl Tools {
    /// Checks that a file contains no forbidden setting.
    ///
    /// # Errors
    /// Returns a message and its position for the first setting of a project that opens access.
    pub(crate) fn check(&self, own: bool, folder: &Path) -> Result<(), (Span, String)> {
        if own {
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
            if let Some(off) = off.filter(|choice| *choice.get_ref() == Choice::Off) {
                return refused(off.span(), "switch the sandbox off".to_owned());
            }
            if let Some(network) = settings.network.as_ref().filter(|open| *open.get_ref()) {
                return refused(network.span(), "open the network for tools".to_owned());
            }
            let mut paths = settings.readable.iter().chain(&settings.writable);
            if let Some(path) = paths.find(|path| leads_out(path.get_ref(), folder)) {
                let what = "open something outside of the project's folder";
                return refused(path.span(), what.to_owned());
            }
        }
        Ok(())
    }
}

/// Returns whether a path leads out of its file's directory, directly or through links.
fn leads_out(path: &Path, folder: &Path) -> bool {
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

/// The table of one file, and the directory that its paths are relative to.
pub(crate) type Layer<'a> = (&'a Tools, &'a Path);

/// Merges the tables of all files, by descending precedence, into a policy.
///
/// `launcher` is the path of this program.
pub(crate) fn policy(
    layers: &[Layer<'_>],
    launcher: Option<PathBuf>,
    home: Option<&Path>,
) -> ShellPolicy {
    let required = layers.iter().any(|(tools, _)| {
        let required = tools.sandbox_required.as_ref();
        required.is_some_and(|required| *required.get_ref())
    });
    let mut sandbox = launcher.map_or_else(Sandbox::default, Sandbox::with_launcher);
    sandbox.required = required;
    sandbox.home = home.map(Path::to_owned);
    let base = ShellOptions {
        environment: environment(layers),
        sandbox,
        ..ShellOptions::default()
    };
    let general: Vec<(&Settings, &Path)> = layers
        .iter()
        .map(|(tools, folder)| (&tools.all, *folder))
        .collect();
    let names: BTreeSet<&String> = layers
        .iter()
        .flat_map(|(tools, _)| tools.named.keys())
        .collect();
    let all = options(&general, home, base.clone());
    let mut policy = ShellPolicy::from(all);
    for name in names {
        let own = layers
            .iter()
            .filter_map(|(tools, folder)| Some((tools.named.get(name)?, *folder)));
        let settings: Vec<(&Settings, &Path)> = own.chain(general.iter().copied()).collect();
        let options = options(&settings, home, base.clone());
        policy = policy.with(name, options);
    }
    policy
}

/// Merges tables into options: the first value counts, and paths accumulate.
fn options(
    settings: &[(&Settings, &Path)],
    home: Option<&Path>,
    mut options: ShellOptions,
) -> ShellOptions {
    fn first<T>(
        settings: &[(&Settings, &Path)],
        pick: impl Fn(&Settings) -> Option<T>,
    ) -> Option<T> {
        settings.iter().find_map(|(settings, _)| pick(settings))
    }
    let places = |pick: fn(&Settings) -> &Vec<Spanned<PathBuf>>| -> Vec<PathBuf> {
        let of_one = |(settings, folder): &(&Settings, &Path)| {
            let paths = pick(settings).iter();
            let place = |path: &Spanned<PathBuf>| placed(path.get_ref(), folder, home);
            paths.map(place).collect::<Vec<_>>()
        };
        settings.iter().flat_map(of_one).collect()
    };
    let bytes = |mebibytes: u64| mebibytes.saturating_mul(1 << 20);
    if let Some(seconds) = first(settings, |it| it.timeout_seconds) {
        options.timeout = Duration::from_secs(seconds);
    }
    if let Some(bytes) = first(settings, |it| it.max_output_bytes) {
        options.output_bytes = bytes;
    }
    let sandbox = &mut options.sandbox;
    if let Some(choice) = first(settings, |it| it.sandbox.as_ref().map(|it| *it.get_ref())) {
        sandbox.mode = choice.into();
    }
    if let Some(network) = first(settings, |it| it.network.as_ref().map(|it| *it.get_ref())) {
        sandbox.network = network;
    }
    sandbox.readable = places(|it| &it.readable);
    sandbox.writable = places(|it| &it.writable);
    let limits = &mut sandbox.limits;
    if let Some(most) = first(settings, |it| it.max_memory_mib) {
        limits.memory_bytes = Some(bytes(most));
    }
    if let Some(most) = first(settings, |it| it.max_file_mib) {
        limits.file_bytes = Some(bytes(most));
    }
    if let Some(most) = first(settings, |it| it.max_processes) {
        limits.processes = Some(most);
    }
    options
}

/// Resolves a path: `~` is the home directory, other paths are relative to `folder`.
fn placed(path: &Path, folder: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => folder.join(path),
    }
}

/// Returns the environment of programs: the standard variables and those that the files name.
pub(crate) fn environment(layers: &[Layer<'_>]) -> Vec<(OsString, OsString)> {
    let extra = layers.iter().flat_map(|(tools, _)| &tools.environment);
    let standard = ShellOptions::STANDARD_ENVIRONMENT.iter().copied();
    let names = standard.chain(extra.map(String::as_str));
    names
        .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
        .collect()
}

/// Warns about missing confinement of a prompt's programs, once for each status.
///
/// A complete sandbox is not reported.
pub(crate) fn warn_unconfined(prompt: &Prompt, policy: &ShellPolicy) {
    let names = prompt.tools.iter().filter_map(|tool| match &tool.kind {
        ToolKind::Command { name, .. } => Some(name.as_str()),
        ToolKind::Builtin { name } if name == "python" => Some(name.as_str()),
        _ => None,
    });
    let mut unconfined: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in names {
        let status = policy.of(name).sandbox.status();
        if !status.missing.is_empty() {
            unconfined.entry(status.to_string()).or_default().push(name);
        }
    }
    for (status, names) in unconfined {
        print_error(&format!("warning: {}: {status}\n", names.join(", ")));
    }
}
