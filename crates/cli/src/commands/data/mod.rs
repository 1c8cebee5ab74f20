//! `logue data`: converts, masks, checks, deduplicates, splits and samples data sets.

mod convert;
mod decontaminate;
mod dedup;
mod mask;
mod report;
mod run;
mod sample;
mod split;

use crate::arguments::DataCommand;
use crate::exit::{CliError, Exit};

pub(crate) fn data(command: &DataCommand) -> Result<Exit, CliError> {
    match command {
        DataCommand::Convert(arguments) => convert::convert(arguments),
        DataCommand::Mask(arguments) => mask::mask(arguments),
        DataCommand::Dedup(arguments) => dedup::dedup(arguments),
        DataCommand::Decontaminate(arguments) => decontaminate::decontaminate(arguments),
        DataCommand::Split(arguments) => split::split(arguments),
        DataCommand::Sample(arguments) => sample::sample(arguments),
    }
}
