//! `logue sessions export`: prints a conversation.

use std::io::{self, IsTerminal as _};

use logue_agent::is_pending;
use logue_harness::store::SharedStore;
use logue_source::{UntrustedEscaper, escape_line};
use serde_json::{Value, json};

use crate::arguments::ExportArgs;
use crate::commands::sessions::exported::JSON;
use crate::commands::sessions::known;
use crate::commands::sessions::show::{page, report_unreadable};
use crate::conversion::in_memory::write_messages;
use crate::exit::{CliError, Exit};
use crate::progress::Progress;
use crate::setup::stored_messages::{messages, typed};
use crate::setup::suspended::refuse_file;
use crate::terminal::{ignore_broken_pipe, print, print_error, print_part};

/// Messages per page.
const PAGE: u64 = 64;
/// The text in the place of a message that cannot be read.
const UNREADABLE: &str = "(this message is damaged in the store)";

pub(super) async fn export(store: SharedStore, arguments: &ExportArgs) -> Result<Exit, CliError> {
    refuse_file(&arguments.session)?;
    let info = known(&store, &arguments.session).await?;
    if arguments.to == JSON {
        return export_json(&store, &arguments.session, info.seq).await;
    }
    let messages = messages(&store, &arguments.session, 0, info.seq).await?;
    let mut messages = typed(&messages).map_err(|error| {
        error.with_help("`logue sessions verify` reports the errors of the store")
    })?;
    // Messages about pending approvals do not come from the model.
    messages.retain(|message| !is_pending(message));
    let (text, losses) = write_messages(&messages, arguments.to)?;
    for loss in losses {
        print_error(&format!("warning: {}\n", escape_line(&loss)));
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    ignore_broken_pipe(print(&format!("{text}{end}")))
}

/// Prints the messages page by page, as one JSON object.
async fn export_json(store: &SharedStore, session: &str, seq: u64) -> Result<Exit, CliError> {
    let progress = Progress::items(seq, io::stdout().is_terminal());
    let mut escaper = UntrustedEscaper::default();
    let mut part = r#"{"messages":["#.to_owned();
    let (mut at, mut is_first, mut exit) = (0, true, Exit::Done);
    while at < seq {
        let found = page(store, session, at, (seq - at).min(PAGE)).await?;
        if found.is_empty() {
            break;
        }
        for message in found {
            if matches!(message, Ok(Value::Null)) {
                // A later answer supersedes it.
                at += 1;
                progress.advance(1);
                continue;
            }
            if is_first {
                is_first = false;
            } else {
                part.push(',');
            }
            let readable = message.and_then(|message| {
                let typed = typed(std::slice::from_ref(&message));
                typed.map(|_| message).map_err(|failure| failure.message)
            });
            match readable {
                Ok(message) => part.push_str(&message.to_string()),
                Err(cause) => {
                    report_unreadable(at, &cause);
                    part.push_str(&json!({ "role": "system", "content": UNREADABLE }).to_string());
                    exit = Exit::Findings;
                }
            }
            at += 1;
            progress.advance(1);
        }
        if let Err(error) = print_part(&part, &mut escaper) {
            return ignore_broken_pipe(Err(error));
        }
        part.clear();
    }
    part.push_str("]}\n");
    ignore_broken_pipe(print_part(&part, &mut escaper)).map(|_| exit)
}
