//! Which settings are in force.

use crate::commands::doctor::Finding;
use crate::exit::Failure;
use crate::setup::config::Config;

const CHECK: &str = "settings";

/// What the files say that were read.
pub(super) fn read(config: &Config) -> Vec<Finding> {
    let files: Vec<String> = config
        .files()
        .map(|file| file.display().to_string())
        .collect();
    let said = if files.is_empty() {
        "no logue.toml is in force".to_owned()
    } else {
        files.join("\n")
    };
    vec![Finding::good(CHECK, said).with_fact("files", files)]
}

/// Files that cannot be read keep everything from running.
pub(super) fn broken(failure: &Failure) -> Finding {
    let said = match &failure.report {
        Some(report) => report.trim_end().to_owned(),
        None => failure.message.clone(),
    };
    let finding = Finding::bad(CHECK, said).with_fact("code", failure.code.clone());
    failure
        .help
        .iter()
        .fold(finding, |finding, help| finding.with_help(help.clone()))
}
