//! `logue sessions list`: lists the sessions of a store.

use logue_harness::store::{
    SessionFilter, SessionInfo, SharedStore, Suspension, SuspensionFilter, SuspensionStatus,
};
use logue_server::{is_request_label, is_request_record};
use logue_source::escape_line;
use serde_json::{Value, json};

use crate::age::ago;
use crate::arguments::ListArgs;
use crate::exit::{CliError, Exit};
use crate::setup::session_agent::{AGENT, EVALUATED};
use crate::setup::session_location::{elsewhere, put_location};
use crate::setup::store::store_failure;
use crate::setup::suspended::obstacle;
use crate::table::{Align, table};
use crate::terminal::{ignore_broken_pipe, output_style, print, print_styled};

const COLUMNS: [(&str, Align); 5] = [
    ("SESSION", Align::Left),
    ("MESSAGES", Align::Left),
    ("CHANGED", Align::Left),
    ("STATE", Align::Left),
    ("AGENT", Align::Left),
];

/// The least number of sessions that are read again.
const LEAST_READ: usize = 64;

pub(super) async fn list(store: SharedStore, arguments: &ListArgs) -> Result<Exit, CliError> {
    let found = sessions(&store, arguments).await?;
    let filter = SuspensionFilter {
        status: Some(SuspensionStatus::Suspended),
        is_usable: true,
        ..SuspensionFilter::default()
    };
    let waiting = store.suspensions(filter).await;
    let waiting = waiting.map_err(|error| store_failure(&error))?;
    let of = |info: &SessionInfo| -> Vec<&Suspension> {
        let waiting = waiting.iter();
        waiting.filter(|one| one.session == info.session).collect()
    };
    if arguments.json {
        let lines = found.iter().map(|info| {
            let waiting: Vec<&str> = of(info)
                .iter()
                .filter(|one| obstacle(one).is_none())
                .map(|one| one.signal_id.as_str())
                .collect();
            let mut labels = info.labels.clone();
            labels.remove(EVALUATED);
            labels.retain(|name, _| arguments.all || !is_request_label(name));
            let mut line = json!({
                "session_id": info.session,
                "messages": info.seq,
                "pending": info.pending,
                "suspended": waiting,
                "labels": labels,
                "cursor": info.cursor,
                "created_at": info.created_at.0,
                "updated_at": info.updated_at.0,
            });
            put_location(&mut line, info.elsewhere.as_ref());
            format!("{line}\n")
        });
        return ignore_broken_pipe(print(&lines.collect::<String>()));
    }
    let rows = found.iter().map(|info| {
        let waiting = of(info);
        let mut state: Vec<String> = waiting
            .iter()
            .map(|one| match obstacle(one) {
                None => format!("waits for {}", one.signal_id),
                Some(reason) => format!("{} no longer applies: {reason}", one.signal_id),
            })
            .collect();
        state.extend(info.elsewhere.as_ref().and_then(elsewhere));
        if info.pending > 0 {
            state.push(format!("{} in the inbox", info.pending));
        }
        let agent = info.labels.get(AGENT).and_then(Value::as_str);
        [
            escape_line(&info.session).into_owned(),
            info.seq.to_string(),
            ago(info.updated_at),
            escape_line(&state.join(", ")).into_owned(),
            escape_line(agent.unwrap_or_default()).into_owned(),
        ]
    });
    let style = output_style();
    ignore_broken_pipe(print_styled(
        &table(COLUMNS, &rows.collect::<Vec<_>>(), style),
        style,
    ))
}

/// Returns the latest sessions, without the records of served requests unless all are asked for.
async fn sessions(store: &SharedStore, arguments: &ListArgs) -> Result<Vec<SessionInfo>, CliError> {
    // The hidden records are read too, so that more may be necessary for the limit.
    let mut limit = arguments.limit;
    loop {
        let filter = SessionFilter {
            prefix: arguments.prefix.clone(),
            limit,
            ..SessionFilter::default()
        };
        let found = store.list(filter).await;
        let mut found = found.map_err(|error| store_failure(&error))?;
        let is_complete = limit.is_none_or(|limit| found.len() < limit);
        found.retain(|info| arguments.all || !is_request_record(info));
        let wanted = arguments.limit.unwrap_or(usize::MAX);
        if is_complete || found.len() >= wanted {
            found.truncate(wanted);
            return Ok(found);
        }
        limit = limit.map(|limit| limit.saturating_mul(2).max(LEAST_READ));
    }
}
