//! `logue sessions search`: finds messages by their words.

use std::collections::BTreeMap;

use logue_harness::Timestamp;
use logue_harness::store::{SessionFilter, SharedStore};
use logue_message::ChatMessage;
use logue_source::escape_line;
use logue_store::{SearchHit, SearchIndex};
use serde_json::json;

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
    let hits = index.find(&words, arguments.limit);
    let hits = hits.map_err(|error| store_failure(&error))?;
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
        let lines = hits.iter().map(|hit| {
            let line = json!({
                "session_id": hit.session,
                "message": hit.seq,
                "role": hit.role,
                "excerpt": hit.excerpt,
                "updated_at": changed(hit).0,
            });
            format!("{line}\n")
        });
        print(&lines.collect::<String>())
    } else if hits.is_empty() {
        print_error("no message contains these words\n");
        Ok(())
    } else {
        let style = output_style();
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
        print_styled(&table(COLUMNS, &rows, style), style)
    };
    ignore_broken_pipe(printed)?;
    Ok(if hits.is_empty() {
        Exit::Findings
    } else {
        Exit::Done
    })
}
