//! `logue sessions search`: finds messages by their words.

use std::collections::BTreeMap;

use logue_harness::Timestamp;
use logue_harness::store::{SessionFilter, SharedStore};
use logue_message::ChatMessage;
use logue_source::{ColorMode, escape_line};
use logue_store::{SearchHit, SearchIndex};
use serde_json::{Value, json};

use crate::age::ago;
use crate::arguments::SearchArgs;
use crate::commands::sessions::show::page;
use crate::exit::{CliError, Exit};
use crate::setup::store::store_failure;
use crate::table::{Align, table};
use crate::terminal::{ignore_broken_pipe, output_style, print, print_error, print_styled};

/// Messages that are read at once.
const PAGE: u64 = 1_000;

const COLUMNS: [(&str, Align); 4] = [
    ("SESSION", Align::Left),
    ("MESSAGE", Align::Right),
    ("CHANGED", Align::Left),
    ("TEXT", Align::Left),
];

pub(super) async fn search(store: SharedStore, arguments: &SearchArgs) -> Result<Exit, CliError> {
    // A quoted argument may contain several words.
    let words = arguments
        .words
        .iter()
        .flat_map(|word| word.split_whitespace());
    let words: Vec<&str> = words.collect();
    if !words
        .iter()
        .any(|word| word.chars().any(char::is_alphanumeric))
    {
        return Err(CliError::new(Exit::Usage, "usage", "no word to search for")
            .with_help("logue sessions search WORD"));
    }
    let filter = SessionFilter {
        prefix: arguments.prefix.clone(),
        limit: None,
        ..SessionFilter::default()
    };
    let sessions = store.list(filter).await;
    let sessions = sessions.map_err(|error| store_failure(&error))?;
    let mut index = SearchIndex::new().map_err(|error| store_failure(&error))?;
    let mut unreadable = 0_usize;
    // The most recent session is first among equally good ones.
    for info in &sessions {
        let mut at = 0;
        while at < info.seq {
            let messages = page(&store, &info.session, at, (info.seq - at).min(PAGE)).await?;
            if messages.is_empty() {
                break;
            }
            let texts: Vec<(u64, String, String)> = (at..)
                .zip(&messages)
                .filter(|(_, message)| !matches!(message, Ok(Value::Null)))
                .filter_map(|(seq, message)| {
                    let message = message.as_ref().ok();
                    let message = message.and_then(|json| ChatMessage::from_json(json).ok());
                    let Some(message) = message else {
                        unreadable += 1;
                        return None;
                    };
                    Some((seq, message.role.as_str().to_owned(), message.text()))
                })
                .collect();
            at += messages.len() as u64;
            let texts = texts
                .iter()
                .map(|(seq, role, text)| (*seq, &**role, &**text));
            let added = index.add(&info.session, texts);
            added.map_err(|error| store_failure(&error))?;
        }
    }
    let hits = index.find(&words, arguments.limit.saturating_add(1));
    let mut hits = hits.map_err(|error| store_failure(&error))?;
    let has_more = hits.len() > arguments.limit;
    hits.truncate(arguments.limit);
    let changed: BTreeMap<&str, Timestamp> = sessions
        .iter()
        .map(|info| (&*info.session, info.updated_at))
        .collect();
    let changed = |hit: &SearchHit| changed.get(&*hit.session).copied().unwrap_or(Timestamp(0));
    if unreadable > 0 {
        print_error(&format!(
            "warning: messages that cannot be read: {unreadable}; see `logue sessions verify`\n"
        ));
    }
    let printed = if arguments.json {
        print(&as_json_lines(
            &hits,
            &changed,
            has_more.then_some(arguments.limit),
        ))
    } else if hits.is_empty() {
        print_error("no message contains these words\n");
        Ok(())
    } else {
        let style = output_style();
        print_styled(&as_table(&hits, &changed, style), style)
    };
    ignore_broken_pipe(printed)?;
    if has_more && !arguments.json {
        let more = arguments.limit.saturating_mul(5).max(20);
        print_error(&format!(
            "more messages contain these words; --limit {more} prints up to {more}\n"
        ));
    }
    Ok(if hits.is_empty() {
        Exit::Findings
    } else {
        Exit::Done
    })
}

fn as_table(
    hits: &[SearchHit],
    changed: &dyn Fn(&SearchHit) -> Timestamp,
    style: ColorMode,
) -> String {
    let rows: Vec<[String; 4]> = hits
        .iter()
        .map(|hit| {
            [
                escape_line(&hit.session).into_owned(),
                hit.seq.to_string(),
                ago(changed(hit)),
                format!("{}: {}", hit.role, escape_line(&hit.excerpt)),
            ]
        })
        .collect();
    table(COLUMNS, &rows, style)
}

/// Returns the messages as JSON lines.
///
/// The last line names the limit if more messages were found.
fn as_json_lines(
    hits: &[SearchHit],
    changed: &dyn Fn(&SearchHit) -> Timestamp,
    limit: Option<usize>,
) -> String {
    let lines = hits.iter().map(|hit| {
        json!({
            "session_id": hit.session,
            "message": hit.seq,
            "role": hit.role,
            "excerpt": hit.excerpt,
            "updated_at": changed(hit).0,
        })
    });
    let more = limit.map(|limit| json!({"more": true, "limit": limit}));
    let mut text = String::new();
    for line in lines.chain(more) {
        text.push_str(&format!("{line}\n"));
    }
    text
}
