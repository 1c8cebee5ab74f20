//! `logue data`: converts, masks, checks, deduplicates, splits and samples data sets.

mod convert;
mod mask;
mod report;
mod run;

use crate::arguments::DataCommand;
use crate::exit::{CliError, Exit};

pub(crate) fn data(command: &DataCommand) -> Result<Exit, CliError> {
    match command {
        DataCommand::Convert(arguments) => convert::convert(arguments),
        DataCommand::Mask(arguments) => mask::mask(arguments),
    }
}
