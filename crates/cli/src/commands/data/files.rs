//! The files of each command, which are compared before one of them is opened or created.

use logue_data::RunFiles;

use crate::arguments::{
    DataCommand, DataExamineArgs, DataFileArgs, DataMaskArgs, DecontaminateArgs, DedupArgs,
    SplitArgs,
};
use crate::commands::data::run::{beside, input_names, quarantine};
use crate::commands::data::split;
use crate::exit::{CliError, Exit};

/// Refuses a command that would write over one of its inputs, or two outputs to one file.
pub(super) fn require_apart(command: &DataCommand) -> Result<(), CliError> {
    check(&match command {
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
    })
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
