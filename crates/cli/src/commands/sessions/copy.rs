//! `logue sessions fork`, `export` and `import`: copies of a conversation.

use std::io;
use std::path::Path;
use std::time::Duration;

use logue_agent::{is_pending, read_all, read_bytes};
use logue_harness::Clock as _;
use logue_harness::store::{Commit, LeaseResult, SharedStore};
use logue_message::ChatMessage;
use openchatml::project::JsonFormat;
use serde_json::{Map, Value, json};

use crate::arguments::{ExportArgs, ForkArgs, ImportArgs};
use crate::commands::sessions::known;
use crate::commands::sessions::show::messages;
use crate::conversion::form::Form;
use crate::conversion::in_memory::converted;
use crate::exit::{CliError, Exit};
use crate::setup::failures::source_failure;
use crate::setup::session_agent::AGENT;
use crate::setup::store::{new_id, store_failure};
use crate::setup::suspended::refuse_file;
use crate::terminal::{ignore_broken_pipe, print, print_error};
use logue_harness::SystemClock;

const JSON: Form = Form::Projection(JsonFormat::Json);

pub(super) async fn fork(store: SharedStore, arguments: &ForkArgs) -> Result<Exit, CliError> {
    refuse_file(&arguments.session)?;
    refuse_file(&arguments.new)?;
    let info = known(&store, &arguments.session).await?;
    let upto = arguments.messages.unwrap_or(info.seq);
    if upto > info.seq {
        let message = format!("`{}` has only {} messages", info.session, info.seq);
        return Err(CliError::user("session_not_found", message));
    }
    let (session, new) = (&arguments.session, &arguments.new);
    let forked = store.fork(session, upto, new, SystemClock.now()).await;
    forked.map_err(|error| store_failure(&error))?;
    Ok(Exit::Done)
}

pub(super) async fn export(store: SharedStore, arguments: &ExportArgs) -> Result<Exit, CliError> {
    refuse_file(&arguments.session)?;
    let info = known(&store, &arguments.session).await?;
    let mut messages = messages(&store, &arguments.session, 0, info.seq).await?;
    if arguments.to == JSON {
        return ignore_broken_pipe(print(&format!("{}\n", json!({ "messages": messages }))));
    }
    // Messages about pending approvals do not come from the model.
    messages.retain(|message| {
        !ChatMessage::from_json(message).is_ok_and(|message| is_pending(&message))
    });
    let text = json!({ "messages": messages }).to_string();
    let (text, losses) = converted(text.as_bytes(), JSON, arguments.to, None)?;
    for loss in losses {
        print_error(&format!("warning: {loss}\n"));
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    ignore_broken_pipe(print(&format!("{text}{end}")))
}

pub(super) async fn import(store: SharedStore, arguments: &ImportArgs) -> Result<Exit, CliError> {
    refuse_file(&arguments.session)?;
    let messages = read(arguments)?;
    let session = arguments.session.as_str();
    let there = store.session(session).await;
    let there = there.map_err(|error| store_failure(&error))?;
    if there.is_some() {
        let message = format!("session `{session}` already exists");
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
        let message = format!("session `{session}` is in use by another process");
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
    let is_stdin = arguments.file == Path::new("-");
    let text = if is_stdin {
        read_all("<stdin>", io::stdin().lock())
    } else {
        read_bytes(&arguments.file)
    };
    let text = text.map_err(|error| source_failure(&error))?;
    if matches!(arguments.from, None | Some(JSON))
        && let Some(messages) = exact(&text)
    {
        return Ok(messages);
    }
    let path = (!is_stdin).then_some(arguments.file.as_path());
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
    let (text, losses) = converted(&text, from, JSON, folder)?;
    for loss in losses {
        print_error(&format!("warning: {loss}\n"));
    }
    exact(text.as_bytes()).ok_or_else(|| {
        CliError::user(
            "chat_message_shape_invalid",
            "invalid message in the conversation",
        )
        .with_help("`logue convert --to json` shows the messages")
    })
}

/// Returns the messages of `{"messages": [...]}` or of a list, if all are valid.
fn exact(text: &[u8]) -> Option<Vec<Value>> {
    let value: Value = serde_json::from_slice(text).ok()?;
    let list = match value {
        Value::Object(mut object) => object.remove("messages")?,
        list => list,
    };
    let list = list.as_array()?;
    let message = |value: &Value| {
        let message = ChatMessage::from_json(value).ok()?;
        message.validate().ok()?;
        Some(message.to_json())
    };
    list.iter().map(message).collect()
}
