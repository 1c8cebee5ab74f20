//! The execution of a response's tool calls.

use std::collections::{BTreeMap, BTreeSet};

use logue_message::ToolCall;
use logue_tools::{DEFAULT_CONCURRENCY, Router, RouterHandle, ToolResult, Toolbox, envelope};

/// Options for running the tool calls of a response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Routing {
    /// The number of calls that run at the same time.
    pub concurrency: usize,
    /// Whether results are written as `{ok, content, error, provenance}` instead of text.
    ///
    /// The model and the transcript receive this envelope (OpenChatML 2.2 §8.2).
    pub envelope: bool,
    /// Cancels running calls; clones refer to the same calls.
    pub cancellation: RouterHandle,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            concurrency: DEFAULT_CONCURRENCY,
            envelope: false,
            cancellation: RouterHandle::default(),
        }
    }
}

impl Routing {
    /// Sets the number of calls that run at the same time.
    #[must_use]
    pub const fn with_concurrency(mut self, calls: usize) -> Self {
        self.concurrency = calls;
        self
    }

    /// Sets whether results are written as envelopes instead of text.
    #[must_use]
    pub const fn with_envelope(mut self, envelope: bool) -> Self {
        self.envelope = envelope;
        self
    }

    /// Sets the handle that cancels running calls.
    #[must_use]
    pub fn with_cancellation(mut self, cancellation: RouterHandle) -> Self {
        self.cancellation = cancellation;
        self
    }

    pub(crate) fn router(&self, toolbox: Toolbox) -> Router {
        Router::new(toolbox)
            .with_concurrency(self.concurrency)
            .with_handle(self.cancellation.clone())
    }

    /// Returns the text of a result for the model, with a notice about the call.
    pub(crate) fn model_text(&self, outcome: &ToolResult, notice: Option<&str>) -> String {
        match (self.envelope, notice) {
            (true, None) => envelope(outcome).to_string(),
            (true, Some(notice)) => {
                let mut result = envelope(outcome);
                result["notice"] = notice.into();
                result.to_string()
            }
            (false, None) => outcome.text.clone(),
            (false, Some(notice)) => format!("{notice}\n\n{}", outcome.text),
        }
    }
}

/// Makes the ids of a response's calls unique (OpenChatML 2.2 §8.2).
///
/// Some servers send no ids, or one id for several calls, and results could not be assigned.
pub(crate) fn with_unique_ids(calls: &mut [ToolCall]) {
    let mut taken: BTreeSet<String> = calls.iter().map(|call| call.id.clone()).collect();
    let mut seen = BTreeSet::new();
    // The next number to try for each id, so that many equal ids are replaced in linear time.
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for call in calls {
        if !call.id.is_empty() && seen.insert(call.id.clone()) {
            continue;
        }
        let stem = if call.id.is_empty() { "call" } else { &call.id };
        let number = numbers.entry(stem.to_owned()).or_insert(1);
        call.id = loop {
            *number += 1;
            let id = format!("{stem}_{number}");
            if !taken.contains(&id) {
                break id;
            }
        };
        taken.insert(call.id.clone());
        seen.insert(call.id.clone());
    }
}
