//! The help: one screen by `-h` and `--help`, the full page by `logue help`.

use clap::{Arg, ArgAction, Args, Command, CommandFactory as _, Error, FromArgMatches as _};

use crate::arguments::Cli;

/// Print the full help of a command
///
/// `-h` and `--help` print the common flags on one screen. This command prints every flag and the
/// details, as the manual pages of `logue man` do.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    logue help run\n  \
    logue help sessions rerun | less")]
pub(crate) struct HelpArgs {
    /// The command, such as `run` or `sessions list` [default: the program]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Parses the arguments of the process.
///
/// # Errors
///
/// Returns the text to print: an error of the arguments, a help page or the version.
pub(crate) fn parse() -> Result<Cli, Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Returns the definition of the command line, with its help pages.
pub(crate) fn command() -> Command {
    with_help(Cli::command(), "logue help")
}

/// Shortens the help of a command and its subcommands to one screen by either flag.
///
/// `full` is the command that prints the full page.
fn with_help(command: Command, full: &str) -> Command {
    let flag = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::HelpShort)
        .help("Print the common flags");
    let names: Vec<String> = command
        .get_subcommands()
        .map(|each| each.get_name().to_owned())
        .collect();
    let examples = command.get_after_help().cloned().unwrap_or_default();
    let long = command.get_after_long_help().cloned();
    let has_more = command.get_long_about().is_some()
        || command
            .get_arguments()
            .any(|arg| arg.is_hide_short_help_set() || arg.get_long_help().is_some());
    let short = if has_more || long.is_some() {
        format!("{examples}\n\nAll flags and details: {full}").into()
    } else {
        examples.clone()
    };
    let mut command = command
        .disable_help_flag(true)
        .arg(flag)
        .after_help(short)
        .after_long_help(long.unwrap_or(examples));
    for name in names {
        let full = format!("{full} {name}");
        command = command.mut_subcommand(name, |each| with_help(each, &full));
    }
    command
}
