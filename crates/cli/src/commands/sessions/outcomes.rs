//! `logue sessions outcomes`: prints each outcome of a turn once.

use std::time::Duration;

use logue_harness::Clock as _;
use logue_harness::store::{OutcomeKind, SharedStore, StoredOutcome};
use serde_json::{Value, json};

use crate::arguments::OutcomesArgs;
use crate::commands::sessions::known;
use crate::commands::sessions::show::{body, format_message, heading, messages, outcome_json};
use crate::exit::{CliError, Exit};
use crate::setup::signals::signalled;
use crate::setup::store::store_failure;
use crate::terminal::{ignore_broken_pipe, output_style, print, print_styled};
use logue_harness::SystemClock;

/// Interval between two queries for new outcomes.
const POLL: Duration = Duration::from_millis(200);
const PAGE: usize = 100;

pub(super) async fn outcomes(
    store: SharedStore,
    arguments: &OutcomesArgs,
) -> Result<Exit, CliError> {
    let session = arguments.session.as_str();
    known(&store, session).await?;
    let mut cursor = arguments.after.unwrap_or_default();
    let mut signal = std::pin::pin!(signalled());
    loop {
        let page = store.outcomes_since(session, cursor, PAGE).await;
        let page = page.map_err(|error| store_failure(&error))?;
        for outcome in &page {
            let text = format_outcome(&store, session, outcome, arguments.json).await?;
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
            cursor = outcome.cursor;
        }
        if page.len() == PAGE {
            continue;
        }
        if !arguments.follow {
            return Ok(Exit::Done);
        }
        tokio::select! {
            biased;
            exit = &mut signal => return Ok(exit),
            () = SystemClock.sleep(POLL) => {}
        }
    }
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
