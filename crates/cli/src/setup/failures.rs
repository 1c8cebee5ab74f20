//! Failures of commands from the errors of sources and transcripts.

use logue_agent::{SourceError, TranscriptError};
use logue_source::{Diagnostic, Severity, Source, escape_line};

use crate::exit::{CliError, ErrorReport, Exit};
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
pub(crate) fn rendered(name: &str, text: &[u8], errors: &[Diagnostic]) -> CliError {
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
    let places = errors.iter().map(|error| {
        let place = source.place(error.primary.start);
        place_line(&place, error)
    });
    CliError {
        report: Some(Box::new(ErrorReport {
            text: reports.join("\n"),
            places: Some(places.collect::<String>() + PLACES_HELP),
        })),
        help: errors
            .first()
            .map_or_else(Vec::new, |first| first.help.clone()),
        ..CliError::user(code, message)
    }
}

/// The remedy of a report without sources.
pub(crate) const PLACES_HELP: &str = "  = help: `logue check FILE` shows the text\n";

/// Returns the place and the code of a finding, without text of the prompt.
pub(crate) fn place_line(place: &str, finding: &Diagnostic) -> String {
    let kind = match finding.severity {
        Severity::Error => "error",
        _ => "warning",
    };
    let code = finding.code.as_str();
    format!("{kind}[{code}]: {}\n", escape_line(place))
}

pub(crate) fn transcript_failure(error: &TranscriptError) -> CliError {
    let exit = match error.category() {
        "transcript_locked" => Exit::Busy,
        "transcript_write_failed" => Exit::SessionTerminating,
        _ => Exit::UserCorrectable,
    };
    CliError::new(exit, error.category(), error.to_string()).with_help(error.help())
}
