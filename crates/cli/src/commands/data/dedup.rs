//! `logue data dedup`: removes exact and near duplicates.

use logue_data::duplicates::{DuplicateRemoval, DuplicateRules, find_duplicates};
use logue_data::{FieldPath, Inputs};

use crate::arguments::DedupArgs;
use crate::commands::data::report::file_name;
use crate::commands::data::run::{beside, failure, input_names, require_files, run, threads};
use crate::counted::{amount, counted};
use crate::exit::{CliError, Exit};
use crate::terminal::print_error;

pub(crate) fn dedup(arguments: &DedupArgs) -> Result<Exit, CliError> {
    let files = &arguments.files;
    let names = input_names(files);
    require_files(&names, "three times")?;
    let output = files.output.as_ref();
    let rules = DuplicateRules::new(arguments.threshold)
        .with_shingle(arguments.shingle.get())
        .with_exact_only(arguments.exact)
        .with_fields(arguments.fields.iter().map(FieldPath::new).collect());
    let inputs = || Inputs::new(names.clone(), None);
    let found = find_duplicates(inputs, &rules, threads(files.jobs)).map_err(|e| failure(&e))?;
    let duplicates = &found.duplicates;
    if let Some(evidence) = beside(arguments.evidence.as_ref(), output, ".duplicates.jsonl") {
        let written = duplicates.write_evidence(&evidence, &names);
        written.map_err(|error| failure(&error))?;
    }
    let command = format!(
        "dedup {} {} {} {:?}",
        arguments.threshold, arguments.shingle, arguments.exact, arguments.fields
    );
    let tally = run(files, command, |row, output| {
        if found.refused.contains(row.place.row)
            && let Some(refusal) = rules.refusal(row.bytes)
        {
            return Err(refusal);
        }
        match duplicates.removal(row.place.row) {
            Some(removal) => {
                let text = || kept(&names, removal);
                output.tally.find(kind(removal), 1, row.place, text);
            }
            None => output.copy(row.bytes),
        }
        Ok(())
    })?;
    if duplicates.limited > 0 {
        let rows = counted(amount(duplicates.limited), "row");
        print_error(&format!(
            "warning: {rows} with more similar rows than are compared; some duplicates may remain\n"
        ));
    }
    Ok(if tally.refusals() > 0 {
        Exit::Findings
    } else {
        Exit::Done
    })
}

const fn kind(removal: &DuplicateRemoval) -> &'static str {
    match removal.overlap {
        None => "removed: exact duplicate",
        Some(_) => "removed: near duplicate",
    }
}

/// Returns the place of the row that is kept for a removed one.
fn kept(names: &[std::path::PathBuf], removal: &DuplicateRemoval) -> String {
    let name = file_name(names, removal.kept.file);
    let index = removal.overlap.map_or_else(String::new, |overlap| {
        format!(" with Jaccard index {:.3}", overlap.jaccard())
    });
    format!("of {name}:{}{index}", removal.kept.line)
}
