//! The events of a turn.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use logue_graph::{EventSink, NodeLocation, RunEvent};
use logue_message::{ChatMessage, ToolCall};
use logue_model::Usage;

/// Receives the events of a turn.
///
/// It is called from the turn's own task and must not block.
pub trait Listener: Send + Sync {
    /// Receives one event.
    fn event(&self, event: TurnEvent);
}

/// An event of a turn.
///
/// A completed part is durable before its event is emitted. Only the deltas of an answer are emitted
/// earlier.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TurnEvent {
    /// A request to the model starts, with its number in this turn, from 1.
    Asking(usize),
    /// The request failed and is repeated after a wait.
    Retrying {
        /// The number of failures so far, from 1.
        attempt: u32,
        /// The wait before the next attempt.
        wait: Duration,
        /// The stable category of the failure.
        category: &'static str,
        /// The failure as a sentence.
        message: String,
    },
    /// The request failed, and the turn with it.
    RequestFailed {
        /// The HTTP status of the model server's answer, if it is the failure.
        status: Option<u16>,
    },
    /// The answer violates its schema, and the model is asked once more.
    Reasking {
        /// The violation.
        reason: String,
    },
    /// The next piece of the model's reasoning, which outlets do not show.
    Reasoning(String),
    /// The next piece of the provider's summary of the reasoning.
    ReasoningSummary {
        /// The number of the part of the summaries of this response, from 0.
        part: usize,
        /// The piece.
        text: String,
    },
    /// The next piece of the visible answer.
    Delta(String),
    /// The model writes a call of this tool.
    Calling(String),
    /// A model has answered a request.
    Answered {
        /// The model of the request.
        model: String,
        /// The token usage that its server reports.
        usage: Option<Usage>,
    },
    /// A message of the turn is complete: an answer of the model, or the result of a tool.
    MessageCompleted(Arc<ChatMessage>),
    /// A tool starts, with the arguments that run.
    ToolStarted(Arc<ToolCall>),
    /// The arguments of a tool are not checked, because its schema is not usable. Emitted once a tool.
    Unchecked {
        /// The tool.
        tool: String,
        /// The violation in the schema.
        why: String,
    },
    /// The model receives a note instead of this many further images of tool results.
    ImagesDropped(usize),
    /// An event of an agent that a prompt or a tool runs.
    OfAgent {
        /// The agent.
        agent: Arc<AgentCallPath>,
        /// The event of the agent's own turn.
        event: Box<TurnEvent>,
    },
    /// A tool has failed, and its result does not contain the cause.
    ///
    /// The cause may quote a model server or a prompt, and is for the user who runs the prompt.
    ToolFailed {
        /// The call.
        call: Arc<ToolCall>,
        /// The cause.
        diagnostic: String,
    },
    /// A tool has ended, and its result is in the transcript.
    ToolEnded {
        /// The call.
        call: Arc<ToolCall>,
        /// Whether the call succeeded.
        ok: bool,
        /// The stable code of its error.
        code: Option<&'static str>,
        /// The result that the model receives.
        text: String,
    },
}

/// The agent that an event comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentCallPath {
    /// The agent's prompt, as its caller names it.
    pub src: String,
    /// The call that runs the agent; `None` if a prompt does while it is read.
    pub call_id: Option<String>,
    /// The number of agents around this one, itself included.
    pub depth: usize,
}

/// A listener that ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoListener;

impl Listener for NoListener {
    fn event(&self, _: TurnEvent) {}
}

/// Routes the events of a run to a [`Listener`].
pub struct ListenerSink(Arc<dyn Listener>);

impl ListenerSink {
    /// Routes to `listener`.
    pub fn new(listener: Arc<dyn Listener>) -> Self {
        Self(listener)
    }
}

impl EventSink<TurnEvent> for ListenerSink {
    fn emit(&self, _: &NodeLocation, event: RunEvent<TurnEvent>) {
        if let RunEvent::Emitted(event) = event {
            self.0.event(event);
        }
    }
}

impl fmt::Debug for ListenerSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerSink").finish_non_exhaustive()
    }
}
