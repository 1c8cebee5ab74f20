//! `logue sessions outcomes`: prints each outcome of a turn once.

use std::time::Duration;

use logue_harness::Clock as _;
use logue_harness::store::{OutcomeKind, SharedStore, StoreError, StoredOutcome};
use logue_source::escape_line;
use serde_json::{Value, json};

use crate::arguments::OutcomesArgs;
use crate::commands::sessions::known;
use crate::commands::sessions::show::{body, format_message, heading, outcome_json};
use crate::exit::{CliError, Exit};
use crate::setup::signals::signalled;
use crate::setup::store::store_failure;
use crate::setup::stored_messages::messages;
use crate::terminal::{ignore_broken_pipe, output_style, print, print_error, print_styled};
use logue_harness::SystemClock;

/// Interval between two queries for new outcomes.
const POLL: Duration = Duration::from_millis(200);
const PAGE: usize = 100;
/// The code of a record that cannot be read.
const DAMAGED: &str = "store_corrupt";

pub(super) async fn outcomes(
    store: SharedStore,
    arguments: &OutcomesArgs,
) -> Result<Exit, CliError> {
    let session = arguments.session.as_str();
    known(&store, session).await?;
    let mut cursor = arguments.after.unwrap_or_default();
    let mut signal = std::pin::pin!(signalled());
    let mut exit = Exit::Done;
    loop {
        let Some(page) = page_after(&store, session, cursor).await? else {
            cursor += 1;
            exit = Exit::Findings;
            continue;
        };
        for outcome in &page {
            cursor = outcome.cursor;
            let text = match format_outcome(&store, session, outcome, arguments.json).await {
                Ok(text) => text,
                Err(failure) if failure.code == DAMAGED => {
                    report(cursor, &failure);
                    exit = Exit::Findings;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            let style = output_style();
            let written = if arguments.json {
                print(&text)
            } else {
                print_styled(&text, style)
            };
            if let Err(error) = written {
                // The reader has closed the pipe.
                return ignore_broken_pipe(Err(error));
            }
        }
        if !page.is_empty() {
            continue;
        }
        if !arguments.follow {
            return Ok(exit);
        }
        tokio::select! {
            biased;
            exit = &mut signal => return Ok(exit),
            () = SystemClock.sleep(POLL) => {}
        }
    }
}

/// Returns the outcomes after a cursor; `None` if the first of them cannot be read.
async fn page_after(
    store: &SharedStore,
    session: &str,
    cursor: u64,
) -> Result<Option<Vec<StoredOutcome>>, CliError> {
    for most in [PAGE, 1] {
        match store.outcomes_since(session, cursor, most).await {
            Ok(page) => return Ok(Some(page)),
            Err(StoreError::Damaged(_)) if most > 1 => {}
            Err(error) => {
                let failure = store_failure(&error);
                let info = known(store, session).await?;
                if failure.code != DAMAGED || info.cursor <= cursor {
                    return Err(failure);
                }
                report(cursor + 1, &failure);
            }
        }
    }
    Ok(None)
}

/// Prints that an outcome cannot be read.
fn report(cursor: u64, failure: &CliError) {
    let message = escape_line(&failure.message);
    print_error(&format!(
        "outcome {cursor}: error[{}]: {message}\n",
        failure.code
    ));
}

async fn format_outcome(
    store: &SharedStore,
    session: &str,
    outcome: &StoredOutcome,
    json: bool,
) -> Result<String, CliError> {
    let (from, to) = (outcome.replies_from, outcome.replies_to);
    let replies = messages(store, session, from, to).await?;
    if json {
        let mut line = outcome_json(outcome);
        if let Some(line) = line.as_object_mut() {
            line.insert("messages".to_owned(), json!(replies));
        }
        return Ok(format!("{line}\n"));
    }
    let style = output_style();
    let mut text = String::new();
    let word = |key: &str| outcome.body.get(key).and_then(Value::as_str).unwrap_or("");
    let how = match outcome.kind {
        OutcomeKind::Completed => "completed".to_owned(),
        OutcomeKind::Suspended => format!("waits for {}", word("signal_id")),
        _ => format!("failed: {}", word("category")),
    };
    heading(&mut text, &format!("{} {how}", outcome.cursor), style);
    body(&mut text, word("diagnostic"));
    for message in &replies {
        format_message(&mut text, message, style);
    }
    Ok(text)
}
