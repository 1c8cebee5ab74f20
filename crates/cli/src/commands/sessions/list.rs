//! `logue sessions list`: lists the sessions of a store.

use logue_harness::store::{
    SessionFilter, SharedStore, Suspension, SuspensionFilter, SuspensionStatus,
};
use logue_source::{ColorMode, escape_untrusted};
use serde_json::{Value, json};

use crate::arguments::ListArgs;
use crate::commands::sessions::ago;
use crate::exit::{CliError, Exit};
use crate::setup::session_agent::AGENT;
use crate::setup::store::store_failure;
use crate::terminal::{ignore_broken_pipe, output_style, print, print_styled};

const HEADINGS: [&str; 5] = ["SESSION", "MESSAGES", "CHANGED", "STATE", "AGENT"];

pub(super) async fn list(store: SharedStore, arguments: &ListArgs) -> Result<Exit, CliError> {
    let filter = SessionFilter {
        prefix: arguments.prefix.clone(),
        limit: arguments.limit,
    };
    let found = store.list(filter).await;
    let found = found.map_err(|error| store_failure(&error))?;
    let filter = SuspensionFilter {
        status: Some(SuspensionStatus::Suspended),
        ..SuspensionFilter::default()
    };
    let waiting = store.suspensions(filter).await;
    let waiting = waiting.map_err(|error| store_failure(&error))?;
    let of = |session: &str| -> Vec<&Suspension> {
        let waiting = waiting.iter();
        waiting.filter(|one| one.session == session).collect()
    };
    if arguments.json {
        let lines = found.iter().map(|info| {
            let waiting: Vec<&str> = of(&info.session)
                .iter()
                .map(|one| one.signal_id.as_str())
                .collect();
            let line = json!({
                "session_id": info.session,
                "messages": info.seq,
                "pending": info.pending,
                "suspended": waiting,
                "labels": info.labels,
                "cursor": info.cursor,
                "created_at": info.created_at.0,
                "updated_at": info.updated_at.0,
            });
            format!("{line}\n")
        });
        return ignore_broken_pipe(print(&lines.collect::<String>()));
    }
    let rows = found.iter().map(|info| {
        let waiting = of(&info.session);
        let mut state: Vec<String> = waiting
            .iter()
            .map(|one| format!("waits for {}", one.signal_id))
            .collect();
        if info.pending > 0 {
            state.push(format!("{} in the inbox", info.pending));
        }
        let agent = info.labels.get(AGENT).and_then(Value::as_str);
        [
            escape_untrusted(&info.session).into_owned(),
            info.seq.to_string(),
            ago(info.updated_at),
            escape_untrusted(&state.join(", ")).into_owned(),
            escape_untrusted(agent.unwrap_or_default()).into_owned(),
        ]
    });
    let style = output_style();
    ignore_broken_pipe(print_styled(
        &table(&rows.collect::<Vec<_>>(), style),
        style,
    ))
}

/// Formats rows as a table, with columns as wide as their longest cell.
fn table(rows: &[[String; 5]], style: ColorMode) -> String {
    let mut widths = HEADINGS.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String; 5]| {
        let cells = cells.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    let heading = line(&HEADINGS.map(str::to_owned));
    let mut text = if style == ColorMode::Ansi {
        format!("\u{1b}[1m{heading}\u{1b}[0m\n")
    } else {
        format!("{heading}\n")
    };
    for row in rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    text
}
