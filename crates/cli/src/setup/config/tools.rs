//! `[tools]` of `logue.toml`: what the programs may cost and reach that a model runs.
//!
//! Settings of one tool are in a table of its name, `[tools.settings."NAME"]`, and take precedence over
//! those of all. A
//! project's file comes with a checkout, and a checkout may come from anybody: it may confine more,
//! never less. What opens something is for the user's own file.

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

use crate::terminal::complain;

/// The table `[tools]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ToolsTable")]
pub(crate) struct Tools {
    /// Further folders that tools may read and write.
    pub(crate) roots: Vec<PathBuf>,
    /// Calls that run at the same time.
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// Whether results are told as envelopes.
    pub(crate) result_envelope: Option<bool>,
    environment: Vec<String>,
    sandbox_required: Option<Spanned<bool>>,
    all: Settings,
    named: BTreeMap<String, Settings>,
}

/// Settings that all tools have, or one.
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

/// What confines, as files name it.
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

/// `[tools]` as it is read: the settings of all tools beside the other keys, without
/// `serde(flatten)`, which loses positions.
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
    /// Whether the file may say what it says.
    ///
    /// # Errors
    /// The first setting of a project that opens something, with its place in the file.
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

/// Whether a path of a file leads out of the folder of the file, by its own or over a link.
fn leads_out(path: &Path, folder: &Path) -> bool {
    let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.starts_with("~") || !path.components().all(is_inside) {
        return true;
    }
    match (folder.canonicalize(), folder.join(path).canonicalize()) {
        (Ok(folder), Ok(real)) => !real.starts_with(folder),
        // What is not there opens nothing.
        _ => false,
    }
}

/// One file's table, and the folder that its paths count from.
pub(crate) type Layer<'a> = (&'a Tools, &'a Path);

/// What programs may cost and reach by all files together, the first one first. `launcher` is this
/// program.
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

/// Options by tables of which the first that says something counts; places add up.
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

/// A path of a file: `~` is the home folder, other relative ones count from the file.
fn placed(path: &Path, folder: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => folder.join(path),
    }
}

/// The whole environment of programs: what they need, and what the files name.
pub(crate) fn environment(layers: &[Layer<'_>]) -> Vec<(OsString, OsString)> {
    let extra = layers.iter().flat_map(|(tools, _)| &tools.environment);
    let standard = ShellOptions::STANDARD_ENVIRONMENT.iter().copied();
    let names = standard.chain(extra.map(String::as_str));
    names
        .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
        .collect()
}

/// Says on standard error, once, what the programs of a prompt are not kept from although nobody
/// allowed it. A sandbox that is whole is not talked about.
pub(crate) fn tell(prompt: &Prompt, policy: &ShellPolicy) {
    let names = prompt.tools.iter().filter_map(|tool| match &tool.kind {
        ToolKind::Command { name, .. } => Some(name.as_str()),
        ToolKind::Builtin { name } if name == "python" => Some(name.as_str()),
        _ => None,
    });
    let mut told: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in names {
        let status = policy.of(name).sandbox.status();
        if !status.missing.is_empty() {
            told.entry(status.to_string()).or_default().push(name);
        }
    }
    for (status, names) in told {
        complain(&format!("warning: {}: {status}\n", names.join(", ")));
    }
}
