//! `logue sessions`: prints, copies, removes, verifies and repairs stored sessions.

mod audit;
mod backup;
mod branch;
mod copy;
pub(crate) mod exported;
mod import;
mod list;
mod migrate;
mod outcomes;
mod prune;
mod recover;
mod retry;
mod search;
pub(crate) mod show;
mod steps;
mod verify;

use std::io::{self, BufRead as _, IsTerminal as _};

use logue_harness::Timestamp;
use logue_harness::store::{SessionInfo, SessionLocation, SharedStore};
use logue_source::escape_line;

use crate::arguments::{RmArgs, SessionsCommand, StoreArgs};
use crate::counted::{amount, counted};
use crate::exit::{CliError, Exit};
use crate::setup::settings::Settings;
use crate::setup::signals::runtime;
use crate::setup::store::{check_exists, known, open, store_failure};
use crate::terminal::print_error;

pub(crate) fn sessions(command: &SessionsCommand) -> Result<Exit, CliError> {
    match command {
        SessionsCommand::List(arguments) => {
            with(&arguments.store, |store| list::list(store, arguments))
        }
        SessionsCommand::Search(arguments) => {
            with_existing(&arguments.store, |store| search::search(store, arguments))
        }
        SessionsCommand::Show(arguments) if arguments.audit => {
            match audit::file_of(&arguments.session) {
                Some(file) => audit::print_file(&file, arguments),
                None => with(&arguments.store, |store| {
                    audit::print_session(store, arguments)
                }),
            }
        }
        SessionsCommand::Show(arguments) if arguments.steps => {
            with(&arguments.store, |store| steps::show(store, arguments))
        }
        SessionsCommand::Show(arguments) => {
            with(&arguments.store, |store| show::show(store, arguments))
        }
        SessionsCommand::Outcomes(arguments) => with(&arguments.store, |store| {
            outcomes::outcomes(store, arguments)
        }),
        SessionsCommand::Fork(arguments) => {
            with(&arguments.store, |store| branch::fork(store, arguments))
        }
        SessionsCommand::Rerun(arguments) => branch::rerun(arguments),
        SessionsCommand::Retry(arguments) => retry::retry(arguments),
        SessionsCommand::Recover(arguments) => recover::recover(arguments),
        SessionsCommand::Export(arguments) => {
            with(&arguments.store, |store| copy::export(store, arguments))
        }
        SessionsCommand::Import(arguments) => import::import(arguments),
        SessionsCommand::Rm(arguments) => with(&arguments.store, |store| remove(store, arguments)),
        SessionsCommand::Prune(arguments) => prune::prune(arguments),
        SessionsCommand::Backup(arguments) => backup::backup(arguments),
        SessionsCommand::Restore(arguments) => backup::restore(arguments),
        SessionsCommand::Migrate(arguments) => migrate::migrate(arguments),
        SessionsCommand::Verify(arguments) => {
            let verified =
                with_existing(&arguments.store, |store| verify::verify(store, arguments));
            verified.or_else(|failure| verify::unopened(failure, &arguments.store, arguments.json))
        }
        SessionsCommand::Repair(arguments) => {
            let repaired = verify::mend(&arguments.store).and_then(|mended| {
                with_existing(&arguments.store, |store| {
                    verify::repair(store, arguments, mended)
                })
            });
            repaired
                .or_else(|failure| verify::unrepaired(failure, &arguments.store, arguments.json))
        }
    }
}

/// Opens the store and runs `job` with it.
fn with<F: Future<Output = Result<Exit, CliError>>>(
    arguments: &StoreArgs,
    job: impl FnOnce(SharedStore) -> F,
) -> Result<Exit, CliError> {
    let settings = Settings::load(false)?;
    let store = open(arguments, &settings)?;
    let runtime = runtime()?;
    runtime.block_on(job(store))
}

/// [`with`] a store that is there: a check of a new one would find a lost file sound.
fn with_existing<F: Future<Output = Result<Exit, CliError>>>(
    arguments: &StoreArgs,
    job: impl FnOnce(SharedStore) -> F,
) -> Result<Exit, CliError> {
    check_exists(arguments, &Settings::load(false)?)?;
    with(arguments, job)
}

async fn remove(store: SharedStore, arguments: &RmArgs) -> Result<Exit, CliError> {
    for session in &arguments.sessions {
        let info = known(&store, session).await?;
        if !arguments.yes && !agreed(&info)? {
            print_error(&format!("{} was not removed\n", escape_line(session)));
            continue;
        }
        let removed = match info.elsewhere {
            // The record that stayed may go; `delete` refuses it, so that no program forgets the move.
            Some(SessionLocation::Moved { .. }) => {
                store.prune(session, Timestamp(u64::MAX), true).await
            }
            _ => store.delete(session).await,
        };
        removed.map_err(|error| store_failure(&error))?;
    }
    Ok(Exit::Done)
}

/// Asks for confirmation on the terminal.
fn agreed(info: &SessionInfo) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        let message = format!("removal of `{}` requires confirmation", info.session);
        return Err(CliError::new(Exit::Usage, "usage", message).with_help("confirm with --yes"));
    }
    let (name, messages) = (
        escape_line(&info.session),
        counted(amount(info.seq), "message"),
    );
    print_error(&format!(
        "Remove {name} with its {messages} for good? [y/N] "
    ));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| CliError::new(Exit::Internal, "internal", error.to_string()))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
