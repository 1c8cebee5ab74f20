//! Failures of commands from the errors of sources and transcripts.

use logue_agent::{SourceError, TranscriptError};
use logue_source::Source;

use crate::exit::{CliError, Exit};
use crate::terminal::report_style;

pub(crate) fn source_failure(error: &SourceError) -> CliError {
    let diagnostic = &error.diagnostic;
    if error.text.is_empty() {
        let failure = CliError::user(diagnostic.code.as_str(), diagnostic.message.clone());
        return diagnostic
            .help
            .iter()
            .fold(failure, |failure, help| failure.with_help(help.clone()));
    }
    rendered(&error.name, &error.text, std::slice::from_ref(diagnostic))
}

/// Creates a failure from diagnostics of a text, coded by the first one.
pub(crate) fn rendered(name: &str, text: &[u8], errors: &[logue_source::Diagnostic]) -> CliError {
    let source = Source::new(name, text);
    let reports: Vec<String> = errors
        .iter()
        .map(|error| source.render(error, report_style()))
        .collect();
    let (code, message) = errors
        .first()
        .map_or(("E-SOURCE-READ", String::new()), |first| {
            let place = source.place(first.primary.start);
            (first.code.as_str(), format!("{place}: {}", first.message))
        });
    CliError {
        report: Some(reports.join("\n").into()),
        help: errors
            .first()
            .map_or_else(Vec::new, |first| first.help.clone()),
        ..CliError::user(code, message)
    }
}

pub(crate) fn transcript_failure(error: &TranscriptError) -> CliError {
    let exit = match error.category() {
        "transcript_locked" => Exit::Busy,
        "transcript_write_failed" => Exit::SessionTerminating,
        _ => Exit::UserCorrectable,
    };
    CliError::new(exit, error.category(), error.to_string()).with_help(error.help())
}
