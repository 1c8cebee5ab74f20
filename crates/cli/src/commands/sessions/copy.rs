//! `logue sessions export` and `import`: copies of a conversation.

use std::path::Path;
use std::time::Duration;

use logue_agent::is_pending;
use logue_harness::Clock as _;
use logue_harness::store::{Commit, LeaseResult, SharedStore};
use logue_message::{ChatMessage, ShapeError};
use logue_source::escape_line;
use openchatml::project::JsonFormat;
use serde_json::{Map, Value, json};

use crate::arguments::{ExportArgs, ImportArgs};
use crate::commands::sessions::known;
use crate::commands::sessions::show::messages;
use crate::conversion::form::Form;
use crate::conversion::in_memory::{read_messages, write_messages};
use crate::exit::{CliError, Exit};
use crate::files::{is_stdin, read_file};
use crate::setup::session_agent::AGENT;
use crate::setup::store::{check_named, new_id, shown_id, store_failure};
use crate::setup::suspended::refuse_file;
use crate::terminal::{ignore_broken_pipe, print, print_error};
use logue_harness::SystemClock;

const JSON: Form = Form::Projection(JsonFormat::Json);
/// The fields of a message in the store.
const FIELDS: [&str; 6] = [
    "role",
    "authority",
    "content",
    "tool_calls",
    "tool_call_id",
    "name",
];

pub(super) async fn export(store: SharedStore, arguments: &ExportArgs) -> Result<Exit, CliError> {
    refuse_file(&arguments.session)?;
    let info = known(&store, &arguments.session).await?;
    let messages = messages(&store, &arguments.session, 0, info.seq).await?;
    if arguments.to == JSON {
        return ignore_broken_pipe(print(&format!("{}\n", json!({ "messages": messages }))));
    }
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

pub(super) async fn import(store: SharedStore, arguments: &ImportArgs) -> Result<Exit, CliError> {
    refuse_file(&arguments.session)?;
    check_named(&arguments.session)?;
    let messages = read(arguments)?;
    let session = arguments.session.as_str();
    let there = store.session(session).await;
    let there = there.map_err(|error| store_failure(&error))?;
    if there.is_some() {
        let message = format!("session `{}` already exists", shown_id(session));
        return Err(CliError::user("session_exists", message).with_help("choose another name"));
    }
    let agent = match &arguments.agent {
        Some(file) => {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            json!(file.display().to_string())
        }
        None => Value::Null,
    };
    let now = SystemClock.now();
    let noted = match &agent {
        Value::Null => store.set_label(session, "imported", json!(true), now).await,
        agent => store.set_label(session, AGENT, agent.clone(), now).await,
    };
    noted.map_err(|error| store_failure(&error))?;
    let owner = new_id();
    let acquired = store
        .acquire(session, &owner, now, Duration::from_secs(30))
        .await;
    let LeaseResult::Lease(lease) = acquired.map_err(|error| store_failure(&error))? else {
        let message = format!(
            "session `{}` is in use by another process",
            shown_id(session)
        );
        return Err(CliError::new(Exit::Busy, "session_busy", message));
    };
    let commit = Commit {
        invocation_id: owner,
        expected_seq: 0,
        messages,
        fields: Map::new(),
        schema_version: None,
        settle: None,
        now,
    };
    let committed = store.commit(&lease, commit).await;
    drop(store.release(&lease).await);
    committed.map_err(|error| store_failure(&error))?;
    Ok(Exit::Done)
}

/// Returns the messages of the file in the form of the session store.
fn read(arguments: &ImportArgs) -> Result<Vec<Value>, CliError> {
    let (name, text) = read_file(&arguments.file)?;
    if matches!(arguments.from, None | Some(JSON))
        && let Some(list) = exported(&text)
    {
        return Ok(typed(&list)?.iter().map(ChatMessage::to_json).collect());
    }
    let path = (!is_stdin(&arguments.file)).then_some(arguments.file.as_path());
    let from = match arguments.from {
        Some(form) => form,
        None => Form::detect(path, &text)
            .map(|(form, _)| form)
            .ok_or_else(|| {
                CliError::user("E-SOURCE-READ", "unknown form of the conversation")
                    .with_help("name it: --from FORM")
            })?,
    };
    let folder = path.and_then(Path::parent);
    let (messages, losses) = read_messages(&name, &text, from, folder)?;
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

/// Returns valid messages from their JSON form.
fn typed(messages: &[Value]) -> Result<Vec<ChatMessage>, CliError> {
    let messages = messages.iter().enumerate();
    messages
        .map(|(index, value)| {
            let message = ChatMessage::from_json(value).map_err(|cause| invalid(index, &cause))?;
            message.validate().map_err(|cause| invalid(index, &cause))?;
            Ok(message)
        })
        .collect()
}

/// Creates the failure of an invalid message; messages count from 1.
fn invalid(index: usize, cause: &dyn std::fmt::Display) -> CliError {
    let message = format!(
        "message {} of the conversation is invalid: {cause}",
        index + 1
    );
    CliError::user(ShapeError::CATEGORY, message)
}
