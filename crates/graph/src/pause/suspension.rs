//! How a node stops a run to wait for a signal, and why nothing it calls can prevent that.
//!
//! A suspension is not an error that travels up through the node: a helper that catches every
//! error would swallow it. The innermost future leaves its request where the engine looks and then
//! stays pending. The engine looks after every poll, before it considers what the node returned,
//! and drops the whole chain of futures. What stands behind the `await` in the node, in its helpers
//! and in whatever wraps it never runs; destructors do.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::pause::paused_run::{PausedFrame, Siblings};
use crate::run::interrupt::{AttemptHandle, InterruptTable};

/// What a suspended run waits for. The engine passes it on exactly as it is, except that a fan-out
/// or a node with branches adds to the metadata which of its parts suspended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignalDescriptor {
    /// The name under which the signal is to come.
    pub signal_id: String,
    /// Anything that whoever gives the signal should know.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub metadata: Option<Value>,
}

/// A value that is there is not none, even if it is null.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

impl SignalDescriptor {
    /// A descriptor without metadata.
    pub fn new(signal_id: impl Into<String>) -> Self {
        Self {
            signal_id: signal_id.into(),
            metadata: None,
        }
    }

    /// Adds metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Value) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Adds one entry to the metadata; metadata that is no object goes under `value`.
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
/// A node writes `match ctx.suspend(descriptor).await {}`, which has any type that is asked for.
///
/// It belongs to one attempt of one node. Polled later, while the run still goes on, it ends the run
/// with the error `suspension_in_unsupported_context`; it could not be what the run waits for, and
/// whoever awaits it would wait for ever. The same happens to one that a middleware asks for. When
/// the run is over too, nobody is left who could be told: the future stays pending and does nothing.
/// So a [`NodeContext`](crate::NodeContext) must not be carried from one run into another.
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

/// What a node asks for when it suspends.
#[derive(Debug)]
pub(crate) struct SuspendRequest {
    pub(crate) descriptor: SignalDescriptor,
    pub(crate) node_completed: bool,
    /// What is inside the node, if the suspension comes from there; outermost first.
    pub(crate) frames: Vec<PausedFrame>,
    /// What stands beside the first of the frames, until the graph around takes it over.
    pub(crate) siblings: Option<Siblings>,
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
            annotated: Annotated::default(),
        }
    }

    /// Says which instance suspended, unless one further inside has said it.
    pub(crate) fn annotate_index(&mut self, index: usize) {
        if !std::mem::replace(&mut self.annotated.fan_out_index, true) {
            self.descriptor.annotate("fan_out_index", index.into());
        }
    }

    /// Says which branch suspended, unless one further inside has said it.
    pub(crate) fn annotate_branch(&mut self, name: &str) {
        if !std::mem::replace(&mut self.annotated.branch_name, true) {
            self.descriptor.annotate("branch_name", name.into());
        }
    }
}
