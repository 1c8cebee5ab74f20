//! `logue data from-sessions`: rows of stored sessions, with the decisions of people as labels.

mod decisions;
mod pairs;
mod row;

use std::fs::File;
use std::io::{BufWriter, IntoInnerError, Write as _};

use logue_agent::{AuditRecord, Redaction, is_pending};
use logue_data::RunFiles;
use logue_harness::store::{SessionFilter, SessionInfo, SharedStore};
use logue_message::ChatMessage;
use logue_server::is_request_record;
use logue_source::escape_line;
use serde_json::Value;

use crate::arguments::{DataFromSessionsArgs, SessionRows};
use crate::commands::data::files;
use crate::counted::counted;
use crate::exit::{CliError, Exit};
use crate::setup::settings::Settings;
use crate::setup::signals::runtime;
use crate::setup::store::{check_exists, known, open, sqlite_file, store_failure};
use crate::setup::stored_messages::{messages, typed};
use crate::terminal::{ignore_broken_pipe, print, print_error};

use decisions::Decision;

/// The records of a page.
const PAGE: usize = 1_000;

/// A session as it is read for rows.
struct Stored {
    info: SessionInfo,
    messages: Vec<ChatMessage>,
    decisions: Vec<Decision>,
}

pub(crate) fn from_sessions(arguments: &DataFromSessionsArgs) -> Result<Exit, CliError> {
    let settings = Settings::load(false)?;
    check_exists(&arguments.store, &settings)?;
    let mut redaction = settings.redaction.clone();
    for pattern in &arguments.redact {
        redaction.add("redacted", pattern).map_err(|error| {
            CliError::new(Exit::Usage, "usage", format!("--redact: {error}"))
                .with_help("write a regular expression as in `[redact]`")
        })?;
    }
    require_apart(arguments, &settings)?;
    let store = open(&arguments.store, &settings)?;
    let mut output = Rows::open(arguments)?;
    let skipped = runtime()?.block_on(async {
        match arguments.rows {
            SessionRows::Conversations => {
                conversations(&store, arguments, &redaction, &mut output).await
            }
            SessionRows::Preference => preference(&store, arguments, &redaction, &mut output).await,
        }
    })?;
    output.finish()?;
    Ok(if skipped > 0 {
        Exit::Findings
    } else {
        Exit::Done
    })
}

/// Refuses an output that would replace the store.
fn require_apart(arguments: &DataFromSessionsArgs, settings: &Settings) -> Result<(), CliError> {
    let output = arguments.output.iter();
    let mut files = output.fold(RunFiles::default(), RunFiles::with_file);
    // A store that is not a file has no path that an output could have.
    if let Ok(store) = sqlite_file(&arguments.store, settings) {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let mut name = store.clone().into_os_string();
            name.push(suffix);
            files = files.with_input(name);
        }
    }
    files::check(&files)
}

/// Writes one row for each session, and returns the number of unreadable sessions.
async fn conversations(
    store: &SharedStore,
    arguments: &DataFromSessionsArgs,
    redaction: &Redaction,
    output: &mut Rows,
) -> Result<usize, CliError> {
    let mut skipped = 0;
    for info in sessions(store, arguments).await? {
        let session = info.session.clone();
        match stored(store, info).await {
            Ok(stored) if stored.messages.is_empty() => {}
            Ok(stored) => {
                let row = row::conversation(&stored, arguments.keep_reasoning)?;
                output.write(row, redaction)?;
            }
            Err(failure) => {
                print_error(&format!("{}: {}\n", escape_line(&session), failure.message));
                skipped += 1;
            }
        }
    }
    Ok(skipped)
}

/// Writes the pairs of edits and branches, and returns the number of unreadable sessions.
async fn preference(
    store: &SharedStore,
    arguments: &DataFromSessionsArgs,
    redaction: &Redaction,
    output: &mut Rows,
) -> Result<usize, CliError> {
    let mut skipped = 0;
    let mut branches = pairs::Branches::default();
    let mut found = sessions(store, arguments).await?;
    found.sort_by_key(|info| (info.created_at, info.session.clone()));
    for info in &found {
        match stored(store, info.clone()).await {
            Ok(stored) => {
                for row in pairs::of_edits(&stored, arguments.keep_reasoning)? {
                    output.write(row, redaction)?;
                }
                branches.add(&stored);
            }
            Err(failure) => {
                let session = escape_line(&info.session);
                print_error(&format!("{session}: {}\n", failure.message));
                skipped += 1;
            }
        }
    }
    for branch in branches.pairs() {
        let (Some(chosen), Some(rejected)) = (found.get(branch.chosen), found.get(branch.rejected))
        else {
            continue;
        };
        // The histories are read again, so that only hashes of all sessions are in memory.
        let chosen = stored(store, chosen.clone()).await?;
        let rejected = stored(store, rejected.clone()).await?;
        let row = pairs::of_branch(&chosen, &rejected, branch.length, arguments.keep_reasoning)?;
        output.write(row, redaction)?;
    }
    Ok(skipped)
}

/// Returns the sessions that are named, or all except the records of served requests.
async fn sessions(
    store: &SharedStore,
    arguments: &DataFromSessionsArgs,
) -> Result<Vec<SessionInfo>, CliError> {
    if arguments.sessions.is_empty() {
        let found = store.list(SessionFilter::default()).await;
        let mut found = found.map_err(|error| store_failure(&error))?;
        found.retain(|info| !is_request_record(info));
        found.sort_by(|one, other| one.session.cmp(&other.session));
        return Ok(found);
    }
    let mut found = Vec::new();
    for session in &arguments.sessions {
        found.push(known(store, session).await?);
    }
    Ok(found)
}

async fn stored(store: &SharedStore, info: SessionInfo) -> Result<Stored, CliError> {
    let mut messages = typed(&messages(store, &info.session, 0, info.seq).await?)?;
    // Messages about pending approvals do not come from the model.
    messages.retain(|message| !is_pending(message));
    let (mut records, mut from) = (Vec::new(), 0);
    loop {
        let page = store.audited(&info.session, from, PAGE).await;
        let page = page.map_err(|error| store_failure(&error))?;
        let Some(last) = page.last() else { break };
        from = last.seq + 1;
        for entry in page {
            // A record of a later version is not a decision that this one can read.
            if let Ok(record) = AuditRecord::deserialized(&entry.record) {
                records.push((record, entry.at));
            }
        }
    }
    let decisions = decisions::of_people(&records, &messages);
    Ok(Stored {
        info,
        messages,
        decisions,
    })
}

/// The rows that are written, as JSON lines.
struct Rows {
    file: Option<(BufWriter<File>, String)>,
    written: usize,
}

impl Rows {
    fn open(arguments: &DataFromSessionsArgs) -> Result<Self, CliError> {
        let file = match &arguments.output {
            None => None,
            Some(path) => {
                let name = path.display().to_string();
                let file = File::create(path).map_err(|error| cannot_write(&name, &error))?;
                Some((BufWriter::new(file), name))
            }
        };
        Ok(Self { file, written: 0 })
    }

    /// Writes a row after the redaction of all its texts.
    fn write(&mut self, mut row: Value, redaction: &Redaction) -> Result<(), CliError> {
        if !redaction.is_empty() {
            redact(&mut row, redaction);
        }
        self.written += 1;
        let line = format!("{row}\n");
        match &mut self.file {
            None => ignore_broken_pipe(print(&line)).map(drop),
            Some((file, name)) => {
                let written = file.write_all(line.as_bytes());
                written.map_err(|error| cannot_write(name, &error))
            }
        }
    }

    fn finish(self) -> Result<(), CliError> {
        if let Some((file, name)) = self.file {
            let synced = file.into_inner().map_err(IntoInnerError::into_error);
            let synced = synced.and_then(|file| file.sync_all());
            synced.map_err(|error| cannot_write(&name, &error))?;
        }
        print_error(&format!("{} written\n", counted(self.written, "row")));
        Ok(())
    }
}

/// Replaces what the patterns match in every text of a value, keys included.
fn redact(value: &mut Value, redaction: &Redaction) {
    match value {
        Value::String(text) => {
            // The arguments of calls are JSON, which must stay JSON.
            let is_object = text.starts_with('{') && text.ends_with('}');
            let redacted = if is_object {
                redaction.arguments(text).into_owned()
            } else {
                redaction.text(text).into_owned()
            };
            *text = redacted;
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, redaction)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|value| redact(value, redaction)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn cannot_write(name: &str, error: &std::io::Error) -> CliError {
    let message = format!("cannot write `{name}`: {error}");
    CliError::user("data_write_failed", message).with_help("name a writable file")
}
