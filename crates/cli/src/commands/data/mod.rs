//! `logue data`: converts, masks, checks, deduplicates, splits and samples data sets.

mod check;
mod convert;
mod decontaminate;
mod dedup;
mod examine;
mod files;
mod from_sessions;
mod mask;
mod page;
mod report;
mod run;
mod sample;
mod split;

use crate::arguments::DataCommand;
use crate::exit::{CliError, Exit};

pub(crate) fn data(command: &DataCommand) -> Result<Exit, CliError> {
    files::require_apart(command)?;
    match command {
        DataCommand::Convert(arguments) => convert::convert(arguments),
        DataCommand::Mask(arguments) => mask::mask(arguments),
        DataCommand::Dedup(arguments) => dedup::dedup(arguments),
        DataCommand::Decontaminate(arguments) => decontaminate::decontaminate(arguments),
        DataCommand::Split(arguments) => split::split(arguments),
        DataCommand::Sample(arguments) => sample::sample(arguments),
        DataCommand::Check(arguments) => check::check(arguments),
        DataCommand::Stats(arguments) => check::stats(arguments),
        DataCommand::FromSessions(arguments) => from_sessions::from_sessions(arguments),
    }
}
