//! `logue data sample`: chooses rows by a seed.

use logue_data::{FieldPath, Inputs, SampleRules, SampleSize, choose_sample};

use crate::arguments::SampleArgs;
use crate::commands::data::run::{failure, input_names, require_files, run, threads};
use crate::exit::{CliError, Exit};

pub(crate) fn sample(arguments: &SampleArgs) -> Result<Exit, CliError> {
    let files = &arguments.files;
    let names = input_names(files);
    require_files(&names, "twice")?;
    let size = match (arguments.count, arguments.fraction) {
        (Some(count), _) => SampleSize::Count(count),
        (None, fraction) => SampleSize::Fraction(fraction.unwrap_or(1.0)),
    };
    let rules = SampleRules {
        size,
        seed: arguments.seed,
        field: arguments.by.as_ref().map(FieldPath::new),
    };
    let inputs = Inputs::new(names, None);
    let chosen = choose_sample(inputs, &rules, threads(files.jobs));
    let chosen = chosen.map_err(|error| failure(&error))?;
    let command = format!("sample {size:?} {} {:?}", arguments.seed, arguments.by);
    let tally = run(files, command, |row, output| {
        if chosen.contains(row.place.row) {
            output.copy(row.bytes);
            return Ok(());
        }
        rules.group(row.bytes).map(drop)
    })?;
    Ok(if tally.refusals() > 0 {
        Exit::Findings
    } else {
        Exit::Done
    })
}
