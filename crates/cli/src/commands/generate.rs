//! Completions and manual pages, generated from the definition of the command line.

use std::io::{self, Write as _};
use std::path::Path;

use clap_complete::Shell;

use crate::arguments::command;
use crate::exit::{CliError, Exit};
use crate::files::io_cause;
use crate::terminal::{ignore_broken_pipe, write_failed};

pub(crate) fn completions(shell: Shell) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "logue", &mut script);
    ignore_broken_pipe(io::stdout().write_all(&script))
}

pub(crate) fn pages(folder: Option<&Path>) -> Result<Exit, CliError> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command())
            .render(&mut page)
            .map_err(|error| write_failed(&error))?;
        return ignore_broken_pipe(io::stdout().write_all(&page));
    };
    clap_mangen::generate_to(command(), folder).map_err(|error| {
        let message = format!("cannot write to {}: {}", folder.display(), io_cause(&error));
        CliError::user("pages_write_failed", message)
            .with_help("name an existing directory that you may write")
    })?;
    Ok(Exit::Done)
}
