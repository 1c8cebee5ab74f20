//! The merged limits and access of the programs that a model runs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use logue_tools::sandbox::Sandbox;
use logue_tools::{ShellOptions, ShellPolicy};
use toml::Spanned;

use crate::setup::config::Layers;
use crate::setup::config::tools::Settings as Table;
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
/// takes precedence. Either file can require a sandbox.
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
    let general: Vec<(&Table, &Path)> = layers
        .iter()
        .map(|layer| (&layer.tables.tools.all, layer.folder.as_path()))
        .collect();
    let names: BTreeSet<&String> = layers
        .iter()
        .flat_map(|layer| layer.tables.tools.named.keys())
        .collect();
    let all = options(&general, home, base.clone());
    let mut policy = ShellPolicy::from(all);
    for name in names {
        let own = layers.iter().filter_map(|layer| {
            let table = layer.tables.tools.named.get(name)?;
            Some((table, layer.folder.as_path()))
        });
        let tables: Vec<(&Table, &Path)> = own.chain(general.iter().copied()).collect();
        policy = policy.with(name, options(&tables, home, base.clone()));
    }
    policy
}

/// Merges tables into options: the first value counts, and paths accumulate.
fn options(
    settings: &[(&Table, &Path)],
    home: Option<&Path>,
    mut options: ShellOptions,
) -> ShellOptions {
    fn first<T>(settings: &[(&Table, &Path)], pick: impl Fn(&Table) -> Option<T>) -> Option<T> {
        settings.iter().find_map(|(settings, _)| pick(settings))
    }
    let places = |pick: fn(&Table) -> &Vec<Spanned<PathBuf>>| -> Vec<PathBuf> {
        let of_one = |(settings, folder): &(&Table, &Path)| {
            let paths = pick(settings).iter();
            let place = |path: &Spanned<PathBuf>| resolved(path.get_ref(), folder, home);
            paths.map(place).collect::<Vec<_>>()
        };
        settings.iter().flat_map(of_one).collect()
    };
    let bytes = |mebibytes: u64| mebibytes.saturating_mul(1 << 20);
    if let Some(seconds) = first(settings, |it| it.timeout_seconds) {
        options.timeout = Duration::from_secs(seconds.get());
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
