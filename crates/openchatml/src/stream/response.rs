//! The events that a client of a model is sent, made of what a stream reads.
//!
//! | event | holds | for whom |
//! |---|---|---|
//! | `response.delta` | more of what the user may see | display |
//! | `response.delta.flush` | nothing: a paragraph ended | display |
//! | `response.done` | nothing: the message is whole | internal |
//! | `response.incomplete` | the code: the message was cut | display |
//! | `response.cancel` | the reason, if there is one | display |
//! | `response.reasoning_text.delta`, `….done` | private reasoning | hidden |
//! | `response.reasoning_summary_text.delta`, `….done` | a summary that somebody else made | optional |
//! | `response.tool_call.delta`, `….done` | the arguments of a call, as they come | internal |
//! | `tool.cancel` | the call and the reason | internal |
//!
//! The names are those of OpenChatML 2.2 §9 and 2.0 §9; `response.tool_call.*` and
//! `response.incomplete` are ours. Each names its message, so that several streams may share a
//! line. Only what an assistant says becomes an event, and only once its channel is certain.

use serde::Serialize;

use super::head;
use crate::harmony;
use crate::view::Addressee;
use crate::words::{Channel, Role};

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
    /// A message of any kind ended without its stop token (`E-STREAM-TRUNCATED`).
    #[serde(rename = "response.incomplete")]
    Incomplete {
        /// The message.
        message_id: MessageId,
        /// The stable code.
        code: &'static str,
    },
    /// The response is cancelled; stop drawing it.
    #[serde(rename = "response.cancel")]
    Cancel {
        /// The message.
        message_id: MessageId,
        /// Why.
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
    /// A summary of reasoning that was made and moderated elsewhere. No reader makes this one.
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
        /// Why.
        reason: &'e str,
    },
}

/// Whom an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Whoever talks with the model.
    Display,
    /// The same, if the application shows summaries.
    Optional,
    /// Routers and stores.
    Internal,
    /// Nobody but those who debug.
    Hidden,
}

impl ResponseEvent<'_> {
    /// Whom it is for. A user interface is sent [`Audience::Display`] and nothing else.
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

/// Makes API events of what a stream reads. Holds one header, never text.
///
/// ```
/// use openchatml::harmony::{Options, Stream};
/// use openchatml::stream::{Audience, ResponseEvent, Responses};
///
/// let mut responses = Responses::default();
/// let mut screen = String::new();
/// let mut stream = Stream::new(Options::default());
/// let text = "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>";
/// for piece in text.as_bytes().chunks(7) {
///     stream.push(piece, &mut |event| responses.harmony(&event, &mut |event| {
///         if event.audience() == Audience::Display && let ResponseEvent::Delta { delta, .. } = event {
///             screen += delta;
///         }
///     }));
/// }
/// assert_eq!(screen, "Yes.");
/// ```
#[derive(Debug, Default)]
pub struct Responses {
    message: u64,
    kind: Kind,
    call_id: Option<String>,
    recipient: String,
    /// Whether what was shown last is a newline that ended no paragraph.
    newline: bool,
}

/// What the message at hand is to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Other,
    Visible,
    Reasoning,
    Call,
}

impl Responses {
    /// What becomes of an event of OpenChatML.
    pub fn openchatml(&mut self, event: &head::Event<'_>, out: &mut impl FnMut(ResponseEvent<'_>)) {
        match event {
            head::Event::Start(head) => {
                let frame = &head.frame;
                let to = frame.to.as_deref();
                let kind = kind(
                    frame.role,
                    frame.effective_channel(),
                    head.is_visible(),
                    to,
                    head.stray,
                );
                self.begin(kind, frame.call_id.as_deref(), to);
            }
            head::Event::Delta(text) => self.delta(text, out),
            head::Event::End(ended) => self.end(ended.complete, out),
            _ => {}
        }
    }

    /// What becomes of an event of Harmony.
    pub fn harmony(&mut self, event: &harmony::Event<'_>, out: &mut impl FnMut(ResponseEvent<'_>)) {
        match event {
            harmony::Event::Start(head) => {
                let to = head.recipient.as_deref();
                let kind = kind(
                    head.role,
                    head.known_channel(),
                    head.is_visible(),
                    to,
                    head.stray,
                );
                self.begin(kind, head.call_id.as_deref(), to);
            }
            harmony::Event::Delta(text) => self.delta(text, out),
            harmony::Event::End(ended) => self.end(ended.complete, out),
            _ => {}
        }
    }

    /// The response at hand is cancelled: what the model still says of it becomes no event.
    pub fn cancel<'e>(&mut self, reason: Option<&'e str>) -> ResponseEvent<'e> {
        self.kind = Kind::Other;
        ResponseEvent::Cancel {
            message_id: MessageId(self.message),
            reason,
        }
    }

    fn begin(&mut self, kind: Kind, call_id: Option<&str>, recipient: Option<&str>) {
        self.message += 1;
        self.kind = kind;
        self.newline = false;
        self.call_id = call_id.map(str::to_owned);
        self.recipient.clear();
        self.recipient.push_str(recipient.unwrap_or_default());
    }

    fn delta(&mut self, text: &str, out: &mut impl FnMut(ResponseEvent<'_>)) {
        let message_id = MessageId(self.message);
        match self.kind {
            Kind::Other => {}
            Kind::Visible => self.visible(text, out),
            Kind::Reasoning => out(ResponseEvent::ReasoningDelta {
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

    /// Tells visible text, with a flush behind each empty line, wherever the pieces were cut.
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

    fn end(&mut self, complete: bool, out: &mut impl FnMut(ResponseEvent<'_>)) {
        let message_id = MessageId(self.message);
        let kind = std::mem::take(&mut self.kind);
        out(match kind {
            Kind::Other => return,
            _ if !complete => ResponseEvent::Incomplete {
                message_id,
                code: logue_source::Code::StreamTruncated.as_str(),
            },
            Kind::Visible => ResponseEvent::Done { message_id },
            Kind::Reasoning => ResponseEvent::ReasoningDone { message_id },
            Kind::Call => ResponseEvent::CallDone {
                message_id,
                call_id: self.call_id.as_deref(),
                recipient: &self.recipient,
            },
        });
    }
}

fn kind(role: Role, channel: Channel, visible: bool, to: Option<&str>, stray: bool) -> Kind {
    if role != Role::Assistant || stray {
        return Kind::Other;
    }
    let for_tool = to.is_some_and(|to| Addressee::of(to.as_bytes()) == Addressee::Tool);
    match channel {
        _ if visible => Kind::Visible,
        _ if for_tool => Kind::Call,
        Channel::Analysis => Kind::Reasoning,
        Channel::Commentary | Channel::Final | Channel::Unknown => Kind::Other,
    }
}
