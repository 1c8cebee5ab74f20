//! Storing and resuming of suspended turns whose history is a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use logue_agent::{
    Approvals, FileSession, History, PermissionRule, Permissions, TurnEvent, TurnSuspension,
    read_bytes,
};
use logue_harness::Clock as _;
use logue_harness::chat::ChatHarness;
use logue_harness::store::{
    Commit, Disposition, EnqueueResult, EntryPayload, LeaseResult, NewEntry, NewOutcome,
    NewSuspension, OutcomeKind, SessionInfo, SharedStore, Suspension, SuspensionFilter,
    SuspensionStatus,
};
use logue_message::{ChatMessage, Role};
use serde_json::{Map, Value, json};

use crate::arguments::{SignalArgs, StoreArgs};
use crate::conversion::form::Form;
use crate::conversion::in_memory::read_messages;
use crate::exit::{CliError, Exit};
use crate::setup::output::Output;
use crate::setup::permissions::audit_of;
use crate::setup::prompt::input::Input;
use crate::setup::session_agent::{AGENT, Agent, AgentPrompt, SessionCommand, chat_over};
use crate::setup::settings::Settings;
use crate::setup::settings::connection_record::ConnectionRecord;
use crate::setup::store::{check_exists, new_id, open as open_store, shown_id, store_failure};
use crate::setup::transcript::transcript_of;
use logue_harness::SystemClock;

/// The prefix of session ids whose history is a file.
const SCHEME: &str = "file:";
/// The label with the file that the prompt's paths are relative to.
const PROMPT: &str = "prompt";
/// The duration of the lease of a process that stores a turn.
const LEASE: Duration = Duration::from_secs(10);

/// Returns the file of a session whose history is a file.
pub(crate) fn file_of(session: &str) -> Option<PathBuf> {
    session.strip_prefix(SCHEME).map(PathBuf::from)
}

/// Rejects a session id that names a file, since the file already has the history.
pub(crate) fn refuse_file(session: &str) -> Result<(), CliError> {
    if file_of(session).is_none() {
        return Ok(());
    }
    let message = format!(
        "the conversation of `{}` is kept in its file",
        shown_id(session)
    );
    Err(CliError::new(Exit::Usage, "usage", message)
        .with_help("continue it with `logue run FILE \"…\"`, or choose another session id"))
}

/// Returns the reason why no decision can resume a suspended turn, if there is one.
///
/// The store does not record that the conversation of a file continued.
pub(crate) fn obstacle(waiting: &Suspension) -> Option<&'static str> {
    let file = file_of(&waiting.session)?;
    let Ok(text) = read_bytes(&file) else {
        return Some("its file cannot be read");
    };
    let (form, _) = Form::detect(Some(&file), &text)?;
    let (messages, _) = read_messages(&waiting.session, &text, form, file.parent()).ok()?;
    let open = unanswered(&messages);
    let is_gone = call_ids(waiting).any(|id| !open.contains(&id));
    is_gone.then_some("the conversation continued without it")
}

/// Returns the ids of a transcript's calls that wait for a decision.
///
/// A call that needs no decision is one of them if its answer has another that does: none of them
/// starts before. A store that cannot be read has none: their outcome is then unknown.
pub(crate) async fn undecided_calls(
    transcript: &Path,
    arguments: &StoreArgs,
    settings: &Settings,
) -> Vec<String> {
    let session = format!("{SCHEME}{}", transcript.display());
    let Some(open) = open_calls(&session, transcript) else {
        return Vec::new();
    };
    if open.is_empty() || check_exists(arguments, settings).is_err() {
        return Vec::new();
    }
    let Ok(store) = open_store(arguments, settings) else {
        return Vec::new();
    };
    let filter = SuspensionFilter {
        session: Some(session),
        status: Some(SuspensionStatus::Suspended),
        ..SuspensionFilter::default()
    };
    let waiting = store.suspensions(filter).await.unwrap_or_default();
    let mut asked = waiting.iter().flat_map(call_ids);
    if asked.any(|id| open.iter().any(|call| call == id)) {
        open
    } else {
        Vec::new()
    }
}

/// Returns the ids of the last calls of a transcript that have no result.
fn open_calls(session: &str, transcript: &Path) -> Option<Vec<String>> {
    let text = read_bytes(transcript).ok()?;
    let (form, _) = Form::detect(Some(transcript), &text)?;
    let (messages, _) = read_messages(session, &text, form, transcript.parent()).ok()?;
    let ids = unanswered(&messages).into_iter();
    Some(ids.map(str::to_owned).collect())
}

/// Returns the ids of the calls that a suspended turn asks about.
pub(crate) fn call_ids(waiting: &Suspension) -> impl Iterator<Item = &str> {
    let metadata = waiting.metadata.as_ref();
    let calls = metadata.and_then(|data| data.get("calls")?.as_array());
    let calls = calls.into_iter().flatten();
    calls.filter_map(|call| call.get("id")?.as_str())
}

/// Returns whether the arguments of a suspended call are free text instead of JSON.
pub(crate) fn is_free_text(waiting: &Suspension, id: &str) -> bool {
    let calls = waiting.metadata.as_ref();
    let calls = calls.and_then(|data| data.get("calls")?.as_array());
    let mut calls = calls.into_iter().flatten();
    let call = calls.find(|call| call.get("id").and_then(Value::as_str) == Some(id));
    let kind = call.and_then(|call| call.get("kind")?.as_str());
    kind == Some("custom")
}

/// Returns the ids of the last calls of a conversation that have no result.
fn unanswered(messages: &[ChatMessage]) -> Vec<&str> {
    let is_answer = |message: &ChatMessage| message.role == Role::Assistant;
    let at = messages.iter().rposition(is_answer).unwrap_or_default();
    let mut last = messages.iter().skip(at);
    let calls = last.next().map(|message| message.tool_calls.as_slice());
    let results: Vec<&str> = last
        .filter_map(|message| message.tool_call_id.as_deref())
        .collect();
    let ids = calls
        .unwrap_or_default()
        .iter()
        .map(|call| call.id.as_str());
    ids.filter(|id| !results.contains(id)).collect()
}

/// A suspended turn and its files.
pub(crate) struct SuspendedFileTurn<'a> {
    /// The file with the conversation.
    pub(crate) transcript: &'a Path,
    /// The file that the conversation started from.
    pub(crate) prompt: &'a Path,
    pub(crate) model: Option<&'a str>,
    pub(crate) permissions: &'a Permissions,
    pub(crate) turn: &'a TurnSuspension,
}

impl SuspendedFileTurn<'_> {
    /// Stores the turn; the conversation stays in the file.
    pub(crate) async fn keep(&self, store: &SharedStore) -> Result<(), CliError> {
        let session = format!("{SCHEME}{}", self.transcript.display());
        let failed = |error| store_failure(&error);
        let rules: Vec<String> = self
            .permissions
            .rules()
            .map(|rule| rule.to_string())
            .collect();
        let labels = [
            (AGENT, json!(self.transcript.display().to_string())),
            (PROMPT, json!(self.prompt.display().to_string())),
            ("model", json!(self.model)),
            ("permissions", json!(rules)),
        ];
        for (name, value) in labels {
            let noted = store.set_label(&session, name, value, SystemClock.now());
            noted.await.map_err(failed)?;
        }
        let entry = NewEntry {
            work: EntryPayload::Message {
                message: Value::Null,
            },
            key: None,
            digest: None,
            retries: None,
            only_if_idle: false,
            only_after: None,
            only_created_at: None,
            cancel: None,
            now: SystemClock.now(),
        };
        let EnqueueResult::Entry { entry, .. } =
            store.enqueue(&session, entry).await.map_err(failed)?
        else {
            return Err(busy(&session));
        };
        let owner = new_id();
        let lease = loop {
            let now = SystemClock.now();
            match store
                .acquire(&session, &owner, now, LEASE)
                .await
                .map_err(failed)?
            {
                LeaseResult::Lease(lease) => break lease,
                _ => SystemClock.sleep(Duration::from_millis(20)).await,
            }
        };
        let id = self.turn.run.invocation_id();
        loop {
            let begun = store
                .claim_next(&lease, id, SystemClock.now())
                .await
                .map_err(failed)?;
            let Some(begun) = begun else {
                return Err(busy(&session));
            };
            let is_own = begun.entry.entry == entry;
            let commit = Commit {
                invocation_id: begun.entry.invocation_id.unwrap_or_default(),
                expected_seq: 0,
                messages: Vec::new(),
                fields: Map::new(),
                schema_version: None,
                settle: Some(if is_own { self.settle() } else { abandoned() }),
                now: SystemClock.now(),
            };
            store.commit(&lease, commit).await.map_err(failed)?;
            if is_own {
                break;
            }
        }
        drop(store.release(&lease).await);
        Ok(())
    }

    fn settle(&self) -> Disposition {
        let descriptor = &self.turn.descriptor;
        Disposition::Suspended {
            suspension: NewSuspension {
                signal_id: descriptor.signal_id.clone(),
                metadata: descriptor.metadata.clone(),
                record: self.turn.run.to_json(),
            },
            outcome: NewOutcome {
                kind: OutcomeKind::Suspended,
                replies_from: 0,
                body: json!({
                    "signal_id": descriptor.signal_id,
                    "metadata": descriptor.metadata,
                }),
            },
        }
    }
}

/// Returns the outcome of an entry of a killed process.
///
/// The file contains the completed parts of its turn.
fn abandoned() -> Disposition {
    Disposition::Done {
        outcome: NewOutcome {
            kind: OutcomeKind::Cancelled,
            replies_from: 0,
            body: json!({
                "bucket": "retryable_transient",
                "category": "turn_interrupted",
                "diagnostic": "the program ended before the turn was kept",
            }),
        },
        keep_journal: false,
        keep_suspension: false,
    }
}

fn busy(session: &str) -> CliError {
    let message = format!("another process holds `{session}`");
    CliError::new(Exit::Busy, "session_busy", message).with_help("try again")
}

/// Prepares the chat that resumes a turn of a file.
///
/// The file stays locked until the chat is dropped.
pub(crate) async fn chat(
    store: SharedStore,
    waiting: &Suspension,
    known: Option<&SessionInfo>,
    arguments: &SignalArgs,
    settings: &Settings,
    output: &Arc<Output>,
) -> Result<ChatHarness<TurnEvent>, CliError> {
    let session = waiting.session.as_str();
    let model = arguments.model_args.model.as_deref();
    let rules: &[PermissionRule] = &[];
    let record = ConnectionRecord::of(waiting);
    let agent = Agent::new(session, known, None, model, rules)?;
    let agent = agent.resuming(model, record.as_ref());
    let prompt = known.and_then(|info| info.labels.get(PROMPT)?.as_str());
    let AgentPrompt::File(transcript) = &agent.prompt else {
        let message = format!("{session} has no file");
        return Err(CliError::user("suspension_record_invalid", message));
    };
    let prompt = prompt.map_or_else(|| transcript.clone(), PathBuf::from);
    let timeout = settings.run.lock_timeout;
    let input = Input::for_transcript(&prompt, transcript, timeout, |path| output.waiting(path))?;
    let command = SessionCommand {
        settings,
        model_args: &arguments.model_args,
        trust: &arguments.trust,
        output,
        rules,
        on_crash: arguments.crash.policy(settings),
        approvals: Approvals::Suspend,
    };
    let audit = audit_of(&input.conversation(), true, settings);
    let prepared = agent.prepare(&input, History::Suspended, &command, audit);
    let prepared = prepared.await?;
    let open: Vec<String> = prepared
        .prompt
        .unanswered_calls()
        .iter()
        .filter_map(|element| element.to_message()?.tool_call_id)
        .collect();
    // Another process may have decided while this one waited for the file.
    let filter = SuspensionFilter {
        session: Some(session.to_owned()),
        signal_id: Some(waiting.signal_id.clone()),
        status: Some(SuspensionStatus::Suspended),
        ..SuspensionFilter::default()
    };
    let open_now = store.suspensions(filter).await;
    let open_now = open_now.map_err(|error| store_failure(&error))?;
    let still_waits = open_now
        .iter()
        .any(|one| one.invocation_id == waiting.invocation_id);
    let gone = call_ids(waiting).any(|id| !open.iter().any(|call| call == id));
    if gone && still_waits {
        let file = transcript.display();
        let message = format!("the conversation in {file} continued without the decision");
        return Err(CliError::user("suspension_record_invalid", message)
            .with_help("run the prompt again; the model may repeat the call"));
    }
    let Some(file) = input.transcript else {
        return Err(CliError::new(
            Exit::Internal,
            "internal",
            "the file was not opened",
        ));
    };
    let transcript = transcript_of(file, &prepared.prompt, settings);
    let messages = prepared.prompt.messages.clone();
    let store = FileSession::new(store, session, &messages, Box::new(transcript));
    chat_over(prepared.assistant, Arc::new(store), command.on_crash)
}
