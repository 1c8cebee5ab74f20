//! Responses of which nothing is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use logue_agent::TurnReport;
use logue_graph::RunEvent;
use logue_harness::chat::{ChatEvent, ChatTurnOutcome};
use logue_harness::store::{MemoryStore, SessionFork, SharedStore};
use logue_message::ChatMessage;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::follow::{TurnPart, stream_of};
use super::items::output_items;
use super::place::{agent_of_new, own_response};
use super::request::ResponseRequest;
use super::stored::{ResponseEnd, ResponseHead, error_of};
use super::stream::ResponseEvents;
use crate::chat::access::Caller;
use crate::chat::api::Api;
use crate::chat::drain::has_ended;
use crate::chat::measure::TurnMeter;
use crate::chat::problem::Problem;
use crate::chat::turn_events::TurnEvents;
use crate::chat::turn_span::TurnSpan;

/// The session of a response.
const STATELESS: &str = "response";

/// Answers a request without `store`.
///
/// No person can be asked, so a call that requires approval is denied. The turn ends when its client
/// leaves.
///
/// # Errors
/// Returns a problem if the turn fails or cannot begin.
pub(super) async fn stateless(
    api: &Api,
    caller: &Caller,
    request: &ResponseRequest,
    instructions: Option<String>,
    (mut earlier, message): (Vec<Value>, ChatMessage),
) -> Result<Response, Problem> {
    let mut model = request.model.clone();
    if let Some(id) = &request.previous_response_id {
        let (found, own) = own_response(api, caller, id).await?;
        let outcome = api.store().outcome_of(&found.session, found.entry).await?;
        let outcome =
            outcome.ok_or_else(|| Problem::invalid(format!("response `{id}` has not ended")))?;
        let count = usize::try_from(outcome.replies_to).unwrap_or(usize::MAX);
        earlier = api.store().history(&found.session, 0, count).await?;
        // The calls of a response that waits are not part of what continues it here.
        earlier = without_open_calls(&earlier);
        model.get_or_insert(own);
    }
    let agent = agent_of_new(api, caller, model.as_deref())?;
    let permit = api.limits.permit(caller, &agent)?;
    let store: SharedStore = Arc::new(MemoryStore::new());
    let now = api.turns.clock.now();
    store.set_label("seed", "seed", json!(true), now).await?;
    let mut fork = SessionFork::new(0, STATELESS, now);
    fork.messages = earlier;
    store.fork("seed", fork).await?;
    let host = &api.turns.host;
    let parameters = request.parameters()?;
    let chat = host
        .stateless_chat(&agent, Arc::clone(&store), STATELESS, parameters)
        .await?;
    let suffix = api.turns.ids.new_id();
    let format = request.format();
    let head = ResponseHead {
        id: format!("resp_{suffix}"),
        created_at: now.0 / 1_000,
        model: agent,
        conversation: None,
        instructions,
        is_stored: false,
        format: format.clone(),
        kept: request.kept(false),
    };
    let own = suffix.clone();
    let (sender, parts) = mpsc::channel(64);
    let span = TurnSpan::new(&api.turns.host, &chat.agent, None);
    let mut meter = TurnMeter::of_begun(&api.turns.measures, &chat.agent, span, &message);
    let span = meter.span().as_span().clone();
    let mut turn = chat.chat.send_streaming(STATELESS, message);
    let mut failure = None;
    if request.is_streamed() {
        let mut shutdown = api.shutdown.clone();
        let run = async move {
            let mut permit = Some(permit);
            loop {
                let event = tokio::select! {
                    event = turn.next() => event,
                    () = sender.closed() => return,
                    () = has_ended(&mut shutdown) => {
                        let end = TurnPart::End(Box::new(cut_off()));
                        // The client may be gone.
                        drop(sender.send(end).await);
                        return;
                    }
                };
                let Some(event) = event else { return };
                meter.event(&event);
                if matches!(event, ChatEvent::Outcome(_)) {
                    // A client that receives the end may start the next turn.
                    drop(permit.take());
                }
                for part in parts_of((&own, format.as_ref()), event, &mut None) {
                    if sender.send(part).await.is_err() {
                        return;
                    }
                }
            }
        };
        tokio::spawn(run.instrument(span));
        let events = ResponseEvents::new(head, suffix);
        return Ok(stream_of(events, parts));
    }
    while let Some(event) = turn.next().instrument(span.clone()).await {
        meter.event(&event);
        for part in parts_of((&own, head.format.as_ref()), event, &mut failure) {
            if let TurnPart::End(end) = part {
                if let Some(problem) = failure {
                    return Err(problem);
                }
                return Ok(Json(head.with(&end)).into_response());
            }
        }
    }
    Err(Problem::server_ends())
}

/// Returns messages without the calls that have no results.
fn without_open_calls(stored: &[Value]) -> Vec<Value> {
    let messages = stored.iter().map(ChatMessage::from_json);
    let messages: Vec<ChatMessage> = messages.filter_map(Result::ok).collect();
    let answered: BTreeSet<String> = messages
        .iter()
        .filter_map(|message| message.tool_call_id.clone())
        .collect();
    let closed = messages.into_iter().filter_map(|mut message| {
        message
            .tool_calls
            .retain(|call| answered.contains(&call.id));
        message.validate().is_ok().then(|| message.to_json())
    });
    closed.collect()
}

/// Returns the parts of an event; a failure is also set as a problem.
fn parts_of(
    (suffix, format): (&str, Option<&Value>),
    event: ChatEvent<logue_agent::TurnEvent>,
    failure: &mut Option<Problem>,
) -> Vec<TurnPart> {
    match event {
        ChatEvent::Run {
            event: RunEvent::Emitted(event),
            ..
        } => {
            let mut events = TurnEvents::new(0);
            events.event(event);
            let texts = events.take().into_iter();
            let values = texts.filter_map(|(_, text)| serde_json::from_str(&text).ok());
            values.map(TurnPart::Event).collect()
        }
        ChatEvent::Outcome(outcome) => {
            if let ChatTurnOutcome::Errored(turn) = &*outcome {
                *failure = Some(turn.into());
            }
            vec![TurnPart::End(Box::new(end_of(suffix, format, &outcome)))]
        }
        _ => Vec::new(),
    }
}

/// Returns the end of a response that the end of the server cuts off.
fn cut_off() -> ResponseEnd {
    let problem = Problem::server_ends();
    ResponseEnd {
        status: "failed",
        error: Some(error_of(&problem.code, &problem.detail)),
        ..ResponseEnd::default()
    }
}

fn end_of(suffix: &str, format: Option<&Value>, outcome: &ChatTurnOutcome) -> ResponseEnd {
    let mut end = ResponseEnd {
        status: "completed",
        output: output_items(suffix, &[], outcome.messages(), format.is_some()),
        ..ResponseEnd::default()
    };
    match outcome {
        ChatTurnOutcome::Completed(turn) => {
            let report = TurnReport::from_session(turn);
            end.usage = report.usage;
            end.cut(report.truncated);
        }
        ChatTurnOutcome::Suspended(_) => {}
        ChatTurnOutcome::Errored(turn) => {
            let problem = Problem::from(turn);
            end.status = "failed";
            end.error = Some(error_of(&problem.code, &problem.detail));
        }
    }
    end
}
