//! The events of a turn as response events for clients (OpenChatML 2.2 §9).

use logue_message::{ChatMessage, Role, ToolCall};
use logue_model::FinishReason;
use logue_source::DiagnosticCode;
use openchatml::stream::{ResponseEvent, ResponseEventMapper, ResponsePart};

use crate::turn::listener::TurnEvent;

/// Maps the events of a turn to response events.
///
/// Each part of an answer is a message of its own: reasoning, a summary of it, visible text, a call.
/// Events of agents are omitted, because their text is not shown. The last answer ends with
/// [`finish`](Self::finish), because the turn reports whether it was cut.
#[derive(Debug, Default)]
pub struct ResponseProjection {
    mapper: ResponseEventMapper,
    open: Option<OpenPart>,
    /// Whether the answer at hand has had visible text.
    has_text: bool,
    /// The ids of the calls that run.
    running: Vec<String>,
}

/// The part of an answer whose text arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenPart {
    Visible,
    Reasoning,
    /// A part of the summaries, by its number.
    Summary(usize),
}

impl ResponseProjection {
    /// Maps an event of the turn.
    pub fn event(&mut self, event: &TurnEvent, out: &mut impl FnMut(ResponseEvent<'_>)) {
        match event {
            TurnEvent::Asking(_) => {
                self.end(out);
                self.mapper.begin_response();
                self.has_text = false;
            }
            TurnEvent::Reasoning(text) => self.text(OpenPart::Reasoning, text, out),
            TurnEvent::ReasoningSummary { part, text } => {
                self.text(OpenPart::Summary(*part), text, out);
            }
            TurnEvent::Delta(text) => {
                self.has_text = true;
                self.text(OpenPart::Visible, text, out);
            }
            TurnEvent::Retrying { message, .. } => self.withdraw(message, out),
            TurnEvent::Reasking { reason } => self.withdraw(reason, out),
            TurnEvent::MessageCompleted(message) if message.role == Role::Assistant => {
                self.completed(message, out);
            }
            TurnEvent::ToolStarted(call) => self.running.push(call.id.clone()),
            TurnEvent::ToolEnded { call, code, .. } => {
                self.running.retain(|id| *id != call.id);
                let code = code.filter(|code| is_cancellation(code));
                if let Some(reason) = code {
                    let call_id = &call.id;
                    out(ResponseEvent::ToolCancel { call_id, reason });
                }
            }
            _ => {}
        }
    }

    /// Maps the cancellation of the turn: of its running calls, and of its answer.
    pub fn cancel(&mut self, reason: &str, out: &mut impl FnMut(ResponseEvent<'_>)) {
        for call_id in std::mem::take(&mut self.running) {
            let call_id = &call_id;
            out(ResponseEvent::ToolCancel { call_id, reason });
        }
        self.open = None;
        out(self.mapper.cancel(Some(reason)));
    }

    /// Maps the end of the turn: its last answer is complete, or cut for this reason.
    pub fn finish(&mut self, cut: Option<FinishReason>, out: &mut impl FnMut(ResponseEvent<'_>)) {
        let Some(reason) = cut else {
            return self.end(out);
        };
        if self.open.take().is_none() {
            self.mapper.begin_part(ResponsePart::Visible);
        }
        self.mapper.cut_part(reason.as_str(), out);
    }

    /// Maps the failure of the turn: it cuts the part at hand, or else cancels the response.
    pub fn fail(&mut self, code: &str, out: &mut impl FnMut(ResponseEvent<'_>)) {
        if self.open.take().is_some() {
            self.mapper.end_part(false, out);
        } else {
            self.cancel(code, out);
        }
    }

    fn text(&mut self, part: OpenPart, text: &str, out: &mut impl FnMut(ResponseEvent<'_>)) {
        if self.open != Some(part) {
            self.end(out);
            self.open = Some(part);
            self.mapper.begin_part(match part {
                OpenPart::Visible => ResponsePart::Visible,
                OpenPart::Reasoning => ResponsePart::Reasoning,
                OpenPart::Summary(_) => ResponsePart::Summary,
            });
        }
        self.mapper.push_text(text, out);
    }

    fn end(&mut self, out: &mut impl FnMut(ResponseEvent<'_>)) {
        if self.open.take().is_some() {
            self.mapper.end_part(true, out);
        }
    }

    /// Cancels an answer that another request replaces.
    fn withdraw(&mut self, reason: &str, out: &mut impl FnMut(ResponseEvent<'_>)) {
        if self.open.take().is_some() {
            out(self.mapper.cancel(Some(reason)));
            self.mapper.begin_response();
        }
        self.has_text = false;
    }

    fn completed(&mut self, message: &ChatMessage, out: &mut impl FnMut(ResponseEvent<'_>)) {
        let text = message.text();
        // The pieces of a redacted answer are not emitted.
        if !self.has_text && !text.is_empty() {
            self.text(OpenPart::Visible, &text, out);
        }
        if message.tool_calls.is_empty() {
            return;
        }
        self.end(out);
        for call in &message.tool_calls {
            let recipient = recipient(call);
            self.mapper
                .begin_part(ResponsePart::Call(&call.id, &recipient));
            self.mapper.push_text(call.arguments.as_str(), out);
            self.mapper.end_part(true, out);
        }
        self.has_text = false;
    }
}

/// Returns the address of a tool: that of a function, unless its name has a namespace.
fn recipient(call: &ToolCall) -> String {
    if call.name.contains('.') || call.name == "python" {
        call.name.clone()
    } else {
        format!("functions.{}", call.name)
    }
}

/// Returns whether a tool did not end by itself.
fn is_cancellation(code: &str) -> bool {
    [DiagnosticCode::ToolCancelled, DiagnosticCode::ToolTimeout]
        .iter()
        .any(|known| known.as_str() == code)
}
