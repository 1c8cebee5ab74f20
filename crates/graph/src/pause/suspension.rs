//! Suspension of a run by a node, which no code in between can prevent.
//!
//! A suspension is not an error that propagates through the node: a function that catches every
//! error would swallow it. The innermost future leaves its request in the interrupt table and then
//! stays pending. The engine checks the table after every poll, before it considers the result of
//! the node, and drops the whole chain of futures. Code after the `await` in the node, in its
//! functions and in its middleware never runs; destructors do.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::pause::paused_run::{PausedFrame, Siblings};
use crate::run::interrupt::{AttemptHandle, InterruptTable};

/// The signal that a suspended run waits for.
///
/// The engine forwards it unchanged, except that a fan-out or a node with branches adds the
/// suspended part to the metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignalDescriptor {
    /// The name of the expected signal.
    pub signal_id: String,
    /// Arbitrary information for the sender of the signal.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub metadata: Option<Value>,
}

/// Reads a value that is present, which may be null.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

impl SignalDescriptor {
    /// Creates a descriptor without metadata.
    pub fn new(signal_id: impl Into<String>) -> Self {
        Self {
            signal_id: signal_id.into(),
            metadata: None,
        }
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Value) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Adds one entry to the metadata.
    ///
    /// Metadata that is not an object moves to the entry `value`.
    fn annotate(&mut self, key: &str, value: Value) {
        let mut entries = match self.metadata.take() {
            Some(Value::Object(entries)) => entries,
            Some(other) => Map::from_iter([("value".to_owned(), other)]),
            None => Map::new(),
        };
        entries.insert(key.to_owned(), value);
        self.metadata = Some(Value::Object(entries));
    }
}

/// A future that suspends the run when it is first polled, and never completes.
///
/// A node writes `match ctx.suspend(descriptor).await {}`, which has any type that is required.
///
/// It belongs to one attempt of one node. Polled later, while the run is still active, it ends the
/// run with the error `suspension_in_unsupported_context`; it could not be the signal that the run
/// waits for, and its `await` would never return. The same happens to one that a middleware
/// requests. When the run has ended too, the error cannot be reported: the future stays pending and
/// does nothing. So a [`NodeContext`](crate::NodeContext) must not be carried from one run into
/// another.
#[derive(Debug)]
#[must_use = "nothing is suspended until it is awaited"]
pub struct Suspend {
    pub(crate) request: Option<SuspendRequest>,
    pub(crate) seat: AttemptHandle,
    pub(crate) desk: Arc<InterruptTable>,
}

impl Future for Suspend {
    type Output = Infallible;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Infallible> {
        if let Some(request) = self.request.take() {
            self.desk.suspend(&self.seat, request);
        }
        Poll::Pending
    }
}

/// The request of a node that suspends.
#[derive(Debug)]
pub(crate) struct SuspendRequest {
    pub(crate) descriptor: SignalDescriptor,
    pub(crate) node_completed: bool,
    /// The frames inside the node, if the suspension comes from there; outermost first.
    pub(crate) frames: Vec<PausedFrame>,
    /// The siblings of the first frame, until the outer graph takes them.
    pub(crate) siblings: Option<Siblings>,
    /// The number of timers of the innermost step that are over when it resumes.
    pub(crate) timers: usize,
    annotated: Annotated,
}

#[derive(Debug, Default)]
struct Annotated {
    fan_out_index: bool,
    branch_name: bool,
}

impl SuspendRequest {
    pub(crate) fn new(descriptor: SignalDescriptor, node_completed: bool) -> Self {
        Self {
            descriptor,
            node_completed,
            frames: Vec::new(),
            siblings: None,
            timers: 0,
            annotated: Annotated::default(),
        }
    }

    /// Adds the index of the suspended instance, unless an inner graph has set it.
    pub(crate) fn annotate_index(&mut self, index: usize) {
        if !std::mem::replace(&mut self.annotated.fan_out_index, true) {
            self.descriptor.annotate("fan_out_index", index.into());
        }
    }

    /// Adds the name of the suspended branch, unless an inner graph has set it.
    pub(crate) fn annotate_branch(&mut self, name: &str) {
        if !std::mem::replace(&mut self.annotated.branch_name, true) {
            self.descriptor.annotate("branch_name", name.into());
        }
    }
}
