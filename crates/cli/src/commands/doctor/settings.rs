//! Check of the effective settings.

use logue_source::DiagnosticCode;

use crate::commands::doctor::finding::Finding;
use crate::exit::CliError;
use crate::setup::settings::Settings;

const CHECK: &str = "settings";

/// Reports the settings files, and the keys of a project that are not trusted.
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
    let mut findings = vec![Finding::good(CHECK, message).with_fact("files", files)];
    if let Some(report) = &settings.ignored {
        let code = DiagnosticCode::ConfigNotTrusted.as_str();
        findings.push(Finding::bad(CHECK, report.trim_end()).with_fact("code", code));
    }
    findings
}

/// Reports settings that cannot be read, which prevent every run.
pub(super) fn broken(failure: &CliError) -> Finding {
    let message = match &failure.report {
        Some(report) => report.text.trim_end().to_owned(),
        None => failure.message.clone(),
    };
    let finding = Finding::bad(CHECK, message).with_fact("code", failure.code.clone());
    failure
        .help
        .iter()
        .fold(finding, |finding, help| finding.with_help(help.clone()))
}
