//! The program `logue`.
//!
//! It parses the command line, reads the environment and `logue.toml`, and calls the libraries. No
//! library prints. Answers go to standard output, progress and errors to standard error. The exit
//! status ([`exit::Exit`]) classifies the result.
#![deny(unsafe_code)]

mod age;
mod arguments;
mod commands;
mod conversion;
mod counted;
mod exit;
mod files;
mod finding;
mod language;
mod memory;
mod progress;
mod rewrite;
mod sarif;
mod setup;
mod table;
mod telemetry;
mod terminal;
mod token_ids;

use std::process::ExitCode;

use logue_tools::sandbox;

use crate::arguments::{Command, plain_error};
use crate::commands::{
    ask, check, convert, data, debug, doctor, explain, fix, fmt, generate, help, init, mcp, models,
    replay, run, scan, send, serve, sessions, signal, tokens, trust, view,
};
use crate::exit::Exit;
use crate::setup::attachments::pdf;

fn main() -> ExitCode {
    // The program starts itself as the launcher of a sandboxed tool command.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == sandbox::LAUNCHER_ARG)
    {
        return sandbox::launch();
    }
    // The program starts itself to read a PDF as well.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == pdf::PDF_ARG)
    {
        return pdf::read_in_this_process();
    }
    let cli = match arguments::parse() {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            };
            let first = std::env::args_os().nth(1).unwrap_or_default();
            // A closed pipe while printing help is not an error.
            drop(plain_error(error, &first.to_string_lossy()).print());
            return exit.into();
        }
    };
    let result = match cli.command {
        Command::Init(arguments) => init::init(&arguments),
        Command::Ask(arguments) => ask::ask(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Replay(arguments) => replay::replay(&arguments),
        Command::Send(arguments) => send::send(&arguments),
        Command::Signal(arguments) => signal::signal(&arguments),
        Command::Sessions(command) => sessions::sessions(&command),
        Command::Trust(arguments) => trust::trust(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Fmt(arguments) => fmt::fmt(&arguments),
        Command::Fix(arguments) => fix::fix(&arguments),
        Command::Convert(arguments) => convert::convert(&arguments),
        Command::Data(command) => data::data(&command),
        Command::Scan(arguments) => scan::scan(&arguments),
        Command::View(arguments) => view::view(&arguments),
        Command::Tokens(command) => tokens::tokens(&command),
        Command::Serve(arguments) => serve::serve(*arguments),
        Command::Mcp(command) => mcp::mcp(&command),
        Command::Debug(command) => debug::debug(&command),
        Command::Models(arguments) => models::models(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Help(arguments) => help::help(&arguments),
        Command::Completions(arguments) => generate::completions(arguments.shell),
        Command::Man { folder } => generate::pages(folder.as_deref()),
    };
    let exit = match result {
        Ok(exit) => exit,
        Err(failure) => {
            terminal::report(&failure);
            failure.exit
        }
    };
    // The answer is printed before the program waits for a collector.
    telemetry::finish();
    exit.into()
}
