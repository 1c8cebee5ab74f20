//! `logue send`: sends one message to a session and prints the answer.

use std::sync::Arc;

use logue_agent::{Approvals, TurnEvent};
use logue_harness::chat::{ChatHarness, SendOptions, TurnStream, UnfinishedTurn};
use logue_message::ChatMessage;
use serde_json::json;

use crate::arguments::{Busy, SendArgs};
use crate::exit::{CliError, Exit};
use crate::setup::output::Output;
use crate::setup::prompt::input;
use crate::setup::session_agent::{Agent, AgentPrompt, SessionCommand, TTL};
use crate::setup::session_labels::SessionLabels;
use crate::setup::session_turn::{Ended, not_retried, refused, report_outcome, watch};
use crate::setup::settings::Settings;
use crate::setup::signals::{runtime, until_signal};
use crate::setup::store::{check_named, open, store_failure, with_similar};
use crate::setup::suspended;
use crate::telemetry;

pub(crate) fn send(arguments: &SendArgs) -> Result<Exit, CliError> {
    let output = Arc::new(Output::new(arguments.json));
    output.show_as(arguments.display);
    let ended = Settings::load(arguments.trust.trust)
        .inspect(telemetry::start)
        .and_then(|settings| turn(arguments, &settings, &output));
    let base_url = arguments.model_args.base_url.as_deref();
    report_outcome(&output, &arguments.store, base_url, ended)
}

/// Continues a turn with the same message that failed or whose process died.
///
/// A turn that failed counts if its tools ran, so that they do not run again. A message with a key
/// is known by it.
async fn same_command(
    chat: &ChatHarness<TurnEvent>,
    session: &str,
    message: &ChatMessage,
    arguments: &SendArgs,
) -> Result<Option<TurnStream<TurnEvent>>, CliError> {
    if arguments.idempotency_key.is_some() {
        return Ok(None);
    }
    // Another policy is about a turn that runs.
    if matches!(arguments.busy, Busy::Enqueue) {
        let interrupted = chat.interrupted(session, message).await;
        let interrupted = interrupted.map_err(|error| store_failure(&error))?;
        if let Some(entry) = interrupted {
            return Ok(Some(chat.entry_streaming(session, entry)));
        }
    }
    let unfinished = chat.unfinished(session).await;
    let unfinished = unfinished.map_err(|error| store_failure(&error))?;
    let is_same = |turn: &UnfinishedTurn| turn.resumable && turn.message.as_ref() == Some(message);
    if !unfinished.as_ref().is_some_and(is_same) {
        return Ok(None);
    }
    let turn = chat.retry_streaming(session).await;
    turn.map(Some).map_err(|error| not_retried(&error))
}

fn turn(
    arguments: &SendArgs,
    settings: &Settings,
    output: &Arc<Output>,
) -> Result<Ended, CliError> {
    let Some(message) = input::message(&arguments.message)? else {
        return Err(CliError::new(Exit::Usage, "usage", "no message"));
    };
    let session = arguments.session.as_str();
    check_named(session)?;
    suspended::refuse_file(session)?;
    let store = open(&arguments.store, settings)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let prepared = async {
            let known = store.session(session).await;
            let known = known.map_err(|error| store_failure(&error))?;
            let agent = Agent::new(
                session,
                known.as_ref(),
                arguments.agent.clone().map(AgentPrompt::File),
                arguments.model_args.model.as_deref(),
                &arguments.permissions,
            );
            let agent = match agent {
                Err(failure) if known.is_none() && arguments.agent.is_none() => {
                    return Err(with_similar(failure, &store, session).await);
                }
                agent => agent?,
            };
            let command = SessionCommand {
                settings,
                model_args: &arguments.model_args,
                trust: &arguments.trust,
                output,
                rules: &arguments.permissions,
                on_crash: arguments.crash.policy(settings),
                approvals: Approvals::Suspend,
            };
            let chat = agent.chat(Arc::clone(&store), session, &command).await?;
            let labels = SessionLabels::new(&store, session, known.as_ref());
            agent.remember(&labels).await?;
            let has_own = known.is_some_and(|info| info.labels.contains_key(TTL));
            let default = settings.session_ttl.filter(|_| !has_own);
            if let Some(ttl) = arguments.ttl.or(default) {
                labels.set(TTL, json!(ttl.as_secs())).await?;
            }
            // Suspensions past their deadline must not block the new message.
            let expired = chat.expire(session).await;
            let expired = expired.map_err(|error| refused(&error))?;
            for signal in &expired {
                output.expired(signal);
            }
            Ok::<_, CliError>(chat)
        };
        let chat = match Box::pin(until_signal(prepared)).await {
            Ok(chat) => chat?,
            Err(exit) => return Ok(Ended::Signalled(exit)),
        };
        let mut options = SendOptions::new()
            .with_busy(arguments.busy.into())
            .with_while_paused(arguments.while_paused.into());
        if let Some(key) = &arguments.idempotency_key {
            options = options.with_idempotency_key(key);
        }
        let message = chat.redacted(ChatMessage::user(message));
        let same = same_command(&chat, session, &message, arguments);
        let same = match until_signal(same).await {
            Ok(same) => same?,
            Err(exit) => return Ok(Ended::Signalled(exit)),
        };
        let turn = match same {
            Some(turn) => turn,
            None => chat.send_streaming_with(session, message, options),
        };
        Ok(watch(turn, output, session, arguments.crash.policy(settings)).await)
    });
    // Cancelled tools have been killed. The shutdown does not wait for reading threads.
    runtime.shutdown_background();
    ended
}
