//! `logue help`: prints the full help of a command.

use crate::arguments::{HelpArgs, command};
use crate::exit::{CliError, Exit};
use crate::terminal::{ignore_broken_pipe, print};

pub(crate) fn help(arguments: &HelpArgs) -> Result<Exit, CliError> {
    let mut program = command();
    program.build();
    let mut named = &mut program;
    let mut path = String::from("logue");
    for name in &arguments.command {
        let names: Vec<String> = named
            .get_subcommands()
            .map(|each| each.get_name().to_owned())
            .collect();
        let Some(next) = named.find_subcommand_mut(name) else {
            let message = format!("`{path}` has no command `{name}`");
            let error = CliError::new(Exit::Usage, "usage", message);
            return Err(
                match chatmd::suggest(name, names.iter().map(String::as_str)) {
                    Some(known) => error.with_help(format!("did you mean `{known}`?")),
                    None => error.with_help(format!("`{path} --help` lists the commands")),
                },
            );
        };
        path = format!("{path} {name}");
        named = next;
    }
    ignore_broken_pipe(print(&named.render_long_help().to_string()))
}
