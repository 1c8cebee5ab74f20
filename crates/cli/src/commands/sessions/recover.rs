//! `logue sessions recover`: finishes the turns of processes that died.

use std::collections::BTreeSet;
use std::sync::Arc;

use logue_harness::chat::{ChatTurnOutcome, wake_time};
use logue_harness::store::{
    SessionFilter, SessionInfo, SharedStore, SuspensionFilter, SuspensionStatus,
};
use logue_harness::{Clock as _, SystemClock};
use logue_source::escape_line;
use serde_json::json;

use crate::arguments::RecoverArgs;
use crate::commands::sessions::retry::TurnFlags;
use crate::exit::{CliError, Exit};
use crate::setup::output::Output;
use crate::setup::session_turn::{code_of, exit_of};
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, until_signal};
use crate::setup::store::{known, open, release_leases, store_failure, usable};
use crate::setup::suspended::file_of;
use crate::telemetry;
use crate::terminal::{ignore_broken_pipe, print, print_error};

/// The maximum number of outcomes per page.
const PAGE: usize = 1_000;

pub(super) fn recover(arguments: &RecoverArgs) -> Result<Exit, CliError> {
    let settings = Settings::load(arguments.trust.trust).inspect(telemetry::start)?;
    let store = open(&arguments.store, &settings)?;
    let runtime = runtime()?;
    let recovered = runtime.block_on(async {
        let recovered = Box::pin(until_signal(recover_each(arguments, &settings, &store))).await;
        if recovered.is_err() {
            release_leases().await;
        }
        recovered
    });
    // Cancelled tools have been killed. The shutdown does not wait for reading threads.
    runtime.shutdown_background();
    recovered.unwrap_or_else(Ok)
}

/// Recovers one session after the other. A session that fails does not stop the others.
async fn recover_each(
    arguments: &RecoverArgs,
    settings: &Settings,
    store: &SharedStore,
) -> Result<Exit, CliError> {
    let sessions = if arguments.which.all {
        let all = store.list(SessionFilter::default()).await;
        let all = all.map_err(|error| store_failure(&error))?;
        let due = due(store).await?;
        let is_open = |info: &SessionInfo| {
            info.pending > 0 || (info.elsewhere.is_none() && due.contains(&info.session))
        };
        let pending = all.into_iter().filter(is_open);
        // The conversation of a file continues with `logue signal`.
        let sessions = pending.map(|info| info.session);
        sessions.filter(|id| file_of(id).is_none()).collect()
    } else {
        arguments.which.sessions.clone()
    };
    let mut exit = Exit::Done;
    for session in sessions {
        match recover_one(arguments, settings, store, &session).await {
            Ok(Exit::Done) => {}
            Ok(other) => exit = other,
            Err(failure) => {
                let session = escape_line(&session);
                let message = escape_line(&failure.message);
                print_error(&format!("{session}: error[{}]: {message}\n", failure.code));
                exit = failure.exit;
            }
        }
    }
    Ok(exit)
}

/// Returns the sessions with a turn that waits for a time that has come.
async fn due(store: &SharedStore) -> Result<BTreeSet<String>, CliError> {
    let filter = SuspensionFilter {
        status: Some(SuspensionStatus::Suspended),
        is_usable: true,
        ..SuspensionFilter::default()
    };
    let waiting = store.suspensions(filter).await;
    let waiting = waiting.map_err(|error| store_failure(&error))?;
    let now = SystemClock.now();
    let due = waiting.into_iter();
    let due = due.filter(|one| wake_time(one).is_some_and(|at| at <= now));
    Ok(due.map(|one| one.session).collect())
}

async fn recover_one(
    arguments: &RecoverArgs,
    settings: &Settings,
    store: &SharedStore,
    session: &str,
) -> Result<Exit, CliError> {
    let flags = TurnFlags {
        crash: arguments.crash,
        trust: &arguments.trust,
        model_args: &arguments.model_args,
    };
    let known = usable(store, session).await?;
    if known.pending == 0 && !due(store).await?.contains(session) {
        return Ok(Exit::Done);
    }
    let output = Arc::new(Output::new(false));
    let chat = flags.chat(store, session, settings, &output).await?;
    let settled = chat.recover(session).await;
    match settled.map_err(|error| store_failure(&error))? {
        None => {
            let words = "skipped: another process works on it";
            print_error(&format!("{}: {words}\n", escape_line(session)));
            return Ok(Exit::Done);
        }
        // Another process has just finished it, and reports the outcome.
        Some(0) => return still_pending(store, session).await,
        Some(_) => {}
    }
    let mut exit = Exit::Done;
    let mut cursor = known.cursor;
    loop {
        let page = chat.outcomes_since(session, cursor, PAGE).await;
        let page = page.map_err(|error| store_failure(&error))?;
        let Some((last, _)) = page.last() else {
            if cursor == known.cursor {
                return still_pending(store, session).await;
            }
            return Ok(exit);
        };
        cursor = *last;
        for (_, outcome) in &page {
            if let ChatTurnOutcome::Errored(turn) = outcome {
                exit = exit_of(turn);
            }
            let line = if arguments.json {
                let mut object = outcome.to_json();
                object["session_id"] = json!(session);
                format!("{object}\n")
            } else {
                format!("{}: {}\n", escape_line(session), ending(outcome))
            };
            ignore_broken_pipe(print(&line))?;
        }
    }
}

/// Reports a turn whose end the store did not accept.
async fn still_pending(store: &SharedStore, session: &str) -> Result<Exit, CliError> {
    if known(store, session).await?.pending == 0 {
        return Ok(Exit::Done);
    }
    let message = "the store did not accept the end of the turn, which stays in the inbox";
    Err(
        CliError::new(Exit::Retryable, "session_save_failed", message)
            .with_help("free some space, and recover again"),
    )
}

fn ending(outcome: &ChatTurnOutcome) -> String {
    match outcome {
        ChatTurnOutcome::Completed(_) => "completed".to_owned(),
        ChatTurnOutcome::Suspended(turn) => {
            let signal = escape_line(&turn.signal_descriptor.signal_id);
            format!("waits for {signal}")
        }
        ChatTurnOutcome::Errored(turn) => {
            let words = escape_line(&turn.diagnostic);
            format!("{}: {words}", code_of(turn))
        }
    }
}
