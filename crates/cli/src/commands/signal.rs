//! `logue signal`: delivers a decision to a suspended turn and resumes the turn.

use std::path::Path;
use std::sync::Arc;

use logue_agent::{APPROVAL, Approvals, EDITS, deadline};
use logue_harness::Clock as _;
use logue_harness::chat::{SignalError, SignalTarget};
use logue_harness::store::{SharedStore, Suspension, SuspensionFilter, SuspensionStatus};
use serde_json::{Map, Value, json};

use crate::arguments::SignalArgs;
use crate::exit::{CliError, Exit};
use crate::files::{json_cause, read_file};
use crate::setup::environment::variable;
use crate::setup::output::Output;
use crate::setup::session_agent::{Agent, SessionCommand};
use crate::setup::session_turn::{Ended, refused, report_outcome, watch};
use crate::setup::settings::connection_record::ConnectionRecord;
use crate::setup::settings::{Settings, TrustQuestions};
use crate::setup::signals::{runtime, until_signal};
use crate::setup::store::{open, store_failure};
use crate::setup::suspended;
use crate::telemetry;
use logue_harness::SystemClock;

pub(crate) fn signal(arguments: &SignalArgs) -> Result<Exit, CliError> {
    let output = Arc::new(Output::new(arguments.json));
    output.show_as(arguments.display);
    let ended = Settings::load(arguments.trust.trust)
        .inspect(telemetry::start)
        .and_then(|settings| turn(arguments, &settings, &output));
    let base_url = arguments.model_args.base_url.as_deref();
    report_outcome(&output, &arguments.store, base_url, ended)
}

fn turn(
    arguments: &SignalArgs,
    settings: &Settings,
    output: &Arc<Output>,
) -> Result<Ended, CliError> {
    let mut payload = payload(arguments)?;
    let store = open(&arguments.store, settings)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let prepared = Box::pin(async {
            let waiting = find(&store, &arguments.id).await?;
            let is_late = require_time(&waiting, arguments.decision.expire)?;
            let edits = edits(&arguments.edits, &waiting)?;
            let record = ConnectionRecord::of(&waiting);
            let mut settings = settings.clone();
            // The decision is about calls; only programs of servers require trust in the prompt.
            settings.trust.questions = if denies(&payload) {
                TrustQuestions::None
            } else {
                TrustQuestions::Servers
            };
            if let Some(record) = &record {
                settings.model = settings.model.resuming(record);
            }
            let known = store.session(&waiting.session).await;
            let known = known.map_err(|error| store_failure(&error))?;
            if suspended::file_of(&waiting.session).is_some() {
                let chat = suspended::chat(
                    store,
                    &waiting,
                    known.as_ref(),
                    arguments,
                    &settings,
                    output,
                );
                return Ok((chat.await?, waiting, is_late, edits));
            }
            let model = arguments.model_args.model.as_deref();
            let agent = Agent::new(&waiting.session, known.as_ref(), None, model, &[])?;
            let agent = agent.resuming(model, record.as_ref());
            let command = SessionCommand {
                settings: &settings,
                model_args: &arguments.model_args,
                trust: &arguments.trust,
                output,
                rules: &[],
                on_crash: arguments.crash.policy(&settings),
                approvals: Approvals::Suspend,
            };
            let chat = agent.chat(store, &waiting.session, &command).await?;
            Ok::<_, CliError>((chat, waiting, is_late, edits))
        });
        let (chat, waiting, is_late, edits) = match until_signal(prepared).await {
            Ok(chat) => chat?,
            Err(exit) => return Ok(Ended::Signalled(exit)),
        };
        if !edits.is_empty() {
            payload.insert(EDITS.to_owned(), Value::Object(edits));
        }
        if is_late {
            output.expired(&waiting.signal_id);
        }
        if payload.get(APPROVAL).is_some_and(|word| word == "approve") {
            output.approves(suspended::call_ids(&waiting));
        } else {
            output.denies(suspended::call_ids(&waiting));
        }
        // With its name, a repeated signal is recognised as already delivered.
        let target = if waiting.signal_id == arguments.id {
            SignalTarget::Signal(&waiting.signal_id)
        } else {
            SignalTarget::Invocation(&waiting.invocation_id)
        };
        let turn = chat.signal_streaming(target, payload).await;
        let turn = turn.map_err(|error| refused(&error))?;
        Ok(watch(
            turn,
            output,
            &waiting.session,
            arguments.crash.policy(settings),
        )
        .await)
    });
    runtime.shutdown_background();
    ended
}

/// Returns whether a payload denies every call.
fn denies(payload: &Map<String, Value>) -> bool {
    match payload.get(APPROVAL) {
        Some(Value::Object(calls)) => calls.values().all(|word| word == "deny"),
        word => word.is_some_and(|word| word == "deny"),
    }
}

fn invalid_payload(message: &str) -> CliError {
    CliError::user("suspension_resume_payload_invalid", message)
        .with_help("write a JSON object such as '{\"approval\": \"approve\"}'")
        .with_help("--approve and --deny decide without a payload")
}

/// Returns the payload that resumes the turn.
fn payload(arguments: &SignalArgs) -> Result<Map<String, Value>, CliError> {
    let mut payload = match &arguments.decision.payload {
        Some(text) => match serde_json::from_str(text) {
            Ok(Value::Object(payload)) => return Ok(with_decider(payload)),
            Ok(_) => return Err(invalid_payload("the payload is not a JSON object")),
            Err(error) => {
                return Err(invalid_payload(&json_cause("--payload", &error)));
            }
        },
        None => Map::new(),
    };
    let word = if arguments.decision.approve {
        "approve"
    } else {
        "deny"
    };
    payload.insert(APPROVAL.to_owned(), json!(word));
    if let Some(reason) = &arguments.reason {
        payload.insert(logue_agent::NOTE.to_owned(), json!(reason));
    }
    Ok(with_decider(payload))
}

/// Returns the edited arguments of `--edit` by call id.
///
/// The text stays as it is, so that no number loses digits.
fn edits(values: &[String], waiting: &Suspension) -> Result<Map<String, Value>, CliError> {
    let invalid = |message: String| CliError::user("suspension_resume_payload_invalid", message);
    let ids: Vec<&str> = suspended::call_ids(waiting).collect();
    let mut edits = Map::new();
    for value in values {
        let named = value.split_once('=').filter(|(id, _)| ids.contains(id));
        let (id, file) = match (named, ids.as_slice()) {
            (Some(named), _) => named,
            (None, [only]) => (*only, value.as_str()),
            (None, _) => {
                let message = format!("--edit {value} names none of the calls that wait");
                let help = format!("write --edit CALL=FILE with one of: {}", ids.join(", "));
                return Err(invalid(message).with_help(help));
            }
        };
        let (name, bytes) = read_file(Path::new(file))?;
        let text =
            String::from_utf8(bytes).map_err(|_| invalid(format!("`{name}` is not UTF-8 text")))?;
        if !suspended::is_free_text(waiting, id)
            && let Err(error) = serde_json::from_str::<Map<String, Value>>(&text)
        {
            return Err(invalid(json_cause(&name, &error))
                .with_help("write the arguments of the call as one JSON object")
                .with_help("nothing was decided: try again"));
        }
        if edits.insert(id.to_owned(), json!(text)).is_some() {
            return Err(invalid(format!("--edit names the call `{id}` twice")));
        }
    }
    Ok(edits)
}

/// Adds the name of the user, which the error of a different later decision contains.
fn with_decider(mut payload: Map<String, Value>) -> Map<String, Value> {
    let name = ["USER", "LOGNAME"].into_iter().find_map(variable);
    if let Some(name) = name
        && payload.contains_key(APPROVAL)
        && !payload.contains_key(logue_agent::DECIDED_BY)
    {
        payload.insert(logue_agent::DECIDED_BY.to_owned(), json!(name));
    }
    payload
}

/// Returns the turn that `id` names, by signal name or invocation id.
///
/// A signal name takes precedence over an invocation id, and a waiting turn over one that waited
/// for the signal earlier.
async fn find(store: &SharedStore, id: &str) -> Result<Suspension, CliError> {
    let filter = SuspensionFilter {
        signal_id: Some(id.to_owned()),
        ..SuspensionFilter::default()
    };
    let found = store.suspensions(filter).await;
    let mut found = found.map_err(|error| store_failure(&error))?;
    let is_waiting = |one: &&Suspension| one.status == SuspensionStatus::Suspended;
    let waiting: Vec<&Suspension> = found.iter().filter(is_waiting).collect();
    match waiting.as_slice() {
        [] => {}
        [only] => return Ok((*only).clone()),
        several => {
            let lines = several
                .iter()
                .map(|one| format!("{} in {}", one.invocation_id, one.session));
            let message = format!("{} turns wait for the signal `{id}`", several.len());
            let failure = CliError::user("harness_path_classification_ambiguous", message);
            let failure = failure.with_help("name the invocation instead:");
            return Err(lines.fold(failure, CliError::with_help));
        }
    }
    if let Some(last) = found.pop() {
        return Ok(last);
    }
    let by_invocation = store.suspension(id).await;
    by_invocation
        .map_err(|error| store_failure(&error))?
        .ok_or_else(|| {
            refused(&SignalError::Unknown {
                target: id.to_owned(),
            })
        })
}

/// Returns whether the deadline of a decision has passed.
///
/// With `--expire`, an open decision before its deadline is an error.
fn require_time(waiting: &Suspension, expires: bool) -> Result<bool, CliError> {
    let is_open = waiting.status == SuspensionStatus::Suspended;
    let is_late = deadline(waiting).is_some_and(|deadline| deadline <= SystemClock.now());
    if expires && is_open && !is_late {
        let id = &waiting.signal_id;
        let message = match deadline(waiting) {
            Some(_) => format!("the deadline of `{id}` has not passed"),
            None => format!("`{id}` has no deadline"),
        };
        return Err(CliError::user("approval_not_expired", message)
            .with_help("deny it now with --deny, or set a deadline with --approval-timeout"));
    }
    Ok(is_open && is_late)
}
