//! `logue sessions import`: a session from the conversation in a file.

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::thread;
use std::time::Duration;

use logue_agent::{MAX_SOURCE_BYTES, Redaction, read_all};
use logue_harness::chat::Redact as _;
use logue_harness::store::{Commit, Lease, LeaseResult, SessionInfo, SharedStore};
use logue_harness::{Clock as _, SystemClock};
use logue_message::ChatMessage;
use logue_source::escape_line;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::arguments::ImportArgs;
use crate::commands::sessions::exported::{Batch, JSON, read_batches};
use crate::conversion::form::Form;
use crate::conversion::in_memory::read_messages;
use crate::exit::{CliError, Exit};
use crate::files::{is_stdin, read_file, shown_name};
use crate::progress::Progress;
use crate::setup::failures::source_failure;
use crate::setup::session_agent::AGENT;
use crate::setup::settings::Settings;
use crate::setup::signals::runtime;
use crate::setup::store::{check_named, new_id, open, shown_id, store_failure};
use crate::setup::stored_messages::{invalid, typed};
use crate::setup::suspended::refuse_file;
use crate::terminal::print_error;

/// The fields of a message in the store.
const FIELDS: [&str; 6] = [
    "role",
    "authority",
    "content",
    "tool_calls",
    "tool_call_id",
    "name",
];
/// The label of a session that was imported; `false` until all its messages are stored.
const IMPORTED: &str = "imported";
/// The duration of the lease, which each commit renews.
const LEASE: Duration = Duration::from_secs(30);

/// The messages of a file in the form of the store.
enum Conversation {
    Whole(Vec<Value>),
    /// An exported session that is larger than a text may be.
    Large(mpsc::Receiver<Batch>, Progress),
}

pub(super) fn import(arguments: &ImportArgs) -> Result<Exit, CliError> {
    let settings = Settings::load(false)?;
    let store = open(&arguments.store, &settings)?;
    runtime()?.block_on(import_into(&store, arguments, &settings.redaction))
}

async fn import_into(
    store: &SharedStore,
    arguments: &ImportArgs,
    redaction: &Redaction,
) -> Result<Exit, CliError> {
    refuse_file(&arguments.session)?;
    check_named(&arguments.session)?;
    let conversation = read(arguments)?;
    let session = arguments.session.as_str();
    let there = store.session(session).await;
    let there = there.map_err(|error| store_failure(&error))?;
    if there.as_ref().is_some_and(is_unfinished) {
        let deleted = store.delete(session).await;
        deleted.map_err(|error| store_failure(&error))?;
    } else if there.is_some() {
        let message = format!("session `{}` already exists", shown_id(session));
        return Err(CliError::user("session_exists", message).with_help("choose another name"));
    }
    let agent = arguments.agent.as_ref().map(|file| {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        json!(file.display().to_string())
    });
    match conversation {
        Conversation::Whole(messages) => {
            let (name, value) = match agent {
                Some(agent) => (AGENT, agent),
                None => (IMPORTED, json!(true)),
            };
            label(store, session, name, value).await?;
            let lease = acquire(store, session).await?;
            let committed = commit(store, &lease, 0, messages, redaction).await;
            drop(store.release(&lease).await);
            committed?;
        }
        Conversation::Large(batches, progress) => {
            label(store, session, IMPORTED, json!(false)).await?;
            let stored = store_batches(store, session, batches, redaction).await;
            drop(progress);
            if let Err(failure) = stored {
                drop(store.delete(session).await);
                return Err(failure);
            }
            if let Some(agent) = agent {
                label(store, session, AGENT, agent).await?;
            }
            label(store, session, IMPORTED, json!(true)).await?;
        }
    }
    Ok(Exit::Done)
}

/// Returns whether an import of this session was interrupted.
fn is_unfinished(info: &SessionInfo) -> bool {
    info.labels.get(IMPORTED) == Some(&json!(false))
}

async fn label(
    store: &SharedStore,
    session: &str,
    name: &str,
    value: Value,
) -> Result<(), CliError> {
    let noted = store.set_label(session, name, value, SystemClock.now());
    noted.await.map_err(|error| store_failure(&error))
}

async fn acquire(store: &SharedStore, session: &str) -> Result<Lease, CliError> {
    let owner = new_id();
    let acquired = store.acquire(session, &owner, SystemClock.now(), LEASE);
    let acquired = acquired.await.map_err(|error| store_failure(&error))?;
    if let LeaseResult::Lease(lease) = acquired {
        return Ok(lease);
    }
    let message = format!(
        "session `{}` is in use by another process",
        shown_id(session)
    );
    Err(CliError::new(Exit::Busy, "session_busy", message))
}

async fn commit(
    store: &SharedStore,
    lease: &Lease,
    expected_seq: u64,
    messages: Vec<Value>,
    redaction: &Redaction,
) -> Result<(), CliError> {
    let messages = if redaction.is_empty() {
        messages
    } else {
        let messages = messages.into_iter();
        let messages = messages.map(|message| redacted(message, redaction));
        messages.collect()
    };
    let commit = Commit {
        invocation_id: new_id(),
        expected_seq,
        messages,
        fields: Map::new(),
        schema_version: None,
        settle: None,
        now: SystemClock.now(),
    };
    let committed = store.commit(lease, commit).await;
    committed.map_err(|error| store_failure(&error))
}

/// Returns a checked message as the store holds it.
fn redacted(message: Value, redaction: &Redaction) -> Value {
    let Ok(mut checked) = ChatMessage::from_json(&message) else {
        return message;
    };
    if redaction.message(&mut checked) {
        checked.to_json()
    } else {
        message
    }
}

/// Stores the messages of a large session as they are read.
async fn store_batches(
    store: &SharedStore,
    session: &str,
    mut batches: mpsc::Receiver<Batch>,
    redaction: &Redaction,
) -> Result<(), CliError> {
    let lease = acquire(store, session).await?;
    let mut seq = 0;
    while let Some(batch) = batches.recv().await {
        let messages = batch?;
        let added = messages.len() as u64;
        let renewed = store.renew(&lease, SystemClock.now(), LEASE).await;
        renewed.map_err(|error| store_failure(&error))?;
        commit(store, &lease, seq, messages, redaction).await?;
        seq += added;
    }
    drop(store.release(&lease).await);
    Ok(())
}

/// Reads the conversation; only an exported session may be larger than a text.
fn read(arguments: &ImportArgs) -> Result<Conversation, CliError> {
    let may_be_large = matches!(arguments.from, None | Some(JSON));
    if is_stdin(&arguments.file) {
        let name = shown_name(&arguments.file);
        let mut start = Vec::new();
        let read = io::stdin()
            .take(MAX_SOURCE_BYTES + 1)
            .read_to_end(&mut start);
        if read.is_ok() && may_be_large && start.len() as u64 > MAX_SOURCE_BYTES {
            return Ok(large(Cursor::new(start).chain(io::stdin()), None));
        }
        let text = read_all(&name, start.as_slice());
        let text = text.map_err(|error| source_failure(&error))?;
        return whole(arguments, &name, &text).map(Conversation::Whole);
    }
    let found = fs::metadata(&arguments.file);
    let is_large = found.is_ok_and(|found| found.is_file() && found.len() > MAX_SOURCE_BYTES);
    if may_be_large
        && is_large
        && let Ok(file) = File::open(&arguments.file)
    {
        let size = file.metadata().ok().map(|found| found.len());
        return Ok(large(BufReader::new(file), size));
    }
    let (name, text) = read_file(&arguments.file)?;
    whole(arguments, &name, &text).map(Conversation::Whole)
}

/// Starts to read an exported session. The thread ends with the input or its receiver.
fn large(input: impl Read + Send + 'static, size: Option<u64>) -> Conversation {
    let (sender, batches) = mpsc::channel(1);
    let progress = Progress::bytes(size, false);
    let input = progress.reader(input);
    drop(thread::spawn(move || read_batches(input, &sender)));
    Conversation::Large(batches, progress)
}

/// Returns the messages of a text in the form of the session store.
fn whole(arguments: &ImportArgs, name: &str, text: &[u8]) -> Result<Vec<Value>, CliError> {
    if matches!(arguments.from, None | Some(JSON))
        && let Some(list) = exported(text)
    {
        return Ok(typed(&list)?.iter().map(ChatMessage::to_json).collect());
    }
    let path = (!is_stdin(&arguments.file)).then_some(arguments.file.as_path());
    let from = match arguments.from {
        Some(form) => form,
        None => Form::detect(path, text)
            .map(|(form, _)| form)
            .ok_or_else(|| {
                CliError::user("E-SOURCE-READ", "unknown form of the conversation")
                    .with_help("name it: --from FORM")
            })?,
    };
    let folder = path.and_then(Path::parent);
    let (messages, losses) = read_messages(name, text, from, folder)?;
    for loss in losses {
        print_error(&format!("warning: {}\n", escape_line(&loss)));
    }
    for (index, message) in messages.iter().enumerate() {
        message.validate().map_err(|cause| invalid(index, &cause))?;
    }
    Ok(messages.iter().map(ChatMessage::to_json).collect())
}

/// Returns the messages of an exported session, which needs no conversion.
///
/// Returns `None` for the forms that other programs write, which have other fields.
fn exported(text: &[u8]) -> Option<Vec<Value>> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let list = match value {
        Value::Object(mut object) => object.remove("messages")?,
        list => list,
    };
    let Value::Array(list) = list else {
        return None;
    };
    let is_own = |message: &Value| {
        let has_known_fields = message.as_object().is_some_and(|object| {
            let mut keys = object.keys();
            keys.all(|key| FIELDS.contains(&key.as_str()))
        });
        has_known_fields && ChatMessage::from_json(message).is_ok()
    };
    list.iter().all(is_own).then_some(list)
}
