//! `logue mcp`: clients and a server of the Model Context Protocol.
//!
//! The clients use servers whose tools a prompt declares. The server offers prompts to other
//! programs.

mod list;
mod login;
mod serve;

use crate::arguments::McpCommand;
use crate::exit::{CliError, Exit};

pub(crate) fn mcp(command: &McpCommand) -> Result<Exit, CliError> {
    match command {
        McpCommand::Serve(arguments) => serve::serve(arguments),
        McpCommand::Login(arguments) => login::login(arguments),
        McpCommand::List(arguments) => list::list(arguments),
    }
}
