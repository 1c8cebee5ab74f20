//! Servers of the Model Context Protocol, both ways: those whose tools a prompt declares, and the one
//! that offers prompts to other programs (`logue mcp`).

mod list;
mod login;
mod serve;

use crate::arguments::McpCommand;
use crate::exit::{Exit, Failure};

pub(crate) fn mcp(command: &McpCommand) -> Result<Exit, Failure> {
    match command {
        McpCommand::Serve(arguments) => serve::serve(arguments),
        McpCommand::Login(arguments) => login::login(arguments),
        McpCommand::List(arguments) => list::list(arguments),
    }
}
