//! Answers of Chat Completions, whole and as a stream.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream;
use logue_agent::{TurnEvent, TurnReport, is_pending};
use logue_graph::RunEvent;
use logue_harness::chat::{ChatEvent, ChatTurnOutcome, TurnStream};
use logue_message::{ChatMessage, Role};
use logue_model::FinishReason;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

use super::error::error_json;
use super::exchanges::SEPARATOR;
use super::parts::{AnswerEnd, Part};
use crate::chat::drain::has_ended;
use crate::chat::limits::TurnPermit;
use crate::chat::measure::TurnMeter;
use crate::chat::parameters::TurnParameters;
use crate::chat::problem::Problem;
use crate::chat::sse::{PING, padding, set_stream_headers};
use crate::chat::visible::visible_message;

/// An answer as it arrives.
pub(crate) struct AnswerStream {
    parts: mpsc::Receiver<Part>,
}

/// The constant fields of an answer.
pub(crate) struct Answer {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
}

impl AnswerStream {
    /// Returns the answer of a turn of which nothing is kept. It ends when its client leaves.
    pub(crate) fn of_turn(
        mut turn: TurnStream<TurnEvent>,
        (mut meter, permit): (TurnMeter, TurnPermit),
        parameters: TurnParameters,
        mut shutdown: watch::Receiver<bool>,
    ) -> Self {
        let (sender, parts) = mpsc::channel(64);
        let span = meter.span().as_span().clone();
        let run = async move {
            let mut permit = Some(permit);
            loop {
                let event = tokio::select! {
                    event = turn.next() => event,
                    () = sender.closed() => return,
                    () = has_ended(&mut shutdown) => {
                        let end = Part::End(Err(Problem::server_ends()));
                        // The client may be gone.
                        drop(sender.send(end).await);
                        return;
                    }
                };
                if let Some(event) = &event {
                    meter.event(event);
                }
                let part = match event {
                    Some(ChatEvent::Run {
                        event: RunEvent::Emitted(event),
                        ..
                    }) => match event {
                        // Text before a call is not part of a structured answer.
                        TurnEvent::Delta(_) if parameters.is_structured() => continue,
                        TurnEvent::Delta(text) => Part::Text(text),
                        TurnEvent::MessageCompleted(message) if message.role == Role::Assistant => {
                            Part::Complete
                        }
                        // The text of an answer without an end is not part of the history.
                        TurnEvent::Asking(_)
                        | TurnEvent::Retrying { .. }
                        | TurnEvent::Reasking { .. } => Part::Withdrawn,
                        _ => continue,
                    },
                    Some(ChatEvent::Outcome(outcome)) => {
                        // A client that receives the end may start the next turn.
                        drop(permit.take());
                        Part::End(end_of(&outcome, &parameters))
                    }
                    Some(_) => continue,
                    None => return,
                };
                if sender.send(part).await.is_err() {
                    return;
                }
            }
        };
        tokio::spawn(run.instrument(span));
        Self { parts }
    }

    /// Returns the answer whose parts are received.
    pub(super) const fn of_parts(parts: mpsc::Receiver<Part>) -> Self {
        Self { parts }
    }

    /// Waits for the next part; `None` after the end.
    pub(super) async fn next(&mut self) -> Option<Part> {
        self.parts.recv().await
    }

    /// Waits for the end of the answer.
    pub(crate) async fn end(mut self) -> Result<AnswerEnd, Problem> {
        while let Some(part) = self.parts.recv().await {
            if let Part::End(end) = part {
                return end;
            }
        }
        Err(Problem::server_ends())
    }
}

/// Returns the end of an answer by the outcome of its turn.
pub(super) fn end_of(
    outcome: &ChatTurnOutcome,
    parameters: &TurnParameters,
) -> Result<AnswerEnd, Problem> {
    match outcome {
        ChatTurnOutcome::Errored(turn) => Err(turn.into()),
        ChatTurnOutcome::Suspended(turn) => Ok(AnswerEnd {
            text: text_of(&turn.pending_messages),
            finish: "stop",
            usage: None,
            signal_id: Some(turn.signal_descriptor.signal_id.clone()),
        }),
        ChatTurnOutcome::Completed(turn) => {
            let text = if parameters.is_structured() {
                let last = turn.replies.last().map(std::slice::from_ref);
                let text = text_of(last.unwrap_or_default());
                parameters.check(&text)?;
                text
            } else {
                text_of(&turn.replies)
            };
            let mut end = AnswerEnd {
                text,
                finish: "stop",
                ..AnswerEnd::default()
            };
            end.report(&TurnReport::from_session(turn));
            Ok(end)
        }
    }
}

impl AnswerEnd {
    /// Sets the usage, and the reason for which the answer was cut.
    pub(super) fn report(&mut self, report: &TurnReport) {
        self.usage = report.usage.map(|usage| {
            let (input, output) = (usage.input_tokens, usage.output_tokens);
            json!({"prompt_tokens": input, "completion_tokens": output,
                "total_tokens": input.saturating_add(output)})
        });
        self.finish = match report.truncated {
            None => "stop",
            Some(FinishReason::ContentFilter) => "content_filter",
            Some(_) => "length",
        };
    }
}

/// Returns the visible texts of answers, as the stream joins them.
fn text_of(messages: &[ChatMessage]) -> String {
    let answers = messages
        .iter()
        .filter(|message| message.role == Role::Assistant && !is_pending(message));
    let texts = answers.filter_map(|message| Some(visible_message(message)?.text()));
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    texts.join(SEPARATOR)
}

impl Answer {
    /// Returns a whole answer.
    pub(crate) fn whole(&self, end: &AnswerEnd) -> Value {
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "finish_reason": end.finish, "logprobs": null,
                "message": {"role": "assistant", "content": end.text, "refusal": null}}],
            "usage": end.usage,
        })
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish,
                "logprobs": null}],
        })
    }

    /// Returns a streamed answer.
    pub(crate) fn into_stream(self, answer: AnswerStream, has_usage: bool) -> Response {
        let writer = ChunkWriter {
            answer: self,
            parts: answer.parts,
            has_usage,
            position: Position::Start,
            written: String::new(),
            has_begun: false,
            has_ended: false,
        };
        let chunks = stream::unfold(writer, |mut writer| async move {
            let bytes = writer.next().await?;
            Some((Ok::<_, Infallible>(bytes), writer))
        });
        let mut response = Response::new(Body::from_stream(chunks));
        set_stream_headers(response.headers_mut());
        response
    }
}

/// The text that a stream has written.
enum Position {
    /// None.
    Start,
    /// A part of an answer.
    InText,
    /// A whole answer, which another one follows.
    AfterAnswer,
}

/// Writes the chunks of a streamed answer.
struct ChunkWriter {
    answer: Answer,
    parts: mpsc::Receiver<Part>,
    has_usage: bool,
    position: Position,
    /// The text that is sent.
    written: String,
    has_begun: bool,
    has_ended: bool,
}

impl ChunkWriter {
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        if !self.has_begun {
            self.has_begun = true;
            let mut bytes = padding().to_vec();
            let first = self
                .answer
                .chunk(&json!({"role": "assistant", "content": ""}), None);
            bytes.extend(data(&first).bytes());
            return Some(bytes.into());
        }
        // Parts without bytes, such as complete answers with calls, do not defer the comment.
        let silent_until = Instant::now() + PING;
        loop {
            let Ok(part) = timeout_at(silent_until, self.parts.recv()).await else {
                return Some(padding());
            };
            match part {
                Some(Part::Text(text)) => {
                    let text = match self.position {
                        Position::AfterAnswer => format!("{SEPARATOR}{text}"),
                        Position::Start | Position::InText => text,
                    };
                    self.position = Position::InText;
                    self.written.push_str(&text);
                    let chunk = self.answer.chunk(&json!({ "content": text }), None);
                    return Some(data(&chunk).into());
                }
                Some(Part::Complete) => {
                    if matches!(self.position, Position::InText) {
                        self.position = Position::AfterAnswer;
                    }
                }
                // Chunks cannot withdraw a text.
                Some(Part::Withdrawn) if matches!(self.position, Position::InText) => {
                    self.has_ended = true;
                    return Some(data(&error_json(&Problem::answer_withdrawn())).into());
                }
                Some(Part::Withdrawn) => {}
                Some(Part::End(end)) => {
                    self.has_ended = true;
                    return Some(self.end(end).into());
                }
                None => {
                    self.has_ended = true;
                    return Some(data(&error_json(&Problem::server_ends())).into());
                }
            }
        }
    }

    fn end(&self, end: Result<AnswerEnd, Problem>) -> String {
        let end = match end {
            Ok(end) => end,
            // The status is sent already.
            Err(problem) => return data(&error_json(&problem)),
        };
        let mut text = String::new();
        // The pieces of a redacted answer, and of another process's, are not emitted.
        match end.text.strip_prefix(self.written.as_str()) {
            Some("") => {}
            Some(remaining) => {
                let chunk = self.answer.chunk(&json!({ "content": remaining }), None);
                text.push_str(&data(&chunk));
            }
            None => return data(&error_json(&Problem::answer_withdrawn())),
        }
        let mut last = self.answer.chunk(&json!({}), Some(end.finish));
        if let Some(signal) = &end.signal_id {
            last["logue"] = json!({ "signal_id": signal });
        }
        text.push_str(&data(&last));
        if self.has_usage {
            let mut usage = self.answer.chunk(&json!({}), None);
            usage["choices"] = json!([]);
            usage["usage"] = json!(end.usage);
            text.push_str(&data(&usage));
        }
        text.push_str("data: [DONE]\n\n");
        text
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}
