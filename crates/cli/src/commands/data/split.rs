//! `logue data split`: divides rows into parts from which nothing leaks into another part.

use std::path::PathBuf;

use logue_data::duplicates::DuplicateRules;
use logue_data::{Event, FieldPath, Inputs, Run, Split, SplitPart, SplitRules};
use serde_json::json;

use crate::arguments::SplitArgs;
use crate::commands::data::report;
use crate::commands::data::run::{failure, require_files, threads};
use crate::counted::{amount, counted};
use crate::exit::{CliError, Exit};
use crate::terminal::{print, print_error, write_failed};

pub(crate) fn split(arguments: &SplitArgs) -> Result<Exit, CliError> {
    let names = &arguments.inputs;
    require_files(names, "several times")?;
    let rules = rules(arguments);
    let files = part_files(arguments);
    let inputs = || Inputs::new(names.clone(), None);
    let split = logue_data::split(inputs, &rules, threads(arguments.jobs));
    let split = split.map_err(|error| failure(&error))?;
    for (number, file) in files.iter().enumerate() {
        write_part(arguments, &rules, &split, number, file)?;
    }
    report(arguments, &rules, &split, &files)?;
    Ok(if split.refused.is_empty() {
        Exit::Done
    } else {
        Exit::Findings
    })
}

/// Returns the files of the parts.
pub(super) fn part_files(arguments: &SplitArgs) -> Vec<PathBuf> {
    let parts = rules(arguments).parts.into_iter();
    let file = |part: SplitPart| arguments.output.join(format!("{}.jsonl", part.name));
    parts.map(file).collect()
}

/// Returns the file of refused rows.
pub(super) fn quarantine(arguments: &SplitArgs) -> PathBuf {
    let named = arguments.quarantine.clone();
    named.unwrap_or_else(|| arguments.output.join("quarantine.jsonl"))
}

fn rules(arguments: &SplitArgs) -> SplitRules {
    let part = |name: &str, share: Option<f64>| {
        share.map(|share| SplitPart {
            name: name.to_owned(),
            share,
        })
    };
    let parts = [
        part("train", Some(arguments.train)),
        part("validation", arguments.validation),
        part("test", arguments.test),
    ];
    SplitRules {
        parts: parts.into_iter().flatten().collect(),
        seed: arguments.seed,
        fields: arguments.by.iter().map(FieldPath::new).collect(),
        duplicates: DuplicateRules::new(arguments.threshold),
    }
}

/// Writes the rows of a part; the refused ones with the first part.
fn write_part(
    arguments: &SplitArgs,
    rules: &SplitRules,
    split: &Split,
    number: usize,
    file: &std::path::Path,
) -> Result<(), CliError> {
    let is_first = number == 0;
    let run = Run {
        inputs: Inputs::new(arguments.inputs.clone(), None),
        output: file.to_owned(),
        quarantine: is_first.then(|| quarantine(arguments)),
        threads: threads(arguments.jobs),
        command: format!("split {number} {rules:?}"),
        restart: arguments.restart,
    };
    let mut refused = report::Refused::default();
    let written = run.each(
        |row, output| {
            if split.part(row.place.row) == Some(number) {
                output.copy(row.bytes);
            }
            if is_first
                && split.refused.contains(row.place.row)
                && let Some(refusal) = rules.refusal(row.bytes)
            {
                return Err(refusal);
            }
            Ok(())
        },
        |event| {
            if let Event::Refused { row, refusal } = event {
                refused.print(&arguments.inputs, row, refusal);
            }
        },
    );
    written.map(drop).map_err(|error| failure(&error))
}

/// Prints the sizes of the parts: text on standard error, JSON on standard output.
fn report(
    arguments: &SplitArgs,
    rules: &SplitRules,
    split: &Split,
    files: &[PathBuf],
) -> Result<(), CliError> {
    let sizes = split.rows().iter().zip(split.groups());
    let parts = rules.parts.iter().zip(files).zip(sizes);
    let refused = split.refused.len();
    if arguments.json {
        let part = |((part, file), (rows, groups)): ((&SplitPart, &PathBuf), (&u64, &u64))| {
            json!({
                "name": part.name,
                "file": file.display().to_string(),
                "rows": rows,
                "groups": groups,
            })
        };
        let value = json!({
            "parts": parts.map(part).collect::<Vec<_>>(),
            "refused": refused,
            "largest_group": split.largest(),
            "joined_by_ids_and_prefixes": split.joined_by_links,
            "joined_by_duplicates": split.joined_by_duplicates,
            "limited": split.limited,
        });
        return print(&format!("{value}\n")).map_err(|error| write_failed(&error));
    }
    let mut text = String::new();
    for ((part, _), (rows, groups)) in parts {
        let rows = counted(amount(*rows), "row");
        let groups = counted(amount(*groups), "group");
        text.push_str(&format!("{}: {rows} in {groups}\n", part.name));
    }
    let largest = counted(amount(split.largest()), "row");
    text.push_str(&format!(
        "largest group: {largest}; {refused} refused; groups joined by ids and beginnings: {}, by duplicates: {}\n",
        split.joined_by_links, split.joined_by_duplicates
    ));
    if split.limited > 0 {
        let rows = counted(amount(split.limited), "row");
        text.push_str(&format!(
            "warning: {rows} with more similar rows than are compared; near duplicates may be in two parts\n"
        ));
    }
    print_error(&text);
    Ok(())
}
