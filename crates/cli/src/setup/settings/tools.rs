//! The merged limits and access of the programs that a model runs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use logue_tools::sandbox::{GrantedPath, Sandbox};
use logue_tools::{ShellOptions, ShellPolicy};
use toml::Spanned;

use crate::setup::config::tools::Settings as Table;
use crate::setup::config::{Layer, Layers};
use crate::setup::settings::resolve::resolved;

/// Returns the further directories that tools may read: those of both files.
pub(super) fn roots(layers: &Layers) -> Vec<PathBuf> {
    let roots = layers.iter().flat_map(|layer| {
        let roots = layer.tables.tools.roots.iter();
        roots.map(|root| layer.folder.join(root.get_ref()))
    });
    roots.collect()
}

/// Returns the environment of programs: the standard variables and those that either file names.
pub(super) fn environment(layers: &Layers) -> Vec<(OsString, OsString)> {
    let extra = layers
        .iter()
        .flat_map(|layer| &layer.tables.tools.environment);
    let standard = ShellOptions::STANDARD_ENVIRONMENT.iter().copied();
    let names = standard.chain(extra.map(String::as_str));
    names
        .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
        .collect()
}

/// Merges the tables of both files into a policy.
///
/// A table of one tool takes precedence over those of all tools; among tables of a kind the project's
/// takes precedence. Either file can require a sandbox, confine more and close the network. Of two
/// limits the lower one applies.
pub(super) fn policy(
    layers: &Layers,
    environment: Vec<(OsString, OsString)>,
    home: Option<&Path>,
) -> ShellPolicy {
    let required = layers.iter().any(|layer| {
        let required = layer.tables.tools.sandbox_required.as_ref();
        required.is_some_and(|required| *required.get_ref())
    });
    // The sandbox starts this program as its launcher.
    let launcher = std::env::current_exe().ok();
    let mut sandbox = launcher.map_or_else(Sandbox::default, Sandbox::with_launcher);
    sandbox.required = required;
    sandbox.home = home.map(Path::to_owned);
    let base = ShellOptions::default()
        .with_environment(environment)
        .with_sandbox(sandbox);
    let names: BTreeSet<&String> = layers
        .iter()
        .flat_map(|layer| layer.tables.tools.named.keys())
        .collect();
    let mut policy = ShellPolicy::from(options(layers, None, home, base.clone()));
    for name in names {
        policy = policy.with(name, options(layers, Some(name), home, base.clone()));
    }
    policy
}

/// The tables of one tool or of all tools, by descending precedence.
struct ToolTables<'a> {
    /// The tables of both files.
    all: Vec<(&'a Table, &'a Path)>,
    project: Vec<&'a Table>,
    user: Vec<&'a Table>,
}

impl<'a> ToolTables<'a> {
    fn new(layers: &'a Layers, tool: Option<&str>) -> Self {
        let own = |layer: &'a Layer| layer.tables.tools.named.get(tool?);
        let general = |layer: &'a Layer| Some(&layer.tables.tools.all);
        let of = |layer: Option<&'a Layer>| -> Vec<&'a Table> {
            let tables = layer.map(|layer| [own(layer), general(layer)]);
            tables.into_iter().flatten().flatten().collect()
        };
        let place = |layer: &'a Layer| layer.folder.as_path();
        let named = layers.iter().map(|layer| (own(layer), place(layer)));
        let shared = layers.iter().map(|layer| (general(layer), place(layer)));
        let all = named.chain(shared);
        Self {
            all: all
                .filter_map(|(table, folder)| Some((table?, folder)))
                .collect(),
            project: of(layers.project()),
            user: of(layers.user()),
        }
    }

    /// Returns the first value.
    fn nearest<T>(&self, pick: impl Fn(&Table) -> Option<T>) -> Option<T> {
        self.all.iter().find_map(|(table, _)| pick(table))
    }

    /// Returns the project's and the user's value.
    fn both<T>(&self, pick: impl Fn(&Table) -> Option<T>) -> impl Iterator<Item = T> {
        let project = self.project.iter().find_map(|table| pick(table));
        let user = self.user.iter().find_map(|table| pick(table));
        project.into_iter().chain(user)
    }

    /// Opens the paths of all tables.
    fn paths(
        &self,
        pick: fn(&Table) -> &Vec<Spanned<PathBuf>>,
        home: Option<&Path>,
    ) -> Vec<GrantedPath> {
        let paths = self.all.iter().flat_map(|(table, folder)| {
            let paths = pick(table).iter();
            paths.map(|path| resolved(path.get_ref(), folder, home).into())
        });
        paths.collect()
    }
}

/// Merges the tables of a tool, or of all tools, into options.
fn options(
    layers: &Layers,
    tool: Option<&str>,
    home: Option<&Path>,
    mut options: ShellOptions,
) -> ShellOptions {
    let tables = ToolTables::new(layers, tool);
    let bytes = |mebibytes: u64| mebibytes.saturating_mul(1 << 20);
    if let Some(seconds) = tables.nearest(|it| it.timeout_seconds) {
        options.timeout = Duration::from_secs(seconds.get());
    }
    if let Some(bytes) = tables.both(|it| it.max_output_bytes).min() {
        options.output_bytes = bytes;
    }
    let sandbox = &mut options.sandbox;
    if let Some(choice) = tables
        .both(|it| it.sandbox.as_ref().map(|it| *it.get_ref()))
        .max_by_key(|choice| choice.strictness())
    {
        sandbox.mode = choice.into();
    }
    if let Some(network) = tables
        .both(|it| it.network.as_ref().map(|it| *it.get_ref()))
        .min()
    {
        sandbox.network = network;
    }
    sandbox.readable = tables.paths(|it| &it.readable, home);
    sandbox.writable = tables.paths(|it| &it.writable, home);
    let limits = &mut sandbox.limits;
    if let Some(most) = tables.both(|it| it.max_memory_mib).min() {
        limits.memory_bytes = Some(bytes(most));
    }
    if let Some(most) = tables.both(|it| it.max_file_mib).min() {
        limits.file_bytes = Some(bytes(most));
    }
    if let Some(most) = tables.both(|it| it.max_disk_mib).min() {
        limits.disk_bytes = Some(bytes(most));
    }
    if let Some(most) = tables.both(|it| it.max_processes).min() {
        limits.processes = Some(most);
    }
    options
}
