//! Check of the effective settings.

use crate::commands::doctor::Finding;
use crate::exit::CliError;
use crate::setup::settings::Settings;

const CHECK: &str = "settings";

/// Reports the settings files that were read.
pub(super) fn read(settings: &Settings) -> Vec<Finding> {
    let files: Vec<String> = settings
        .files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let message = if files.is_empty() {
        "no logue.toml found".to_owned()
    } else {
        files.join("\n")
    };
    vec![Finding::good(CHECK, message).with_fact("files", files)]
}

/// Reports settings that cannot be read, which prevent every run.
pub(super) fn broken(failure: &CliError) -> Finding {
    let message = match &failure.report {
        Some(report) => report.trim_end().to_owned(),
        None => failure.message.clone(),
    };
    let finding = Finding::bad(CHECK, message).with_fact("code", failure.code.clone());
    failure
        .help
        .iter()
        .fold(finding, |finding, help| finding.with_help(help.clone()))
}
