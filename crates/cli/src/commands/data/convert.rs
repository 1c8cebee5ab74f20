//! `logue data convert`: converts each row to one line.

use logue_data::{Refusal, Row, RowOutput};
use logue_source::{DiagnosticCode, Span};
use openchatml::{Loss, LossKind, LossSeverity};

use crate::arguments::DataConvertArgs;
use crate::commands::data::run::run;
use crate::conversion::form::Form;
use crate::conversion::loss_policy::severity_name;
use crate::conversion::writer::{self, Converted, Writer};
use crate::exit::{CliError, Exit};

pub(crate) fn convert(arguments: &DataConvertArgs) -> Result<Exit, CliError> {
    let writer = Writer::new(
        arguments.from,
        arguments.to,
        &arguments.losses,
        arguments.keep_reasoning,
    );
    let writer = writer.for_lines(false);
    let command = format!(
        "convert {:?} {} {:?} {}",
        arguments.from.map(Form::as_str),
        arguments.to.as_str(),
        arguments.losses.strict.map(LossSeverity::as_str),
        arguments.keep_reasoning,
    );
    let tally = run(&arguments.files, command, |row, output| {
        one(&writer, row, output)
    })?;
    let is_content = |name: &String| name.starts_with(LossSeverity::Content.as_str());
    let lost = arguments.losses.allow_loss.is_none() && tally.found.keys().any(is_content);
    Ok(if lost || tally.refusals() > 0 {
        Exit::Findings
    } else {
        Exit::Done
    })
}

/// Converts the conversations of a row: two of a pair of preference, else one.
fn one(writer: &Writer, row: Row<'_>, output: &mut RowOutput<'_>) -> Result<(), Refusal> {
    let line = writer.line(row.bytes);
    let is_whole = line.inner.is_none();
    for converted in line.conversations {
        match &converted.text {
            Ok(text) => output.bytes.extend_from_slice(text.as_bytes()),
            Err(why) => return Err(refusal(row, &converted, why, is_whole)),
        }
        count(&converted.losses, row, output);
    }
    Ok(())
}

/// Counts the losses of a conversation by severity and kind.
fn count(losses: &[Loss], row: Row<'_>, output: &mut RowOutput<'_>) {
    let mut counted: Vec<LossKind> = Vec::new();
    for loss in losses {
        if counted.contains(&loss.kind) {
            continue;
        }
        counted.push(loss.kind);
        let times = losses.iter().filter(|other| other.kind == loss.kind);
        let name = format!("{}: {}", severity_name(loss.kind), loss.kind);
        let times = times.count() as u64;
        output
            .tally
            .find(&name, times, row.place, || loss.to_string());
    }
}

/// Returns the reason for a row that is not written: its first error, or its most severe loss.
fn refusal(row: Row<'_>, read: &Converted, why: &writer::Refusal, is_whole: bool) -> Refusal {
    let whole = Span::new(0, row.bytes.len());
    let error = read.diagnostics.iter().find(|found| found.is_error());
    match (why, error) {
        (writer::Refusal::Other(_), Some(found)) => {
            let mut found = found.clone();
            if !is_whole {
                // Places in a text within the row are not places in the file.
                found.primary = whole;
            }
            found.into()
        }
        (writer::Refusal::Losses, _) => {
            let worst = read.losses.iter().max_by_key(|loss| loss.severity());
            let message = worst.map_or_else(String::new, ToString::to_string);
            Refusal::new(DiagnosticCode::WriteRefused, message, whole)
                .with_help("correct the conversation, or omit --strict")
        }
        (writer::Refusal::Other(why), None) => {
            Refusal::new(DiagnosticCode::WriteRefused, why.as_str(), whole)
                .with_help("convert to another form with --to")
        }
    }
}
