//! Events for a client of a model, derived from the events of a stream.
//!
//! | event | holds | for whom |
//! |---|---|---|
//! | `response.delta` | more of what the user may see | display |
//! | `response.delta.flush` | nothing: a paragraph ended | display |
//! | `response.done` | nothing: the message is whole | internal |
//! | `response.incomplete` | the code: the message was cut, or a call may not be run | display |
//! | `response.cancel` | the reason, if there is one | display |
//! | `response.reasoning_text.delta`, `….done` | private reasoning | hidden |
//! | `response.reasoning_summary_text.delta`, `….done` | a summary by another component | optional |
//! | `response.tool_call.delta`, `….done` | the arguments of a call, as they come | internal |
//! | `tool.cancel` | the call and the reason | internal |
//!
//! The names are those of OpenChatML 2.2 §9 and 2.0 §9; `response.tool_call.*` and
//! `response.incomplete` are ours. Each names its message, so that several streams may share a
//! line. Only what an assistant says becomes an event, and only once its channel is certain. What
//! a user interface may be sent goes through [`ResponseEvent::for_display`].
//!
//! A call is emitted as one only if it may be run: its channel is understood, it ends in
//! `<|call|>`, and it is not reasoning addressed to an external tool (2.2 §8.3).

use logue_source::DiagnosticCode;
use serde::Serialize;

use super::event;
use crate::harmony;
use crate::syntax::vocabulary::{Channel, FUNCTIONS, FrameRole, Terminator};
use crate::visibility::{Recipient, Visibility};

/// One event of an API. Serializes to an object whose `type` is the event's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum ResponseEvent<'e> {
    /// More of what the user may see: the answer, or a preamble.
    #[serde(rename = "response.delta")]
    Delta {
        /// The message.
        message_id: MessageId,
        /// The text.
        delta: &'e str,
    },
    /// A paragraph ended; what came so far may be drawn.
    #[serde(rename = "response.delta.flush")]
    Flush {
        /// The message.
        message_id: MessageId,
    },
    /// A visible message is whole.
    #[serde(rename = "response.done")]
    Done {
        /// The message.
        message_id: MessageId,
    },
    /// A message ended without its stop token.
    ///
    /// A message of any kind has no stop token (`E-STREAM-TRUNCATED`), or a call has another one
    /// than `<|call|>` (`E-PARSE-TERMINATOR`). In Harmony a `<|call|>` may still follow, and
    /// [`Self::CallDone`] with it.
    #[serde(rename = "response.incomplete")]
    Incomplete {
        /// The message.
        message_id: MessageId,
        /// The stable code.
        code: &'static str,
        /// The provider's reason, such as `length`.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'e str>,
    },
    /// The response is cancelled; stop drawing it.
    #[serde(rename = "response.cancel")]
    Cancel {
        /// The message.
        message_id: MessageId,
        /// The reason.
        reason: Option<&'e str>,
    },
    /// Private reasoning; never shown.
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta {
        /// The message.
        message_id: MessageId,
        /// The text.
        delta: &'e str,
    },
    /// Private reasoning is whole.
    #[serde(rename = "response.reasoning_text.done")]
    ReasoningDone {
        /// The message.
        message_id: MessageId,
    },
    /// A summary of reasoning that was made and moderated elsewhere, such as by a provider.
    #[serde(rename = "response.reasoning_summary_text.delta")]
    SummaryDelta {
        /// The message.
        message_id: MessageId,
        /// The text.
        delta: &'e str,
    },
    /// Such a summary is whole.
    #[serde(rename = "response.reasoning_summary_text.done")]
    SummaryDone {
        /// The message.
        message_id: MessageId,
    },
    /// More of the arguments of a call.
    #[serde(rename = "response.tool_call.delta")]
    CallDelta {
        /// The message.
        message_id: MessageId,
        /// The call, where its header names it.
        call_id: Option<&'e str>,
        /// The tool.
        recipient: &'e str,
        /// More of its arguments.
        delta: &'e str,
    },
    /// The arguments of a call are whole: it may be run.
    #[serde(rename = "response.tool_call.done")]
    CallDone {
        /// The message.
        message_id: MessageId,
        /// The call, where its header names it.
        call_id: Option<&'e str>,
        /// The tool.
        recipient: &'e str,
    },
    /// A call is cancelled.
    #[serde(rename = "tool.cancel")]
    ToolCancel {
        /// The call.
        call_id: &'e str,
        /// The reason.
        reason: &'e str,
    },
}

/// The audience of an event. OpenChatML 2.2 §9 closes the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The user of the model.
    Display,
    /// The user, if the application shows summaries.
    Optional,
    /// Routers and stores.
    Internal,
    /// Developers only.
    Hidden,
}

impl ResponseEvent<'_> {
    /// The event if a user interface may be sent it: nothing of reasoning, calls or instructions.
    pub fn for_display(self) -> Option<Self> {
        (self.audience() == Audience::Display).then_some(self)
    }

    /// The audience. A user interface receives [`Audience::Display`] and nothing else.
    pub const fn audience(&self) -> Audience {
        match self {
            Self::Delta { .. }
            | Self::Flush { .. }
            | Self::Cancel { .. }
            | Self::Incomplete { .. } => Audience::Display,
            Self::SummaryDelta { .. } | Self::SummaryDone { .. } => Audience::Optional,
            Self::Done { .. }
            | Self::ReasoningDone { .. }
            | Self::CallDelta { .. }
            | Self::CallDone { .. }
            | Self::ToolCancel { .. } => Audience::Internal,
            Self::ReasoningDelta { .. } => Audience::Hidden,
        }
    }
}

/// The number of a message in its stream, from 1; `msg_1` when written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub u64);

impl std::fmt::Display for MessageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "msg_{}", self.0)
    }
}

impl Serialize for MessageId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A part of a response whose text follows in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponsePart<'p> {
    /// Text for the user.
    Visible,
    /// Private reasoning.
    Reasoning,
    /// A summary of reasoning.
    Summary,
    /// A call with its id and its tool.
    Call(&'p str, &'p str),
}

/// Makes API events of what a stream reads. Holds one header, never text.
///
/// ```
/// use openchatml::harmony::{HarmonyReadOptions, Stream};
/// use openchatml::stream::{ResponseEvent, ResponseEventMapper};
///
/// let mut responses = ResponseEventMapper::default();
/// let mut screen = String::new();
/// let mut stream = Stream::new(HarmonyReadOptions::default());
/// let text = "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>";
/// for piece in text.as_bytes().chunks(7) {
///     stream.push(piece, &mut |event| responses.harmony(&event, &mut |event| {
///         if let Some(ResponseEvent::Delta { delta, .. }) = event.for_display() {
///             screen += delta;
///         }
///     }));
/// }
/// assert_eq!(screen, "Yes.");
/// ```
#[derive(Debug, Default)]
pub struct ResponseEventMapper {
    message: u64,
    kind: Kind,
    call_id: Option<String>,
    recipient: String,
    /// Whether what was shown last is a newline that ended no paragraph.
    newline: bool,
    /// Whether the turn of the assistant is cancelled.
    cancelled: bool,
    /// Whether the current message has not ended.
    open: bool,
}

/// The meaning of the current message for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Other,
    Visible,
    Reasoning,
    Summary,
    Call,
    /// A call that ended in `<|end|>`.
    Uncalled,
}

impl ResponseEventMapper {
    /// Begins a part of a response that a provider sends in another form.
    ///
    /// ```
    /// use openchatml::stream::{ResponseEventMapper, ResponsePart};
    ///
    /// let mut events = Vec::new();
    /// let mut mapper = ResponseEventMapper::default();
    /// mapper.begin_part(ResponsePart::Summary);
    /// mapper.push_text("Adds.", &mut |event| events.push(serde_json::to_string(&event).unwrap()));
    /// assert!(events[0].contains("response.reasoning_summary_text.delta"));
    /// ```
    pub fn begin_part(&mut self, part: ResponsePart<'_>) {
        self.turn(FrameRole::Assistant);
        match part {
            ResponsePart::Visible => self.begin(Kind::Visible, None, None),
            ResponsePart::Reasoning => self.begin(Kind::Reasoning, None, None),
            ResponsePart::Summary => self.begin(Kind::Summary, None, None),
            ResponsePart::Call(id, tool) => self.begin(Kind::Call, Some(id), Some(tool)),
        }
    }

    /// Maps a piece of text of the part.
    pub fn push_text(&mut self, text: &str, out: &mut impl FnMut(ResponseEvent<'_>)) {
        self.delta(text, out);
    }

    /// Ends the part; an incomplete one was cut.
    pub fn end_part(&mut self, is_complete: bool, out: &mut impl FnMut(ResponseEvent<'_>)) {
        self.end(is_complete, true, out);
    }

    /// Ends a part that the provider cut for this reason.
    pub fn cut_part(&mut self, reason: &str, out: &mut impl FnMut(ResponseEvent<'_>)) {
        self.open = false;
        if std::mem::take(&mut self.kind) != Kind::Other {
            out(ResponseEvent::Incomplete {
                message_id: MessageId(self.message),
                code: DiagnosticCode::StreamTruncated.as_str(),
                reason: Some(reason),
            });
        }
    }

    /// Continues after [`Self::cancel`] with another response.
    pub fn begin_response(&mut self) {
        self.cancelled = false;
    }

    /// Maps an event of OpenChatML.
    pub fn openchatml(
        &mut self,
        event: &event::Event<'_>,
        out: &mut impl FnMut(ResponseEvent<'_>),
    ) {
        match event {
            event::Event::Start(head) => {
                let frame = &head.frame;
                let to = frame.to.as_deref();
                let channel = frame.effective_channel();
                let kind = kind(frame.role, channel, head.visibility, to);
                self.turn(frame.role);
                self.begin(kind, frame.call_id.as_deref(), to);
            }
            event::Event::Delta(text) => self.delta(text, out),
            event::Event::End(ended) => {
                self.end(ended.complete, ended.terminator == Terminator::Call, out);
            }
            _ => {}
        }
    }

    /// Maps an event of Harmony.
    pub fn harmony(&mut self, event: &harmony::Event<'_>, out: &mut impl FnMut(ResponseEvent<'_>)) {
        match event {
            harmony::Event::Start(head) => {
                let to = head.recipient.as_deref();
                let kind = kind(head.role, head.known_channel(), head.visibility(), to);
                self.turn(head.role);
                self.begin(kind, head.call_id.as_deref(), to);
            }
            harmony::Event::Delta(text) => self.delta(text, out),
            harmony::Event::End(ended) => {
                self.end(ended.complete, ended.end == harmony::End::Call, out);
            }
            harmony::Event::Amended(harmony::End::Call) if self.kind == Kind::Uncalled => {
                self.kind = Kind::Call;
                self.end(true, true, out);
            }
            _ => {}
        }
    }

    /// The response at hand is cancelled: what the assistant still says, up to the next message of
    /// another speaker, becomes no event. The event names the open message, else the next one.
    pub fn cancel<'e>(&mut self, reason: Option<&'e str>) -> ResponseEvent<'e> {
        self.kind = Kind::Other;
        self.cancelled = true;
        if !std::mem::take(&mut self.open) {
            self.message += 1;
        }
        ResponseEvent::Cancel {
            message_id: MessageId(self.message),
            reason,
        }
    }

    fn turn(&mut self, role: FrameRole) {
        self.cancelled &= role == FrameRole::Assistant;
    }

    fn begin(&mut self, kind: Kind, call_id: Option<&str>, recipient: Option<&str>) {
        self.message += 1;
        self.open = true;
        self.kind = if self.cancelled { Kind::Other } else { kind };
        self.newline = false;
        self.call_id = call_id.map(str::to_owned);
        self.recipient.clear();
        self.recipient.push_str(recipient.unwrap_or_default());
    }

    fn delta(&mut self, text: &str, out: &mut impl FnMut(ResponseEvent<'_>)) {
        let message_id = MessageId(self.message);
        match self.kind {
            Kind::Other | Kind::Uncalled => {}
            Kind::Visible => self.visible(text, out),
            Kind::Reasoning => out(ResponseEvent::ReasoningDelta {
                message_id,
                delta: text,
            }),
            Kind::Summary => out(ResponseEvent::SummaryDelta {
                message_id,
                delta: text,
            }),
            Kind::Call => out(ResponseEvent::CallDelta {
                message_id,
                call_id: self.call_id.as_deref(),
                recipient: &self.recipient,
                delta: text,
            }),
        }
    }

    /// Emits visible text, with a flush after each empty line, at any split.
    fn visible(&mut self, text: &str, out: &mut impl FnMut(ResponseEvent<'_>)) {
        let message_id = MessageId(self.message);
        let mut from = 0;
        let mut newline = None;
        for at in memchr::memchr_iter(b'\n', text.as_bytes()) {
            let follows = match newline {
                Some(before) => before + 1 == at,
                None => at == 0 && self.newline,
            };
            if !follows {
                newline = Some(at);
                continue;
            }
            let delta = text.get(from..=at).unwrap_or_default();
            out(ResponseEvent::Delta { message_id, delta });
            out(ResponseEvent::Flush { message_id });
            from = at + 1;
            newline = None;
        }
        let delta = text.get(from..).unwrap_or_default();
        if !delta.is_empty() {
            out(ResponseEvent::Delta { message_id, delta });
        }
        self.newline = newline.is_some_and(|at| at + 1 == text.len());
    }

    fn end(&mut self, complete: bool, called: bool, out: &mut impl FnMut(ResponseEvent<'_>)) {
        let message_id = MessageId(self.message);
        self.open = false;
        let kind = std::mem::take(&mut self.kind);
        let incomplete = |code: DiagnosticCode| ResponseEvent::Incomplete {
            message_id,
            code: code.as_str(),
            reason: None,
        };
        out(match kind {
            Kind::Other | Kind::Uncalled => return,
            _ if !complete => incomplete(DiagnosticCode::StreamTruncated),
            Kind::Visible => ResponseEvent::Done { message_id },
            Kind::Reasoning => ResponseEvent::ReasoningDone { message_id },
            Kind::Summary => ResponseEvent::SummaryDone { message_id },
            Kind::Call if called => ResponseEvent::CallDone {
                message_id,
                call_id: self.call_id.as_deref(),
                recipient: &self.recipient,
            },
            Kind::Call => {
                self.kind = Kind::Uncalled;
                incomplete(DiagnosticCode::ParseTerminator)
            }
        });
    }
}

fn kind(role: FrameRole, channel: Channel, visibility: Visibility, to: Option<&str>) -> Kind {
    if role != FrameRole::Assistant || visibility == Visibility::HIDDEN_STRAY {
        return Kind::Other;
    }
    let tool = to.filter(|to| Recipient::of(to.as_bytes()) == Recipient::Tool);
    match (channel, tool) {
        _ if visibility.is_visible() => Kind::Visible,
        (Channel::Unknown, _) | (Channel::Commentary | Channel::Final, None) => Kind::Other,
        // Functions do not receive reasoning; built-in tools are called from there.
        (Channel::Analysis, Some(tool)) if tool.starts_with(FUNCTIONS) => Kind::Reasoning,
        (_, Some(_)) => Kind::Call,
        (Channel::Analysis, None) => Kind::Reasoning,
    }
}
