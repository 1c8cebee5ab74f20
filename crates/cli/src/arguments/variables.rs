//! The flags for the variables of a prompt.

use std::path::PathBuf;

use clap::Args;

/// The values of variables.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct VariableArgs {
    /// Set a variable that the prompt declares
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) variables: Vec<(String, String)>,

    /// Read values of variables from the object in a JSON file
    #[arg(long = "vars", value_name = "FILE", hide_short_help = true)]
    pub(crate) variable_files: Vec<PathBuf>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}
