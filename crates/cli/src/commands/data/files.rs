//! The files of each command, compared before one of them is opened.

use std::path::{Path, PathBuf};

use logue_data::RunFiles;

use crate::arguments::{
    DataCommand, DataExamineArgs, DataFileArgs, DataMaskArgs, DecontaminateArgs, DedupArgs,
    SplitArgs,
};
use crate::commands::data::run::{beside, input_names, quarantine};
use crate::commands::data::split;
use crate::exit::{CliError, Exit};

/// Refuses a command that would replace an input, or write two outputs to one file.
///
/// A missing input and an unknown form of an output are reported here too, before any work.
pub(super) fn require_apart(command: &DataCommand) -> Result<(), CliError> {
    let (inputs, output) = match command {
        DataCommand::Convert(arguments) => named(&arguments.files),
        DataCommand::Mask(arguments) => named(&arguments.files),
        DataCommand::Dedup(arguments) => named(&arguments.files),
        DataCommand::Decontaminate(arguments) => named(&arguments.files),
        DataCommand::Sample(arguments) => named(&arguments.files),
        DataCommand::Split(arguments) => (&*arguments.inputs, None),
        DataCommand::Check(arguments) => (&*arguments.examined.inputs, None),
        DataCommand::Stats(arguments) => (&*arguments.examined.inputs, None),
        DataCommand::FromSessions(_) => (&[][..], None),
    };
    if let Some(output) = output {
        require_known_form(output)?;
    }
    require_inputs(inputs)?;
    let files = match command {
        DataCommand::Convert(arguments) => of_run(&arguments.files),
        DataCommand::Mask(arguments) => of_mask(arguments),
        DataCommand::Dedup(arguments) => of_dedup(arguments),
        DataCommand::Decontaminate(arguments) => of_decontaminate(arguments),
        DataCommand::Split(arguments) => of_split(arguments),
        DataCommand::Sample(arguments) => of_run(&arguments.files),
        DataCommand::Check(arguments) => of_examination(&arguments.examined),
        DataCommand::Stats(arguments) => of_examination(&arguments.examined),
        // Its inputs are in the settings, which it reads itself.
        DataCommand::FromSessions(_) => RunFiles::default(),
    };
    check(&files)
}

fn named(files: &DataFileArgs) -> (&[PathBuf], Option<&PathBuf>) {
    (&files.inputs, files.output.as_ref())
}

/// The extensions of forms that are not written, by which a user would expect them.
const OTHER_FORMS: [&str; 14] = [
    "csv", "tsv", "xlsx", "arrow", "feather", "avro", "orc", "bz2", "xz", "lz4", "zip", "br", "db",
    "sqlite",
];

/// Refuses an output whose extension promises another form than its content has.
fn require_known_form(output: &Path) -> Result<(), CliError> {
    let name = output.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let is_other = |extension: &str| OTHER_FORMS.contains(&extension);
    let mut parts = name.rsplit('.');
    let last = parts.next().unwrap_or_default();
    let is_unknown = name.contains('.') && is_other(last)
        || matches!(last, "gz" | "zst")
            && parts
                .next()
                .is_some_and(|inner| inner == "parquet" || is_other(inner));
    if !is_unknown {
        return Ok(());
    }
    let message = format!("`{}` names a form that is not written", output.display());
    Err(CliError::new(Exit::Usage, "usage", message)
        .with_help("name a file that ends in .jsonl, .jsonl.gz, .jsonl.zst or .parquet"))
}

/// Reports an input that does not exist, before the others are worked on.
fn require_inputs(inputs: &[PathBuf]) -> Result<(), CliError> {
    for input in inputs {
        if input.as_os_str() == "-" {
            continue;
        }
        if let Err(error) = std::fs::metadata(input) {
            let message = format!("cannot read `{}`: {error}", input.display());
            return Err(CliError::user("E-SOURCE-READ", message)
                .with_help("check the path; it is relative to the current directory"));
        }
    }
    Ok(())
}

/// Refuses files of which one would replace another.
pub(super) fn check(files: &RunFiles) -> Result<(), CliError> {
    files.check().map_err(|conflict| {
        CliError::new(Exit::Usage, "data_files_conflict", conflict.to_string())
            .with_help("name another file; nothing was written")
    })
}

fn of_run(files: &DataFileArgs) -> RunFiles {
    let all = input_names(files)
        .into_iter()
        .fold(RunFiles::default(), RunFiles::with_input);
    let outputs = files.output.clone().into_iter().chain(quarantine(files));
    outputs.fold(all, RunFiles::with_output)
}

fn of_mask(arguments: &DataMaskArgs) -> RunFiles {
    let mut files = of_run(&arguments.files);
    if arguments.tokenizer != "o200k" {
        files = files.with_input(&arguments.tokenizer);
    }
    let named = arguments.template.iter().chain(&arguments.tokenizer_config);
    named.fold(files, RunFiles::with_input)
}

fn of_dedup(arguments: &DedupArgs) -> RunFiles {
    let output = arguments.files.output.as_ref();
    let evidence = beside(arguments.evidence.as_ref(), output, ".duplicates.jsonl");
    let files = of_run(&arguments.files);
    evidence.into_iter().fold(files, RunFiles::with_output)
}

fn of_decontaminate(arguments: &DecontaminateArgs) -> RunFiles {
    let files = of_run(&arguments.files);
    let files = arguments.against.iter().fold(files, RunFiles::with_input);
    if !arguments.remove {
        return files;
    }
    let output = arguments.files.output.as_ref();
    let evidence = beside(arguments.evidence.as_ref(), output, ".contaminated.jsonl");
    evidence.into_iter().fold(files, RunFiles::with_output)
}

fn of_split(arguments: &SplitArgs) -> RunFiles {
    let inputs = arguments.inputs.iter();
    let files = inputs.fold(RunFiles::default(), RunFiles::with_input);
    let parts = split::part_files(arguments).into_iter();
    parts
        .chain([split::quarantine(arguments)])
        .fold(files, RunFiles::with_output)
}

fn of_examination(arguments: &DataExamineArgs) -> RunFiles {
    let named = arguments.inputs.iter();
    let files = named.fold(RunFiles::default(), RunFiles::with_input);
    let files = if arguments.inputs.is_empty() {
        files.with_input("-")
    } else {
        files
    };
    let files = arguments.tokenizer.iter().fold(files, RunFiles::with_input);
    arguments.report.iter().fold(files, RunFiles::with_file)
}
