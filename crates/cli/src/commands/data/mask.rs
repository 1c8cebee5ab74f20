//! `logue data mask`: renders each row to token ids and a loss mask.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use logue_data::mask::{MaskedRun, Masker, write_masked};
use logue_data::{HfTokenizer, Inputs, O200k, Refusal, Row, Tokenizer};
use logue_source::{ColorMode, escape_untrusted};

use crate::arguments::{DataFileArgs, DataMaskArgs};
use crate::commands::data::report::Refused;
use crate::commands::data::run::{failure, input_names, run};
use crate::exit::{CliError, Exit};
use crate::terminal::{ignore_broken_pipe, output_style, print_styled};

pub(crate) fn mask(arguments: &DataMaskArgs) -> Result<Exit, CliError> {
    let tokenizer = tokenizer(&arguments.tokenizer)?;
    let options = arguments.options();
    if let Some(number) = arguments.show {
        let mut masker = Masker::new(options, tokenizer);
        return show(&arguments.files, number, &mut masker);
    }
    let columns = arguments.output_columns();
    let command = format!("mask {options:?} {columns:?} {}", arguments.tokenizer);
    // Each thread takes a masker for a row and puts it back, so that there is one for each thread.
    let maskers: Mutex<Vec<Masker>> = Mutex::new(Vec::new());
    let tokenizer = Mutex::new(tokenizer);
    let taken = || {
        let free = maskers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| {
            let tokenizer = tokenizer.lock().unwrap_or_else(PoisonError::into_inner);
            Masker::new(options.clone(), tokenizer.duplicate())
        })
    };
    let tally = run(&arguments.files, command, |row, output| {
        let mut masker = taken();
        let masked = masker.mask(row.bytes);
        let done = masked.map(|masked| write_masked(masked, columns, output.bytes));
        let mut free = maskers.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(masker);
        done
    })?;
    Ok(if tally.refusals() > 0 {
        Exit::Findings
    } else {
        Exit::Done
    })
}

/// Loads a tokenizer by its name or file.
fn tokenizer(name: &str) -> Result<Box<dyn Tokenizer>, CliError> {
    if name == "o200k" {
        return Ok(Box::new(O200k::new()));
    }
    let tokenizer = HfTokenizer::load(Path::new(name)).map_err(|refusal| {
        let finding = &refusal.finding;
        let failure = CliError::user(finding.code.as_str(), finding.message.clone());
        let help = finding.help.first();
        help.map_or_else(
            || CliError::user(finding.code.as_str(), finding.message.clone()),
            |help| failure.with_help(help.clone()),
        )
    })?;
    Ok(Box::new(tokenizer))
}

/// Prints the mask of one row.
fn show(files: &DataFileArgs, number: NonZeroUsize, masker: &mut Masker) -> Result<Exit, CliError> {
    let names = input_names(files);
    let mut inputs = Inputs::new(names.clone(), None);
    let mut rows = 0;
    while let Some(batch) = inputs.batch() {
        let batch = batch.map_err(|error| failure(&error))?;
        let before = rows;
        rows += batch.rows().len();
        let Some(row) = batch.rows().nth(number.get() - 1 - before) else {
            continue;
        };
        return match shown(row, number, masker) {
            Ok(text) => ignore_broken_pipe(print_styled(&text, output_style())).map(|_| Exit::Done),
            Err(refusal) => {
                Refused::default().print(&names, row, &refusal);
                Ok(Exit::Findings)
            }
        };
    }
    let message = format!("row {number} not found: the input has {rows} rows");
    Err(CliError::new(Exit::Usage, "usage", message).with_help("name a smaller row with --show"))
}

/// Returns the mask of a row for people.
///
/// Each line has the class of its tokens; trained ones are marked by `+`, and green on terminals.
fn shown(row: Row<'_>, number: NonZeroUsize, masker: &mut Masker) -> Result<String, Refusal> {
    let masked = masker.mask(row.bytes)?;
    let trained = masked.trained.iter().filter(|trained| **trained).count();
    let style = output_style();
    let mut out = format!(
        "row {number}: {} tokens, {trained} trained\n",
        masked.ids.len()
    );
    for MaskedRun {
        text,
        class,
        trained,
        ..
    } in masked.runs()
    {
        let mut label = class.map_or("", |class| class.as_str());
        let (on, off) = match (trained, style) {
            (true, ColorMode::Ansi) => ("\x1b[32m", "\x1b[0m"),
            _ => ("", ""),
        };
        let mark = if trained { '+' } else { ' ' };
        for line in text.split_inclusive('\n') {
            let end = if line.ends_with('\n') { "⏎" } else { "" };
            let line = escape_untrusted(line.trim_end_matches('\n'));
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{on}{mark} {label:<10} {line}{end}{off}");
            label = "";
        }
    }
    Ok(out)
}
