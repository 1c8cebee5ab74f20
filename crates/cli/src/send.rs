//! `logue send`: one message in a session, and the answer.

use std::sync::Arc;

use logue_agent::Relay;
use logue_harness::chat::{ChatTurnOutcome, SendOptions, TurnEvent, TurnStream};
use logue_message::ChatMessage;

use crate::answering::Agent;
use crate::arguments::{SendArgs, StoreArgs};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::permissions::Desk;
use crate::run::output::Output;
use crate::run::{input, kept, signalled};
use crate::signal::refused;
use crate::store::{open, store_failure};
use crate::telemetry;
use crate::terminal::write_failed;

pub(crate) fn send(arguments: &SendArgs) -> Result<Exit, Failure> {
    let output = Arc::new(Output::new(arguments.json));
    let ended = Config::load()
        .inspect(telemetry::start)
        .and_then(|config| turn(arguments, &config, &output));
    told(&output, &arguments.store, ended)
}

/// Tells how a turn of a session ended.
pub(crate) fn told(
    output: &Output,
    store: &StoreArgs,
    ended: Result<Ended, Failure>,
) -> Result<Exit, Failure> {
    output.finish();
    let failure = match ended {
        Ok(Ended::Signalled(exit)) => {
            output.cancelled(exit, None);
            return Ok(exit);
        }
        Ok(Ended::Turn(outcome)) => match *outcome {
            ChatTurnOutcome::Errored(turn) => failed(&turn, store),
            ChatTurnOutcome::Completed(turn) => {
                output.answered(&turn);
                output.written().map_err(|error| write_failed(&error))?;
                return Ok(Exit::Done);
            }
            ChatTurnOutcome::Suspended(turn) => {
                let text = turn
                    .pending_messages
                    .iter()
                    .rev()
                    .map(ChatMessage::text)
                    .next();
                let command = resume_command(&turn.signal_descriptor.signal_id, store);
                let id = &turn.invocation_id;
                output.suspended(id, &turn.signal_descriptor, text.as_deref(), &command);
                output.written().map_err(|error| write_failed(&error))?;
                return Ok(Exit::Suspended);
            }
        },
        Err(failure) => failure,
    };
    output.failed(&failure);
    Err(failure)
}

/// How a turn ended here.
pub(crate) enum Ended {
    Turn(Box<ChatTurnOutcome>),
    /// By a signal of the system.
    Signalled(Exit),
}

/// Shows what happens in a turn until it ends, or until a signal of the system ends this process. The
/// turn is then put in order by whoever comes next.
pub(crate) async fn watch(mut turn: TurnStream, output: &Arc<Output>) -> Ended {
    let relay = Relay::new(Arc::clone(output) as Arc<_>);
    let mut signal = std::pin::pin!(signalled());
    loop {
        let event = tokio::select! {
            biased;
            exit = &mut signal => return Ended::Signalled(exit),
            event = turn.next() => event,
        };
        match event {
            Some(TurnEvent::Run { event, .. }) => relay.tell(&event),
            Some(TurnEvent::Outcome(outcome)) => return Ended::Turn(Box::new(outcome)),
            Some(_) => {}
            // The outcome is the last event, so this does not happen.
            None => return Ended::Signalled(Exit::Internal),
        }
    }
}

/// The command that lets a turn go on.
pub(crate) fn resume_command(signal_id: &str, store: &StoreArgs) -> String {
    let store = store.store.as_deref();
    let store = store.map_or(String::new(), |url| format!(" --store {}", quoted(url)));
    format!("logue signal {} --approve{store}", quoted(signal_id))
}

fn turn(arguments: &SendArgs, config: &Config, output: &Arc<Output>) -> Result<Ended, Failure> {
    let Some(message) = input::message(&arguments.message)? else {
        return Err(Failure::new(Exit::Usage, "usage", "there is no message"));
    };
    let session = arguments.session.as_str();
    if session.is_empty() {
        let message = "the name of the session is empty";
        return Err(Failure::user("harness_session_id_unresolved", message)
            .with_help("any other text is a name"));
    }
    kept::refuse_file(session)?;
    let store = open(&arguments.store, config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Internal, "internal", error.to_string()))?;
    let ended = runtime.block_on(async {
        let prepared = async {
            let known = store.session(session).await;
            let known = known.map_err(|error| store_failure(&error))?;
            let agent = Agent::of(
                session,
                known.as_ref(),
                arguments.agent.as_deref(),
                arguments.asking.model.as_deref(),
                &arguments.approve,
            )?;
            let desk = Desk {
                config,
                arguments: &arguments.trust,
                output,
                can_wait: true,
            };
            let chat = agent
                .chat(Arc::clone(&store), session, &arguments.asking, &desk)
                .await?;
            agent.remember(session, &store).await?;
            // What nobody decided in time is in the way of nothing any more.
            let expired = chat.expire(session).await;
            let expired = expired.map_err(|error| refused(&error))?;
            for signal in &expired {
                output.expired(signal);
            }
            Ok::<_, Failure>(chat)
        };
        let chat = tokio::select! {
            biased;
            exit = signalled() => return Ok(Ended::Signalled(exit)),
            chat = prepared => chat?,
        };
        let mut options = SendOptions::new()
            .with_busy(arguments.busy.into())
            .with_while_paused(arguments.while_paused.into());
        if let Some(key) = &arguments.idempotency_key {
            options = options.with_idempotency_key(key);
        }
        let message = ChatMessage::user(message);
        let turn = chat.send_streaming_with(session, message, options);
        Ok(watch(turn, output).await)
    });
    // A tool that a signal cancelled has been killed; reading threads are not waited for.
    runtime.shutdown_background();
    ended
}

fn failed(turn: &logue_harness::chat::ErroredTurn, store: &StoreArgs) -> Failure {
    let exit = match turn.error_category.as_str() {
        "session_busy" => Exit::Busy,
        "internal" => Exit::Internal,
        _ => Exit::from(turn.error_bucket),
    };
    let mut failure = Failure::new(exit, &turn.error_category, &turn.diagnostic);
    failure.retry_after = turn.retry_after;
    if let Some(help) = &turn.help {
        failure = failure.with_help(help);
    }
    match turn.error_category.as_str() {
        "session_busy" => failure.with_help("wait for it, or use --busy enqueue"),
        "session_awaiting_signal" => {
            let list = match store.store.as_deref() {
                Some(url) => format!("logue sessions list --store {}", quoted(url)),
                None => "logue sessions list".to_owned(),
            };
            failure.with_help(format!(
                "decide it with `logue signal`; `{list}` names what waits"
            ))
        }
        "budget_exceeded" => {
            failure.with_help("what was done is kept: raise --max-tokens or --budget and go on")
        }
        "max_turns_reached" => failure.with_help("raise --max-turns"),
        "turn_interrupted" => failure.with_help("say it again if it is still to be done"),
        _ => failure,
    }
}

/// A word of a command line as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
