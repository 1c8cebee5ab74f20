//! How the calls of an answer are run, and what an answer has to be for that.

use std::collections::BTreeSet;

use logue_message::ToolCall;
use logue_tools::{DEFAULT_CONCURRENCY, Router, RouterHandle, ToolResult, Toolbox, envelope};

/// How the calls of an answer are run.
#[derive(Clone, Debug)]
pub struct Routing {
    /// How many run at once.
    pub concurrency: usize,
    /// Whether the model, and so the transcript, gets results as `{ok, content, error, provenance}`
    /// (OpenChatML 2.2 §8.2) and not as text alone.
    pub envelope: bool,
    /// What cancels calls while they run. A clone of it outside does.
    pub handle: RouterHandle,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            concurrency: DEFAULT_CONCURRENCY,
            envelope: false,
            handle: RouterHandle::default(),
        }
    }
}

impl Routing {
    pub(crate) fn router(&self, toolbox: Toolbox) -> Router {
        Router::new(toolbox)
            .with_concurrency(self.concurrency)
            .with_handle(self.handle.clone())
    }

    /// What the model is told of an outcome.
    pub(crate) fn told(&self, outcome: &ToolResult) -> String {
        if self.envelope {
            envelope(outcome).to_string()
        } else {
            outcome.text.clone()
        }
    }
}

/// Gives the calls of one answer ids of their own (OpenChatML 2.2 §8.2): some servers give none, or
/// the same to several. Nothing could tell whose result is whose.
pub(crate) fn with_unique_ids(calls: &mut [ToolCall]) {
    let mut taken: BTreeSet<String> = calls.iter().map(|call| call.id.clone()).collect();
    let mut seen = BTreeSet::new();
    for call in calls {
        if !call.id.is_empty() && seen.insert(call.id.clone()) {
            continue;
        }
        let stem = if call.id.is_empty() { "call" } else { &call.id };
        let free = (2_usize..).map(|number| format!("{stem}_{number}"));
        let free = free.into_iter().find(|id| !taken.contains(id));
        call.id = free.unwrap_or_default();
        taken.insert(call.id.clone());
        seen.insert(call.id.clone());
    }
}
