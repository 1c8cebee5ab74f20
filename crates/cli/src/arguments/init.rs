//! The command line of `logue init`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::setup::templates::template_names;

/// Write a first prompt, settings and a CI file
///
/// Writes prompt.md, logue.toml, .gitattributes and .github/workflows/prompts.yml, and prints the next
/// command. The model is that of your settings, or of a server that answers. In a git repository, the CI
/// file is written to its top. No existing file is changed, except with --force.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue init\n  \
    logue init --template extract invoices")]
pub(crate) struct InitArgs {
    /// Directory for the files
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,

    /// Begin with this example and its recording, which runs offline
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(template_names()))]
    pub(crate) template: Option<String>,

    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
