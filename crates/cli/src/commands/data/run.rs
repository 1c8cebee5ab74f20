//! The run of a command over rows, with its progress and report.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use logue_data::{DataError, Event, Inputs, Refusal, Row, RowOutput, Run, Tally};

use crate::arguments::DataFileArgs;
use crate::commands::data::report;
use crate::exit::{CliError, Exit};
use crate::progress::Progress;

/// Works on every row and reports the counts.
///
/// `command` contains everything that determines the output, except the inputs.
pub(super) fn run(
    files: &DataFileArgs,
    command: String,
    work: impl Fn(Row<'_>, &mut RowOutput<'_>) -> Result<(), Refusal> + Sync,
) -> Result<Tally, CliError> {
    let names = input_names(files);
    let inputs = Inputs::new(names.clone(), None);
    let output = files.output.clone().unwrap_or_else(|| "-".into());
    let quarantine = quarantine(files);
    let progress = Progress::bytes(inputs.size(), files.json || files.output.is_none());
    let read = inputs.bytes_read();
    let run = Run {
        inputs,
        output,
        quarantine: quarantine.clone(),
        threads: threads(files.jobs),
        command,
        restart: files.restart,
    };
    let mut refused = report::Refused::default();
    let tally = run.each(work, |event| match event {
        Event::Resumed { rows } => report::resumed(rows),
        Event::Refused { row, refusal } => refused.print(&names, row, refusal),
        Event::Columns { .. } => {}
        Event::Batch { .. } => progress.set(read.load(Ordering::Relaxed)),
    });
    drop(progress);
    let tally = match tally {
        Ok(tally) => tally,
        // The reader of the output has seen enough.
        Err(DataError::Closed) => return Ok(Tally::default()),
        Err(error) => return Err(failure(&error)),
    };
    let quarantine = quarantine.filter(|_| tally.refusals() > 0);
    report::summary(&names, &tally, quarantine.as_deref(), files.json)?;
    Ok(tally)
}

/// Returns the inputs, by default standard input.
pub(super) fn input_names(files: &DataFileArgs) -> Vec<PathBuf> {
    if files.inputs.is_empty() {
        vec!["-".into()]
    } else {
        files.inputs.clone()
    }
}

/// Refuses inputs that cannot be read more than once.
pub(super) fn require_files(names: &[PathBuf], times: &str) -> Result<(), CliError> {
    let is_stream = |name: &&PathBuf| {
        let metadata = std::fs::metadata(name);
        name.as_os_str() == "-" || metadata.is_ok_and(|metadata| !metadata.is_file())
    };
    match names.iter().find(is_stream) {
        Some(name) => Err(CliError::new(
            Exit::Usage,
            "usage",
            format!(
                "`{}` is not a file, and the input is read {times}",
                name.display()
            ),
        )
        .with_help("write the rows to a file, and name it")),
        None => Ok(()),
    }
}

/// Returns the number of threads that work on rows.
pub(super) fn threads(jobs: Option<NonZeroUsize>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    jobs.map_or_else(all, NonZeroUsize::get)
}

/// Returns the file beside an output with this suffix, unless another one is named.
pub(super) fn beside(
    named: Option<&PathBuf>,
    output: Option<&PathBuf>,
    suffix: &str,
) -> Option<PathBuf> {
    named.cloned().or_else(|| {
        let mut name = output?.clone().into_os_string();
        name.push(suffix);
        Some(name.into())
    })
}

/// Returns the file of refused rows, which has a default beside an output file.
pub(super) fn quarantine(files: &DataFileArgs) -> Option<PathBuf> {
    let named = files.quarantine.as_ref();
    beside(named, files.output.as_ref(), ".quarantine.jsonl")
}

/// Returns the failure of the command for one of an input or output.
pub(super) fn failure(error: &DataError) -> CliError {
    let code = error.code().unwrap_or("stdout_write_failed");
    let failure = CliError::user(code, error.to_string());
    match error {
        DataError::Busy { .. } => CliError::new(Exit::Busy, code, error.to_string())
            .with_help("wait until the other run has ended, or name another output"),
        DataError::Read { .. } => failure.with_help("check the path, its permissions and its form"),
        DataError::Structure { .. } => failure.with_help("correct the file, and run again"),
        DataError::Write { .. } => failure
            .with_help("free space, or name another file; the same command continues the run"),
        _ => failure,
    }
}
