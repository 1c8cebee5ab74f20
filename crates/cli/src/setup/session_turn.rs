//! The events and the outcome of a session's turn.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use logue_agent::{Listener as _, TurnEvent};
use logue_graph::{RunEvent, SignalDescriptor};
use logue_harness::chat::{
    ChatEvent, ChatTurnOutcome, ErroredTurn, OnCrash, RetryError, SignalError, TurnStream,
};
use logue_message::ChatMessage;
use logue_model::redacted_base_url;
use logue_source::quote_word;
use logue_store::redacted_address;
use serde_json::Value;

use crate::arguments::StoreArgs;
use crate::exit::{CliError, Exit};
use crate::setup::output::Output;
use crate::setup::question::ASKED;
use crate::setup::signals::{save_part, signalled};
use crate::setup::store::{release_leases, store_failure};
use crate::setup::suspended::file_of;
use crate::terminal::write_failed;

/// The fate of the text of an answer that broke off.
pub(crate) const PART_KEPT: &str = "the received part is kept as an interrupted answer";

/// Reports the outcome of a session's turn.
pub(crate) fn report_outcome(
    output: &Output,
    store: &StoreArgs,
    base_url: Option<&str>,
    ended: Result<Ended, CliError>,
) -> Result<Exit, CliError> {
    output.finish();
    let failure = match ended {
        Ok(Ended::Signalled(exit)) => {
            output.cancelled(exit, None);
            return Ok(exit);
        }
        Ok(Ended::Stopped {
            exit,
            session,
            progress,
            on_crash,
        }) => {
            output.stopped(exit, &left(progress, &session, store, on_crash));
            return Ok(exit);
        }
        Ok(Ended::Created) => return Ok(Exit::Done),
        Ok(Ended::Turn { outcome, session }) => match *outcome {
            ChatTurnOutcome::Errored(turn) => {
                let failure = failed(&turn, store);
                if turn.resumable {
                    failure.with_help(go_on(&session, store, output))
                } else {
                    failure
                }
            }
            ChatTurnOutcome::Completed(turn) => {
                output.answered(&turn);
                output.written().map_err(|error| write_failed(&error))?;
                return Ok(Exit::Done);
            }
            ChatTurnOutcome::Suspended(turn) => {
                let text = turn
                    .pending_messages
                    .iter()
                    .rev()
                    .map(ChatMessage::text)
                    .next();
                let command = resume_command(&turn.signal_descriptor, store, base_url);
                let id = &turn.invocation_id;
                output.suspended(id, &turn.signal_descriptor, text.as_deref(), &command);
                output.written().map_err(|error| write_failed(&error))?;
                return Ok(Exit::Suspended);
            }
        },
        Err(failure) => failure,
    };
    output.failed(&failure);
    Err(failure)
}

/// The end of a turn in this process.
pub(crate) enum Ended {
    Turn {
        outcome: Box<ChatTurnOutcome>,
        session: String,
    },
    /// A session was created in which nothing has to run.
    Created,
    /// A signal of the system ended the process before it had begun a turn.
    Signalled(Exit),
    /// A signal of the system ended the process; its turn stays.
    Stopped {
        exit: Exit,
        session: String,
        progress: Progress,
        on_crash: OnCrash,
    },
}

/// The progress of a turn, as its process has seen it.
#[derive(Clone, Copy)]
pub(crate) enum Progress {
    /// The store has not acknowledged it.
    Sent,
    /// It is in the inbox.
    Accepted,
    /// It runs.
    Begun,
}

/// Returns the report of a turn whose process was stopped.
fn left(progress: Progress, session: &str, store: &StoreArgs, on_crash: OnCrash) -> String {
    if file_of(session).is_some() {
        return "stopped: the same command continues the turn".to_owned();
    }
    let flag = store_flag(store);
    let name = quote_word(session);
    let next = format!("the next command on {name}, or `logue sessions recover {name}{flag}`");
    match progress {
        Progress::Sent => format!(
            "stopped before the store answered: `logue sessions show {name}{flag}` lists the message \
             if it is in the inbox"
        ),
        Progress::Accepted => {
            format!("stopped: the message stays in the inbox and runs with {next}")
        }
        Progress::Begun if on_crash == OnCrash::Stop => format!(
            "stopped: with `--on-crash stop` the next command on {name} ends the turn and keeps what \
             it did; `logue sessions recover {name}{flag} --on-crash continue` continues it"
        ),
        Progress::Begun if session.starts_with(ASKED) => format!(
            "stopped: `logue ask -c` continues after the part that was received; `logue sessions \
             recover {name}{flag}` asks the question again"
        ),
        Progress::Begun => format!("stopped: the turn continues with {next}"),
    }
}

/// Shows the events of a turn until it ends or a signal arrives.
///
/// After a signal the next command continues the turn.
pub(crate) async fn watch(
    mut turn: TurnStream<TurnEvent>,
    output: &Arc<Output>,
    session: &str,
    on_crash: OnCrash,
) -> Ended {
    let mut signal = std::pin::pin!(signalled());
    let mut progress = Progress::Sent;
    loop {
        let event = tokio::select! {
            biased;
            exit = &mut signal => {
                save_part(async { while turn.next().await.is_some() {} }, output.stop()).await;
                drop(turn);
                release_leases().await;
                let session = session.to_owned();
                return Ended::Stopped { exit, session, progress, on_crash };
            }
            event = turn.next() => event,
        };
        match &event {
            Some(ChatEvent::Accepted { .. }) => progress = Progress::Accepted,
            Some(ChatEvent::Run { .. }) => progress = Progress::Begun,
            _ => {}
        }
        match event {
            Some(ChatEvent::Run {
                event: RunEvent::Emitted(event),
                ..
            }) => output.event(event),
            Some(ChatEvent::Outcome(outcome)) => {
                let session = session.to_owned();
                return Ended::Turn { outcome, session };
            }
            Some(_) => {}
            // The outcome is the last event, so this does not happen.
            None => return Ended::Signalled(Exit::Internal),
        }
    }
}

/// Returns the command that resumes a turn.
///
/// It repeats `--base-url`, unless the address has secrets. Calls with redacted arguments run only if
/// they are edited.
pub(crate) fn resume_command(
    descriptor: &SignalDescriptor,
    store: &StoreArgs,
    base_url: Option<&str>,
) -> String {
    let store = store_flag(store);
    let shown = base_url.filter(|url| redacted_base_url(url) == *url);
    let server = shown.map_or(String::new(), |url| {
        format!(" --base-url {}", quote_word(url))
    });
    format!(
        "logue signal {} --approve{}{store}{server}",
        quote_word(&descriptor.signal_id),
        edits(descriptor.metadata.as_ref())
    )
}

/// Returns the flags that complete redacted arguments.
fn edits(metadata: Option<&Value>) -> String {
    let calls = metadata.and_then(|metadata| metadata.get("calls")?.as_array());
    let calls: Vec<&Value> = calls.into_iter().flatten().collect();
    let redacted = calls.iter().filter(|call| call.get("redacted").is_some());
    let edit = |call: &&Value| match call.get("id").and_then(Value::as_str) {
        Some(id) if calls.len() > 1 => format!(" --edit {}=ARGUMENTS.json", quote_word(id)),
        _ => " --edit ARGUMENTS.json".to_owned(),
    };
    redacted.map(edit).collect()
}

/// Returns the remedy of a failed turn whose calls are in the history.
fn go_on(session: &str, store: &StoreArgs, output: &Output) -> String {
    let kept = match (output.has_calls(), output.has_part()) {
        (true, _) => "the calls of this turn and their results are kept",
        (false, true) => PART_KEPT,
        (false, false) => "the completed parts of this turn are kept",
    };
    if file_of(session).is_some() {
        return format!("{kept}: run the same command again to continue from them");
    }
    let store = store_flag(store);
    if session.starts_with(ASKED) {
        let session = quote_word(session);
        return format!("{kept}: `logue sessions retry {session}{store}` continues from them");
    }
    let session = quote_word(session);
    format!(
        "{kept}: the same command, or `logue sessions retry {session}{store}`, continues from them"
    )
}

/// Returns the error of a session in which nothing can be tried again.
pub(crate) fn not_retried(error: &RetryError) -> CliError {
    match error {
        RetryError::Store(error) => store_failure(error),
        error => CliError::user("nothing_to_retry", error.to_string())
            .with_help("`logue sessions show` prints its turns; `logue send` begins another one"),
    }
}

/// Returns the flag that names the store, without a password.
pub(crate) fn store_flag(store: &StoreArgs) -> String {
    let url = store.store.as_deref();
    url.map_or(String::new(), |url| {
        format!(" --store {}", quote_word(&redacted_address(url)))
    })
}

/// Returns the exit status of a failed turn.
pub(crate) fn exit_of(turn: &ErroredTurn) -> Exit {
    match turn.error_category.as_str() {
        "session_busy" | "session_arriving" => Exit::Busy,
        "internal" => Exit::Internal,
        _ if turn.damaged => Exit::SessionTerminating,
        _ if turn.transient => Exit::Retryable,
        _ => Exit::from(turn.error_bucket),
    }
}

/// Returns the code of a failed turn.
pub(crate) fn code_of(turn: &ErroredTurn) -> &str {
    if turn.damaged {
        "store_corrupt"
    } else {
        &turn.error_category
    }
}

fn failed(turn: &ErroredTurn, store: &StoreArgs) -> CliError {
    let exit = exit_of(turn);
    let mut failure = CliError::new(exit, code_of(turn), &turn.diagnostic);
    failure.retry_after = turn.retry_after;
    if let Some(help) = &turn.help {
        failure = failure.with_help(help);
    }
    match turn.error_category.as_str() {
        "session_busy" => failure.with_help("wait for it, or use --busy enqueue"),
        "session_awaiting_signal" => {
            let store = store_flag(store);
            failure.with_help(format!(
                "decide it with `logue signal`; `logue sessions list{store}` names suspended turns"
            ))
        }
        "budget_exceeded" => failure.with_help(
            "completed parts are kept: raise --max-total-tokens or --max-cost and continue",
        ),
        "max_requests_reached" => failure.with_help("raise --max-requests"),
        _ => failure,
    }
}

pub(crate) fn refused(error: &SignalError) -> CliError {
    if let SignalError::Store(error) = error {
        return store_failure(error);
    }
    let failure = CliError::user(error.category(), error.to_string());
    match error {
        SignalError::Unknown { .. } => {
            failure.with_help("`logue sessions list` names suspended turns; see also --store")
        }
        SignalError::Contradicts { at, .. } => {
            // A date of HTTP has a year of four digits.
            let millis = at.0.min(253_402_300_799_000);
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
            let at = httpdate::fmt_http_date(at);
            failure
                .with_help(format!("decided at {at}; the first decision counts"))
                .with_help("nothing was changed; the same decision again shows the outcome")
        }
        SignalError::PayloadInvalid { .. } => failure.with_help("nothing was decided: try again"),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_command_contains_no_password() {
        let store = StoreArgs {
            store: Some("postgres://ana:secret@db.test/logue".to_owned()),
            store_listen: None,
        };
        let descriptor = SignalDescriptor {
            signal_id: "approve-1".to_owned(),
            metadata: None,
        };
        let command = resume_command(&descriptor, &store, Some("http://ana:secret@host/v1"));
        assert!(!command.contains("secret"), "{command}");
        assert!(command.contains("db.test/logue"), "{command}");
        let file = StoreArgs {
            store: Some("sqlite:s.db".to_owned()),
            store_listen: None,
        };
        let command = resume_command(&descriptor, &file, Some("http://host/v1"));
        assert_eq!(
            command,
            "logue signal approve-1 --approve --store sqlite:s.db --base-url http://host/v1"
        );
    }
}
