//! What a turn tells while it runs.

use std::time::Duration;

use logue_message::ToolCall;

/// Whoever watches a turn. Called from the turn's own task, so it should not wait.
pub trait Listener: Send + Sync {
    /// Something happened.
    fn event(&self, event: TurnEvent<'_>);
}

/// One thing that happened. What has been completed is durable before it is told; only the deltas
/// come before that.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TurnEvent<'a> {
    /// The model is asked for the n-th time in this turn, from 1.
    Asking(usize),
    /// The request failed, and is made again after a wait.
    Retrying {
        /// How many times it failed so far, from 1.
        attempt: u64,
        /// The wait.
        wait: Duration,
        /// The stable category of the failure.
        category: &'a str,
        /// What happened.
        message: &'a str,
    },
    /// The answer does not meet its schema, and the model is asked once more.
    Reasking {
        /// What is wrong with it.
        reason: &'a str,
    },
    /// The model is thinking. What it thinks is private and not told.
    Thinking,
    /// The next piece of the visible answer.
    Delta(&'a str),
    /// The model writes a call of this tool.
    Calling(&'a str),
    /// The model has answered.
    Answered {
        /// Its visible text, which may be empty.
        text: &'a str,
        /// How many tools it calls; with none it is the turn's answer.
        calls: usize,
    },
    /// A tool starts.
    ToolStarted(&'a ToolCall),
    /// What a tool is called with is not checked: its schema is of no use. Told once.
    Unchecked {
        /// The tool.
        tool: &'a str,
        /// What is wrong with the schema.
        why: &'a str,
    },
    /// An agent does something, while the prompt is read or a tool runs.
    OfAgent {
        /// Which one.
        agent: &'a AgentPlace,
        /// What it does, in a turn of its own.
        event: &'a TurnEvent<'a>,
    },
    /// A tool has ended and its result is in the transcript.
    ToolEnded {
        /// The call.
        call: &'a ToolCall,
        /// Whether it did what it was asked to.
        ok: bool,
        /// What the model is told.
        text: &'a str,
    },
}

/// Which agent it is that does something.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentPlace {
    /// Its prompt, as whoever asks it names it.
    pub src: String,
    /// The call that asks it; `None` if a prompt does while it is read.
    pub call_id: Option<String>,
    /// How many agents deep it is, from 1.
    pub depth: usize,
}

/// A listener that hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoListener;

impl Listener for NoListener {
    fn event(&self, _: TurnEvent<'_>) {}
}
